"""Elimination algorithms: a plan of rounds, after each of which arms drop out.

A plan is a tuple of rounds that does not depend on rewards. From it come both
an ask-and-tell algorithm for live experiments and an engine that plays whole
runs as one array program. With the same key both return the same arms.

Rounds belong to stages; a stage starts with a fresh random subset of the arms.
"""

import functools
import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.bandits import elimination_engine, envs, ranking
from jaxlab.bandits import elimination_plan as plans
from jaxlab.bandits.elimination_plan import Plan
from jaxlab.bandits.subset import random_arms, refuse_live
from jaxlab.bandits.types import Algorithm, Engine, Recommendation, RunResult

# `(number of participating arms, budget) -> plan`: at least the rounds that
# start within the budget.
Planner = Callable[[int, int], Plan]
# `(number of arms in the pool, budget) -> number of participating arms`.
Subset = Callable[[int, int], int]


class Rounds(NamedTuple):
  """A plan as arrays `[G]` int32; the fields are those of `Round`."""

  arms: jax.Array
  pulls: jax.Array
  stage: jax.Array
  counted: jax.Array
  rank: jax.Array


class Leader(NamedTuple):
  """The arm that would be recommended now.

  Attributes:
    arm: int32.
    total: float: sum of the rewards behind it.
    pulls: int32: their number.
    rank: int32: rank of its round, 0 within the first round, -1 before.
    priority: uint32 random number that decides between equal totals.
  """

  arm: jax.Array
  total: jax.Array
  pulls: jax.Array
  rank: jax.Array
  priority: jax.Array


class State(NamedTuple):
  """State of the ask-and-tell algorithm for S participating arms.

  Attributes:
    order_key: PRNG key of the arms that enter.
    tie_key: PRNG key of the comparisons.
    rounds: the plan; its last round has no pulls.
    round: int32 index of the present round.
    slot: int32: arms already pulled in it.
    arms: `[S]` int32: the arms that are left, in the order of their pulls.
    totals: `[S]` float: the sums that the round will rank by.
    leader: the arm to recommend.
  """

  order_key: jax.Array
  tie_key: jax.Array
  rounds: Rounds
  round: jax.Array
  slot: jax.Array
  arms: jax.Array
  totals: jax.Array
  leader: Leader


def elimination(
  planner: Planner,
  *,
  subset: Subset | None = None,
  pooled: bool = False,
  is_told: bool = False,
) -> Algorithm:
  """Builds the algorithm that carries out a plan.

  Args:
    planner: the plan for a number of participating arms and a budget. Live
      runs ask for the largest budget: they do not know when they will stop.
    subset: the number of participating arms in a plan of one stage. Without
      it all arms take part, in as many stages as the plan has.
    pooled: whether rounds rank by all pulls of their stage.
    is_told: whether there is a plan for each checkpoint, so that the result
      at a checkpoint is that of a separate run which knows this budget from
      the start. Only for simulations, and with a subset.
  """
  number = _everyone if subset is None else subset
  return Algorithm(
    refuse_live if is_told else functools.partial(_init, planner, number),
    _ask,
    functools.partial(_tell, pooled=pooled, restarts=subset is None),
    _recommend,
    Engine(
      functools.partial(_enter, planner, number),
      functools.partial(_play_told, planner, number, pooled)
      if is_told
      else functools.partial(_play, planner, pooled),
    ),
  )


def _everyone(num_arms: int, _: int) -> int:
  return num_arms


def _stage_arms(order_key, stage, num_arms: int, size: int) -> jax.Array:
  """Returns `[size]` int32: the arms that enter in a stage."""
  return random_arms(jax.random.fold_in(order_key, stage), num_arms, size)


def _init(planner, subset, key, num_arms: int) -> State:
  if num_arms < 1:
    raise ValueError(f'num_arms must be >= 1, got {num_arms}.')
  size = subset(num_arms, plans.MAX_BUDGET)
  if size == envs.UNBOUNDED:
    raise ValueError(
      'num_arms is unbounded; ask and tell need a finite pool or a subset.'
    )
  end = plans.Round(arms=0, pulls=0, stage=0, counted=0, rank=0)
  plan = (*planner(size, plans.MAX_BUDGET), end)
  zero = jnp.zeros((), jnp.int32)
  order_key, tie_key = plans.run_keys(key)
  arms = _stage_arms(order_key, 0, num_arms, size)
  totals = jnp.zeros(size)
  nobody = Leader(arms[0], totals[0], zero, zero - 1, zero.astype(jnp.uint32))
  rounds = Rounds(*jnp.asarray(plan, jnp.int32).T)
  return State(order_key, tie_key, rounds, zero, zero, arms, totals, nobody)


def _ask(state: State) -> tuple[jax.Array, jax.Array]:
  """The next arm and its pulls; 0 pulls: the plan has ended."""
  return state.arms[state.slot], state.rounds.pulls[state.round]


def _tell(
  state: State, arm, total, n, total_squares=None, *, pooled, restarts
) -> State:
  """Books the sum of the rewards; after the last arm of a round, ranks."""
  del total_squares
  total = state.totals[state.slot] + jnp.asarray(total, state.totals.dtype)
  totals = state.totals.at[state.slot].set(total)
  first = Leader(
    jnp.asarray(arm, jnp.int32),
    total,
    jnp.asarray(n, jnp.int32),
    jnp.where(state.round == 0, 0, -2).astype(jnp.int32),
    ranking.priorities(state.tie_key, state.round, state.slot),
  )
  state = state._replace(
    totals=totals, slot=state.slot + 1, leader=_better(first, state.leader)
  )
  return jax.lax.cond(
    state.slot == state.rounds.arms[state.round],
    functools.partial(_end_round, pooled=pooled, restarts=restarts),
    lambda s: s,
    state,
  )


def _end_round(state: State, *, pooled: bool, restarts: bool) -> State:
  present = jax.tree.map(lambda x: x[state.round], state.rounds)
  following = jax.tree.map(lambda x: x[state.round + 1], state.rounds)
  size = state.arms.shape[0]
  slots = plans.ranked(
    state.tie_key,
    state.round,
    state.totals,
    present.arms,
    capacity=size,
  )
  arms, totals = state.arms[slots], state.totals[slots]
  leader = Leader(
    arms[0],
    totals[0],
    present.counted,
    present.rank,
    plans.round_priority(state.tie_key, state.round),
  )
  new_stage = following.stage != present.stage
  if restarts:
    arms = jax.lax.cond(
      new_stage,
      lambda: _stage_arms(state.order_key, following.stage, size, size),
      lambda: arms,
    )
  return state._replace(
    round=state.round + 1,
    slot=jnp.zeros_like(state.slot),
    arms=arms,
    totals=jnp.where(new_stage | (not pooled), 0, totals),
    leader=_better(leader, state.leader),
  )


def _better(challenger: Leader, leader: Leader) -> Leader:
  """The leader by rank, then by total, then at random."""
  wins = plans.beats(
    challenger.total, challenger.priority, leader.total, leader.priority
  )
  wins = (challenger.rank > leader.rank) | (
    (challenger.rank == leader.rank) & wins
  )
  return jax.tree.map(lambda a, b: jnp.where(wins, a, b), challenger, leader)


def _recommend(state: State) -> Recommendation:
  leader = state.leader
  return Recommendation(
    leader.arm, plans.mean(leader.total, leader.pulls), leader.pulls
  )


def _stage_sizes(plan: Plan) -> list[int]:
  """The number of arms that enter in each stage; one without any round."""
  stages = itertools.groupby(plan, key=lambda r: r.stage)
  return [next(rounds).arms for _, rounds in stages] or [1]


def _enter(planner, subset, key, num_arms: int, budget: int) -> jax.Array:
  if num_arms < 1:
    raise ValueError(f'num_arms must be >= 1, got {num_arms}.')
  sizes = _stage_sizes(planner(subset(num_arms, budget), budget))
  if num_arms == envs.UNBOUNDED:
    return jnp.arange(sum(sizes), dtype=jnp.int32)
  order_key, _ = plans.run_keys(key)

  def stage_arms(stage):
    return _stage_arms(order_key, stage, num_arms, max(sizes))

  # One stage after the other: an order of a large pool takes memory.
  arms = jax.lax.map(stage_arms, jnp.arange(len(sizes)))
  return jnp.concatenate(
    [row[:size] for row, size in zip(arms, sizes, strict=True)]
  )


def _play(
  planner, pooled, key, reward_key, env, num_arms, budget, checkpoints
) -> RunResult:
  # A subset's arms are all in `env`; an endless plan has no more stages than
  # entered, each of them no larger than `env`.
  size = min(num_arms, env.num_arms)
  course = elimination_engine.Course(planner(size, budget), size, checkpoints)
  return elimination_engine.play_courses(
    [course], key, reward_key, env, pooled=pooled
  )


def _play_told(
  planner, subset, pooled, key, reward_key, env, num_arms, budget, checkpoints
) -> RunResult:
  del budget
  courses = []
  for point in checkpoints:
    size = subset(num_arms, point)
    plan = planner(size, point)
    courses.append(elimination_engine.Course(plan, size, (point,)))
  return elimination_engine.play_courses(
    courses, key, reward_key, env, pooled=pooled
  )
