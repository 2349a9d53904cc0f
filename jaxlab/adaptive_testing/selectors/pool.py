"""What an item tells about the answers to all the others, in closed form.

The ability of all responses moves with every answer, not with the true ability
alone. Let the standardised residuals of the open items have the covariance
`v s s^T + I + C`, with s the roots of their Fisher information, v the posterior
variance and C the correlations that abilities leave. An answer to item j then
takes from the variance of that ability, up to a common factor,

    (s_j (1 + v sum_i s_i^2) + sum_i C_ij s_i)^2 / (1 + v s_j^2)

where i runs over the open items. For C = 0 it orders items by information.
"""

import functools

import jax.numpy as jnp

from jaxlab.adaptive_testing import models
from jaxlab.adaptive_testing.selectors.features import Residuals
from jaxlab.adaptive_testing.types import Selector
from jaxlab.errors import UserError


@functools.cache
def pool_reduction() -> Selector:
  """Most variance taken from the ability of all responses.

  It is what `gpm` learns from correlations, without learning: its parameters
  are the `Residuals` of the bank in training data, and `init` gives none.
  """

  def init(key, bank):
    del key
    nothing = jnp.zeros((bank.num_items, 0))
    n = bank.num_items
    return Residuals(jnp.zeros((n, n)), jnp.zeros(n), nothing, nothing)

  def score(params, key, bank, state):
    del key
    if bank.latent_shape:
      raise UserError('pool_reduction is for abilities of one dimension.')
    info = models.item_information(bank, state.theta)
    root, variance = jnp.sqrt(info), 1 / state.info[:, None]
    rest = jnp.where(state.asked, 0, root)
    rest_info = jnp.sum(rest**2, axis=-1, keepdims=True)
    shared = root * (1 + variance * rest_info) + rest @ params.correlation
    return shared**2 / (1 + variance * info)

  return Selector(init, score, 'pool_reduction')
