"""Confidence intervals of binomial proportions and of their ratio."""

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri
from jax.typing import ArrayLike

from jaxlab.stats.intervals import Interval, check_level
from jaxlab.stats.quantiles import as_floats, beta_quantile_logit, bisect


def _interval(low: jax.Array, high: jax.Array, defined: jax.Array) -> Interval:
  return Interval(
    jnp.where(defined, low, jnp.nan), jnp.where(defined, high, jnp.nan)
  )


def wilson_interval(
  successes: ArrayLike, trials: ArrayLike, level: ArrayLike = 0.95
) -> Interval:
  """Wilson's score interval of a proportion.

  Args:
    successes: `[...]` number of successes.
    trials: `[...]` number of trials.
    level: confidence level in (0, 1).

  Returns:
    `[...]` interval within [0, 1]; NaN without trials.

  Raises:
    ValueError: if `level` is outside (0, 1).

  Source:
    E. B. Wilson (1927), JASA 22.
  """
  check_level(level)
  k, n, level = as_floats(successes, trials, level)
  z_squared = jnp.square(ndtri(0.5 - 0.5 * level))
  rate = k / jnp.maximum(n, 1)
  center = k + 0.5 * z_squared
  half = jnp.sqrt(z_squared * (k * (1 - rate) + 0.25 * z_squared))
  low = jnp.where(k > 0, jnp.maximum(center - half, 0), 0)
  high = jnp.where(k < n, (center + half) / (n + z_squared), 1)
  return _interval(low / (n + z_squared), high, n > 0)


def clopper_pearson_interval(
  successes: ArrayLike, trials: ArrayLike, level: ArrayLike = 0.95
) -> Interval:
  """Exact binomial interval of a proportion; covers at least `level`.

  Args:
    successes: `[...]` number of successes.
    trials: `[...]` number of trials.
    level: confidence level in (0, 1).

  Returns:
    `[...]` interval within [0, 1]; NaN without trials. In float32 the ends
    err by less than 1 % of the width for up to 100,000 trials.

  Raises:
    ValueError: if `level` is outside (0, 1).

  Source:
    C. J. Clopper and E. S. Pearson (1934), Biometrika 26.
  """
  check_level(level)
  k, n, level = as_floats(successes, trials, level)
  tail = 0.5 - 0.5 * level
  low = beta_quantile_logit(tail, jnp.maximum(k, 1), n - k + 1)
  # By symmetry, so that the small tail is the one that is computed.
  high = beta_quantile_logit(tail, jnp.maximum(n - k, 1), k + 1)
  return _interval(
    jnp.where(k > 0, jax.nn.sigmoid(low), 0),
    jnp.where(k < n, jax.nn.sigmoid(-high), 1),
    n > 0,
  )


def _koopman_score(
  log_ratio: jax.Array, x: jax.Array, m: jax.Array, y: jax.Array, n: jax.Array
) -> jax.Array:
  """Score statistic of the hypothesis (x / m) / (y / n) = exp(log_ratio)."""
  ratio = jnp.exp(log_ratio)
  scale = jnp.maximum(ratio, 1)
  # Rate of the second group under the hypothesis: the smaller root of a
  # quadratic, whose discriminant is written as a sum so as not to cancel.
  u, v = (m + y) * (ratio / scale), (n + x) / scale
  rest = 4 * (ratio / scale / scale) * (m - x) * (n - y)
  root = jnp.sqrt(jnp.square(u - v) + rest)
  rate = 2 * (x + y) / scale / (u + v + root)
  first = jnp.minimum(ratio * rate, 1)
  variance = first * (1 - first) / m
  variance += ratio * first * jnp.maximum(1 - rate, 0) / n
  deviation = x / m - ratio * (y / n)
  return deviation / jnp.sqrt(jnp.where(variance > 0, variance, 1))


@jax.jit
def _ratio_of_score(
  score: jax.Array, x: jax.Array, m: jax.Array, y: jax.Array, n: jax.Array
) -> jax.Array:
  """The ratio at which the falling score statistic passes `score`."""
  bound = jnp.full_like(score, 40)  # squares of exp(40) still fit float32
  m, n = jnp.maximum(m, 1), jnp.maximum(n, 1)
  return jnp.exp(
    bisect(lambda s: _koopman_score(s, x, m, y, n) > score, -bound, bound)
  )


def ratio_of_proportions_interval(
  successes_a: ArrayLike,
  trials_a: ArrayLike,
  successes_b: ArrayLike,
  trials_b: ArrayLike,
  level: ArrayLike = 0.95,
) -> Interval:
  """Koopman's score interval of p_a / p_b of two independent groups.

  Args:
    successes_a: `[...]` successes in group a.
    trials_a: `[...]` trials in group a.
    successes_b: `[...]` successes in group b.
    trials_b: `[...]` trials in group b.
    level: confidence level in (0, 1).

  Returns:
    `[...]` interval; its low end is 0 without a success in a, its high end is
    infinite without a success in b; NaN if a group has no trials.

  Raises:
    ValueError: if `level` is outside (0, 1).

  Source:
    P. A. R. Koopman (1984), Biometrics 40.
  """
  check_level(level)
  x, m, y, n, level = as_floats(
    successes_a, trials_a, successes_b, trials_b, level
  )
  z = -ndtri(0.5 - 0.5 * level)
  return _interval(
    jnp.where(x > 0, _ratio_of_score(z, x, m, y, n), 0),
    jnp.where(y > 0, _ratio_of_score(-z, x, m, y, n), jnp.inf),
    (m > 0) & (n > 0),
  )
