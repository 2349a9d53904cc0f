"""Successive Rejects.

Reference: Audibert, Bubeck and Munos, "Best Arm Identification in Multi-Armed
Bandits", COLT 2010.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

from jaxlab.bandits import elimination
from jaxlab.bandits import elimination_plan as plans
from jaxlab.bandits.types import Algorithm


class RejectsPlan(NamedTuple):
  """The K - 1 phases of Successive Rejects on K arms.

  Attributes:
    n_k: pulls of each arm that is left, by the end of each phase.
    new_pulls_per_phase: those of the phase itself.
    total: all pulls, at most the budget.
  """

  n_k: tuple[int, ...]
  new_pulls_per_phase: tuple[int, ...]
  total: int


@functools.lru_cache(maxsize=None, typed=True)
def successive_rejects_plan(num_arms: int, budget: int) -> RejectsPlan:
  """Returns K - 1 phases, after each of which the worst arm drops out.

  n_k = ceil((T - K) / (logbar(K) (K + 1 - k))), with
  logbar(K) = 1/2 + sum_{i=2..K} 1/i, in exact integers.

  Args:
    num_arms: K.
    budget: T, number of single pulls.

  Raises:
    ValueError: if the budget does not exceed the number of arms.
  """
  plans.check_positive('num_arms', num_arms)
  plans.check_positive('budget', budget)
  if num_arms == 1:
    return RejectsPlan((), (), 0)
  if budget <= num_arms:
    raise ValueError(
      f'budget must be > num_arms = {num_arms}, got {budget}; raise it or take '
      "part of the arms with subset='fit'."
    )
  # logbar is scale_log / scale.
  scale = math.lcm(*range(2, num_arms + 1))
  scale_log = scale // 2 + sum(scale // i for i in range(2, num_arms + 1))
  left = range(num_arms, 1, -1)
  n_k = tuple(-(-(budget - num_arms) * scale // (scale_log * n)) for n in left)
  new = tuple(b - a for a, b in zip((0, *n_k), n_k, strict=False))
  total = sum(n * pulls for n, pulls in zip(left, new, strict=True))
  return RejectsPlan(n_k, new, total)


@functools.lru_cache(maxsize=None, typed=True)
def successive_rejects(
  budget: int | None,
  *,
  subset: int | float | str | Callable[[int], int] | None = None,
) -> Algorithm:
  """Successive Rejects with a known budget.

  Ranks by all pulls of an arm. Recommends the leader of the last finished
  phase; within the first phase the largest mean so far.

  Args:
    budget: number of single pulls that the plan is made for. A run that stops
      earlier has carried out the beginning of the plan. None, in simulations:
      each checkpoint is the budget of a separate run of the same replication.
    subset: all arms take part by default; 'fit' takes as many random arms as
      can be pulled once (`budget - 1`), an int so many, a float this share, a
      function as many as it returns for the budget.

  Raises:
    ValueError: here for a bad setting; when a run starts, if the subset does
      not fit the pool or the budget does not exceed its number of arms.
  """
  if budget is not None:
    plans.check_positive('budget', budget)
  plans.check_told(budget, subset)

  def planner(num_arms: int, told: int) -> plans.Plan:
    plan = successive_rejects_plan(num_arms, budget or told)
    left = range(num_arms, 1, -1)
    phases = zip(left, plan.new_pulls_per_phase, strict=True)
    # A phase without new pulls drops its arm along with the phase before.
    return plans.stage_rounds([p for p in phases if p[1]], pooled=True)

  def size(num_arms: int, told: int) -> int:
    if callable(subset):
      return plans.subset_size('fit', subset(budget or told), num_arms)
    return plans.subset_size(subset, max(1, (budget or told) - 1), num_arms)

  return elimination.elimination(
    planner, subset=size, pooled=True, is_told=budget is None
  )
