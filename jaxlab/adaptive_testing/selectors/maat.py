"""Informative and diverse items (MAAT).

Source: Bi et al., Quality meets Diversity: A Model-Agnostic Framework for
Computerized Adaptive Testing, ICDM 2020.
"""

import functools

import jax
import jax.numpy as jnp

from jaxlab.adaptive_testing import models, small_matrices
from jaxlab.adaptive_testing.selectors.classical import no_params
from jaxlab.adaptive_testing.types import Bank, CatState, Selector


@functools.cache
def maat(*, num_candidates: int = 10) -> Selector:
  """Most coverage of concepts among those that may change the model most.

  The candidates have the largest expected model change; of them the one with
  the largest gain in `sum_k w_k m_k / (m_k + 1)` is best, with m_k the asked
  items of concept k and w_k its share of the bank. Ties, and banks without
  concepts, are decided by the model change.
  """

  def score(params, key, bank, state):
    del params, key
    change = jnp.where(state.available, model_change(bank, state), -jnp.inf)
    count = min(num_candidates, change.shape[1])
    best, items = jax.lax.top_k(change, count)
    gain = jnp.take_along_axis(coverage_gain(bank, state), items, axis=1)
    gain = jnp.where(best > -jnp.inf, gain, -jnp.inf)
    order = jnp.argsort(-gain, axis=1, stable=True)
    ranked = jnp.take_along_axis(items, order, axis=1)
    row = jnp.arange(items.shape[0])[:, None]
    place = count - jnp.arange(count, dtype=change.dtype)
    # Scores of the rest lie in [0, 1), those of candidates from 1 on.
    rest = change / (1 + change)
    return rest.at[row, ranked].set(place)

  return Selector(no_params, score, 'maat')


def model_change(bank: Bank, state: CatState) -> jax.Array:
  """Expected length of the Newton step that an answer brings, `[E, n]`."""
  shape = state.available.shape
  chance = models.prob(bank, state.theta)
  wrong, right = (
    models.item_grads(bank, state.theta, jnp.full(shape, y)) for y in (0, 1)
  )
  info = models.item_information(bank, state.theta)
  after = state.info[:, None] + info
  if not bank.latent_shape:
    return (chance * jnp.abs(right) + (1 - chance) * jnp.abs(wrong)) / after

  def length(slope):
    step = small_matrices.solve(after, slope)
    return jnp.linalg.norm(step, axis=-1)

  return chance * length(right) + (1 - chance) * length(wrong)


def coverage_gain(bank: Bank, state: CatState) -> jax.Array:
  """What an item adds to the weighted coverage of concepts, `[E, n]`."""
  if bank.q_matrix is None:
    return jnp.zeros(state.available.shape)
  needs = bank.q_matrix
  weight = jnp.sum(needs, axis=0) / jnp.sum(needs)
  met = state.asked.astype(needs.dtype) @ needs
  # m / (m + 1) grows by 1 / ((m + 1) (m + 2)).
  return (weight / ((met + 1) * (met + 2))) @ needs.T
