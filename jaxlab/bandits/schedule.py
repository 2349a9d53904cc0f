"""The operations of Box Thirding: fixed by the budget, not by the rewards.

Every PROCESS lifts one arm, shifts one and discards one, so which box fills
when, and what each operation costs, is known before the first pull. The
schedule is computed once on the host, in exact integers.

Reference: Hwang and Park, "Box Thirding: Anytime Best Arm Identification under
Insufficient Sampling", arXiv 2602.18186.
"""

import dataclasses
import functools
import heapq
import math
from collections import Counter, defaultdict
from typing import NamedTuple

import numpy as np
import scipy.optimize

# The stationary point of the error exponent: 4 - r - r^1.5 = 0.
R_STAR = 1.7281632013323833
ENTER, PROCESS = 0, 1
OPERATION_NAMES = ('ENTER', 'PROCESS')
MAX_SHIFTS = 16
_MAX_PULLS = 2**31 - 1

Box = tuple[int, int]


class Operation(NamedTuple):
  """An operation by name, the box it empties or fills, and its pulls."""

  name: str
  level: int
  shift: int
  cost: int


@dataclasses.dataclass(frozen=True, eq=False)
class Schedule:
  """Pass 1 of Box Thirding, up to the budget or to the end of the pool.

  Compared and hashed by identity: `b3_schedule` returns the same object for
  the same settings, so it can be a static argument of a compiled program.

  Attributes:
    budget: T, single pulls.
    num_arms: N.
    t0: pulls of an arm that enters.
    growth: r; an arm at level l has `quotas[l]` ~ t0 r^l pulls.
    reuse: whether a lifted arm keeps its old pulls.
    reuse_shift: whether a shifted arm keeps its mean.
    max_shifts: shifts 0 .. max_shifts - 1 exist at a level; the median of the
      last one is discarded.
    ops: `[n, 3]` int32: kind (`ENTER` or `PROCESS`), level, shift.
    cost: `[n]` int64 pulls of each operation.
    quotas: `[L+1]` int64, L being the number of levels reached.
    waiting: number of arms in each non-empty box `(level, shift)`.
    next_unaffordable: the operation that no longer fits; None if the pool is
      empty and no box is full.
  """

  budget: int
  num_arms: int
  t0: int
  growth: float
  reuse: bool
  reuse_shift: bool
  max_shifts: int
  ops: np.ndarray
  cost: np.ndarray
  quotas: np.ndarray
  waiting: dict[Box, int]
  next_unaffordable: Operation | None

  @property
  def complete_cost(self) -> int:
    """The pulls of all operations."""
    return int(self.cost.sum())

  @property
  def entered(self) -> int:
    """The number of arms that have entered, c0."""
    return int(np.sum(self.ops[:, 0] == ENTER))

  @property
  def num_process(self) -> int:
    """The number of PROCESS operations: as many lifts, shifts, discards."""
    return len(self.ops) - self.entered

  @property
  def num_levels(self) -> int:
    """The number of levels that an arm has reached."""
    return len(self.quotas) - 1

  def new_pulls(self, level: int) -> int:
    """The pulls that an arm makes on arriving at `level`."""
    if self.reuse and level > 0:
      return int(self.quotas[level] - self.quotas[level - 1])
    return int(self.quotas[level])

  def pulls_before(self, level: int) -> int:
    """The pulls an arm has made before it arrives at `level`."""
    return sum(self.new_pulls(below) for below in range(level))

  def num_done(self, budget: int) -> int:
    """How many operations are complete after `budget` pulls."""
    return int(np.searchsorted(np.cumsum(self.cost), budget, side='right'))

  def num_emptied(self, done: int) -> dict[Box, int]:
    """How often each box was emptied in the first `done` operations."""
    first = done - int(np.sum(self.ops[:done, 0] == ENTER))
    return {
      box: count
      for box, numbers in self.process_numbers.items()
      if (count := int(np.searchsorted(numbers, first)))
    }

  @functools.cached_property
  def process_numbers(self) -> dict[Box, np.ndarray]:
    """For each box, which PROCESS operations (counted from 0) emptied it."""
    processes = self.ops[self.ops[:, 0] == PROCESS]
    numbers: dict[Box, list[int]] = defaultdict(list)
    for number, (_, level, shift) in enumerate(processes.tolist()):
      numbers[level, shift].append(number)
    return {box: np.asarray(found) for box, found in numbers.items()}


def quotas(t0: int, growth: float, num_levels: int) -> np.ndarray:
  """Pulls of an arm at each level: `ceil(t0 growth^l)`, strictly increasing.

  Args:
    t0: pulls at level 0, an integer >= 1.
    growth: r in (1, 2).
    num_levels: L.

  Returns:
    `[L]` int64, cut off at 2^31 - 1.
  """
  _check_growth(t0, growth)
  result: list[int] = []
  for level in range(num_levels):
    least = result[-1] + 1 if result else t0
    exact = t0 * growth**level
    # 2 * 1.5 must give 3 whatever the rounding of the product.
    pulls = math.ceil(exact - 1e-9) if exact < _MAX_PULLS else _MAX_PULLS
    result.append(min(max(pulls, least), _MAX_PULLS))
  return np.asarray(result, np.int64)


def b3_schedule(
  budget: int,
  num_arms: int,
  *,
  t0: int = 2,
  growth: float = R_STAR,
  reuse: bool = True,
  reuse_shift: bool = True,
  max_shifts: int = MAX_SHIFTS,
) -> Schedule:
  """Computes pass 1 of Box Thirding, without the drain that may follow it.

  Args:
    budget: T >= 1, the number of single pulls.
    num_arms: N >= 1.
    t0: pulls of an arm that enters.
    growth: r in (1, 2).
    reuse: a lifted arm keeps its old pulls; otherwise it is pulled afresh.
    reuse_shift: a shifted arm keeps its mean; otherwise the three arms of a
      box of shifted arms are pulled afresh when it fills.
    max_shifts: boxes per level; the median of the last one is discarded.

  Raises:
    ValueError: naming the argument that is out of range.
  """
  _check_growth(t0, growth)
  for name, value in [('budget', budget), ('num_arms', num_arms)]:
    if value != int(value) or value < 1:
      raise ValueError(f'{name} must be an integer >= 1, got {value}.')
  if budget > _MAX_PULLS:
    raise ValueError(f'budget must be at most 2^31 - 1, got {budget}.')
  if max_shifts < 1:
    raise ValueError(f'max_shifts must be >= 1, got {max_shifts}.')
  return _schedule(
    int(budget),
    int(num_arms),
    int(t0),
    float(growth),
    bool(reuse),
    bool(reuse_shift),
    int(max_shifts),
  )


@functools.lru_cache(maxsize=256)
def _schedule(budget, num_arms, t0, growth, reuse, reuse_shift, max_shifts):
  pulls = quotas(t0, growth, 64)
  boxes: Counter[Box] = Counter()
  full: list[Box] = []  # a heap of negated boxes: the deepest comes first
  ops, cost = [], []
  entered, spent, unaffordable = 0, 0, None

  def put(box: Box) -> None:
    boxes[box] += 1
    if boxes[box] == 3:
      heapq.heappush(full, (-box[0], -box[1]))

  while full or entered < num_arms:
    if full:
      level, shift = -full[0][0], -full[0][1]
      price = int(pulls[level + 1] - (pulls[level] if reuse else 0))
      if shift and not reuse_shift:
        price += 3 * int(pulls[level])
      op = Operation('PROCESS', level, shift, price)
    else:
      op = Operation('ENTER', 0, 0, t0)
    if spent + op.cost > budget:
      unaffordable = op
      break
    spent += op.cost
    cost.append(op.cost)
    if op.name == 'ENTER':
      ops.append((ENTER, 0, 0))
      entered += 1
      put((0, 0))
      continue
    ops.append((PROCESS, op.level, op.shift))
    heapq.heappop(full)
    boxes[op.level, op.shift] = 0
    put((op.level + 1, 0))
    if op.shift + 1 < max_shifts:
      put((op.level, op.shift + 1))
  waiting = {box: count for box, count in sorted(boxes.items()) if count}
  num_levels = 1 + max((level for level, _ in waiting), default=-1)
  return Schedule(
    budget,
    num_arms,
    t0,
    growth,
    reuse,
    reuse_shift,
    max_shifts,
    np.asarray(ops, np.int32).reshape(-1, 3),
    np.asarray(cost, np.int64),
    pulls[: num_levels + 1],
    waiting,
    unaffordable,
  )


def growth_constants() -> dict:
  """Closed forms of the schedule (t0 = 1, r = R_STAR where they depend on r).

  Returns:
    `r_star`: root of 4 - r - r^1.5, the best growth when errors are split over
    levels and over the shifts inside a level; `single_level_r`: 2^(2/3), when
    they are split over levels only; `cost_per_arm_fresh_t0_1` and
    `cost_per_arm_reuse_t0_1`: pulls per entered arm in the limit;
    `promotion_share_infinite_shifts`: share of a level's arms that are lifted;
    `promotion_share_by_max_shifts`: the same with so many boxes per level.
  """
  r_star = scipy.optimize.brentq(lambda r: 4 - r - r**1.5, 1, 2, xtol=1e-15)
  shares = {
    shifts: sum(3.0**-j for j in range(1, shifts + 1))
    for shifts in range(1, MAX_SHIFTS + 1)
  }
  return {
    'r_star': r_star,
    'single_level_r': 2 ** (2 / 3),
    'cost_per_arm_fresh_t0_1': 1 / (1 - r_star / 2),
    'cost_per_arm_reuse_t0_1': 1 + (r_star - 1) / (2 - r_star),
    'promotion_share_infinite_shifts': 0.5,
    'promotion_share_by_max_shifts': shares,
  }


def _check_growth(t0, growth) -> None:
  if not (math.isfinite(t0) and t0 == int(t0) and t0 >= 1):
    raise ValueError(f't0 must be an integer >= 1, got {t0}.')
  if not 1 < growth < 2:
    raise ValueError(f'growth must lie in (1, 2), got {growth}.')
