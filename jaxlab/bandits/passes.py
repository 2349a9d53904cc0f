"""Doubling sequential halving, pull by pull: the rule inside BSH's brackets.

Pass k = 0, 1, .. is sequential halving of all n arms with budget
`2^k n ceil(log2 n)`: a round of m arms pulls each `floor(2^k n / m)` times, in
sweeps over the arms, and keeps the best `ceil(m / 2)`. A single arm is pulled
`2^k` times in pass k.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.bandits import elimination_plan as plans
from jaxlab.bandits import totals
from jaxlab.bandits.totals import ONE_PULL, ArmTotals
from jaxlab.bandits.types import Algorithm, Recommendation


class PassesState(NamedTuple):
  """State of doubling sequential halving.

  Attributes:
    totals: pulls and sums of the n arms, over all passes.
    cut_key: PRNG key of ties at the cut.
    number: `[]` int32: the pass k.
    round: `[]` int32: the round within the pass.
    position: `[]` int32: pulls made in this round.
    order: `[n]` int32: the arms, those of this round first.
    fresh: `[n]` float: reward sums of this round.
    winner: of the last finished pass.
  """

  totals: ArmTotals
  cut_key: jax.Array
  number: jax.Array
  round: jax.Array
  position: jax.Array
  order: jax.Array
  fresh: jax.Array
  winner: Recommendation


def _round_size(state: PassesState) -> jax.Array:
  """Returns how many arms the round has: n, ceil(n/2), ceil(n/4), .., 2."""
  return -jnp.right_shift(-state.totals.size, state.round)


def halving_passes(pooled: bool) -> Algorithm:
  """Doubling sequential halving that asks for one pull at a time.

  Args:
    pooled: whether a mean is taken over all pulls of an arm, not only over
      those of the present round.
  """

  def init(key, num_arms, size=None):
    key, cut_key = jax.random.split(key)
    known = totals.start(key, num_arms, size)
    zero = jnp.zeros((), jnp.int32)
    order = jnp.arange(num_arms, dtype=jnp.int32)
    nothing = Recommendation(zero, jnp.full((), jnp.nan), zero)
    return PassesState(
      known, cut_key, zero, zero, zero, order, known.sums, nothing
    )

  def ask(state: PassesState):
    return state.order[state.position % _round_size(state)], ONE_PULL

  def tell(state: PassesState, arm, total, n, total_squares):
    del total_squares
    size = _round_size(state)
    each = jnp.left_shift(state.totals.size, state.number) // size
    state = state._replace(
      totals=totals.add(state.totals, arm, total, n),
      position=state.position + n,
      fresh=state.fresh.at[arm].add(total),
    )
    return jax.lax.cond(
      state.position >= size * each,
      lambda state: _finish_round(state, size, each, pooled),
      lambda state: state,
      state,
    )

  def recommend(state: PassesState):
    so_far = totals.best_mean(state.totals)
    return jax.tree.map(
      lambda last, best: jnp.where(state.number > 0, last, best),
      state.winner,
      so_far,
    )

  return Algorithm(init, ask, tell, recommend)


def _finish_round(state: PassesState, size, each, pooled: bool) -> PassesState:
  """Ranks the arms of the round; the best half goes on to the next one."""
  known = state.totals
  mean = totals.means(known) if pooled else state.fresh / each
  slots = plans.ranked(
    state.cut_key, known.step, mean[state.order], size, capacity=known.size
  )
  order = state.order[slots]
  is_last = size <= 2
  arm = order[0]
  pulls = known.pulls[arm] if pooled else each.astype(jnp.int32)
  winner = jax.tree.map(
    lambda new, old: jnp.where(is_last, new, old),
    Recommendation(arm, mean[arm], pulls),
    state.winner,
  )
  entry = jnp.arange(order.shape[-1], dtype=jnp.int32)
  return state._replace(
    number=state.number + is_last,
    round=jnp.where(is_last, 0, state.round + 1),
    position=jnp.zeros_like(state.position),
    order=jnp.where(is_last, entry, order),
    fresh=jnp.zeros_like(state.fresh),
    winner=winner,
  )
