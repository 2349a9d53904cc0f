"""Box Thirding by the book: slow, small and obviously right.

Nothing here imports the package under test. `SequentialB3` carries out the box
rules one operation at a time. What the rules leave to chance (which arm enters,
what a pull returns, how a tie falls) it asks of a `Chance`: `Given` answers
with given orders and rewards; `enumeration.Branch` goes through all answers,
so the same code gives exact probabilities.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

Box = tuple[int, int]


class Chance(Protocol):
  """Decides all that the rules leave open."""

  def enter(self, unseen: Sequence[int]) -> int:
    """Which of the unseen arms enters."""

  def pull(self, arm: int, level: int, n: int):
    """The sum of n new rewards of an arm that arrives at a level."""

  def shuffle(self, tied: Sequence[int]) -> Sequence[int]:
    """A uniformly random order of arms with equal means."""


class Given:
  """Given entry orders, one a pass, and rewards; ties keep order or are random.

  `reward(arm, level, n)` returns a sum of n rewards.
  """

  def __init__(
    self,
    entry_orders: Iterable[Sequence[int]],
    reward: Callable[[int, int, int], float],
    rng: np.random.Generator | None = None,
  ):
    self.order = itertools.chain.from_iterable(entry_orders)
    self.pull = reward
    self.rng = rng

  def enter(self, unseen):
    arm = int(next(self.order))
    assert arm in unseen
    return arm

  def shuffle(self, tied):
    return tied if self.rng is None else self.rng.permutation(tied).tolist()


class Operation(NamedTuple):
  """One step: ENTER, PROCESS, or CUT, LIFT and END of the drain."""

  name: str
  level: int
  shift: int
  cost: int
  arms: tuple[int, ...]


def quota(t0: int, growth: float, level: int) -> int:
  """t_l = ceil(t0 r^l), strictly increasing in l."""
  value = math.ceil(t0 * growth**level - 1e-9)
  return max(value, quota(t0, growth, level - 1) + 1) if level else t0


def ranked(arms: Iterable[int], mean: Callable, chance: Chance) -> list[int]:
  """Arms by falling mean, equal ones in random order."""
  ordered = sorted(sorted(arms), key=mean, reverse=True)
  order: list[int] = []
  for _, group in itertools.groupby(ordered, key=mean):
    tied = list(group)
    order.extend(chance.shuffle(tied) if len(tied) > 1 else tied)
  return order


class SequentialB3:
  """The box loop, then the drain, then further passes with doubled t0.

  Equal and hashed by all that the future depends on.
  """

  def __init__(
    self,
    num_arms: int,
    *,
    t0: int,
    growth: float,
    reuse: bool,
    reuse_shift: bool = True,
    max_shifts: int = 16,
    drain: bool = True,
  ):
    self.num_arms = num_arms
    self.t0 = t0
    self.growth = growth
    self.reuse = reuse
    self.reuse_shift = reuse_shift
    self.max_shifts = max_shifts
    self.drain = drain
    self.unseen = tuple(range(num_arms))
    self.boxes: dict[Box, tuple[int, ...]] = {}
    self.total: dict[int, float] = {}
    self.pulls: dict[int, int] = {}
    self.discarded: tuple[int, ...] = ()
    self.spent = 0
    self.draining = False
    self.lifting: tuple[int, ...] = ()
    # The last arm of each pass that has ended, and the quota of its level.
    self.champions: tuple[tuple[int, int], ...] = ()
    self.ops: list[Operation] = []
    self.next: Operation | None = None

  def advance(self, budget: int, chance: Chance) -> 'SequentialB3':
    """Carries out all operations that the budget can pay for."""
    while self.step(budget, chance):
      pass
    return self

  def step(self, budget: int, chance: Chance) -> bool:
    """Carries out one operation; False if none is left or it costs too much."""
    self.next = self.next or self.next_operation(chance)
    if self.next is None or self.spent + self.next.cost > budget:
      return False
    operation, self.next = self.next, None
    self.ops.append(operation)
    getattr(self, operation.name.lower())(operation, chance)
    return True

  def next_operation(self, chance: Chance) -> Operation | None:
    """The next operation; None where the run ends whatever the budget."""
    if self.num_arms == 1:
      return None
    full = [box for box, arms in self.boxes.items() if len(arms) >= 3]
    if full and not self.draining:
      return self.next_process(max(full), chance)
    if self.unseen:
      arm = chance.enter(self.unseen)
      return Operation('ENTER', 0, 0, self.new_pulls(arm, 0), (arm,))
    return self.next_drain(chance) if self.drain else None

  def next_drain(self, chance: Chance) -> Operation:
    if self.lifting:
      level = self.level_of(self.lifting[0])
      cost = self.new_pulls(self.lifting[0], level + 1)
      return Operation('LIFT', level, 0, cost, self.lifting[:1])
    if len(self.waiting) == 1:
      return Operation('END', self.top_level, 0, 0, tuple(self.waiting))
    level = min(level for level, _ in self.boxes)
    order = ranked(self.at_level(level), self.mean, chance)
    return Operation('CUT', level, 0, 0, tuple(order))

  def next_process(self, box: Box, chance: Chance) -> Operation:
    level, shift = box
    if self.repulls(shift):
      gain = self.quota(level + 1) - (self.quota(level) if self.reuse else 0)
      cost = 3 * self.quota(level) + gain
      return Operation('PROCESS', level, shift, cost, self.boxes[box])
    order = ranked(self.boxes[box], self.mean, chance)
    cost = self.new_pulls(order[0], level + 1)
    return Operation('PROCESS', level, shift, cost, tuple(order))

  def enter(self, operation: Operation, chance: Chance) -> None:
    (arm,) = operation.arms
    self.unseen = tuple(a for a in self.unseen if a != arm)
    self.pull(arm, 0, self.new_pulls(arm, 0), chance)
    self.put(arm, (0, 0))

  def process(self, operation: Operation, chance: Chance) -> None:
    level, shift = operation.level, operation.shift
    order: Sequence[int] = operation.arms
    del self.boxes[level, shift]
    if self.repulls(shift):
      for arm in order:
        self.pull(arm, level, self.quota(level), chance, fresh=True)
      order = ranked(order, self.mean, chance)
    best, median, worst = order
    self.pull(best, level + 1, self.new_pulls(best, level + 1), chance)
    self.put(best, (level + 1, 0))
    if shift + 1 < self.max_shifts:
      self.put(median, (level, shift + 1))
    else:
      self.discarded += (median,)
    self.discarded += (worst,)

  def cut(self, operation: Operation, chance: Chance) -> None:
    """Discards the worse half of a level; the better half is to be lifted."""
    del chance
    self.draining = True
    half = math.ceil(len(operation.arms) / 2)
    self.lifting = operation.arms[:half]
    for arm in operation.arms[half:]:
      self.take_out(arm)
      self.discarded += (arm,)

  def lift(self, operation: Operation, chance: Chance) -> None:
    (arm,) = operation.arms
    level = operation.level + 1
    self.lifting = self.lifting[1:]
    self.take_out(arm)
    self.pull(arm, level, operation.cost, chance)
    self.put(arm, (level, 0))

  def end(self, operation: Operation, chance: Chance) -> None:
    """Ends the pass with its champion and begins the next."""
    del chance
    (arm,) = operation.arms
    self.champions += ((arm, self.quota(operation.level)),)
    self.t0 *= 2
    self.draining = False
    self.boxes = {}
    self.unseen = tuple(range(self.num_arms))
    self.discarded = ()

  def recommend(self, chance: Chance) -> int:
    """The best mean of the top level, in the pass with the highest top."""
    finished = max(self.champions, key=lambda c: c[1], default=None)
    if self.num_arms == 1:
      return 0
    if not self.boxes:
      return finished[0] if finished else chance.enter(self.unseen)
    # An arm that has merely entered the next pass has won nothing yet.
    unproven = self.top_level < 1
    if finished and (unproven or finished[1] >= self.quota(self.top_level)):
      return finished[0]
    return ranked(self.at_level(self.top_level), self.mean, chance)[0]

  def mean(self, arm: int):
    return self.total[arm] / self.pulls[arm]

  def quota(self, level: int) -> int:
    return quota(self.t0, self.growth, level)

  @property
  def waiting(self) -> list[int]:
    return [arm for arms in self.boxes.values() for arm in arms]

  @property
  def top_level(self) -> int:
    return max(level for level, _ in self.boxes)

  def at_level(self, level: int) -> list[int]:
    return [
      arm for box, arms in self.boxes.items() if box[0] == level for arm in arms
    ]

  def level_of(self, arm: int) -> int:
    return next(box[0] for box, arms in self.boxes.items() if arm in arms)

  def repulls(self, shift: int) -> bool:
    """Whether the arms of a full box are pulled afresh before ranking."""
    return shift >= 1 and not self.reuse_shift

  def new_pulls(self, arm: int, level: int) -> int:
    held = self.pulls.get(arm, 0) if self.reuse else 0
    return max(0, self.quota(level) - held)

  def pull(self, arm, level, n, chance, fresh=False) -> None:
    if n > 0:
      total = chance.pull(arm, level, n)
      kept = self.reuse and not fresh and arm in self.pulls
      self.total[arm] = total + (self.total[arm] if kept else 0)
      self.pulls[arm] = n + (self.pulls[arm] if kept else 0)
      self.spent += n

  def put(self, arm: int, box: Box) -> None:
    self.boxes[box] = (*self.boxes.get(box, ()), arm)

  def take_out(self, arm: int) -> None:
    left = {b: tuple(a for a in v if a != arm) for b, v in self.boxes.items()}
    self.boxes = {box: arms for box, arms in left.items() if arms}

  def clone(self) -> 'SequentialB3':
    twin = object.__new__(SequentialB3)
    twin.__dict__ = {
      name: value.copy() if isinstance(value, dict | list) else value
      for name, value in self.__dict__.items()
    }
    return twin

  def key(self) -> tuple:
    boxes = sorted(
      (box, tuple(sorted(arms))) for box, arms in self.boxes.items()
    )
    return (
      *(self.t0, self.spent, self.unseen, self.draining, self.lifting),
      *(self.champions, tuple(boxes)),
      *(tuple(sorted(each.items())) for each in (self.total, self.pulls)),
    )

  def __hash__(self) -> int:
    return hash(self.key())

  def __eq__(self, other) -> bool:
    return self.key() == other.key()


def numpy_b3(
  rng: np.random.Generator,
  mu: Sequence[float],
  sigma: float,
  budget: int,
  t0: int,
  growth: float,
) -> int:
  """One run on normal arms, as fast as sequential Python does it.

  The peer of the benchmarks: old pulls are reused, equal means do not occur,
  random numbers are drawn in blocks. It stops when the pool is empty.

  Returns:
    The recommended arm.
  """
  quotas = [quota(t0, growth, level) for level in range(32)]
  news = [t0, *(high - low for low, high in itertools.pairwise(quotas))]
  noises = [sigma * math.sqrt(n) for n in news]
  normals = _normals(rng)
  order = rng.permutation(len(mu)).tolist()
  mu = np.asarray(mu).tolist()
  boxes: defaultdict[Box, list[tuple[float, int]]] = defaultdict(list)
  left = budget
  for arm in order:
    if left < t0:
      break
    left -= t0
    entered = boxes[0, 0]
    entered.append((mu[arm] + noises[0] / t0 * next(normals), arm))
    # Full boxes, the deepest last.
    full = [(0, 0)] if len(entered) == 3 else []
    while full and news[full[-1][0] + 1] <= left:
      level, shift = full.pop()
      up = level + 1
      left -= news[up]
      _, median, (mean, best) = sorted(boxes.pop((level, shift)))
      total = mean * quotas[level] + mu[best] * news[up]
      total += noises[up] * next(normals)
      shifted, lifted = boxes[level, shift + 1], boxes[up, 0]
      shifted.append(median)
      lifted.append((total / quotas[up], best))
      if len(shifted) == 3:
        full.append((level, shift + 1))
      if len(lifted) == 3:
        full.append((up, 0))
    if full:
      break
  top = max((level for level, _ in boxes), default=None)
  candidates = (arms for (level, _), arms in boxes.items() if level == top)
  return max(itertools.chain.from_iterable(candidates), default=(0, order[0]))[
    1
  ]


def _normals(rng: np.random.Generator):
  while True:
    yield from rng.standard_normal(4096).tolist()
