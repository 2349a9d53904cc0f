"""Maps from a raw score to a probability, each fitted on one group.

Every method is a pair: `fit` takes `[n]` scores, labels and weights to the
parameters, `apply` takes parameters and scores to probabilities. Rows of weight
0 are as if absent, so that groups of different size can be padded to one shape
and fitted by `jax.vmap`. Labels are 0 or 1, weights at least 0.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

_NEWTON_STEPS = 40
# Arrays of blocks up to this length are not shortened.
_SHORT = 1024


class Method(NamedTuple):
  """How to fit and to apply a calibrator.

  Attributes:
    fit: `(x [n], y [n], w [n], *, num_bins) -> params`.
    apply: `(params, x [...]) -> [...]` probabilities.
    takes_probabilities: whether scores must lie in [0, 1].
  """

  fit: Callable[..., Any]
  apply: Callable[[Any, jax.Array], jax.Array]
  takes_probabilities: bool


class Bins(NamedTuple):
  """A step function. Bin b holds scores in `(edges[b-1], edges[b]]`.

  Attributes:
    edges: `[num_bins - 1]` inner edges, not falling.
    values: `[num_bins]` share of label 1 in each bin.
  """

  edges: jax.Array
  values: jax.Array


class Knots(NamedTuple):
  """A piecewise linear function, constant outside its knots.

  Attributes:
    x: `[n]` knots, rising; the last one is repeated to fill the shape.
    values: `[n]` values there, not falling.
  """

  x: jax.Array
  values: jax.Array


class Logistic(NamedTuple):
  """`sigmoid(features(score) @ coef + bias)`.

  Attributes:
    coef: `[d]` coefficients of the features.
    bias: `[]` intercept.
  """

  coef: jax.Array
  bias: jax.Array


def _ratio(part: jax.Array, whole: jax.Array, otherwise: Any) -> jax.Array:
  return jnp.where(whole > 0, part / jnp.where(whole > 0, whole, 1), otherwise)


def fit_bins(
  x: jax.Array,
  y: jax.Array,
  w: jax.Array,
  *,
  num_bins: int,
  equal_mass: bool = False,
) -> Bins:
  """Histogram binning.

  Args:
    x: `[n]` scores; in [0, 1] for bins of equal width.
    y: `[n]` labels.
    w: `[n]` weights.
    num_bins: number of bins.
    equal_mass: bins of equal weight (equal scores stay together) rather than
      of equal width.

  Returns:
    The bins. A bin of equal width without rows gets its own midpoint.

  Source:
    B. Zadrozny and C. Elkan (2001), ICML.
  """
  share = jnp.arange(1, num_bins, dtype=x.dtype)
  if equal_mass:
    order = jnp.argsort(jnp.where(w > 0, x, jnp.inf))
    below = jnp.cumsum(w[order])
    wanted = share * below[-1] / num_bins
    slack = 8 * jnp.finfo(x.dtype).eps * below[-1]
    edges = x[order][jnp.searchsorted(below, wanted - slack)]
    empty = jnp.sum(w * y) / jnp.sum(w)
  else:
    edges = share / num_bins
    empty = (jnp.arange(num_bins, dtype=x.dtype) + 0.5) / num_bins
  place = jnp.searchsorted(edges, x)
  count = jax.ops.segment_sum(w, place, num_bins)
  positive = jax.ops.segment_sum(w * y, place, num_bins)
  return Bins(edges, _ratio(positive, count, empty))


def apply_bins(params: Bins, x: jax.Array) -> jax.Array:
  """The value of the bin of each score."""
  return params.values[jnp.searchsorted(params.edges, x)]


def fit_isotonic(
  x: jax.Array, y: jax.Array, w: jax.Array, *, num_bins: int = 0
) -> Knots:
  """The non-falling function of least squares, by pooling adjacent violators.

  Rows of equal score count as one with the sum of their weights.

  Args:
    x: `[n]` scores, any real numbers.
    y: `[n]` labels, or any real numbers.
    w: `[n]` weights.
    num_bins: not used.

  Source:
    R. E. Barlow et al. (1972), Statistical Inference under Order Restrictions.
  """
  del num_bins
  order = jnp.argsort(jnp.where(w > 0, x, jnp.inf))
  x, y, w = x[order], y[order], w[order]
  # Rows of weight 0 are last: there they belong to the largest score.
  x = jnp.where(w > 0, x, jnp.max(x, initial=-jnp.inf, where=w > 0))
  is_new = jnp.concatenate([jnp.ones(1, bool), x[1:] != x[:-1]])
  place = jnp.cumsum(is_new) - 1
  weight = jax.ops.segment_sum(w, place, x.size)
  total = jax.ops.segment_sum(w * y, place, x.size)
  return Knots(x, _pool(weight, total)[place])


def _pool(weight: jax.Array, total: jax.Array) -> jax.Array:
  """Pools blocks until their means do not fall.

  A pass pools every falling run of blocks. About sqrt(n) passes are usual, n
  the worst; the later ones deal with few blocks, in shorter arrays.

  Args:
    weight: `[n]` weights of the blocks; those of weight 0 come last.
    total: `[n]` weight times mean of each block.

  Returns:
    `[n]` mean of the pool that each block ends in.
  """
  n = weight.size
  few = n // 8 if n > _SHORT else 0

  def means(weight, total):
    return _ratio(total, weight, jnp.inf)

  def go_on(carry):
    weight, _, _, is_wrong = carry
    return is_wrong & (jnp.sum(weight > 0) > few)

  def step(carry):
    weight, total, place, _ = carry
    mean = means(weight, total)
    wrong = jnp.concatenate([jnp.zeros(1, bool), mean[1:] < mean[:-1]])
    to = jnp.cumsum(~wrong) - 1
    weight = jax.ops.segment_sum(weight, to, n)
    total = jax.ops.segment_sum(total, to, n)
    return weight, total, to[place], jnp.any(wrong)

  carry = weight, total, jnp.arange(n), jnp.bool_(True)
  weight, total, place, _ = jax.lax.while_loop(go_on, step, carry)
  mean = means(weight, total)
  if few:
    rest = _pool(weight[:few], total[:few])
    is_rest = jnp.sum(weight > 0) <= few
    mean = mean.at[:few].set(jnp.where(is_rest, rest, mean[:few]))
  return mean[place]


def apply_knots(params: Knots, x: jax.Array) -> jax.Array:
  """Interpolates between the knots; constant outside."""
  return jnp.interp(x, params.x, params.values)


def _logit(x: jax.Array) -> jax.Array:
  eps = jnp.finfo(x.dtype).eps
  x = jnp.clip(x, eps, 1 - eps)
  return jnp.log(x) - jnp.log1p(-x)


def _log_odds_parts(x: jax.Array) -> jax.Array:
  eps = jnp.finfo(x.dtype).eps
  x = jnp.clip(x, eps, 1 - eps)
  return jnp.stack([jnp.log(x), -jnp.log1p(-x)], axis=-1)


def _minimise(loss: Callable[[jax.Array], jax.Array], start: jax.Array):
  """Damped Newton steps on a convex loss of few parameters."""
  eps = jnp.finfo(start.dtype).eps

  def step(_, carry):
    theta, value, damping = carry
    slope, curve = jax.grad(loss)(theta), jax.hessian(loss)(theta)
    ridge = damping * jnp.diagonal(curve) + eps
    trial = theta - jnp.linalg.solve(curve + jnp.diag(ridge), slope)
    reached = loss(trial)
    # Close to the minimum values differ by rounding alone.
    better = reached <= value * (1 + 8 * eps)
    return (
      jnp.where(better, trial, theta),
      jnp.where(better, reached, value),
      jnp.where(better, damping / 10, 10 * damping + 1e-3),
    )

  carry = (start, loss(start), jnp.zeros((), start.dtype))
  theta, value, _ = jax.lax.fori_loop(0, _NEWTON_STEPS, step, carry)
  return theta, value


def fit_logistic(
  features: jax.Array,
  target: jax.Array,
  w: jax.Array,
  *,
  intercept: bool = True,
  non_negative: bool = False,
) -> Logistic:
  """Maximum likelihood of a logistic model, by Newton's method.

  Args:
    features: `[n, d]`.
    target: `[n]` labels, or probabilities of label 1.
    w: `[n]` weights.
    intercept: whether there is a bias.
    non_negative: keeps the coefficients at or above 0: of the fits with each
      subset of them at 0 it takes the likeliest that is allowed.
  """
  share = w / jnp.sum(w)
  mean = share @ features if intercept else jnp.zeros(features.shape[1])
  mean = mean.astype(features.dtype)
  spread = jnp.sqrt(share @ jnp.square(features - mean))
  spread = jnp.where(spread > 0, spread, 1)
  design = (features - mean) / spread
  prior = share @ target

  def fit(free):
    def loss(theta):
      z = design @ (free * theta[:-1]) + intercept * theta[-1]
      return jnp.sum(share * (jax.nn.softplus(z) - target * z))

    start = jnp.zeros(free.size + 1, features.dtype)
    start = start.at[-1].set(_logit(prior) * intercept)
    theta, value = _minimise(loss, start)
    return free * theta[:-1], intercept * theta[-1], value

  width = features.shape[1]
  subsets = list(itertools.product([1, 0], repeat=width))
  free = jnp.array(subsets if non_negative else subsets[:1], features.dtype)
  coef, bias, value = jax.vmap(fit)(free)
  allowed = jnp.all(coef >= 0, axis=1) | (not non_negative)
  best = jnp.argmin(jnp.where(allowed, value, jnp.inf))
  coef = coef[best] / spread
  return Logistic(coef, bias[best] - coef @ mean)


def fit_platt(
  x: jax.Array, y: jax.Array, w: jax.Array, *, num_bins: int = 0
) -> Logistic:
  """`sigmoid(a x + b)` with Platt's smoothed targets; x is any real number.

  Source:
    J. Platt (1999), Advances in Large Margin Classifiers.
  """
  del num_bins
  positive, negative = jnp.sum(w * y), jnp.sum(w * (1 - y))
  target = jnp.where(y > 0, (positive + 1) / (positive + 2), 1 / (negative + 2))
  return fit_logistic(x[:, None], target, w)


def apply_platt(params: Logistic, x: jax.Array) -> jax.Array:
  """Probability of label 1."""
  return jax.nn.sigmoid(params.coef[0] * x + params.bias)


def fit_temperature(
  x: jax.Array, y: jax.Array, w: jax.Array, *, num_bins: int = 0
) -> Logistic:
  """`sigmoid(logit(x) / T)` with `1 / T >= 0`; x lies in [0, 1].

  Source:
    C. Guo et al. (2017), ICML.
  """
  del num_bins
  features = _logit(x)[:, None]
  return fit_logistic(features, y, w, intercept=False, non_negative=True)


def apply_temperature(params: Logistic, x: jax.Array) -> jax.Array:
  """Probability of label 1."""
  return jax.nn.sigmoid(params.coef[0] * _logit(x))


def fit_beta(
  x: jax.Array, y: jax.Array, w: jax.Array, *, num_bins: int = 0
) -> Logistic:
  """`sigmoid(a log x - b log(1-x) + c)` with a, b >= 0; x lies in [0, 1].

  Source:
    M. Kull, T. Silva Filho and P. Flach (2017), AISTATS.
  """
  del num_bins
  return fit_logistic(_log_odds_parts(x), y, w, non_negative=True)


def apply_beta(params: Logistic, x: jax.Array) -> jax.Array:
  """Probability of label 1."""
  return jax.nn.sigmoid(_log_odds_parts(x) @ params.coef + params.bias)


METHODS = {
  'histogram': Method(fit_bins, apply_bins, True),
  'quantile': Method(
    functools.partial(fit_bins, equal_mass=True), apply_bins, False
  ),
  'isotonic': Method(fit_isotonic, apply_knots, False),
  'platt': Method(fit_platt, apply_platt, False),
  'temperature': Method(fit_temperature, apply_temperature, True),
  'beta': Method(fit_beta, apply_beta, True),
}
