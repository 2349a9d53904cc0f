"""Bootstrap distributions and intervals of any statistic."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri
from jax.typing import ArrayLike

from jaxlab.parallel import chunked_vmap, replication_keys
from jaxlab.stats.chunks import MAX_BYTES, chunk_length
from jaxlab.stats.intervals import Interval, check_level


def sample_mean(x: jax.Array) -> jax.Array:
  """`[n, ...]` observations to their `[...]` mean."""
  return jnp.mean(x, axis=0)


def mean_difference(a: jax.Array, b: jax.Array) -> jax.Array:
  """`[n, ...]` and `[m, ...]` observations to mean(a) - mean(b)."""
  return jnp.mean(a, axis=0) - jnp.mean(b, axis=0)


def num_observations(sample: Any) -> int:
  """Length of the common leading axis of a tree of arrays.

  Raises:
    ValueError: if there is no such axis or it is empty.
  """
  shapes = [jnp.shape(leaf) for leaf in jax.tree.leaves(sample)]
  lengths = {shape[0] if shape else 0 for shape in shapes}
  if len(lengths) != 1 or 0 in lengths:
    raise ValueError(
      f'observations need a common, non-empty axis 0, got shapes {shapes}.'
    )
  return lengths.pop()


def map_resamples(
  fn: Callable[[jax.Array], Any], over: jax.Array, sample: Any, max_bytes: int
) -> Any:
  """Maps `fn` over `over`, as many at a time as copies of `sample` may be.

  Args:
    fn: function of one entry of `over` that makes a copy of `sample`.
    over: keys or indices along axis 0.
    sample: tree of arrays with observations along axis 0.
    max_bytes: memory that the copies and their indices may take.

  Returns:
    The results of `fn`, stacked.
  """
  indices = 4 * num_observations(sample)
  each = indices + sum(leaf.nbytes for leaf in jax.tree.leaves(sample))
  return chunked_vmap(fn, chunk_length(max_bytes, each))(over)


@functools.partial(
  jax.jit, static_argnames=('statistic', 'num_resamples', 'max_bytes')
)
def bootstrap_distribution(
  key: jax.Array,
  x: Any,
  statistic: Callable[[Any], jax.Array] = sample_mean,
  *,
  num_resamples: int = 2000,
  max_bytes: int = MAX_BYTES,
) -> jax.Array:
  """The statistic of resamples drawn with replacement.

  Args:
    key: PRNG key; resample r depends on the key and r alone.
    x: tree of `[n, ...]` arrays; an observation is the i-th entry of all.
    statistic: function of one sample (a tree like `x`) to an array `[...]`.
    num_resamples: number of resamples.
    max_bytes: memory that the resamples in flight may take.

  Returns:
    `[num_resamples, ...]` values of the statistic.

  Raises:
    ValueError: if there is no observation, or `num_resamples` is below 1.
  """
  x = jax.tree.map(jnp.asarray, x)
  n = num_observations(x)
  if num_resamples < 1:
    raise ValueError(f'num_resamples must be positive, got {num_resamples}.')

  def resample(key):
    index = jax.random.randint(key, (n,), 0, n)
    return statistic(jax.tree.map(lambda leaf: leaf[index], x))

  keys = replication_keys(key, num_resamples)
  return map_resamples(resample, keys, x, max_bytes)


def _bca_probabilities(
  distribution: jax.Array,
  estimate: jax.Array,
  jackknife: jax.Array,
  level: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """Bias-corrected and accelerated tail probabilities; Efron (1987)."""
  below = jnp.mean(distribution < estimate, axis=0, dtype=estimate.dtype)
  up_to = jnp.mean(distribution <= estimate, axis=0, dtype=estimate.dtype)
  bias = ndtri(0.5 * (below + up_to))
  influence = jnp.mean(jackknife, axis=0) - jackknife
  cubes = jnp.sum(influence**3, axis=0)
  squares = jnp.sum(influence**2, axis=0)
  acceleration = jnp.where(
    squares > 0, cubes / (6 * jnp.where(squares > 0, squares, 1) ** 1.5), 0
  )

  def corrected(probability):
    shifted = bias + ndtri(probability)
    return ndtr(bias + shifted / (1 - acceleration * shifted))

  return corrected(0.5 - 0.5 * level), corrected(0.5 + 0.5 * level)


@functools.partial(jax.jit, static_argnames=('statistic', 'max_bytes'))
def _jackknife(
  x: Any, statistic: Callable[[Any], jax.Array], max_bytes: int
) -> jax.Array:
  """`[n, ...]` the statistic without each observation in turn."""
  n = num_observations(x)

  def without(i):
    index = jnp.arange(n - 1) + (jnp.arange(n - 1) >= i)
    return statistic(jax.tree.map(lambda leaf: leaf[index], x))

  return map_resamples(without, jnp.arange(n), x, max_bytes)


def _quantile(distribution: jax.Array, probability: jax.Array) -> jax.Array:
  """`[...]` quantiles of `[r, ...]`, each at a probability of its own."""
  columns = distribution.reshape(distribution.shape[0], -1)
  probability = jnp.broadcast_to(probability, distribution.shape[1:])
  values = jax.vmap(jnp.quantile, (1, 0))(columns, probability.reshape(-1))
  return values.reshape(distribution.shape[1:])


def bootstrap_interval(
  key: jax.Array,
  x: Any,
  statistic: Callable[[Any], jax.Array] = sample_mean,
  level: ArrayLike = 0.95,
  num_resamples: int = 2000,
  *,
  method: str = 'percentile',
  max_bytes: int = MAX_BYTES,
) -> Interval:
  """Bootstrap interval of a statistic of one sample.

  Args:
    key: PRNG key.
    x: tree of `[n, ...]` arrays; an observation is the i-th entry of all.
    statistic: function of one sample (a tree like `x`) to an array `[...]`.
    level: confidence level in (0, 1).
    num_resamples: number of resamples.
    method: 'percentile', 'basic' (reflected percentiles) or 'bca'
      (bias-corrected and accelerated, n further statistics).
    max_bytes: memory that the resamples in flight may take.

  Returns:
    `[...]` interval. With one observation, its two ends are the statistic
    ('bca': NaN). 'bca' is also NaN where all resamples lie on one side of
    the estimate.

  Raises:
    ValueError: if there is no observation, or `level`, `num_resamples` or
      `method` is not one of those above.

  Source:
    B. Efron and R. Tibshirani (1993), An Introduction to the Bootstrap,
    chapters 13 and 14.
  """
  check_level(level)
  if method not in ('percentile', 'basic', 'bca'):
    raise ValueError(
      f"method must be 'percentile', 'basic' or 'bca', got {method!r}."
    )
  x = jax.tree.map(jnp.asarray, x)
  distribution = bootstrap_distribution(
    key, x, statistic, num_resamples=num_resamples, max_bytes=max_bytes
  )
  level = jnp.asarray(level, distribution.dtype)
  estimate = statistic(x)
  if method != 'bca':
    low = _quantile(distribution, 0.5 - 0.5 * level)
    high = _quantile(distribution, 0.5 + 0.5 * level)
    if method == 'percentile':
      return Interval(low, high)
    return Interval(2 * estimate - high, 2 * estimate - low)
  if num_observations(x) == 1:
    undefined = jnp.full_like(estimate, jnp.nan)
    return Interval(undefined, undefined)
  jackknife = _jackknife(x, statistic, max_bytes)
  low_tail, high_tail = _bca_probabilities(
    distribution, estimate, jackknife, level
  )
  return Interval(
    _quantile(distribution, low_tail), _quantile(distribution, high_tail)
  )


@functools.lru_cache
def _of_pairs(statistic: Callable[[Any, Any], jax.Array]):
  """The same function object for the same statistic: compiled once."""
  return lambda pairs: statistic(*pairs)


def paired_bootstrap_interval(
  key: jax.Array,
  a: ArrayLike,
  b: ArrayLike,
  statistic: Callable[[Any, Any], jax.Array] = mean_difference,
  level: ArrayLike = 0.95,
  num_resamples: int = 2000,
  *,
  method: str = 'percentile',
  max_bytes: int = MAX_BYTES,
) -> Interval:
  """Bootstrap interval of a statistic of pairs that are resampled as pairs.

  Args:
    key: PRNG key.
    a: `[n, ...]` observations.
    b: `[n, ...]` observations; pair i is `a[i]`, `b[i]`.
    statistic: function of (a, b) to an array `[...]`.
    level: confidence level in (0, 1).
    num_resamples: number of resamples.
    method: as for `bootstrap_interval`.
    max_bytes: memory that the resamples in flight may take.

  Returns:
    `[...]` interval, as from `bootstrap_interval`.

  Raises:
    ValueError: as for `bootstrap_interval`, or if the lengths differ.
  """
  return bootstrap_interval(
    key,
    (a, b),
    _of_pairs(statistic),
    level,
    num_resamples,
    method=method,
    max_bytes=max_bytes,
  )
