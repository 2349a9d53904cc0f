"""An upper bound: the rule that knows the answers before it asks."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import checks, estimate, models, small_matrices
from jaxlab.adaptive_testing.types import Selector
from jaxlab.errors import UserError


def oracle_selector(
  responses: ArrayLike, available: ArrayLike | None = None
) -> Selector:
  """Greedily brings the estimate to that of all answers.

  It is no rule for tests: it sees the answers to items that were not asked. The
  estimate after an item is that of one Newton step. It must be run with these
  examinees in this order, and without `chunk`.

  Args:
    responses: `[E, n]` recorded answers.
    available: `[E, n]`, not 0 where there is an answer; None for all.
  """
  checks.check_responses('responses', responses, available)
  y = jnp.asarray(responses)
  mask = jnp.ones(y.shape, bool) if available is None else available

  def init(key, bank):
    del key
    return estimate.map_newton(bank, y, mask)

  def score(params, key, bank, state):
    del key
    if state.asked.shape != y.shape:
      raise UserError(
        f'the oracle knows responses {y.shape}, the test has '
        f'{state.asked.shape}; run it without chunk.'
      )
    return -_distance_after(bank, state, y, params)

  return Selector(init, score, 'oracle')


def _distance_after(bank, state, y, target) -> jax.Array:
  """Distance of the estimate to the target once an item is asked, `[E, n]`."""
  slope = models.item_grads(bank, state.theta, y, state.available)
  after = state.info[:, None] + models.item_information(bank, state.theta)
  if not bank.latent_shape:
    return jnp.abs(state.theta[:, None] - slope / after - target[:, None])
  step = small_matrices.solve(after, slope)
  gap = state.theta[:, None] - step - target[:, None]
  return jnp.linalg.norm(gap, axis=-1)
