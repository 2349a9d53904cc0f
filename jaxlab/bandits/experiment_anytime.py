"""What would be recommended if the run stopped now, at 64 moments."""

from collections.abc import Callable, Mapping

import jax
import numpy as np

from jaxlab import stats
from jaxlab.bandits import comparison, envs, halving, metrics, plots
from jaxlab.bandits import experiment_records as records
from jaxlab.bandits.box_thirding import box_thirding
from jaxlab.bandits.brackets import bracketing_sh
from jaxlab.bandits.hyperband import hyperband
from jaxlab.bandits.types import Algorithm
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress

_DOUBLING = 'Doubling SH'


def run(config, workdir) -> None:
  """Compares anytime methods at every checkpoint of one run each."""
  records.check_positive(
    config,
    'num_arms',
    'alpha',
    'sigma',
    'replications',
    'first_checkpoint',
    'budget',
    'step_tolerance',
  )
  points = checkpoints(
    config.first_checkpoint, config.budget, config.num_checkpoints
  )
  ranks = np.arange(config.num_arms) / config.num_arms
  mu = (1 - ranks**config.alpha).astype(np.float32)
  env = envs.gaussian(mu, config.sigma)
  methods = _methods(config.sigma)
  regrets = {}
  with Progress('anytime methods', len(methods)) as progress:
    for name, algorithm in methods.items():
      regrets[name] = workdir.cached(
        records.unit_name('regrets', name),
        lambda a=algorithm: {'regrets': _regrets(config, a, env, points)},
      )['regrets']
      progress.advance()
  found = comparison.Comparison(np.asarray(points), regrets, {})
  _record(config, workdir, found)


def checkpoints(first: int, budget: int, num: int) -> list[int]:
  """Geometric from `first` to `budget`, at most `num`, equal ones merged."""
  return np.unique(
    np.geomspace(first, budget, num).round().astype(int)
  ).tolist()


def regret_area(regrets: np.ndarray, points: np.ndarray) -> np.ndarray:
  """`[R]` mean regret over the logarithm of the pulls (trapezoids).

  Args:
    regrets: `[R, C]`.
    points: `[C]` increasing pulls, at least two.
  """
  x = np.log(points)
  return np.trapezoid(regrets, x, axis=1) / (x[-1] - x[0])


def _methods(sigma: float) -> Mapping[str, Algorithm]:
  return {
    'B3': box_thirding(),
    _DOUBLING: halving.doubling_sh(),
    'Hyperband': hyperband(),
    'BSH': bracketing_sh(sigma=sigma),
  }


def _regrets(config, algorithm: Algorithm, env, points) -> np.ndarray:
  """`[R, C]` simple regrets of one run of each replication."""
  return comparison.simulated_regrets(
    jax.random.key(config.seed), algorithm, env, points, config.replications
  )


def _restarts(budget: int, num_arms: int) -> np.ndarray:
  """The pulls at which doubling Sequential Halving begins a new pass."""
  plan = halving.doubling_plan(num_arms, budget, 8)
  spent = np.cumsum([r.arms * r.pulls for r in plan])
  opens = [i for i in range(1, len(plan)) if plan[i].stage > plan[i - 1].stage]
  return spent[np.asarray(opens, int) - 1]


def _steps(regrets: np.ndarray, level: float):
  """Mean changes between checkpoints, `[C - 1]`, with their intervals."""
  changes = np.diff(regrets, axis=1)
  low, high = stats.mean_interval(changes, axis=0, level=level)
  return changes.mean(0), np.asarray(low), np.asarray(high)


def _record(config, workdir, found) -> None:
  where = (
    f'N = {config.num_arms}, gaps (i/N)^{config.alpha:g}, '
    f'sigma = {config.sigma:g}'
  )
  curves = comparison.curves(found.regrets)
  workdir.save_table(
    'regret',
    _rows(found, curves),
    f'Simple regret at each checkpoint, {where}; "minus B3" is the paired '
    'difference, 95 % intervals.',
  )
  # All steps of one method together keep the level (Bonferroni).
  num_steps = len(found.budgets) - 1
  joint_level = 1 - (1 - records.LEVEL) / num_steps
  steps = {
    name: _steps(values, joint_level) for name, values in found.regrets.items()
  }
  workdir.save_table(
    'steps',
    [
      {
        'method': name,
        'from': int(found.budgets[k]),
        'to': int(found.budgets[k + 1]),
        'change': float(mean[k]),
        'low': float(low[k]),
        'high': float(high[k]),
      }
      for name, (mean, low, high) in steps.items()
      for k in range(num_steps)
    ],
    'Change of the regret from one checkpoint to the next, with 95 % intervals '
    f'for the {num_steps} steps of a method together (Bonferroni).',
  )
  restarts = _restarts(config.budget, config.num_arms)
  workdir.save_figure(
    'anytime',
    plots.anytime_curves(
      found.budgets, curves, restarts={_DOUBLING: restarts}, title=where
    ),
    f'Simple regret if the run stopped now, {where}; triangles: doubling '
    'Sequential Halving starts over.',
  )
  for name, changes in steps.items():
    workdir.headline(
      f'largest rise of {name} between checkpoints', *_largest(changes)
    )
    # A recommendation stands until a better-known arm comes.
    moved = np.any(np.diff(found.regrets[name], axis=1) != 0, axis=0)
    workdir.headline(
      f'steps of {num_steps} at which {name} changes any recommendation',
      int(moved.sum()),
    )
  for claim in [
    *_step_claims(config, steps['B3'], num_steps),
    _area_claim(found, where),
  ]:
    workdir.add_claim(claim)


def _rows(found, curves) -> list[dict]:
  rows = []
  for name, (mean, low, high) in curves.items():
    paired = metrics.paired_difference_ci(
      found.regrets[name], found.regrets['B3'], records.LEVEL
    )
    columns = {
      'budget': found.budgets,
      'regret': mean,
      'low': low,
      'high': high,
      'minus B3': paired.mean,
      'minus low': paired.low,
      'minus high': paired.high,
    }
    arrays = {key: np.asarray(value).tolist() for key, value in columns.items()}
    rows += [
      {'method': name, **dict(zip(arrays, values, strict=True))}
      for values in zip(*arrays.values(), strict=True)
    ]
  return rows


def _largest(steps) -> tuple[float, float, float]:
  """The largest step; joint intervals bound it by their largest ends."""
  mean, low, high = steps
  return float(mean.max()), float(low.max()), float(high.max())


def _step_claims(config, steps, num_steps: int) -> list[Claim]:
  rises = int(np.sum(steps[1] > 0))
  note = (
    f'{config.replications} replications, {num_steps} steps, paired t '
    'intervals at 95 % for all steps together (Bonferroni).'
  )
  return [
    Claim(
      'The regret of B3 never jumps up: steps whose interval lies above 0',
      records.PAPER,
      rises,
      rises,
      rises,
      1,
      '<',
      'steps',
      f'{note} That none is found does not prove that there is none; the next '
      'claim bounds their size.',
    ),
    Claim(
      f'No step of B3 raises the regret by {config.step_tolerance:g}',
      records.PAPER,
      *_largest(steps),
      config.step_tolerance,
      '<',
      '',
      f'{note} The interval of the largest step spans the largest ends.',
    ),
  ]


def _area_claim(found, where: str) -> Claim:
  area: Callable[[str], np.ndarray] = lambda name: regret_area(  # noqa: E731
    found.regrets[name], found.budgets
  )
  return Claim.all_of(
    'Averaged over the logarithm of the stopping time B3 has less regret than '
    'each anytime rival',
    records.PAPER,
    [
      records.mean_claim(
        f'{name} minus B3, {where}',
        area(name) - area('B3'),
        threshold=0.0,
        sense='>',
      )
      for name in found.regrets
      if name != 'B3'
    ],
  )
