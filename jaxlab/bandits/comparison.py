"""Methods side by side: the field of rivals, and their regrets on one pool.

A rival that has settings of its own is run with several of them, and its best
one counts at each budget, chosen after the fact: the comparison errs in favour
of the rivals.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from jaxlab import stats
from jaxlab.bandits import envs, halving, metrics, rejects, schedule
from jaxlab.bandits.box_thirding import box_thirding
from jaxlab.bandits.brackets import bracketing_sh, bracketing_ucb
from jaxlab.bandits.hyperband import hyperband
from jaxlab.bandits.simulate import simulate
from jaxlab.bandits.subset import on_subset
from jaxlab.bandits.thompson import top_two_thompson
from jaxlab.bandits.types import Algorithm
from jaxlab.bandits.ucb import lucb, ucb_e
from jaxlab.bandits.uniform import uniform

_BOUND_FACTORS = (1.0, 0.3)

# (name of the unit, what computes it) -> its arrays; may be a cache.
Cached = Callable[
  [str, Callable[[], Mapping[str, np.ndarray]]], Mapping[str, np.ndarray]
]


class Contender(NamedTuple):
  """A method with all the settings that it may choose from.

  Attributes:
    name: what people call it.
    variants: setting -> (budget -> algorithm).
    is_anytime: whether one run gives its recommendations at all budgets.
    max_budget: above it the method is left out, because it would take too
      long: its regrets are nan there.
  """

  name: str
  variants: Mapping[str, Callable[[int], Algorithm]]
  is_anytime: bool
  max_budget: int = 2**31 - 1


class Comparison(NamedTuple):
  """Simple regrets of all methods, replication by replication.

  Attributes:
    budgets: `[C]` numbers of pulls.
    regrets: name -> `[R, C]`, the best variant at each budget; nan where the
      method was not run.
    variants: (name, variant) -> `[R, C]`.
  """

  budgets: np.ndarray
  regrets: dict[str, np.ndarray]
  variants: dict[tuple[str, str], np.ndarray]


def always(algorithm: Algorithm) -> Callable[[int], Algorithm]:
  """An algorithm that does not know the budget."""
  return lambda _: algorithm


def b3(name: str = 'B3', **settings) -> Contender:
  """Box Thirding with the given settings."""
  algorithm = box_thirding(**settings)
  return Contender(name, {'': always(algorithm)}, True)


def halving_rivals() -> list[Contender]:
  """Uniform allocation and the methods that halve."""
  return [
    Contender('Uniform', {'': uniform}, False),
    Contender('SH (knows T)', {'': halving.sh_subset}, False),
    Contender('Doubling SH', {'': always(halving.doubling_sh())}, True),
    Contender('Hyperband', {'': always(hyperband())}, True),
  ]


def bracket_rivals(sigma: float, max_budget: int) -> list[Contender]:
  """BSH and BUCB with both output rules and two factors of their bounds.

  Args:
    sigma: sub-Gaussian scale of the rewards, which they are told.
    max_budget: BUCB, whose cost a pull grows with the bracket, is left out
      above it.
  """

  def variants(build) -> dict[str, Callable[[int], Algorithm]]:
    return {
      f'{output}, c={c}': always(build(c=c, sigma=sigma, output=output))
      for output in ('lcb', 'mean')
      for c in (
        _BOUND_FACTORS if output == 'lcb' or build is bracketing_ucb else (1.0,)
      )
    }

  return [
    Contender('BSH', variants(bracketing_sh), True),
    Contender('BUCB', variants(bracketing_ucb), True, max_budget),
  ]


def index_rivals(
  sigma: float, complexity: float, num_arms: int, max_budget: int
) -> list[Contender]:
  """Methods that choose each pull, on as many random arms as SH would take.

  Args:
    sigma: sub-Gaussian scale of the rewards, which they are told.
    complexity: H1 of the whole pool, which UCB-E is told; a subset is given
      its share.
    num_arms: N.
    max_budget: they are left out above it.
  """

  def size(budget: int) -> int:
    return min(num_arms, halving.largest_subset(budget))

  def informed(budget: int) -> Algorithm:
    part = max(complexity * size(budget) / num_arms, 1.0)
    return ucb_e(budget=budget, complexity=part)

  builders: dict[str, Callable[[int], Algorithm]] = {
    'UCB-E (knows T, H1)': informed,
    'LUCB': lambda _: lucb(sigma=max(sigma, 1e-3)),
    'T3C': lambda _: top_two_thompson(sigma=max(sigma, 1e-3)),
  }
  rivals = [
    Contender(
      name,
      {'': lambda t, build=build: on_subset(build(t), size(t))},
      False,
      max_budget,
    )
    for name, build in builders.items()
  ]
  rejecting = lambda t: rejects.successive_rejects(t, subset=size(t))  # noqa: E731
  return [
    *rivals,
    Contender('Successive Rejects', {'': rejecting}, False, max_budget),
  ]


def complexity_h1(mu: np.ndarray) -> float:
  """H1: the sum of 1/gap^2; the best arm counts with the smallest gap.

  Args:
    mu: `[N]` true means; gaps below 1e-3 count as 1e-3.
  """
  gaps = np.maximum(np.max(mu) - np.sort(mu)[::-1], 1e-3)
  gaps[0] = gaps[1] if len(gaps) > 1 else 1.0
  return float(np.sum(gaps**-2.0))


def compare(
  key: jax.Array,
  contenders: Sequence[Contender],
  env: envs.Environment,
  *,
  budgets: Sequence[int],
  replications: int,
  cached: Cached = lambda _, compute: compute(),
  progress: Callable[[int], None] = lambda _: None,
) -> Comparison:
  """Runs all methods on the same replications (the same keys).

  Args:
    key: PRNG key.
    contenders: the methods.
    env: the pool of arms.
    budgets: increasing.
    replications: R.
    cached: keeps finished units of work; called with a name and a function.
    progress: called with the number of finished units.
  """
  budgets = [int(b) for b in budgets]
  regrets, variants, finished = {}, {}, 0
  for contender in contenders:
    for variant, build in contender.variants.items():
      name = ' '.join(filter(None, (contender.name, variant)))

      def compute(contender=contender, build=build):
        found = _regrets(key, contender, build, env, budgets, replications)
        return {'regrets': found}

      found = np.asarray(cached(name, compute)['regrets'])
      variants[contender.name, variant] = found
      finished += 1
      progress(finished)
    mine = np.stack(
      [
        values
        for (name, _), values in variants.items()
        if name == contender.name
      ]
    )
    best = np.argmin(mine.mean(1), 0)
    columns = np.arange(len(budgets))
    regrets[contender.name] = mine[best, :, columns].T
  return Comparison(np.asarray(budgets), regrets, variants)


def _regrets(key, contender, build, env, budgets, replications) -> np.ndarray:
  """`[R, C]` regrets of one variant; nan above its largest budget."""
  result = np.full((replications, len(budgets)), np.nan)
  within = [b for b in budgets if b <= contender.max_budget]
  runs = [within] if contender.is_anytime and within else [[b] for b in within]
  done = 0
  for points in runs:
    found = simulate(
      key,
      build(points[-1]),
      env,
      budget=points[-1],
      replications=replications,
      checkpoints=points,
    )
    regret = metrics.simple_regret(found.true_means, found.best_mean)
    result[:, done : done + len(points)] = np.asarray(regret)
    done += len(points)
  return result


def num_units(contenders: Sequence[Contender]) -> int:
  """How many units of work `compare` has."""
  return sum(len(contender.variants) for contender in contenders)


def curves(values: Mapping[str, np.ndarray], level: float = 0.95) -> dict:
  """Mean and t interval over replications: name -> (mean, low, high) `[C]`."""
  result = {}
  for name, array in values.items():
    interval = stats.mean_interval(array, axis=0, level=level)
    low, high = (np.asarray(end) for end in interval)
    result[name] = (array.mean(0), low, high)
  return result


def entered_arms(budget: int, num_arms: int, **settings) -> int:
  """The number of arms c0 that Box Thirding takes in within a budget."""
  return schedule.b3_schedule(budget, num_arms, **settings).entered
