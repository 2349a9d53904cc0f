"""Doubling sequential halving, pull by pull: the rule inside BSH's brackets.

Pass k = 0, 1, .. is sequential halving of all n arms with budget
`2^k n ceil(log2 n)`: a round of m arms pulls each `floor(2^k n / m)` times, in
sweeps over the arms, and keeps the best `ceil(m / 2)`. A single arm is pulled
`2^k` times in pass k.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import envs, totals
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


def round_sizes(num_arms: int) -> tuple[int, ...]:
  """Returns how many arms each round of a pass has: n, ceil(n/2), .., 2."""
  sizes = [num_arms]
  while sizes[-1] > 2:
    sizes.append(-(-sizes[-1] // 2))
  return tuple(sizes)


def pass_costs(num_arms: int, number: int) -> tuple[int, ...]:
  """Returns the pulls of each round of pass k."""
  return tuple((num_arms << number) // m * m for m in round_sizes(num_arms))


def halving_passes(pooled: bool) -> Algorithm:
  """Doubling sequential halving that asks for one pull at a time.

  Args:
    pooled: whether a mean is taken over all pulls of an arm, not only over
      those of the present round.
  """

  def init(key, num_arms):
    key, cut_key = jax.random.split(key)
    known = totals.start(key, num_arms)
    zero = jnp.zeros((), jnp.int32)
    order = jnp.arange(num_arms, dtype=jnp.int32)
    nothing = Recommendation(zero, jnp.full((), jnp.nan), zero)
    return PassesState(
      known, cut_key, zero, zero, zero, order, known.sums, nothing
    )

  def ask(state: PassesState):
    sizes = jnp.asarray(round_sizes(state.order.shape[-1]))
    return state.order[state.position % sizes[state.round]], ONE_PULL

  def tell(state: PassesState, arm, total, n, total_squares):
    del total_squares
    num_arms = state.order.shape[-1]
    size = jnp.asarray(round_sizes(num_arms))[state.round]
    each = jnp.left_shift(num_arms, state.number) // size
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
  num_arms = state.order.shape[-1]
  num_rounds = len(round_sizes(num_arms))
  mean = totals.means(state.totals) if pooled else state.fresh / each
  order = _ranked(
    state.cut_key, state.number, state.round, num_arms, state.order, mean, size
  )
  is_last = state.round == num_rounds - 1
  arm = order[0]
  pulls = state.totals.pulls[arm] if pooled else each.astype(jnp.int32)
  winner = jax.tree.map(
    lambda new, old: jnp.where(is_last, new, old),
    Recommendation(arm, mean[arm], pulls),
    state.winner,
  )
  entry = jnp.arange(num_arms, dtype=jnp.int32)
  return state._replace(
    number=state.number + is_last,
    round=jnp.where(is_last, 0, state.round + 1),
    position=jnp.zeros_like(state.position),
    order=jnp.where(is_last, entry, order),
    fresh=jnp.zeros_like(state.fresh),
    winner=winner,
  )


def _ranked(
  key, number, round_number, num_arms: int, order, mean, size
) -> jax.Array:
  """Sorts the first `size` places of `order` by mean, ties at random.

  Args:
    key: PRNG key of the ties.
    number: the pass.
    round_number: the round within the pass.
    num_arms: the arms n of the pass.
    order: `[m]` arms.
    mean: `[n]` by arm; nan ranks first, so that it comes to light.
    size: how many places of `order` take part.
  """
  counter = number * len(round_sizes(num_arms)) + round_number
  fresh = jax.random.fold_in(key, counter)
  priority = jax.random.bits(fresh, (num_arms,), jnp.uint32)[order]
  rank = -jnp.nan_to_num(mean[order], nan=jnp.inf)
  rank = jnp.where(jnp.arange(order.shape[-1]) < size, rank, jnp.inf)
  return order[jnp.lexsort((priority, rank))]


def play_passes(
  key: jax.Array,
  reward_key: jax.Array,
  env: envs.Environment,
  times: Sequence[int],
  *,
  pooled: bool,
) -> Recommendation:
  """Plays `halving_passes` round by round.

  Args:
    key: PRNG key of the algorithm.
    reward_key: PRNG key of the rewards.
    env: the n arms.
    times: `[C]` ascending numbers of pulls at which to recommend (static).
    pooled: as for `halving_passes`.

  Returns:
    `Recommendation` with leaves `[C]`.
  """
  num_arms = env.num_arms
  key, cut_key = jax.random.split(key)
  ends = [sum(pass_costs(num_arms, 0))]
  while ends[-1] <= times[-1]:
    ends.append(ends[-1] + sum(pass_costs(num_arms, len(ends))))
  finished = len(ends) - 1
  known, early, winner = _first_pass(
    totals.start(key, num_arms), cut_key, reward_key, env, times, pooled
  )

  def later_pass(known, number):
    order = jnp.arange(num_arms, dtype=jnp.int32)
    for i, m in enumerate(round_sizes(num_arms)):
      order = order[:m]
      each = jnp.left_shift(num_arms, number) // m
      known, fresh = _pull(known, reward_key, env, order, each)
      mean = totals.means(known) if pooled else fresh / each
      order = _ranked(cut_key, number, i, num_arms, order, mean, m)
    return known, _winner(known, order[0], mean, each, pooled)

  offers = [early]
  if finished > 0:
    offers.append(jax.tree.map(lambda x: x[None], winner))
  if finished > 1:
    later = jnp.arange(1, finished, dtype=jnp.int32)
    offers.append(jax.lax.scan(later_pass, known, later)[1])
  stacked = jax.tree.map(lambda *x: jnp.concatenate(x), *offers)
  passed = np.searchsorted(ends, times, side='right')
  place = np.where(
    passed > 0, early.arm.shape[0] + passed - 1, np.arange(len(times))
  )
  return jax.tree.map(lambda x: x[place], stacked)


def _first_pass(
  known: ArmTotals, cut_key, reward_key, env, times: Sequence[int], pooled: bool
):
  """Plays pass 0, as far as the last of the times.

  Returns:
    The totals, the recommendations at those times that lie before the end of
    the pass, and the winner, which counts only if the pass was finished.
  """
  num_arms = env.num_arms
  order = jnp.arange(num_arms, dtype=jnp.int32)
  winner = totals.describe(known, order[0])
  offers, begin = [], 0
  for i, (m, cost) in enumerate(
    zip(round_sizes(num_arms), pass_costs(num_arms, 0), strict=True)
  ):
    looks = [t - begin for t in times if begin <= t < begin + cost]
    stops = np.array([*looks, *[cost] * (times[-1] >= begin + cost)], np.int32)
    if not stops.size:
      break
    order = order[:m]
    pulls = stops[:, None] // m + (np.arange(m) < stops[:, None] % m)
    steps = np.diff(pulls, axis=0, prepend=0).astype(np.int32)

    def advance(carry, each, order=order):
      known, fresh = carry
      known, more = _pull(known, reward_key, env, order, each)
      return (known, fresh + more), totals.best_mean(known)

    start = (known, jnp.zeros_like(known.sums))
    (known, fresh), best = jax.lax.scan(advance, start, jnp.asarray(steps))
    offers.append(jax.tree.map(lambda x: x[: len(looks)], best))  # noqa: B023
    each = cost // m
    mean = totals.means(known) if pooled else fresh / each
    order = _ranked(cut_key, 0, i, num_arms, order, mean, m)
    winner = _winner(known, order[0], mean, each, pooled)
    begin += cost
  return known, jax.tree.map(lambda *x: jnp.concatenate(x), *offers), winner


def _pull(
  known: ArmTotals, reward_key, env: envs.Environment, order, each
) -> tuple[ArmTotals, jax.Array]:
  """Pulls the arms of `order` `each` times; also returns `[n]` new sums."""
  start = known.pulls[order]
  total, _ = env.sample(reward_key, order, each, start=start)
  each = jnp.broadcast_to(each, order.shape)
  fresh = jnp.zeros_like(known.sums).at[order].set(total)
  known = known._replace(
    step=known.step + jnp.sum(each),
    pulls=known.pulls.at[order].add(each),
    sums=known.sums + fresh,
  )
  return known, fresh


def _winner(known: ArmTotals, arm, mean, each, pooled: bool) -> Recommendation:
  pulls = known.pulls[arm] if pooled else jnp.asarray(each, jnp.int32)
  return Recommendation(arm, mean[arm], pulls)
