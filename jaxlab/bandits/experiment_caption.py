"""The New Yorker caption contests: thousands of captions, few votes."""

import functools

import jax
import numpy as np

from jaxlab import data, errors, stats
from jaxlab.bandits import comparison, envs, metrics, plots
from jaxlab.bandits import experiment_records as records
from jaxlab.data.caption_contest import REWARD_VALUES
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress

# Regime -> standard deviation of a reward, as told to the methods that ask.
_SIGMA = {'high': 0.5, 'moderate': 0.1, 'deterministic': 0.0}
_NOISY = ('high', 'moderate')


def run(config, workdir) -> None:
  """Compares the methods on each contest and in each noise regime."""
  records.check_positive(config, 'replications', 'budgets', 'max_ratio')
  unknown = set(config.regimes) - set(_SIGMA)
  if unknown:
    raise errors.UserError(
      f'config.regimes has {sorted(unknown)}: choose from {list(_SIGMA)}.'
    )
  pools = {name: data.load('caption_contest', name) for name in config.contests}
  cells = [(name, regime) for name in pools for regime in config.regimes]
  units = {
    cell: comparison.num_units(_contenders(config, cell[1], pools[cell[0]]))
    for cell in cells
  }
  found = {}
  with Progress('caption contests', sum(units.values())) as progress:
    for contest, regime in cells:
      found[contest, regime] = comparison.compare(
        jax.random.key(config.seed),
        _contenders(config, regime, pools[contest]),
        _environment(regime, pools[contest]),
        budgets=_budgets(config, pools[contest]),
        replications=config.replications,
        cached=functools.partial(_unit, workdir, contest, regime),
        progress=lambda _: progress.advance(),
      )
  _record(config, workdir, pools, found)


def _unit(workdir, contest: str, regime: str, name: str, compute):
  return workdir.cached(records.unit_name(contest, regime, name), compute)


def _budgets(config, pool) -> list[int]:
  """The budgets of the config up to `max_ratio` pulls per caption."""
  most = config.max_ratio * len(pool.mu)
  return [b for b in config.budgets if b <= most] or [min(config.budgets)]


def _environment(regime: str, pool) -> envs.Environment:
  mu = np.asarray(pool.mu, np.float32)
  if regime == 'high':
    probs = np.asarray(pool.probs, np.float32)
    return envs.categorical(probs, REWARD_VALUES['mean'])
  return envs.gaussian(mu, _SIGMA[regime])


def _contenders(config, regime: str, pool) -> list[comparison.Contender]:
  sigma = _SIGMA[regime]
  methods = [
    comparison.b3(),
    *comparison.halving_rivals(),
    *comparison.bracket_rivals(
      sigma, config.max_bracket_budget, config.max_bsh_budget
    ),
  ]
  if config.all_baselines:
    mu = np.asarray(pool.mu)
    methods += [
      comparison.b3('B3 (t0=1)', t0=1),
      comparison.b3('B3 (t0=4)', t0=4),
      *comparison.index_rivals(
        sigma,
        comparison.complexity_h1(mu),
        len(mu),
        config.max_index_budget,
      ),
    ]
    return methods
  return [
    method
    for method in methods
    if method.name in config.methods
    and (method.name != 'BUCB' or regime in config.bucb_regimes)
  ]


def _record(config, workdir, pools, found) -> None:
  rows, errors_rows, ranks = [], [], []
  for (contest, regime), result in found.items():
    labels = {'contest': contest, 'regime': regime}
    cell = records.regret_rows(result, 'B3', **labels)
    if regime == 'deterministic':
      _add_exact(cell, pools[contest].mu)
    rows += cell
    ranks += _rank_rows(cell, labels)
    errors_rows += _error_rows(config, result, pools[contest].mu, labels)
    workdir.save_figure(
      f'regret_{contest}_{regime}',
      plots.regret_curves(
        result.budgets,
        comparison.curves(result.regrets),
        title=f'Contest {contest}, {regime} noise, {len(pools[contest].mu)} '
        'captions',
      ),
      f'Simple regret against the number of votes: contest {contest}, '
      f'{regime} noise, means and 95 % intervals.',
    )
    workdir.save_figure(
      f'error_{contest}_{regime}',
      _error_figure(config, result, pools[contest].mu),
      f'Probability of a caption worse than the best by more than eps: '
      f'contest {contest}, {regime} noise.',
    )
  workdir.save_table(
    'regret',
    rows,
    'Simple regret with 95 % t intervals; "minus B3" is the paired difference.',
  )
  workdir.save_table(
    'ranks', ranks, 'Rank of each method at each budget; ties share a rank.'
  )
  workdir.save_table(
    'error',
    errors_rows,
    'Probability of not being eps-best, with Wilson 95 % intervals.',
  )
  for claim in _claims(config, found):
    workdir.add_claim(claim)
  for (contest, regime), result in found.items():
    if regime in _NOISY:
      column = len(result.budgets) - 1
      mean, low, high = comparison.curves(result.regrets)['B3']
      workdir.headline(
        f'B3 regret, contest {contest}, {regime} noise, '
        f'T = {result.budgets[column]}',
        mean[column],
        low[column],
        high[column],
      )
  suspects = {c: len(p.suspect_rows) for c, p in pools.items()}
  workdir.headline('suspect captions kept', sum(suspects.values()))


def _add_exact(rows, mu) -> None:
  """The exact regret of one noiseless look at T random captions."""
  for row in rows:
    if row['method'] == 'Uniform':
      num = min(row['budget'], len(mu))
      row['exact'] = metrics.uniform_deterministic_regret(mu, num)


def _rank_rows(rows, labels):
  by_budget: dict[int, dict] = {}
  for row in rows:
    line = by_budget.setdefault(row['budget'], {**labels, 'T': row['budget']})
    line[row['method']] = row['rank']
  return list(by_budget.values())


def _error_rows(config, result, mu, labels):
  rows = []
  best = float(np.max(mu))
  for name, regrets in result.regrets.items():
    for column, budget in enumerate(result.budgets):
      values = regrets[:, column]
      if not np.isfinite(values).all():
        continue
      for eps in config.eps:
        # Regrets are differences of float32 means.
        wrong = int(np.sum(values > eps + 1e-6 * best))
        interval = stats.wilson_interval(wrong, len(values), records.LEVEL)
        rows.append(
          {
            **labels,
            'budget': int(budget),
            'method': name,
            'eps': eps,
            'probability': wrong / len(values),
            'low': float(interval.low),
            'high': float(interval.high),
          }
        )
  return rows


def _error_figure(config, result, mu):
  rows = _error_rows(config, result, mu, {})
  curves = {}
  for name in result.regrets:
    ends = []
    for field in ('probability', 'low', 'high'):
      value = {
        (r['eps'], r['budget']): r[field] for r in rows if r['method'] == name
      }
      ends.append(
        np.array(
          [
            [value.get((eps, int(b)), np.nan) for b in result.budgets]
            for eps in config.eps
          ]
        )
      )
    mean, low, high = ends
    curves[name] = (mean, low, high)
  return plots.error_curves(result.budgets, curves, list(config.eps))


def _claims(config, found) -> list[Claim]:
  """C4 and its limits, each over all contests and regimes that were run."""
  joint = functools.partial(Claim.all_of, paper=f'{records.PAPER}, abstract')
  better, close, against_halving, limit = [], [], [], []
  for (contest, regime), result in found.items():
    where = f', contest {contest}, {regime} noise'
    late = [int(b) for b in result.budgets if b >= config.claims_from]
    excess = functools.partial(
      records.excess_claims, result, better='B3', budgets=late, where=where
    )
    if regime in _NOISY:
      better += excess(['Uniform', 'BSH'])
      close += [
        records.mean_claim(
          f'B3 minus SH (knows T) at T = {budget}{where}',
          result.regrets['B3'][:, column]
          - result.regrets['SH (knows T)'][:, column],
          threshold=0.01,
          sense='<',
        )
        for column, budget in enumerate(result.budgets)
        if budget in late
      ]
    else:
      against_halving += records.excess_claims(
        result, ['BSH', 'Doubling SH'], 'B3', late, where=where
      )
      limit += records.excess_claims(
        result, ['B3'], 'Uniform', late[:1], where=where
      )
  groups = [
    ('Lower simple regret than uniform allocation and BSH under noise', better),
    ('At most .01 above Sequential Halving that knows the budget', close),
    (
      'Without noise: lower simple regret than the anytime halving methods',
      against_halving,
    ),
    (
      'Limit, not in the abstract: without noise and with few pulls uniform '
      'allocation is better than B3',
      limit,
    ),
  ]
  return [joint(text, parts=parts) for text, parts in groups if parts]
