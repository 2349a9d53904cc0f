"""What items contribute to the gradients at the points of a path.

One axis of dimensions everywhere, also for abilities of one dimension.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import models, small_matrices
from jaxlab.adaptive_testing.types import Bank
from jaxlab.errors import UserError

MATCHES = ('newton', 'mean')


class Gradients(NamedTuple):
  """What the items of an examinee contribute at the points of a path.

  Attributes:
    items: `[K, ..., n, D]` gradients of the items' losses, 0 where masked.
    roots: `[K, ..., n, D]` vectors v with Fisher information `v v^T`, 0 where
      masked; only their squares where the information is taken as diagonal.
    points: `[K, ..., D]`.
    size: `[...]` number of available items.
  """

  items: jax.Array
  roots: jax.Array
  points: jax.Array
  size: jax.Array


def path_gradients(
  bank: Bank,
  y: ArrayLike,
  points: ArrayLike,
  *,
  mask: ArrayLike | None = None,
  diagonal: bool = False,
) -> Gradients:
  """Gradients and information of all items at the points of a path.

  Args:
    bank: of n items.
    y: `[..., n]` all responses.
    points: `[K, ..., *latent]`.
    mask: `[..., n]`, not 0 where there is a response; None for all.
    diagonal: whether only the diagonal of the information will be used.
  """
  points = jnp.asarray(points)
  grads = models.item_grads(bank, points, y, mask)
  if not bank.latent_shape:
    roots = models.item_information(bank, points)[..., None]
    grads, points = grads[..., None], points[..., None]
  else:
    roots = models.information_root(bank, points)
    roots = roots**2 if diagonal else roots
  seen = jnp.ones(jnp.shape(y), bool)
  seen = seen if mask is None else jnp.asarray(mask) != 0
  roots = jnp.where(seen[..., None], roots, 0)
  return Gradients(grads, roots, points, jnp.sum(seen, axis=-1))


def subset_value(
  found: Gradients, subset: jax.Array, match: str, *, diagonal: bool = False
) -> jax.Array:
  """`[...]` match values of `[..., n]` shares of items; see `match_value`."""
  _check_match(match)
  everything = jnp.ones_like(subset)
  if match == 'mean':
    size = jnp.maximum(jnp.sum(subset, axis=-1), 1)[..., None]
    gap = _total(subset, found.items) / size
    gap -= _total(everything, found.items) / found.size[..., None]
  else:
    gap = newton_step(found, subset, diagonal)
    gap -= newton_step(found, everything, diagonal)
  return jnp.mean(jnp.sum(gap**2, axis=-1), axis=0)


def grown_values(
  found: Gradients, inside: jax.Array, match: str, *, diagonal: bool = False
) -> jax.Array:
  """`[..., n]` match values of subsets `[..., n]` grown by each item.

  Without a meaning for items that are inside already.
  """
  _check_match(match)
  subset = inside.astype(found.items.dtype)
  everything = jnp.ones_like(subset)
  total = _total(subset, found.items)
  if match == 'mean':
    full = _total(everything, found.items) / found.size[..., None]
    size = jnp.sum(subset, axis=-1)[..., None, None] + 1
    moved = (total[..., None, :] + found.items) / size
  else:
    full = newton_step(found, everything, diagonal)
    pull, precision = total + found.points, _precision(found, subset, diagonal)
    if _is_diagonal(found, diagonal):
      moved = pull[..., None, :] + found.items
      moved /= precision[..., None, :] + found.roots
    else:
      moved = _rank_one(pull, precision, found)
  gap = moved - full[..., None, :]
  return jnp.mean(jnp.sum(gap**2, axis=-1), axis=0)


def _rank_one(
  pull: jax.Array, precision: jax.Array, found: Gradients
) -> jax.Array:
  """`(H + v v^T)^-1 (g + psi)` for each item; Sherman and Morrison (1950)."""
  inverse = small_matrices.inverse(precision)
  start = jnp.einsum('...de,...e->...d', inverse, pull)
  own = jnp.einsum('...de,...ne->...nd', inverse, found.items)
  root = jnp.einsum('...de,...ne->...nd', inverse, found.roots)
  along = jnp.einsum('...nd,...d->...n', found.roots, start)
  along += jnp.sum(found.roots * own, axis=-1)
  size = 1 + jnp.sum(found.roots * root, axis=-1)
  return start[..., None, :] + own - root * (along / size)[..., None]


def _is_diagonal(found: Gradients, diagonal: bool) -> bool:
  return diagonal or found.points.shape[-1] == 1


def newton_step(
  found: Gradients, subset: jax.Array, diagonal: bool
) -> jax.Array:
  """`[K, ..., D]` Newton steps of subsets."""
  pull = _total(subset, found.items) + found.points
  precision = _precision(found, subset, diagonal)
  if _is_diagonal(found, diagonal):
    return pull / precision
  return small_matrices.solve(precision, pull)


def _precision(
  found: Gradients, subset: jax.Array, diagonal: bool
) -> jax.Array:
  """Information of subsets and prior: `[K, ..., D]`, or `[K, ..., D, D]`."""
  if _is_diagonal(found, diagonal):
    return 1 + _total(subset, found.roots)
  weighted = subset[..., None] * found.roots
  size = found.points.shape[-1]
  return jnp.eye(size, dtype=weighted.dtype) + jnp.einsum(
    '...nd,...ne->...de', weighted, found.roots
  )


def _total(subset: jax.Array, items: jax.Array) -> jax.Array:
  """Sum of `[K, ..., n, D]` over the items of subsets `[..., n]`."""
  return jnp.einsum('...n,...nd->...d', subset, items)


def _check_match(match: str) -> None:
  if match not in MATCHES:
    raise UserError(f'match {match!r} is unknown: use one of {MATCHES}.')
