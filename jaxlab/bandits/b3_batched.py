"""Pass 1 of Box Thirding as a function of a schedule, all of it looked at."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.bandits import b3, b3_drain, envs
from jaxlab.bandits.b3_levels import (
  PassOne,
  entry_arms,
  play_pass_one,
  recommend,
  waiting_candidates,
  waiting_places,
)
from jaxlab.bandits.schedule import Box, Schedule
from jaxlab.bandits.stepping import checked_checkpoints


class B3Result(NamedTuple):
  """Pass 1 of one run of Box Thirding.

  Attributes:
    arms: `[C]` int32 recommended arm after each checkpoint.
    means: `[C]` float: its mean; nan if nothing was pulled yet.
    pulls: `[C]` int32: the pulls behind the mean.
    levels: `[C]` int32: its level.
    waiting: arms `[1..3]` int32 that wait in each box `(level, shift)` when
      pass 1 or the budget ends.
    discarded: int32 arms that were discarded.
    spent: pulls of all completed operations.
    champion: int32: the arm left by the drain of pass 1; -1 if the budget or
      the pool did not get that far.
  """

  arms: jax.Array
  means: jax.Array
  pulls: jax.Array
  levels: jax.Array
  waiting: dict[Box, jax.Array]
  discarded: jax.Array
  spent: jax.Array
  champion: jax.Array


def simulate_b3(
  key: jax.Array,
  env: envs.Environment,
  schedule: Schedule,
  *,
  checkpoints: Sequence[int] | None = None,
  entry_order=None,
) -> B3Result:
  """Runs pass 1 of Box Thirding; jit- and vmappable over `key` and `env`.

  Args:
    key: PRNG key: with the same key `run` of `box_thirding` gives the same
      arms.
    env: environment of N arms.
    schedule: from `b3_schedule`, for the same N.
    checkpoints: budgets at which to recommend, by the rule 'top'; the budget
      of the schedule if not given.
    entry_order: `[N]` int32: replaces the random order of entry.

  Raises:
    ValueError: if the schedule is for another number of arms or a checkpoint
      is above its budget.
  """
  if schedule.num_arms != env.num_arms:
    raise ValueError(
      f'schedule is for num_arms = {schedule.num_arms}, env has '
      f'{env.num_arms} arms.'
    )
  points = checked_checkpoints(schedule.budget, checkpoints)
  algorithm_key, reward_key = jax.random.split(key)
  order_key, keys = b3.algorithm_keys(algorithm_key)
  if entry_order is None:
    entry_order = entry_arms(order_key, env.num_arms, max(schedule.entered, 1))
  # Before the first entry a random arm is recommended: the first to come.
  order = jnp.asarray(entry_order, jnp.int32)[: max(schedule.entered, 1)]
  entered = env.take(order)
  played = play_pass_one(keys, reward_key, entered, schedule)
  candidates = [
    waiting_candidates(played, schedule, point, rule='top') for point in points
  ]
  best = recommend(keys[1], candidates, rule='top', sigma=0.0)
  left = b3_drain.champion(keys[1], reward_key, entered, played, schedule)
  waiting, discarded = _leftovers(played, schedule)
  return B3Result(
    arms=order[best.arm],
    means=best.mean,
    pulls=best.pulls,
    levels=jnp.asarray([c.level for c in candidates], jnp.int32),
    waiting={box: order[arms] for box, arms in waiting.items()},
    discarded=order[discarded],
    spent=jnp.int32(schedule.complete_cost),
    champion=order[left] if left is not None else jnp.int32(-1),
  )


def _leftovers(played: PassOne, plan: Schedule):
  waiting = {}
  for box, rows in waiting_places(plan, len(plan.ops)).items():
    waiting[box] = played.arrivals(box, rows).entry
  lost = [arms.entry for arms in played.discarded.values()]
  return waiting, jnp.concatenate([*lost, jnp.zeros(0, jnp.int32)])
