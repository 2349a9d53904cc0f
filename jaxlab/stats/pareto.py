"""Pareto fronts and the area that they dominate."""

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.parallel import chunked_vmap
from jaxlab.stats.chunks import MAX_BYTES, chunk_length
from jaxlab.stats.quantiles import as_floats


def _to_maximize(
  points: jax.Array, maximize: bool | Sequence[bool]
) -> jax.Array:
  """Flips the sign of the objectives that are to be minimized."""
  return points * np.where(maximize, 1, -1).astype(points.dtype)


def pareto_mask(
  points: ArrayLike,
  maximize: bool | Sequence[bool] = True,
  *,
  max_bytes: int = MAX_BYTES,
) -> jax.Array:
  """Marks the points that no other point dominates.

  A point dominates another if it is at least as good in every objective and
  better in one; equal points do not dominate each other.

  Args:
    points: `[..., n, m]` n points with m objectives.
    maximize: whether larger is better, for all objectives or for each.
    max_bytes: memory that the comparisons in flight may take.

  Returns:
    `[..., n]` bool; False for a point with a NaN.

  Raises:
    ValueError: if `points` has fewer than two axes.
  """
  (points,) = as_floats(points)
  if points.ndim < 2:
    raise ValueError(f'points need shape [..., n, m], got {points.shape}.')
  return _undominated(_to_maximize(points, maximize), max_bytes=max_bytes)


@functools.partial(jax.jit, static_argnames='max_bytes')
def _undominated(points: jax.Array, *, max_bytes: int) -> jax.Array:
  def dominated(i):
    point = jnp.take(points, i, axis=-2)[..., None, :]
    as_good = jnp.all(points >= point, axis=-1)
    return jnp.any(as_good & jnp.any(points > point, axis=-1), axis=-1)

  chunk = chunk_length(max_bytes, 2 * points.size)
  rows = chunked_vmap(dominated, chunk)(jnp.arange(points.shape[-2]))
  return ~jnp.moveaxis(rows, 0, -1) & ~jnp.isnan(points).any(-1)


def hypervolume_2d(
  points: ArrayLike,
  reference: ArrayLike,
  maximize: bool | Sequence[bool] = True,
) -> jax.Array:
  """Area that points with two objectives dominate down to a reference.

  Args:
    points: `[..., n, 2]` points, dominated ones included.
    reference: `[2]` or `[..., 2]` the worst corner; points that do not
      dominate it add nothing.
    maximize: whether larger is better, for both objectives or for each.

  Returns:
    `[...]` areas in the product of the objectives' units.

  Raises:
    ValueError: if the last axis of `points` is not of length 2.
  """
  dtype = jnp.result_type(points, reference, float)
  points = jnp.asarray(points, dtype)
  if points.ndim < 2 or points.shape[-1] != 2:
    raise ValueError(f'points need shape [..., n, 2], got {points.shape}.')
  corner = jnp.asarray(reference, dtype)[..., None, :]
  sides = _to_maximize(points, maximize) - _to_maximize(corner, maximize)
  sides = jnp.maximum(sides, 0)
  order = jnp.argsort(-sides[..., 0], axis=-1)
  width = jnp.take_along_axis(sides[..., 0], order, -1)
  height = jnp.take_along_axis(sides[..., 1], order, -1)
  # Only a strip above all wider points is new.
  roof = jax.lax.cummax(height, axis=height.ndim - 1)
  return jnp.sum(width * jnp.diff(roof, axis=-1, prepend=0), axis=-1)
