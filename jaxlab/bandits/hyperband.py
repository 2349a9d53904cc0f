"""Hyperband with an endless horizon.

Reference: Li et al., "Hyperband: A Novel Bandit-Based Approach to
Hyperparameter Optimization", JMLR 18, 2018.
"""

import functools
import itertools
from collections.abc import Iterator
from typing import NamedTuple

from jaxlab.bandits import elimination
from jaxlab.bandits import elimination_plan as plans
from jaxlab.bandits.types import Algorithm


class HyperbandPlan(NamedTuple):
  """The brackets of Hyperband, s = s_max .. 0.

  Attributes:
    brackets: of each bracket the rounds, each a number of arms and the pulls
      of each.
  """

  brackets: tuple[tuple[tuple[int, int], ...], ...]


def hyperband_plan(eta: int, max_resource: int) -> HyperbandPlan:
  """Returns the brackets for R = `max_resource` pulls of an arm.

  With s_max = floor(log_eta R), bracket s starts with
  n = ceil((s_max + 1) / (s + 1) eta^s) arms; its round i pulls each of
  floor(n / eta^i) arms floor(R eta^(i - s)) times, which is exact where R is a
  power of eta.

  Args:
    eta: one of eta arms is kept; an integer >= 2.
    max_resource: R >= 1.

  Raises:
    ValueError: on an `eta` or a `max_resource` out of range.
  """
  if eta != int(eta) or eta < 2:
    raise ValueError(f'eta must be an integer >= 2, got {eta}.')
  plans.check_positive('max_resource', max_resource)
  s_max = 0
  while eta ** (s_max + 1) <= max_resource:
    s_max += 1

  def bracket(s: int) -> tuple[tuple[int, int], ...]:
    n = -(-(s_max + 1) * eta**s // (s + 1))
    return tuple(
      (n // eta**i, max_resource * eta**i // eta**s) for i in range(s + 1)
    )

  return HyperbandPlan(tuple(bracket(s) for s in range(s_max, -1, -1)))


@functools.lru_cache(maxsize=None, typed=True)
def hyperband(eta: int = 3, max_resource: int = 81) -> Algorithm:
  """Hyperband for an unknown budget.

  The brackets for R pulls are followed by those for `eta R`, `eta^2 R` and so
  on. Each bracket takes fresh random arms and ranks by the pulls of the round;
  where the pool has fewer arms than a round asks for, it takes all. From the
  finished rounds with the most pulls an arm, the largest mean is recommended;
  within the first round of all, the largest so far.

  Args:
    eta: one of eta arms is kept; an integer >= 2.
    max_resource: R of the first brackets, at least `eta`.

  Raises:
    ValueError: on an `eta` or a `max_resource` out of range.
  """
  hyperband_plan(eta, max_resource)
  if max_resource < eta:
    raise ValueError(
      f'max_resource must be >= eta = {eta}, got {max_resource}.'
    )

  def planner(num_arms: int, budget: int) -> plans.Plan:
    return _plan(num_arms, budget, eta, max_resource)

  return elimination.elimination(planner)


@functools.lru_cache(maxsize=None, typed=True)
def _plan(
  num_arms: int, budget: int, eta: int, max_resource: int
) -> plans.Plan:
  if num_arms == 1:
    return ()
  stages = _stages(num_arms, eta, max_resource)
  return plans.started_rounds(stages, budget)


def _stages(num_arms: int, eta: int, max_resource: int) -> Iterator[plans.Plan]:
  horizons = (max_resource * eta**k for k in itertools.count())
  brackets = itertools.chain.from_iterable(
    hyperband_plan(eta, horizon).brackets for horizon in horizons
  )
  for stage, rounds in enumerate(brackets):
    capped = [(min(arms, num_arms), pulls) for arms, pulls in rounds]
    resources = [pulls for _, pulls in rounds]
    yield plans.stage_rounds(capped, stage=stage, ranks=resources)
