"""Plays a plan of elimination rounds as one array program."""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import elimination_plan as plans
from jaxlab.bandits import envs
from jaxlab.bandits.elimination_plan import Plan
from jaxlab.bandits.types import RunResult


class _Spent(NamedTuple):
  """Where a plan stands at a checkpoint; all plain ints.

  Attributes:
    rounds: finished rounds.
    first: arms pulled in the first round.
    pulls: pulls so far.
    pending: pulls left over for an operation that did not fit.
  """

  rounds: int
  first: int
  pulls: int
  pending: int


def _position(plan: Plan, checkpoint: int) -> _Spent:
  spent, first = 0, 0
  for index, r in enumerate(plan):
    asks = min((checkpoint - spent) // r.pulls, r.arms)
    spent += asks * r.pulls
    first = asks if index == 0 else first
    if asks < r.arms:
      return _Spent(index, first, spent, checkpoint - spent)
  return _Spent(len(plan), first, spent, 0)


def play_plan(
  plan: Plan,
  key: jax.Array,
  reward_key: jax.Array,
  env: envs.Environment,
  checkpoints: Sequence[int],
  *,
  capacity: int,
  pooled: bool = False,
) -> RunResult:
  """Plays a plan as one array program.

  Args:
    plan: at least one round more than the last checkpoint pays for, unless
      the plan ends there.
    key: PRNG key of the run.
    reward_key: PRNG key of the rewards.
    env: the entered arms only, stage by stage; an arm may enter in several.
    checkpoints: increasing budgets.
    capacity: the number of participating arms.
    pooled: whether rounds rank by all pulls of their stage.

  Returns:
    `RunResult` with leaves `[C]`; arms are places in `env`.
  """
  positions = [_position(plan, point) for point in checkpoints]
  finished = plan[: positions[-1].rounds]
  while finished and finished[-1].rank == 0:
    finished = finished[:-1]
  arena = _Arena(key, reward_key, env, capacity, pooled)
  leaders = _leaders(finished, arena) if finished else None
  count = max([p.first for p in positions if not p.rounds], default=0)
  first = arena.pull(jnp.arange(count), plan[0].pulls, 0) if count else None
  best = [_standing(plan, p, leaders, first, key) for p in positions]
  arms, totals, counted = zip(*best, strict=True)
  pulls = jnp.asarray(counted, jnp.int32)
  return RunResult(
    jnp.stack(arms),
    plans.mean(jnp.stack(totals), pulls),
    pulls,
    jnp.asarray([p.pulls for p in positions], jnp.int32),
    jnp.asarray([p.pending for p in positions], jnp.int32),
  )


class _Arena(NamedTuple):
  """What the rounds of one run share."""

  key: jax.Array
  reward_key: jax.Array
  env: envs.Environment
  capacity: int
  pooled: bool

  def pull(self, arms, n, start) -> jax.Array:
    return self.env.sample(self.reward_key, arms, n, start=start)[0]


class _Survivors(NamedTuple):
  """The arms that are left in a stage.

  Attributes:
    arms: `[W]` int32 places, best first.
    totals: `[W]` float.
    earlier: `[S]` int32: pulls of the arm at a place in earlier stages; None
      in a plan of one stage.
    seen: `[S]` int32: its pulls by the end of this stage, or None.
  """

  arms: jax.Array
  totals: jax.Array
  earlier: jax.Array | None
  seen: jax.Array | None


def _leaders(plan: Plan, arena: _Arena) -> tuple[jax.Array, jax.Array]:
  """Plays all rounds; returns `[G]` places and totals of their leaders."""
  first = jnp.arange(1)
  dtype = jax.eval_shape(lambda: arena.pull(first, 1, 0)).dtype
  several = plan[-1].stage > 0
  previous = _previous_places(arena.env) if several else None
  seen = None if previous is None else jnp.zeros_like(previous)
  entered = played = 0
  arms, totals = [], []
  for _, stage in itertools.groupby(plan, key=lambda r: r.stage):
    rounds = tuple(stage)
    size = rounds[0].arms
    places = entered + jnp.arange(size, dtype=jnp.int32)
    entered += size
    earlier = None
    if previous is not None and seen is not None:
      earlier = jnp.where(previous >= 0, seen[previous], 0)
      seen = seen.at[places].set(earlier[places])
    left = _Survivors(places, jnp.zeros(size, dtype), earlier, seen)
    done = 0
    for group, keep in _similar_rounds(rounds):
      best, left = _play_group(group, keep, played, done, left, arena)
      arms.append(best[0])
      totals.append(best[1])
      played += len(group)
      done += sum(r.pulls for r in group)
    seen = left.seen
  return jnp.concatenate(arms), jnp.concatenate(totals)


def _previous_places(env) -> jax.Array:
  """For each place, the last one before it with the same arm, or -1."""
  ids = env.ids
  places = jnp.arange(ids.shape[0], dtype=jnp.int32)
  ids, places = jax.lax.sort((ids, places), num_keys=2)
  repeated = jnp.concatenate([jnp.zeros(1, bool), ids[1:] == ids[:-1]])
  before = jnp.where(repeated, jnp.roll(places, 1), -1)
  return jnp.zeros_like(places).at[places].set(before)


def _similar_rounds(rounds: Plan) -> list[tuple[Plan, int]]:
  """Groups rounds that lose so few arms that one array width serves them.

  Returns:
    Each group, and the number of arms it hands on.
  """
  groups: list[Plan] = []
  for r in rounds:
    if groups and r.arms > groups[-1][0].arms // 2 + 1:
      groups[-1] += (r,)
    else:
      groups.append((r,))
  kept = [group[0].arms for group in groups[1:]]
  return list(zip(groups, [*kept, 1], strict=True))


def _play_group(
  group: Plan,
  keep: int,
  index: int,
  done: int,
  left: _Survivors,
  arena: _Arena,
):
  """Plays rounds `index ...` of a plan on arms with `done` pulls this stage.

  Returns:
    `[len(group)]` places and totals of the leaders, and the survivors.
  """
  width = group[0].arms
  if len(group) == 1:
    # The number of pulls stays a constant of the program.
    left = _play_round(width, group[0].pulls, index, done, left, arena, keep)
    return (left.arms[:1], left.totals[:1]), left
  pulls = np.asarray([r.pulls for r in group], np.int32)
  rounds = (
    np.asarray([r.arms for r in group], np.int32),
    pulls,
    index + np.arange(len(group), dtype=np.int32),
    done + np.cumsum(pulls, dtype=np.int32) - pulls,
  )

  def step(left, xs):
    left = _play_round(*xs, left, arena, keep=width)
    return left, (left.arms[0], left.totals[0])

  left, best = jax.lax.scan(step, left, rounds)
  left = left._replace(arms=left.arms[:keep], totals=left.totals[:keep])
  return best, left


def _play_round(
  num_arms, pulls, index, done, left: _Survivors, arena: _Arena, keep: int
) -> _Survivors:
  """Pulls the first `num_arms` arms of `left` and orders them, best first."""
  arms, totals, earlier, seen = left
  start = done if earlier is None else done + earlier[arms]
  new = arena.pull(arms, pulls, start)
  totals = totals + new if arena.pooled else new
  if seen is not None:
    active = jnp.arange(arms.shape[0]) < num_arms
    seen = seen.at[arms].add(jnp.where(active, pulls, 0))
  slots = plans.ranked(
    arena.key, index, totals, num_arms, keep=keep, capacity=arena.capacity
  )
  return _Survivors(arms[slots], totals[slots], earlier, seen)


def _standing(plan: Plan, position: _Spent, leaders, first, key):
  """The place, total and number of pulls of the arm to recommend."""
  if position.rounds:
    ranks = [r.rank for r in plan[: position.rounds]]
    best = [i for i, rank in enumerate(ranks) if rank == max(ranks)]
    arms, totals = leaders
    rows = np.asarray(best)
    priority = jax.vmap(functools.partial(plans.round_priority, key))(rows)
    row = plans.argbest(totals[rows], priority)
    return arms[rows][row], totals[rows][row], plan[best[0]].counted
  if position.first:
    totals = first[: position.first]
    place = plans.argbest(
      totals, plans.priorities(key, 0, jnp.arange(position.first))
    )
    return place, totals[place], plan[0].counted
  return jnp.zeros((), jnp.int32), jnp.zeros(()), 0
