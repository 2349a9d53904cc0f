"""Quantiles that `jax.scipy` lacks: beta and Student's t."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln, gammaln, ndtri
from jax.typing import ArrayLike


def as_floats(*arrays: ArrayLike) -> list[jax.Array]:
  """Broadcasts arrays together in one floating-point type."""
  dtype = jnp.result_type(*arrays, float)
  return jnp.broadcast_arrays(*(jnp.asarray(x, dtype) for x in arrays))


def bisect(
  is_below: Callable[[jax.Array], jax.Array], low: jax.Array, high: jax.Array
) -> jax.Array:
  """Finds where a monotone condition turns false, to machine precision.

  Args:
    is_below: elementwise, true left of the solution and false right of it.
    low: `[...]` left end of the bracket.
    high: `[...]` right end of the bracket.

  Returns:
    `[...]` the solution, or the end of the bracket that is nearest to it.
  """

  def halve(_, bracket):
    low, high = bracket
    middle = 0.5 * (low + high)
    below = is_below(middle)
    return jnp.where(below, middle, low), jnp.where(below, high, middle)

  # The mantissa, and seven bits for the width of the bracket.
  steps = jnp.finfo(low.dtype).nmant + 8
  low, high = jax.lax.fori_loop(0, steps, halve, (low, high))
  return 0.5 * (low + high)


def _continued_fraction(a: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
  """Lentz's evaluation of the continued fraction of I_x(a, b).

  Source: DLMF 8.17.22; it converges fast for x < (a + 1) / (a + b + 2).
  """
  eps = jnp.finfo(x.dtype).eps
  tiny = jnp.finfo(x.dtype).tiny / eps
  most_steps = 4096  # sqrt(max(a, b)) steps are needed

  def away_from_zero(y):
    return jnp.where(jnp.abs(y) < tiny, tiny, y)

  def step(state):
    m, c, d, value, moving = state
    m_real = jnp.asarray(m, x.dtype)
    even = m_real * (b - m_real) * x / ((a + 2 * m - 1) * (a + 2 * m))
    odd = -(a + m_real) * (a + b + m_real) * x
    odd /= (a + 2 * m) * (a + 2 * m + 1)
    change = jnp.ones_like(x)
    for coefficient in (even, odd):
      d = 1 / away_from_zero(1 + coefficient * d)
      c = away_from_zero(1 + coefficient / c)
      change *= c * d
    # A converged entry rests: further rounding would let it drift.
    value = jnp.where(moving, value * change, value)
    return m + 1, c, d, value, moving & (jnp.abs(change - 1) > 2 * eps)

  def unfinished(state):
    m, *_, moving = state
    return (m < most_steps) & jnp.any(moving)

  d = 1 / away_from_zero(1 - (a + b) * x / (a + 1))
  start = (1, jnp.ones_like(x), d, d, jnp.ones_like(x, bool))
  return jax.lax.while_loop(unfinished, step, start)[3]


def _log_beta(a: jax.Array, b: jax.Array) -> jax.Array:
  """Logarithm of the beta function."""
  if a.dtype == jnp.float64:
    return gammaln(a) + gammaln(b) - gammaln(a + b)
  # Does not cancel for large arguments, but is good to 8 digits only.
  return betaln(a, b)


def _beta_cdf(logit: jax.Array, a: jax.Array, b: jax.Array) -> jax.Array:
  """I_x(a, b) at x = sigmoid(logit).

  `jax.scipy.special.betainc` loses several digits in float32 when a or b is
  large, and near x = 1, where x itself no longer resolves.
  """
  left = jax.nn.sigmoid(logit) < (a + 1) / (a + b + 2)
  a, b = jnp.where(left, a, b), jnp.where(left, b, a)
  logit = jnp.where(left, logit, -logit)
  exponent = a * jax.nn.log_sigmoid(logit) + b * jax.nn.log_sigmoid(-logit)
  tail = jnp.exp(exponent - _log_beta(a, b)) / a
  tail *= _continued_fraction(a, b, jax.nn.sigmoid(logit))
  return jnp.where(left, tail, 1 - tail)


@jax.jit
def beta_quantile_logit(
  probability: ArrayLike, a: ArrayLike, b: ArrayLike
) -> jax.Array:
  """log(x / (1 - x)) of the beta quantile x, exact near 0 and near 1.

  Args:
    probability: `[...]` lower-tail probability in (0, 1).
    a: `[...]` first shape parameter, at least 1/2.
    b: `[...]` second shape parameter, at least 1/2.

  Returns:
    `[...]` the logit of the quantile.
  """
  probability, a, b = as_floats(probability, a, b)
  # exp(-64) lies below every quantile that a float can tell from zero here.
  bound = jnp.full_like(a, 64)
  return bisect(lambda s: _beta_cdf(s, a, b) < probability, -bound, bound)


def beta_quantile(
  probability: ArrayLike, a: ArrayLike, b: ArrayLike
) -> jax.Array:
  """Quantile of the beta distribution, by bisection of its logit.

  Args:
    probability: `[...]` lower-tail probability in (0, 1).
    a: `[...]` first shape parameter, at least 1/2.
    b: `[...]` second shape parameter, at least 1/2.

  Returns:
    `[...]` x with I_x(a, b) = `probability`.
  """
  return jax.nn.sigmoid(beta_quantile_logit(probability, a, b))


@jax.jit
def student_t_critical_value(
  level: ArrayLike, degrees_of_freedom: ArrayLike
) -> jax.Array:
  """The t > 0 with P(|T| < t) = `level`.

  Args:
    level: `[...]` probability in (0, 1).
    degrees_of_freedom: `[...]` at least 1, not necessarily whole.

  Returns:
    `[...]` critical values; NaN below one degree of freedom.
  """
  level, df = as_floats(level, degrees_of_freedom)
  # d / (d + T^2) is beta distributed with parameters d / 2 and 1 / 2.
  few = jnp.clip(df, 1, 500)
  logit = beta_quantile_logit(1 - level, few / 2, 0.5)
  exact = jnp.exp(0.5 * (jnp.log(few) - logit))
  value = jnp.where(df > 500, _cornish_fisher_t(level, df), exact)
  return jnp.where(df >= 1, value, jnp.nan)


def _cornish_fisher_t(level: jax.Array, df: jax.Array) -> jax.Array:
  """Expansion of t in 1 / df; Abramowitz and Stegun 26.7.5."""
  z = -ndtri(0.5 - 0.5 * level)
  terms = (
    ((1, 1), 4),
    ((5, 16, 3), 96),
    ((3, 19, 17, -15), 384),
    ((79, 776, 1482, -1920, -945), 92160),
  )
  value = z
  for power, (coefficients, divisor) in enumerate(terms, start=1):
    polynomial = z * jnp.polyval(jnp.asarray(coefficients, z.dtype), z * z)
    value += polynomial / divisor / df**power
  return value
