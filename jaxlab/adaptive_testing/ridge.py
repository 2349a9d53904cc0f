"""A linear correction of estimates from what was asked and how it went.

The full-response estimate of an examinee is regressed on which items were asked
and on the residuals of the answers, times the variance of the posterior: to
first order, that is how far a residual moves an estimate. What a logistic model
misses, such as items that hang together, ends up in the weights. It suits every
rule of selection, after the test:

    asked = asked_after(trace.items, bank.num_items)  # [T, E, n]
    ridge = estimate.fit_ridge(bank, y, asked)  # of other examinees
    found = estimate.estimate_ability(
      bank, jnp.broadcast_to(y, asked.shape), asked, method='map_ridge',
      ridge=ridge,
    )
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import models
from jaxlab.adaptive_testing.types import Bank


class Ridge(NamedTuple):
  """A fitted correction.

  Attributes:
    weights: `[F, max(D, 1)]` of the features.
  """

  weights: jax.Array


def features(
  bank: Bank, y: jax.Array, asked: jax.Array, theta: jax.Array
) -> jax.Array:
  """What the correction is linear in.

  Args:
    bank: of n items.
    y: `[..., n]` answers; any value where an item was not asked.
    asked: `[..., n]` bool.
    theta: `[..., *latent]` estimates.

  Returns:
    `[..., F]`: which items were asked, standardised residuals, 1, the estimate.
  """
  p = models.prob(bank, theta)
  gap = jnp.where(asked, y, p) - p
  residual = gap / jnp.sqrt(jnp.maximum(p * (1 - p), jnp.finfo(p.dtype).eps))
  own = theta if bank.latent_shape else theta[..., None]
  one = jnp.ones_like(own[..., :1])
  return jnp.concatenate([asked.astype(p.dtype), residual, one, own], axis=-1)


def correction(
  ridge: Ridge,
  bank: Bank,
  y: jax.Array,
  asked: jax.Array,
  theta: jax.Array,
  se: jax.Array,
) -> jax.Array:
  """What to add to `theta`, `[..., *latent]`.

  Args:
    ridge: fitted on other examinees.
    bank: of n items.
    y: `[..., n]` answers; any value where an item was not asked.
    asked: `[..., n]` bool.
    theta: `[..., *latent]` estimates.
    se: `[..., *latent]` standard deviations of the posterior's normal
      approximation.
  """
  found = features(bank, y, asked, theta) @ ridge.weights
  return se**2 * (found if bank.latent_shape else found[..., 0])


def regress(
  bank: Bank,
  y: jax.Array,
  asked: jax.Array,
  theta: jax.Array,
  se: jax.Array,
  target: jax.Array,
  *,
  penalty: ArrayLike,
) -> Ridge:
  """Fits the correction that brings estimates closest to a target.

  Args:
    bank: of n items.
    y: `[E, n]` answers; any value where an item was not asked.
    asked: `[S, E, n]` bool: S moments of the tests of E examinees.
    theta: `[S, E, *latent]` estimates at them.
    se: `[S, E, *latent]`; see `correction`.
    target: `[E, *latent]` what to come close to.
    penalty: on squares of weights, in mean squares of features.
  """

  def add(total, moment):
    asked, theta, se = moment
    x = features(bank, y, asked, theta)
    gap, scale = target - theta, se**2
    if not bank.latent_shape:
      gap, scale = gap[..., None], scale[..., None]
    gram = jnp.einsum('ef,ed,eg->dfg', x, scale**2, x, precision='highest')
    toward = jnp.einsum('ef,ed->df', x, scale * gap, precision='highest')
    return (total[0] + gram, total[1] + toward), None

  dims = bank.latent_shape[0] if bank.latent_shape else 1
  width = 2 * bank.num_items + 1 + dims
  nothing = jnp.zeros((dims, width, width), theta.dtype)
  (gram, toward), _ = jax.lax.scan(
    add, (nothing, nothing[..., 0]), (asked, theta, se)
  )
  size = jnp.trace(gram, axis1=1, axis2=2)[:, None, None] / width
  gram += penalty * size * jnp.eye(width)
  return Ridge(jnp.linalg.solve(gram, toward[..., None])[..., 0].T)


def asked_after(items: ArrayLike, num_items: int) -> jax.Array:
  """What was asked after each of T items, `[T, E, n]` bool.

  Args:
    items: `[T, E]` items in the order of asking; -1 where a test had ended.
    num_items: n.
  """
  new = jax.nn.one_hot(jnp.asarray(items), num_items, dtype=jnp.int8)
  return jnp.cumsum(new, axis=0, dtype=jnp.int8) > 0
