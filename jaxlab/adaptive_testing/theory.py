"""Why gradients need to match on a path only: a bound, both of its sides.

Let the loss of a set of items be the mean loss of its answers plus
`|theta|^2 / (2 n)`. Gradient descent on the loss of a subset S and on that of
all items Q starts at the same point with the same rate `eta <= 1 / L`. If the
gradients differ by at most eps at the iterates of Q, then

    |theta_S^K - theta_Q^K| <= (eps / mu) (1 - (1 - eta mu)^K)

for a mu-strongly convex and L-smooth loss of S: a step is a contraction by
`1 - eta mu`, and the two gradients at the same point add `eta eps`.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import models
from jaxlab.adaptive_testing.checks import is_traced
from jaxlab.adaptive_testing.types import ItemBank
from jaxlab.errors import UserError


class PathBound(NamedTuple):
  """Both sides of the bound, and what the right one is made of.

  Attributes:
    distance: `[...]` between the two last iterates.
    bound: `[...]` on it.
    mismatch: `[...]` eps, the largest difference of the gradients on the path.
    convexity: `[]` mu, at least what the prior gives.
    smoothness: `[]` L, for any subset.
    path: `[K + 1, ..., *latent]` iterates for all items.
  """

  distance: jax.Array
  bound: jax.Array
  mismatch: jax.Array
  convexity: jax.Array
  smoothness: jax.Array
  path: jax.Array


def path_bound(
  bank: ItemBank,
  y: ArrayLike,
  subset_mask: ArrayLike,
  theta0: ArrayLike,
  *,
  num_steps: int = 50,
  rate: ArrayLike | None = None,
) -> PathBound:
  """Compares gradient descent for a subset with that for all items.

  Args:
    bank: of n items with c = 0 and d = 1, whose losses are convex.
    y: `[..., n]` all responses.
    subset_mask: `[..., n]`, not 0 for the items of the subset.
    theta0: `[..., *latent]` where both start.
    num_steps: K; with many the two come to their minima.
    rate: eta, at most 1 / L; None for 1 / L.

  Returns:
    The two sides.

  Raises:
    UserError: for a bank with guessing, whose losses are not convex.
  """
  if not is_traced(*bank) and (np.any(bank.c != 0) or np.any(bank.d != 1)):
    raise UserError('bank: the bound needs c = 0 and d = 1 (convex losses).')
  y, theta0 = jnp.asarray(y), jnp.asarray(theta0)
  inside = (jnp.asarray(subset_mask) != 0).astype(theta0.dtype)
  everything = jnp.ones_like(inside)
  convexity = jnp.asarray(1 / bank.num_items, theta0.dtype)
  smoothness = _largest_slope(bank) / 4 + convexity
  rate = 1 / smoothness if rate is None else jnp.asarray(rate)

  def slope(weight, theta):
    shape = *weight.shape, *(1 for _ in bank.latent_shape)
    axis = -1 - len(bank.latent_shape)
    items = weight.reshape(shape) * models.item_grads(bank, theta, y)
    size = jnp.maximum(jnp.sum(weight.reshape(shape), axis=axis), 1)
    return jnp.sum(items, axis=axis) / size + convexity * theta

  def step(carry, _):
    own, full = carry
    gap = _length(bank, slope(inside, full) - slope(everything, full))
    own = own - rate * slope(inside, own)
    full_next = full - rate * slope(everything, full)
    return (own, full_next), (gap, full)

  start = (theta0, theta0)
  (own, full), (gaps, path) = jax.lax.scan(step, start, length=num_steps)
  mismatch = jnp.max(gaps, axis=0)
  shrunk = 1 - (1 - rate * convexity) ** num_steps
  return PathBound(
    _length(bank, own - full),
    mismatch / convexity * shrunk,
    mismatch,
    convexity,
    smoothness,
    jnp.concatenate([path, full[None]]),
  )


def _largest_slope(bank: ItemBank) -> jax.Array:
  """Largest squared slope of an item, which bounds that of any mean."""
  square = bank.a**2
  return jnp.max(square.reshape(bank.num_items, -1).sum(axis=1))


def _length(bank: ItemBank, x: jax.Array) -> jax.Array:
  return jnp.linalg.norm(x, axis=-1) if bank.latent_shape else jnp.abs(x)
