"""Exact distributions of the recommended arm, by going through all chances.

Bernoulli arms, a handful of them, a few dozen pulls: every entry order, every
reward and every way to break a tie is followed, in rational arithmetic. States
that are reached on several ways are merged after each step.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from tests.bandits import reference

Pulls = Callable[[int], int]


class Branch:
  """One way through a step: follows a script of choices, then the first ones.

  Attributes:
    taken: the choices made so far.
    widths: how many there were each time.
    probability: of this way.
  """

  def __init__(self, mu: Sequence[Fraction], script: Sequence[int]):
    self.mu = mu
    self.script = script
    self.taken: list[int] = []
    self.widths: list[int] = []
    self.probability = Fraction(1)

  def choose(self, options: Sequence[tuple[Any, Fraction]]):
    place = len(self.taken)
    choice = self.script[place] if place < len(self.script) else 0
    self.taken.append(choice)
    self.widths.append(len(options))
    option, probability = options[choice]
    self.probability *= probability
    return option

  def one_of(self, options: Sequence):
    return self.choose([(o, Fraction(1, len(options))) for o in options])

  def enter(self, unseen):
    return self.one_of(unseen)

  def shuffle(self, tied):
    return self.one_of(list(itertools.permutations(tied)))

  def pull(self, arm, level, n):
    del level
    return self.choose(binomial(n, self.mu[arm]))


def binomial(n: int, p: Fraction) -> list[tuple[Fraction, Fraction]]:
  """The possible numbers of successes, as fractions, and their chances."""
  weights = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
  return [(Fraction(k), w) for k, w in enumerate(weights) if w > 0]


def outcomes(step: Callable[[Branch], Any], mu: Sequence[Fraction]):
  """Yields all results of a random step with their probabilities."""
  script: list[int] = []
  while True:
    branch = Branch(mu, script)
    yield step(branch), branch.probability
    script = branch.taken
    while script and script[-1] + 1 == branch.widths[len(script) - 1]:
      script.pop()
    if not script:
      return
    script[-1] += 1


def distribution(start, step: Callable, recommend: Callable, mu) -> list:
  """Follows `step(state, chance)` until it returns None everywhere.

  Args:
    start: a hashable state.
    step: returns the next state, or None at the end.
    recommend: `(state, chance) -> arm`.
    mu: `[N]` chances of success.

  Returns:
    `[N]` probability of each recommendation.
  """
  result = [Fraction(0)] * len(mu)
  states = {start: Fraction(1)}
  while states:
    following: defaultdict[Any, Fraction] = defaultdict(Fraction)
    for state, weight in states.items():
      for after, chance in outcomes(lambda c, s=state: step(s, c), mu):
        if after is None:
          for arm, share in outcomes(lambda c, s=state: recommend(s, c), mu):
            result[arm] += weight * chance * share
        else:
          following[after] += weight * chance
    states = following
  return result


def box_thirding(mu, budget: int, **options) -> list[Fraction]:
  """Box Thirding with drain and further passes, stopped after `budget`."""

  def step(machine, chance):
    after = machine.clone()
    return after if after.step(budget, chance) else None

  start = reference.SequentialB3(len(mu), **options)
  return distribution(start, step, reference.SequentialB3.recommend, mu)


class Round(NamedTuple):
  """State of an elimination.

  Attributes:
    phase: phases that have ended.
    place: survivors that were pulled in this phase.
    arms: the survivors.
    record: successes and pulls of each survivor.
  """

  phase: int
  place: int
  arms: tuple[int, ...]
  record: tuple[tuple[Fraction, int], ...]


def elimination(
  mu, arms: Sequence[int], phases: Sequence[tuple[Pulls, int]], pooled: bool
) -> list[Fraction]:
  """Pulls all survivors and keeps the best, phase by phase.

  Args:
    mu: `[N]` chances of success.
    arms: the arms that take part.
    phases: of each phase the new pulls of arm i, and how many arms it keeps;
      the last one keeps one.
    pooled: whether an arm is ranked by all its pulls, or by those of the phase.
  """
  nothing = ((Fraction(0), 0),) * len(arms)

  def step(state: Round, chance) -> Round | None:
    if state.phase == len(phases):
      return None
    new_pulls, keep = phases[state.phase]
    if state.place < len(state.arms):
      n = new_pulls(state.arms[state.place])
      return _pulled(state, n, chance)
    record = dict(zip(state.arms, state.record, strict=True))
    means = {arm: total / max(n, 1) for arm, (total, n) in record.items()}
    order = reference.ranked(state.arms, means.__getitem__, chance)
    kept = tuple(sorted(order[:keep]))
    carried = tuple(record[a] if pooled else (Fraction(0), 0) for a in kept)
    return Round(state.phase + 1, 0, kept, carried)

  start = Round(0, 0, tuple(arms), nothing)
  return distribution(start, step, lambda state, _: state.arms[0], mu)


def _pulled(state: Round, n: int, chance) -> Round:
  record = list(state.record)
  total, pulls = record[state.place]
  total += chance.pull(state.arms[state.place], 0, n)
  record[state.place] = (total, pulls + n)
  return Round(state.phase, state.place + 1, state.arms, tuple(record))


def sequential_halving(
  mu, budget: int, *, samples: str = 'fresh'
) -> list[Fraction]:
  """ceil(log2 n) rounds of floor(T / (|S| ceil(log2 n))) pulls an arm."""
  rounds = math.ceil(math.log2(len(mu)))
  sizes = [len(mu)]
  phases: list[tuple[Pulls, int]] = []
  for _ in range(rounds):
    n = budget // (sizes[-1] * rounds)
    sizes.append(math.ceil(sizes[-1] / 2))
    phases.append((lambda _, n=n: n, sizes[-1]))
  return elimination(mu, range(len(mu)), phases, pooled=samples == 'pooled')


def successive_rejects(mu, budget: int) -> list[Fraction]:
  """K - 1 phases, each drops the worst; n_k = ceil((T-K)/(logbar (K+1-k)))."""
  num = len(mu)
  logbar = Fraction(1, 2) + sum(Fraction(1, i) for i in range(2, num + 1))
  phases: list[tuple[Pulls, int]] = []
  before = 0
  for k in range(1, num):
    n_k = math.ceil((budget - num) / (logbar * (num + 1 - k)))
    phases.append((lambda _, n=n_k - before: n, num - k))
    before = n_k
  return elimination(mu, range(num), phases, pooled=True)


def uniform(mu, budget: int) -> list[Fraction]:
  """Every arm equally often, one pull more for random arms; the best mean."""
  num = len(mu)
  each, extra = divmod(budget, num)
  chosen = list(itertools.combinations(range(num), extra))
  result = [Fraction(0)] * num
  for more in chosen:
    arms = range(num) if each else more
    phase = (lambda arm, more=more: each + (arm in more), 1)
    for arm, share in enumerate(elimination(mu, arms, [phase], pooled=True)):
      result[arm] += share / len(chosen)
  return result
