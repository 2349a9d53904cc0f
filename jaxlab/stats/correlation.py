"""Ranks and correlation coefficients along the last axis."""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.parallel import chunked_vmap
from jaxlab.stats.chunks import MAX_BYTES, chunk_length
from jaxlab.stats.quantiles import as_floats


def _pairs(x: ArrayLike, y: ArrayLike) -> list[jax.Array]:
  if jnp.ndim(x) == 0 or jnp.shape(x)[-1:] != jnp.shape(y)[-1:]:
    raise ValueError(
      'correlation needs a last axis of one common length, got shapes '
      f'{jnp.shape(x)} and {jnp.shape(y)}.'
    )
  return as_floats(x, y)


def rankdata(x: ArrayLike) -> jax.Array:
  """Ranks from 1 upwards; equal values share the average of their ranks.

  Args:
    x: `[..., n]` values.

  Returns:
    `[..., n]` ranks; all NaN where a value is NaN.
  """
  (x,) = as_floats(x)

  def ranks(row):
    ordered = jnp.sort(row)
    below = jnp.searchsorted(ordered, row, side='left', method='sort')
    up_to = jnp.searchsorted(ordered, row, side='right', method='sort')
    return (0.5 * (below + up_to + 1)).astype(row.dtype)

  ranked = jnp.vectorize(ranks, signature='(n)->(n)')(x)
  return jnp.where(jnp.isnan(x).any(-1, keepdims=True), jnp.nan, ranked)


def pearson(x: ArrayLike, y: ArrayLike) -> jax.Array:
  """Pearson's correlation coefficient.

  Args:
    x: `[..., n]` values.
    y: `[..., n]` values.

  Returns:
    `[...]` coefficients in [-1, 1]; NaN where x or y is constant.

  Raises:
    ValueError: if the last axes differ in length.
  """
  x, y = _pairs(x, y)
  constant = (x == x[..., :1]).all(-1) | (y == y[..., :1]).all(-1)
  x = x - jnp.mean(x, axis=-1, keepdims=True)
  y = y - jnp.mean(y, axis=-1, keepdims=True)
  norms = jnp.linalg.norm(x, axis=-1) * jnp.linalg.norm(y, axis=-1)
  r = jnp.sum(x * y, axis=-1) / jnp.where(constant, 1, norms)
  return jnp.where(constant, jnp.nan, jnp.clip(r, -1, 1))


def spearman(x: ArrayLike, y: ArrayLike) -> jax.Array:
  """Spearman's rank correlation: Pearson's of the average ranks.

  Args:
    x: `[..., n]` values.
    y: `[..., n]` values.

  Returns:
    `[...]` coefficients in [-1, 1]; NaN where x or y is constant or has a
    NaN.

  Raises:
    ValueError: if the last axes differ in length.
  """
  x, y = _pairs(x, y)
  return pearson(rankdata(x), rankdata(y))


@functools.partial(jax.jit, static_argnames='max_bytes')
def kendall(
  x: ArrayLike, y: ArrayLike, *, max_bytes: int = MAX_BYTES
) -> jax.Array:
  """Kendall's tau-b, which corrects for ties, from all n^2 pairs.

  Args:
    x: `[..., n]` values.
    y: `[..., n]` values.
    max_bytes: memory that the comparisons in flight may take.

  Returns:
    `[...]` coefficients in [-1, 1]; NaN where x or y is constant or has a
    NaN.

  Raises:
    ValueError: if the last axes differ in length.

  Source:
    M. G. Kendall (1945), Biometrika 33.
  """
  x, y = _pairs(x, y)

  def signs(x, i):
    pivot = jnp.take(x, i, axis=-1)[..., None]
    # Comparisons, unlike the sign of a difference, order infinities.
    return (x > pivot).astype(jnp.int32) - (x < pivot).astype(jnp.int32)

  def against(i):
    sign_x, sign_y = signs(x, i), signs(y, i)
    products = (sign_x * sign_y, sign_x * sign_x, sign_y * sign_y)
    return [jnp.sum(product, axis=-1) for product in products]

  chunk = chunk_length(max_bytes, 12 * x.size)
  rows = chunked_vmap(against, chunk)(jnp.arange(x.shape[-1]))
  concordance, untied_x, untied_y = (
    jnp.sum(row.astype(x.dtype), axis=0) for row in rows
  )
  norm = jnp.sqrt(untied_x) * jnp.sqrt(untied_y)
  defined = (norm > 0) & ~(jnp.isnan(x) | jnp.isnan(y)).any(-1)
  tau = concordance / jnp.where(defined, norm, 1)
  return jnp.where(defined, jnp.clip(tau, -1, 1), jnp.nan)
