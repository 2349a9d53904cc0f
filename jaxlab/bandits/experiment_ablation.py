"""What each part of Box Thirding contributes."""

import itertools
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.stats

from jaxlab import data, errors, stats
from jaxlab.bandits import comparison, envs, metrics, plots, schedule
from jaxlab.bandits import experiment_records as records
from jaxlab.bandits.box_thirding import box_thirding
from jaxlab.data.caption_contest import REWARD_VALUES
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress

# Regime -> standard deviation of a reward, as told to the rule 'lcb'.
_SIGMA = {'high': 0.5, 'moderate': 0.1}
_RULES = ('top', 'lcb', 'mean_all')
# Beta distribution with the moments of the mean ratings of contest 651.
_SYNTHETIC_ARMS, _SYNTHETIC_BETA = 9250, (7.92, 47.63)


class Variant(NamedTuple):
  """Settings of Box Thirding.

  Attributes:
    t0: pulls of an arm that enters.
    growth: r.
    reuse: a lifted arm keeps its old pulls.
    reuse_shift: a shifted arm keeps its mean.
    rule: how the recommended arm is chosen.
  """

  t0: int = 2
  growth: float = schedule.R_STAR
  reuse: bool = True
  reuse_shift: bool = True
  rule: str = 'top'

  @property
  def label(self) -> str:
    """What differs between variants, in words."""
    kept = 'reuse' if self.reuse else 'fresh'
    shift = '' if self.reuse_shift else ', shifted arms fresh'
    return f't0={self.t0}, r={self.growth:.4g}, {kept}{shift}, {self.rule}'


class Pool(NamedTuple):
  """The arms.

  Attributes:
    name: what they are.
    probs: `[N, 3]` probabilities of the rewards 0, 1/2 and 1.
    mu: `[N]` means.
  """

  name: str
  probs: np.ndarray
  mu: np.ndarray


def run(config, workdir) -> None:
  """Runs all variants on the same replications and compares them."""
  records.check_positive(
    config, 'replications', 'budgets', 'base_pulls', 'growths'
  )
  unknown = set(config.regimes) - set(_SIGMA)
  if unknown or not config.regimes:
    raise errors.UserError(
      f'config.regimes is {config.regimes}: choose from {list(_SIGMA)}.'
    )
  pool = load_pool(config.contest, config.num_arms)
  chosen = variants(config)
  found: dict[tuple[str, Variant], np.ndarray] = {}
  with Progress('ablation', len(chosen) * len(config.regimes)) as progress:
    for regime, variant in itertools.product(config.regimes, chosen):
      unit = records.unit_name(pool.name, regime, variant.label)
      found[regime, variant] = workdir.cached(
        unit,
        lambda r=regime, v=variant: {'regrets': _regrets(config, pool, r, v)},
      )['regrets']
      progress.advance()
  _record(config, workdir, pool, found)


def variants(config) -> list[Variant]:
  """The default, one change at a time, t0 x reuse, and maybe all others."""
  growths = [_exact(growth) for growth in config.growths]
  changed = [
    Variant(),
    *(
      Variant(t0=t0, reuse=reuse)
      for t0 in config.base_pulls
      for reuse in (True, False)
    ),
    *(Variant(growth=growth) for growth in growths),
    Variant(reuse_shift=False),
    *(Variant(rule=rule) for rule in _RULES),
  ]
  grid = itertools.product(
    config.base_pulls, growths, (True, False), (True, False), _RULES
  )
  if config.full_grid:
    changed += [Variant(*settings) for settings in grid]
  return list(dict.fromkeys(changed))


def load_pool(contest: str, num_arms: int) -> Pool:
  """The captions of a contest; without its file arms of the same shape.

  Args:
    contest: number of the contest, or 'synthetic'.
    num_arms: how many synthetic arms; 0 for as many as the contest has.
  """
  if contest != 'synthetic':
    try:
      captions = data.load('caption_contest', contest)
    except errors.MissingDataError:
      pass
    else:
      probs = np.asarray(captions.probs, np.float32)
      return Pool(f'contest {contest}', probs, np.asarray(captions.mu))
  num = num_arms or _SYNTHETIC_ARMS
  mu = scipy.stats.beta.ppf((np.arange(num) + 0.5) / num, *_SYNTHETIC_BETA)
  probs = scipy.stats.binom.pmf(np.arange(3), 2, mu[:, None])
  return Pool(f'synthetic pool of {num} arms', probs.astype(np.float32), mu)


def _exact(growth: float) -> float:
  """The best growth itself where the config gives it to three digits."""
  is_best = abs(growth - schedule.R_STAR) < 1e-3
  return schedule.R_STAR if is_best else float(growth)


def _regrets(config, pool: Pool, regime: str, variant: Variant) -> np.ndarray:
  """`[R, C]` simple regrets."""
  if regime == 'high':
    env: envs.Environment = envs.categorical(pool.probs, REWARD_VALUES['mean'])
  else:
    env = envs.gaussian(pool.mu.astype(np.float32), _SIGMA[regime])
  algorithm = box_thirding(
    variant.t0,
    variant.growth,
    variant.reuse,
    variant.reuse_shift,
    variant.rule,
    sigma=_SIGMA[regime],
  )
  points = [int(budget) for budget in config.budgets]
  return comparison.simulated_regrets(
    jax.random.key(config.seed), algorithm, env, points, config.replications
  )


def _record(config, workdir, pool: Pool, found) -> None:
  workdir.save_table(
    'regret',
    [
      row
      for (regime, variant), regrets in found.items()
      for row in _rows(config, regime, variant, regrets, found)
    ],
    f'Simple regret on the {pool.name}, with 95 % t intervals; "minus default" '
    f'is the paired difference to {Variant().label}.',
  )
  for regime in config.regimes:
    mine = {v: r for (name, v), r in found.items() if name == regime}
    _save_figures(config, workdir, pool, regime, mine)
    _add_headlines(config, workdir, pool, regime, mine)
  for claim in _claims(config, pool, found):
    workdir.add_claim(claim)


def _rows(config, regime, variant: Variant, regrets, found) -> list[dict]:
  low, high = stats.mean_interval(regrets, axis=0, level=records.LEVEL)
  paired = metrics.paired_difference_ci(
    regrets, found[regime, Variant()], records.LEVEL
  )
  return [
    {
      'regime': regime,
      **variant._asdict(),
      'budget': int(budget),
      'regret': float(regrets[:, column].mean()),
      'low': float(low[column]),
      'high': float(high[column]),
      'minus default': float(paired.mean[column]),
      'minus low': float(paired.low[column]),
      'minus high': float(paired.high[column]),
    }
    for column, budget in enumerate(config.budgets)
  ]


def _one_at_a_time(config) -> dict[str, dict[str, list[Variant]]]:
  """Figure -> series -> the variants of its bars."""
  growths = [_exact(growth) for growth in config.growths]
  return {
    't0': {
      'reuse': [Variant(t0=t0) for t0 in config.base_pulls],
      'fresh': [Variant(t0=t0, reuse=False) for t0 in config.base_pulls],
    },
    'growth': {'': [Variant(growth=growth) for growth in growths]},
    'rules': {
      '': [*(Variant(rule=r) for r in _RULES), Variant(reuse_shift=False)]
    },
  }


def _bar_label(figure: str, variant: Variant) -> str:
  if figure == 't0':
    return f't0 = {variant.t0}'
  if figure == 'growth':
    return f'r = {variant.growth:.4g}'
  return variant.rule if variant.reuse_shift else 'top, shifted afresh'


def _save_figures(config, workdir, pool: Pool, regime: str, found) -> None:
  last = int(config.budgets[-1])
  for figure, series in _one_at_a_time(config).items():
    columns = range(len(config.budgets)) if figure != 't0' else [-1]
    curves: dict[str, Any] = {}
    for (name, bars), column in itertools.product(series.items(), columns):
      values = np.stack([found[bar][:, column] for bar in bars], 1)
      label = name or f'T = {config.budgets[column]}'
      curves[label] = comparison.curves({label: values})[label]
    names = [_bar_label(figure, v) for v in next(iter(series.values()))]
    title = f'{pool.name}, {regime} noise'
    title += f', T = {last}' if figure == 't0' else ''
    workdir.save_figure(
      f'{figure}_{regime}',
      plots.ablation_bars(names, curves, title=title),
      f'Simple regret of variants of B3 on the {pool.name}, {regime} noise; '
      'means and 95 % intervals.',
    )
  if config.full_grid:
    growths = [_exact(growth) for growth in config.growths]
    grid = [
      [found[Variant(t0, r)][:, -1].mean() for t0 in config.base_pulls]
      for r in growths
    ]
    workdir.save_figure(
      f'grid_{regime}',
      plots.growth_heatmap(
        grid,
        growths,
        config.base_pulls,
        title=f'{pool.name}, {regime} noise, T = {last}',
      ),
      f'Simple regret for each growth and t0 on the {pool.name}.',
    )


def _add_headlines(config, workdir, pool: Pool, regime: str, found) -> None:
  where = f'{pool.name}, {regime} noise, T = {config.budgets[-1]}'
  base = found[Variant()][:, -1]
  _add_mean(workdir, f'B3 regret: {where}', base)
  _add_mean(
    workdir,
    f'shifted arms pulled afresh minus their means kept: {where}',
    found[Variant(reuse_shift=False)][:, -1] - base,
  )
  by_t0 = [found[Variant(t0=t0)][:, -1].mean() for t0 in config.base_pulls]
  best = int(config.base_pulls[int(np.argmin(by_t0))])
  workdir.headline(f'best t0 seen afterwards: {where}', best, unit='pulls')


def _add_mean(workdir, name: str, values: np.ndarray) -> None:
  low, high = stats.mean_interval(values, level=records.LEVEL)
  workdir.headline(name, values.mean(), low, high)


def _claims(config, pool: Pool, found) -> list[Claim]:
  budget = int(config.budgets[-1])
  reuse, growth = [], []

  def last(regime, **settings):
    return found[regime, Variant(**settings)][:, -1]

  for regime in config.regimes:
    where = f' at T = {budget}, {regime} noise'
    for t0 in config.base_pulls:
      if t0 <= config.max_reuse_t0:
        reuse.append(
          records.mean_claim(
            f'fresh minus reuse, t0 = {t0}{where}',
            last(regime, t0=t0, reuse=False) - last(regime, t0=t0),
            threshold=0.0,
            sense='>',
          )
        )
    for r in map(_exact, config.growths):
      if r != schedule.R_STAR:
        growth.append(
          records.mean_claim(
            f'regret at r = {schedule.R_STAR:.4g} minus at r = {r:.4g}{where}',
            last(regime) - last(regime, growth=r),
            threshold=config.growth_tolerance,
            sense='<',
          )
        )
  regime = config.regimes[0]
  claims = [
    records.mean_claim(
      'Recommending the largest mean of all arms is worse than the largest at '
      f'the top level (T = {budget}, {regime} noise)',
      last(regime, rule='mean_all') - last(regime),
      threshold=0.0,
      sense='>',
    )
  ]
  joints = [
    (
      'Keeping the pulls of a lifted arm is better than pulling it afresh',
      reuse,
    ),
    (
      f'The growth r = {schedule.R_STAR:.4g} is at most '
      f'{config.growth_tolerance:g} worse than any other',
      growth,
    ),
  ]
  note = f'On the {pool.name}.'
  claims += [
    Claim.all_of(text, records.PAPER, parts, note=note)
    for text, parts in joints
    if parts
  ]
  return claims
