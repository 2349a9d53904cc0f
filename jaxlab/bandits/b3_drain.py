"""The drain that ends a pass of Box Thirding: which arm is its champion.

When all arms have entered and no box is full, the waiting arms of the lowest
level are halved, the better half is lifted, and so on until one is left. The
sizes and costs do not depend on the rewards.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import b3, envs, schedule
from jaxlab.bandits import b3_levels as levels


class DrainStep(NamedTuple):
  """One level of the drain.

  Attributes:
    level: the level that is emptied.
    candidates: how many arms wait there.
    kept: how many are lifted: the better half.
    cost: pulls of each lift.
  """

  level: int
  candidates: int
  kept: int
  cost: int


class Drained(NamedTuple):
  """The arms that one step of the drain keeps, best first.

  Attributes:
    kept: their totals at the level that is emptied.
    lifted: their totals at the level above.
  """

  kept: levels.Arms
  lifted: levels.Arms


@functools.lru_cache(maxsize=64)
def drain_steps(plan: schedule.Schedule) -> tuple[DrainStep, ...]:
  """The drain of pass 1: sizes and costs, level by level."""
  waiting = np.zeros(plan.num_levels, np.int64)
  for (level, _), count in plan.waiting.items():
    waiting[level] += count
  quotas = drain_quotas(plan)
  steps: list[DrainStep] = []
  carried, level = 0, int(np.argmax(waiting > 0))
  while True:
    here = int(waiting[level]) if level < plan.num_levels else 0
    above = int(waiting[level + 1 :].sum())
    count = here + carried
    if count + above <= 1:
      return tuple(steps)
    kept = (count + 1) // 2 if count >= 2 else count
    price = int(quotas[level + 1] - (quotas[level] if plan.reuse else 0))
    steps.append(DrainStep(level, count, kept, price))
    carried, level = kept, level + 1


def drain_quotas(plan: schedule.Schedule) -> np.ndarray:
  """Quotas of the levels that the drain may reach."""
  return schedule.quotas(plan.t0, plan.growth, plan.num_levels + 64)


def drain(
  key: jax.Array,
  reward_key: jax.Array,
  env: envs.Environment,
  played: levels.PassOne,
  plan: schedule.Schedule,
  steps: Sequence[DrainStep],
) -> list[Drained]:
  """Lifts the better half of the lowest level until one arm is left.

  Returns:
    For each step the kept arms, before and after their lift.
  """
  quotas = drain_quotas(plan)
  lifted: list[levels.Arms] = []
  result = []
  deep = dataclasses.replace(plan, quotas=quotas)
  for step in steps:
    boxes = waiting_at(played, plan, step.level)
    pool = levels.concatenate([*boxes, *lifted])
    priority = b3.drain_priorities(key, 0, step.level, pool.entry)
    means = pool.total / int(quotas[step.level])
    best_first = jnp.lexsort((~priority, -means))[: step.kept]
    kept = jax.tree.map(lambda x: x[best_first], pool)  # noqa: B023
    risen = levels.pull(reward_key, env, deep, step.level + 1, kept)
    result.append(Drained(kept, risen))
    lifted = [risen]
  return result


def champion(key, reward_key, env, played, plan) -> jax.Array | None:
  """The arm left by the drain; None if the budget ends before."""
  if plan.next_unaffordable is not None:
    return None
  steps = drain_steps(plan)
  price = sum(step.cost * step.kept for step in steps)
  if price > plan.budget - plan.complete_cost:
    return None
  if not steps:
    return jnp.zeros((), jnp.int32)
  return drain(key, reward_key, env, played, plan, steps)[-1].kept.entry[0]


class Progress(NamedTuple):
  """How far the drain has come at a checkpoint.

  Attributes:
    step: the step that is under way, or the last one.
    lifts: how many of its arms have been lifted.
    done: operations so far, of pass 1 and of the drain.
    cost: pulls of the drain so far.
    finished: whether one arm is left.
  """

  step: int
  lifts: int
  done: int
  cost: int
  finished: bool


def progress(
  plan: schedule.Schedule,
  steps: Sequence[DrainStep],
  checkpoints: Sequence[int],
) -> list[Progress | None]:
  """Locates checkpoints in the drain; None for those within pass 1."""
  complete = plan.next_unaffordable is None and len(steps) > 0
  result: list[Progress | None] = []
  for point in checkpoints:
    rest = point - plan.complete_cost
    if not complete or rest < 0:
      result.append(None)
      continue
    done, cost, step, lifts = len(plan.ops), 0, 0, 0
    for step, this in enumerate(steps):  # noqa: B007
      lifts = min(this.kept, (rest - cost) // this.cost)
      done, cost = done + lifts, cost + lifts * this.cost
      if lifts < this.kept:
        break
    finished = lifts == steps[step].kept and step == len(steps) - 1
    result.append(Progress(step, lifts, done, cost, finished))
  return result


def candidates(
  played: levels.PassOne,
  pools: Sequence[Drained],
  plan: schedule.Schedule,
  steps: Sequence[DrainStep],
  at: Progress,
) -> levels.Candidates:
  """The arms at the highest level that holds one, during the drain."""
  quotas = drain_quotas(plan)
  level = steps[at.step].level
  above = [box[0] for box in plan.waiting if box[0] > level]
  top = max([level + 1 if at.lifts else level, *above])
  if top == level:
    arms = pools[at.step].kept
  else:
    parts = waiting_at(played, plan, top)
    if at.lifts and top == level + 1:
      lifted = pools[at.step].lifted
      parts.append(jax.tree.map(lambda x: x[: at.lifts], lifted))
    arms = levels.concatenate(parts)
  counts = np.full(arms.entry.shape[0], quotas[top])
  return levels.Candidates(at.done, top, arms, counts)


def waiting_at(
  played: levels.PassOne, plan: schedule.Schedule, level: int
) -> list[levels.Arms]:
  """The arms that wait in the boxes of a level when pass 1 is over."""
  return [
    played.arrivals(box, rows)
    for box, rows in levels.waiting_places(plan, len(plan.ops)).items()
    if box[0] == level
  ]
