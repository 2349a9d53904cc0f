"""Standard errors of items from the observed information (Louis, 1982).

The information of a marginal likelihood is that of the complete data, less what
the unknown abilities take away: the expected covariance of an examinee's scores
given the responses.
"""

import jax
import jax.numpy as jnp

from jaxlab.adaptive_testing import mml, models


def standard_errors(
  data: mml.Data, priors: mml.Priors, params: jax.Array, *, common: bool
) -> jax.Array:
  """Standard errors of a, b and c.

  Args:
    data: responses.
    priors: of item parameters; their curvature counts as information.
    params: `[n, r]` where the penalised likelihood is largest.
    common: whether all items have one slope.

  Returns:
    `[n, 3]`; NaN for c where it is not fitted. Items without answers have no
    meaningful errors.
  """
  num_items, kept = params.shape
  info = observed_information(data, priors, params, common=common)
  info = info.reshape(num_items * kept, num_items * kept)
  spread = _tie(num_items, kept) if common else jnp.eye(num_items * kept)
  spread = spread.astype(params.dtype)
  reduced = spread @ info @ spread.T
  # Items that nobody answered have no information: keep the rest regular.
  scale = jnp.diagonal(reduced)
  reduced += jnp.diag(jnp.where(scale > 0, 0, 1))
  covariance = spread.T @ jnp.linalg.inv(reduced) @ spread
  covariance = covariance.reshape(num_items, kept, num_items, kept)
  block = jnp.einsum('iris->irs', covariance)
  items = mml.bank(params)
  a, b = items.a[:, 0], -items.b / items.a[:, 0]
  about_b = block[:, 0, 0] * b**2 + 2 * block[:, 0, 1] * b / a
  about_b += block[:, 1, 1] / a**2
  variances = [a**2 * block[:, 0, 0], about_b, jnp.full_like(a, jnp.nan)]
  if kept > 2:
    variances[2] = (items.c * (1 - items.c)) ** 2 * block[:, 2, 2]
  return jnp.sqrt(jnp.stack(variances, axis=1))


def observed_information(
  data: mml.Data, priors: mml.Priors, params: jax.Array, *, common: bool
) -> jax.Array:
  """Minus the Hessian of the penalised marginal log-likelihood.

  Returns:
    `[n, r, n, r]`.
  """
  num_items, kept = params.shape
  weights, _ = mml.expect(data, params)
  p, w, _ = mml.scores(params, data.nodes)

  def missing(total, node):
    weight, p, w = node
    gap = data.right - data.seen * p
    pairs = mml.product(gap.T, weight[:, None] * gap)
    return total + jnp.einsum('ij,ir,js->irjs', pairs, w, w), None

  lost = jnp.zeros((num_items, kept) * 2, params.dtype)
  lost, _ = jax.lax.scan(missing, lost, (weights.T, p, w))
  mean = data.right[..., None] * jnp.einsum('ek,knr->enr', weights, w)
  mean -= data.seen[..., None] * jnp.einsum('ek,kn,knr->enr', weights, p, w)
  found = jnp.einsum('eir,ejs->irjs', mean, mean, precision='highest')
  complete = _complete_information(data, weights, params)
  share = 1 / num_items if common else 1.0
  bend = share * mml.penalty_curvature(priors, params)
  complete += bend[:, :, None] * jnp.eye(kept)
  same = jnp.eye(num_items)[:, None, :, None] * complete[:, :, None]
  return found - lost + same


def _complete_information(
  data: mml.Data, weights: jax.Array, params: jax.Array
) -> jax.Array:
  """`[n, r, r]` Hessians of the expected complete-data loss of each item."""
  count = mml.product(weights.T, data.seen)
  solved = mml.product(weights.T, data.right)

  def loss(item, count, solved):
    wrong, right = models.log_prob(mml.bank(item[None]), data.nodes[:, None])
    return -solved @ right[:, 0] - (count - solved) @ wrong[:, 0]

  return jax.vmap(jax.hessian(loss))(params, count.T, solved.T)


def _tie(num_items: int, kept: int) -> jax.Array:
  """`[1 + n, n kept]`: which parameter of its item each free one is."""
  slopes = jnp.tile(jnp.eye(kept)[0], num_items)
  intercepts = jnp.kron(jnp.eye(num_items), jnp.eye(kept)[1])
  return jnp.concatenate([slopes[None], intercepts])
