"""Methods side by side: the field of rivals, and their regrets on one pool.

A rival that has settings of its own is run with several of them, and its best
one counts at each budget, chosen after the fact: the comparison errs in favour
of the rivals.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
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
    algorithm: gives its recommendations at all budgets in one run; one that
      needs a budget is told it at each checkpoint.
    variants: its settings. If there are several, the results of the algorithm
      have a leading axis of them.
    max_budget: above it the method is left out, because it would take too
      long: its regrets are nan there.
  """

  name: str
  algorithm: Algorithm
  variants: tuple[str, ...] = ('',)
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


def b3(name: str = 'B3', **settings) -> Contender:
  """Box Thirding with the given settings, one pass through the pool.

  Later passes depend on the rewards and are simulated pull by pull; where the
  budget reaches beyond the first one and its drain, the rest stays unspent.
  """
  return Contender(name, box_thirding(**settings, max_passes=1))


def halving_rivals() -> list[Contender]:
  """Uniform allocation and the methods that halve."""
  return [
    Contender('Uniform', uniform(None)),
    Contender('SH (knows T)', halving.sh_subset(None)),
    Contender('Doubling SH', halving.doubling_sh()),
    Contender('Hyperband', hyperband()),
  ]


def bracket_rivals(
  sigma: float, max_budget: int, max_bsh_budget: int = 2**31 - 1
) -> list[Contender]:
  """BSH and BUCB with both output rules and two factors of their bounds.

  Args:
    sigma: sub-Gaussian scale of the rewards, which they are told.
    max_budget: BUCB, whose cost a pull grows with the bracket, is left out
      above it.
    max_bsh_budget: BSH is left out above it.
  """

  def contender(name, build, settings, largest) -> Contender:
    outputs, factors = zip(*settings, strict=True)
    algorithm = build(c=factors, sigma=sigma, output=outputs)
    variants = tuple(f'{output}, c={c}' for output, c in settings)
    return Contender(name, algorithm, variants, largest)

  bounds = [('lcb', c) for c in _BOUND_FACTORS]
  means = [('mean', c) for c in _BOUND_FACTORS]
  # The factor changes what BUCB pulls, but of BSH no more than its bounds.
  return [
    contender('BSH', bracketing_sh, bounds + means[:1], max_bsh_budget),
    contender('BUCB', bracketing_ucb, bounds + means, max_budget),
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

  def share(part: jax.Array) -> jax.Array:
    return jnp.maximum(complexity * part / num_arms, 1.0)

  sigma = max(sigma, 1e-3)
  rules = {
    'UCB-E (knows T, H1)': ucb_e(complexity=share),
    'LUCB': lucb(sigma=sigma),
    'T3C': top_two_thompson(sigma=sigma),
  }
  algorithms = {name: on_subset(rule, size) for name, rule in rules.items()}
  algorithms['Successive Rejects'] = rejects.successive_rejects(
    None, subset=size
  )
  return [
    Contender(name, algorithm, max_budget=max_budget)
    for name, algorithm in algorithms.items()
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
  regrets, variants = {}, {}
  columns = np.arange(len(budgets))
  for finished, contender in enumerate(contenders, 1):

    def compute(contender=contender):
      return {'regrets': _regrets(key, contender, env, budgets, replications)}

    found = np.asarray(cached(contender.name, compute)['regrets'])
    for name, values in zip(contender.variants, found, strict=True):
      variants[contender.name, name] = values
    best = np.argmin(found.mean(1), 0)
    regrets[contender.name] = found[best, :, columns].T
    progress(finished)
  return Comparison(np.asarray(budgets), regrets, variants)


def _regrets(key, contender, env, budgets, replications) -> np.ndarray:
  """`[V, R, C]` regrets of the variants; nan above the largest budget."""
  num_variants = len(contender.variants)
  result = np.full((num_variants, replications, len(budgets)), np.nan)
  points = [b for b in budgets if b <= contender.max_budget]
  if points:
    found = simulate(
      key,
      contender.algorithm,
      env,
      budget=points[-1],
      replications=replications,
      checkpoints=points,
    )
    regret = metrics.simple_regret(found.true_means, found.best_mean)
    shape = (replications, num_variants, len(points))
    result[..., : len(points)] = np.reshape(regret, shape).swapaxes(0, 1)
  return result


def num_units(contenders: Sequence[Contender]) -> int:
  """How many units of work `compare` has."""
  return len(contenders)


def simulated_regrets(
  key: jax.Array,
  algorithm: Algorithm,
  env: envs.Environment,
  budgets: Sequence[int],
  replications: int,
) -> np.ndarray:
  """`[R, C]` simple regrets of one run of each replication.

  Args:
    key: PRNG key.
    algorithm: what is run.
    env: the pool of arms.
    budgets: C increasing numbers of pulls; the last is the whole budget.
    replications: R.
  """
  result = simulate(
    key,
    algorithm,
    env,
    budget=budgets[-1],
    replications=replications,
    checkpoints=budgets,
  )
  return np.asarray(metrics.simple_regret(result.true_means, result.best_mean))


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
