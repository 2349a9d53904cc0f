"""Tests of hypotheses and corrections for testing many of them."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.parallel import replication_keys
from jaxlab.stats.bootstrap import (
  map_resamples,
  mean_difference,
  num_observations,
)
from jaxlab.stats.chunks import MAX_BYTES
from jaxlab.stats.quantiles import as_floats


class Significance(NamedTuple):
  """Outcome of a test.

  Attributes:
    statistic: `[...]` observed value of the statistic.
    p_value: `[...]` probability under the hypothesis of a value at least as
      extreme.
  """

  statistic: jax.Array
  p_value: jax.Array


def permutation_test(
  key: jax.Array,
  a: ArrayLike,
  b: ArrayLike,
  statistic: Callable[[jax.Array, jax.Array], jax.Array] = mean_difference,
  *,
  paired: bool = False,
  alternative: str = 'two-sided',
  num_permutations: int = 9999,
  max_bytes: int = MAX_BYTES,
) -> Significance:
  """Monte Carlo permutation test of equal distributions.

  Args:
    key: PRNG key.
    a: `[n, ...]` observations.
    b: `[m, ...]` observations.
    statistic: function of two samples to an array `[...]`.
    paired: whether `a[i]` and `b[i]` are a pair. Pairs are swapped at random;
      otherwise observations are dealt anew to the two samples.
    alternative: 'greater' or 'less' if large or small values of the statistic
      speak against the hypothesis; 'two-sided' doubles the smaller p-value.
    num_permutations: number of random permutations.
    max_bytes: memory that the permuted samples in flight may take.

  Returns:
    The observed statistic and a p-value that counts the observed arrangement
    as one of the permutations, so that it is never zero.

  Raises:
    ValueError: if a sample is empty, pairs differ in shape, or `alternative`
      or `num_permutations` is not one of those above.

  Source:
    B. Phipson and G. K. Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9.
  """
  if alternative not in ('two-sided', 'greater', 'less'):
    raise ValueError(
      "alternative must be 'two-sided', 'greater' or 'less', got "
      f'{alternative!r}.'
    )
  if num_permutations < 1:
    raise ValueError(
      f'num_permutations must be positive, got {num_permutations}.'
    )
  a, b = jnp.asarray(a), jnp.asarray(b)
  for sample in (a, b):
    num_observations(sample)
  if paired and a.shape != b.shape:
    raise ValueError(f'pairs need equal shapes, got {a.shape} and {b.shape}.')
  observed = statistic(a, b)
  null = _permuted_statistics(
    key, a, b, statistic, paired, num_permutations, max_bytes
  )
  # Arrangements that tie in exact arithmetic may differ by rounding.
  slack = 100 * jnp.finfo(observed.dtype).eps * jnp.abs(observed)
  total = num_permutations + 1
  less = (1 + jnp.sum(null <= observed + slack, axis=0)) / total
  greater = (1 + jnp.sum(null >= observed - slack, axis=0)) / total
  two_sided = jnp.minimum(2 * jnp.minimum(less, greater), 1)
  p_value = {'less': less, 'greater': greater, 'two-sided': two_sided}
  return Significance(observed, p_value[alternative].astype(observed.dtype))


@functools.partial(
  jax.jit,
  static_argnames=('statistic', 'paired', 'num_permutations', 'max_bytes'),
)
def _permuted_statistics(
  key: jax.Array,
  a: jax.Array,
  b: jax.Array,
  statistic: Callable[[jax.Array, jax.Array], jax.Array],
  paired: bool,
  num_permutations: int,
  max_bytes: int,
) -> jax.Array:
  """`[num_permutations, ...]` the statistic of permuted samples."""
  n = a.shape[0]
  pooled = jnp.concatenate([a, b])

  def permuted(key):
    if paired:
      swap = jax.random.bernoulli(key, shape=(n,) + (1,) * (a.ndim - 1))
      return statistic(jnp.where(swap, b, a), jnp.where(swap, a, b))
    mixed = jax.random.permutation(key, pooled)
    return statistic(mixed[:n], mixed[n:])

  keys = replication_keys(key, num_permutations)
  return map_resamples(permuted, keys, pooled, max_bytes)


def chi_square_uniform(counts: ArrayLike) -> Significance:
  """Pearson's chi-square test that all K categories are equally likely.

  Args:
    counts: `[..., K]` observed counts.

  Returns:
    `[...]` statistic and p-value from K - 1 degrees of freedom; NaN where all
    counts are zero.

  Raises:
    ValueError: if there are fewer than two categories.
  """
  (counts,) = as_floats(counts)
  if counts.ndim == 0 or counts.shape[-1] < 2:
    raise ValueError(
      f'counts need at least two categories, got shape {counts.shape}.'
    )
  expected = jnp.mean(counts, axis=-1, keepdims=True)
  statistic = jnp.sum(jnp.square(counts - expected) / expected, axis=-1)
  df = counts.shape[-1] - 1
  return Significance(statistic, jax.scipy.stats.chi2.sf(statistic, df))


def holm(p_values: ArrayLike) -> jax.Array:
  """Holm's step-down adjustment; controls the family-wise error rate.

  Args:
    p_values: `[..., m]` p-values of one family.

  Returns:
    `[..., m]` adjusted p-values: reject where they are at most the level.

  Source:
    S. Holm (1979), Scand. J. Stat. 6.
  """
  (p,) = as_floats(p_values)
  m = p.shape[-1]
  order = jnp.argsort(p, axis=-1)
  scaled = jnp.take_along_axis(p, order, -1) * (m - jnp.arange(m))
  adjusted = jnp.minimum(jax.lax.cummax(scaled, axis=p.ndim - 1), 1)
  return jnp.take_along_axis(adjusted, jnp.argsort(order, axis=-1), -1)


def benjamini_hochberg(p_values: ArrayLike) -> jax.Array:
  """Benjamini-Hochberg adjustment; controls the false discovery rate.

  Args:
    p_values: `[..., m]` p-values of one family, independent or positively
      dependent.

  Returns:
    `[..., m]` adjusted p-values: reject where they are at most the rate.

  Source:
    Y. Benjamini and Y. Hochberg (1995), J. R. Stat. Soc. B 57.
  """
  (p,) = as_floats(p_values)
  m = p.shape[-1]
  order = jnp.argsort(p, axis=-1)
  scaled = jnp.take_along_axis(p, order, -1) * (m / (1 + jnp.arange(m)))
  adjusted = jax.lax.cummin(scaled, axis=p.ndim - 1, reverse=True)
  adjusted = jnp.minimum(adjusted, 1)
  return jnp.take_along_axis(adjusted, jnp.argsort(order, axis=-1), -1)
