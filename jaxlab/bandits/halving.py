"""Sequential Halving, on all arms, on a random subset, or in doubling passes.

Reference: Karnin, Koren and Somekh, "Almost Optimal Exploration in Multi-Armed
Bandits", ICML 2013.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from jaxlab.bandits import elimination
from jaxlab.bandits import elimination_plan as plans
from jaxlab.bandits.types import Algorithm

_MAX_ROUNDS = 31


class HalvingPlan(NamedTuple):
  """The rounds of Sequential Halving.

  Attributes:
    rounds: of each round the number of arms and the pulls of each.
    total: all pulls, at most the budget.
  """

  rounds: tuple[tuple[int, int], ...]
  total: int


def num_rounds(num_arms: int) -> int:
  """Returns ceil(log2 num_arms)."""
  return (num_arms - 1).bit_length()


def sequential_halving_plan(num_arms: int, budget: int) -> HalvingPlan:
  """Returns ceil(log2 N) rounds, each with an equal share of the budget.

  A round on n arms gives each floor(budget / (n ceil(log2 N))) pulls and keeps
  the better ceil(n / 2). A single arm needs no round.

  Args:
    num_arms: N.
    budget: number of single pulls.

  Raises:
    ValueError: if the budget does not pay for one pull of each arm in the first
      round.
  """
  plans.check_positive('num_arms', num_arms)
  plans.check_positive('budget', budget)
  length = num_rounds(num_arms)
  needed = num_arms * length
  if budget < needed:
    raise ValueError(
      f'budget must be >= num_arms * ceil(log2 num_arms) = {needed}, got '
      f"{budget}; raise it or take part of the arms with subset='fit'."
    )
  rounds = []
  arms = num_arms
  for _ in range(length):
    rounds.append((arms, budget // (arms * length)))
    arms = (arms + 1) // 2
  return HalvingPlan(tuple(rounds), sum(n * t for n, t in rounds))


def largest_subset(budget: int) -> int:
  """Returns the largest c with c ceil(log2 c) <= budget."""
  sizes = (min(2**i, budget // i) for i in range(1, _MAX_ROUNDS + 1))
  return max(1, *sizes)


@functools.lru_cache(maxsize=None, typed=True)
def sequential_halving(
  budget: int | None,
  *,
  samples: str = 'fresh',
  subset: int | float | str | None = None,
) -> Algorithm:
  """Sequential Halving with a known budget.

  Recommends the leader of the last finished round; within the first round the
  largest mean so far.

  Args:
    budget: number of single pulls that the plan is made for. A run that stops
      earlier has carried out the beginning of the plan. None, in simulations:
      each checkpoint is the budget of a separate run of the same replication.
    samples: 'fresh': a round ranks by its own pulls; 'pooled': by all so far.
    subset: all arms take part by default; 'fit' takes as many random arms as
      the budget allows, an int so many, a float this share of them.

  Raises:
    ValueError: here for a bad setting; when a run starts, if the subset does
      not fit the pool or the budget is below n ceil(log2 n) for its n arms.
  """
  if budget is not None:
    plans.check_positive('budget', budget)
  plans.check_told(budget, subset)
  if samples not in {'fresh', 'pooled'}:
    raise ValueError(f"samples must be 'fresh' or 'pooled', got {samples!r}.")
  pooled = samples == 'pooled'

  def planner(num_arms: int, told: int) -> plans.Plan:
    plan = sequential_halving_plan(num_arms, budget or told)
    return plans.stage_rounds(plan.rounds, pooled=pooled)

  def size(num_arms: int, told: int) -> int:
    return plans.subset_size(subset, largest_subset(budget or told), num_arms)

  return elimination.elimination(
    planner, subset=size, pooled=pooled, is_told=budget is None
  )


def sh_subset(budget: int | None, c0: int | float | str = 'fit') -> Algorithm:
  """Sequential Halving on `c0` random arms, with a known budget.

  Args:
    budget: number of single pulls; None as for `sequential_halving`.
    c0: 'fit' for the largest c with c ceil(log2 c) <= budget (250 arms for
      2000 pulls), a number of arms, or a share of them.
  """
  return sequential_halving(budget, subset=c0)


@functools.lru_cache(maxsize=None, typed=True)
def doubling_sh(first_budget: int = 8) -> Algorithm:
  """Sequential Halving for an unknown budget: passes of doubling budgets.

  Pass k has `2^k first_budget` pulls and takes fresh random arms, as many as
  it can afford. The winner of the last finished pass is recommended; within
  the first pass the leader of its last round.

  Args:
    first_budget: pulls of the first pass, at least 2.
  """
  if first_budget < 2:
    raise ValueError(f'first_budget must be >= 2, got {first_budget}.')

  def planner(num_arms: int, budget: int) -> plans.Plan:
    return doubling_plan(num_arms, budget, first_budget)

  return elimination.elimination(planner)


@functools.lru_cache(maxsize=None, typed=True)
def doubling_plan(num_arms: int, budget: int, first_budget: int) -> plans.Plan:
  """Returns the passes of doubling Sequential Halving that start in a budget.

  Args:
    num_arms: size of the pool; a pass takes all arms if it can afford them.
    budget: number of single pulls.
    first_budget: pulls of the first pass.
  """
  if num_arms == 1:
    return ()
  return plans.started_rounds(_passes(num_arms, first_budget), budget)


def _passes(num_arms: int, first_budget: int) -> Iterator[plans.Plan]:
  for k in itertools.count():
    budget = first_budget * 2**k
    arms = min(num_arms, largest_subset(budget))
    rounds = sequential_halving_plan(arms, budget).rounds
    # Only the winner counts, except in the first pass.
    ranks = [0] * (len(rounds) - 1) + [_MAX_ROUNDS + k]
    if k == 0:
      ranks = list(range(1, len(rounds) + 1))
    yield plans.stage_rounds(rounds, stage=k, ranks=ranks)
