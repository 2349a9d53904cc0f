"""B3 without knowledge of the budget against Sequential Halving with it."""

import math
from typing import NamedTuple

import jax
import numpy as np

from jaxlab import errors, parallel, stats
from jaxlab.bandits import envs, halving, metrics, plots, schedule
from jaxlab.bandits import experiment_records as records
from jaxlab.bandits.box_thirding import box_thirding
from jaxlab.bandits.simulate import simulate
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress

_ORDERS_AT_ONCE = 64  # random orders of the whole pool held in memory


class Duel(NamedTuple):
  """A setting of B3 and how many random arms its opponent starts from.

  Attributes:
    t0: pulls of an arm that enters B3.
    is_matched: Sequential Halving starts from as many arms as enter B3;
      otherwise from as many as the budget allows.
  """

  t0: int
  is_matched: bool

  def size(self, num_arms: int, budget: int) -> int:
    """The number of arms that Sequential Halving starts from."""
    if self.is_matched:
      return self.entered(num_arms, budget)
    return min(num_arms, halving.largest_subset(budget))

  def entered(self, num_arms: int, budget: int) -> int:
    """The number of arms c0 that B3 takes in."""
    return schedule.b3_schedule(budget, num_arms, t0=self.t0).entered


class Found(NamedTuple):
  """Outcomes of a duel on one pool.

  Attributes:
    b3: `[R, C]` true means of the arms that B3 recommends.
    halving: `[R, C]` those of Sequential Halving, from other replications.
    entered: `[R, C]` smallest index among the arms that entered B3: the best
      of them.
  """

  b3: np.ndarray
  halving: np.ndarray
  entered: np.ndarray


def run(config, workdir) -> None:
  """Measures the probability of an arm that is not eps-best."""
  records.check_positive(
    config,
    'num_arms',
    'alphas',
    'eps',
    'budgets',
    'replications',
    'sigma',
    'matched_t0',
    'comparable_ratio',
    'min_errors',
  )
  duels = {
    'same c0': Duel(config.matched_t0, True),
    'default t0': Duel(2, False),
  }
  for duel in duels.values():
    _check_feasible(config, duel)
  cells = [
    (num, alpha, name)
    for num in config.num_arms
    for alpha in config.alphas
    for name in duels
  ]
  found = {}
  with Progress('error probabilities', 2 * len(cells)) as progress:
    for num, alpha, name in cells:
      found[num, alpha, name] = _play(
        config, workdir, progress, num, alpha, name, duels[name]
      )
  _record(config, workdir, duels, found)


def pool(num_arms: int, alpha: float) -> np.ndarray:
  """`[N]` float32 means 1 - (i / N)^alpha, i = 0 .. N - 1."""
  ranks = np.arange(num_arms) / num_arms
  return (1 - ranks**alpha).astype(np.float32)


def decay_rate(wrong: np.ndarray, x: np.ndarray) -> tuple[float, float, float]:
  """Slope of log P(error) against `x`, with a 95 % interval.

  Least squares over K cells; the interval is the delta method over
  replications, so that cells of the same runs may depend on each other.

  Args:
    wrong: `[R, K]` whether a replication erred in a cell; in each cell some
      did.
    x: `[K]` positions, not all equal.

  Returns:
    Slope, low, high.
  """
  p = wrong.mean(0)
  weights = (x - x.mean()) / np.sum((x - x.mean()) ** 2)
  slope = float(weights @ np.log(p))
  influence = ((wrong - p) / p) @ weights
  low, high = stats.mean_interval(influence, level=records.LEVEL)
  return slope, slope + float(low), slope + float(high)


def _check_feasible(config, duel: Duel) -> None:
  for num in config.num_arms:
    for budget in config.budgets:
      entered = duel.entered(num, budget)
      if entered >= num:
        raise errors.UserError(
          f'config.budgets has {budget}, within which all {num} arms enter: '
          'give budgets that are too small for the pool.'
        )
      size = duel.size(num, budget)
      if size * halving.num_rounds(size) > budget:
        raise errors.UserError(
          f'config.matched_t0 = {duel.t0} lets {size} arms enter within '
          f'{budget} pulls, too many for Sequential Halving: raise it.'
        )


def _play(config, workdir, progress, num, alpha, name, duel: Duel) -> Found:
  mu = pool(num, alpha)
  env = envs.gaussian(mu, config.sigma)
  # Independent replications, as the interval of the ratio supposes.
  b3_key, halving_key = jax.random.split(jax.random.key(config.seed))
  points = [int(b) for b in config.budgets]
  unit = f'N {num} alpha {alpha} {name}'

  def play_b3():
    result = simulate(
      b3_key,
      box_thirding(t0=duel.t0),
      env,
      budget=points[-1],
      replications=config.replications,
      checkpoints=points,
    )
    return {'b3': result.true_means}

  def play_halving():
    if duel.is_matched:
      plans = [
        (halving.sh_subset(budget, duel.size(num, budget)), [budget])
        for budget in points
      ]
    else:
      plans = [(halving.sh_subset(None), points)]
    columns = [
      simulate(
        halving_key,
        algorithm,
        env,
        budget=told[-1],
        replications=config.replications,
        checkpoints=told,
      ).true_means
      for algorithm, told in plans
    ]
    return {'halving': np.concatenate(columns, 1)}

  b3 = workdir.cached(records.unit_name(unit, 'B3'), play_b3)
  progress.advance()
  rival = workdir.cached(records.unit_name(unit, 'SH'), play_halving)
  progress.advance()
  entered = workdir.cached(
    records.unit_name(f'N {num} {name}', 'entered'),
    lambda: {'best': _best_entered(b3_key, config, num, duel)},
  )
  return Found(b3['b3'], rival['halving'], entered['best'])


def _best_entered(key, config, num_arms: int, duel: Duel) -> np.ndarray:
  """`[R, C]` smallest index among the arms that enter B3 within each budget.

  The pools differ in their means, not in who enters, and the smallest index
  is the best arm in all of them.
  """
  counts = [duel.entered(num_arms, int(budget)) for budget in config.budgets]
  engine = box_thirding(t0=duel.t0).engine
  assert engine is not None

  def best(replication_key):
    algorithm_key, _ = jax.random.split(replication_key)
    arms = engine.enter(algorithm_key, num_arms, int(config.budgets[-1]))
    return jax.lax.cummin(arms)[np.asarray(counts) - 1]

  keys = parallel.replication_keys(key, config.replications)
  return np.asarray(jax.jit(parallel.chunked_vmap(best, _ORDERS_AT_ONCE))(keys))


def _is_wrong(means: np.ndarray, mu: np.ndarray, eps) -> np.ndarray:
  """`[..., C, E]`: whether a mean is below the best one by more than eps."""
  limits = np.max(mu) - np.asarray(eps, np.float32)
  return means[..., None] < limits


def _num_good(mu: np.ndarray, eps) -> np.ndarray:
  """`[E]` numbers of eps-best arms, with the arithmetic of `_is_wrong`."""
  return np.sum(~_is_wrong(mu, mu, eps), 0)


def _record(config, workdir, duels, found) -> None:
  rows = [
    row
    for (num, alpha, name), outcome in found.items()
    for row in _rows(config, num, alpha, name, duels[name], outcome)
  ]
  workdir.save_table(
    'error',
    rows,
    'P(regret > eps) of B3 and of Sequential Halving that knows the budget, '
    'their ratio, and how many errors of B3 come from eps-best arms that never '
    'entered; 95 % intervals (Wilson; Koopman for the ratio).',
  )
  workdir.save_table(
    'decay', _decay_rows(config, found), 'Slope of log P(error) on T eps^2 / N.'
  )
  _save_figures(config, workdir, rows)
  for name, duel in duels.items():
    workdir.add_claim(_comparable(config, name, duel, rows))
  inside = [
    row['not entered low']
    <= row['not entered exact']
    <= row['not entered high']
    for row in rows
  ]
  workdir.headline(
    'cells whose exact chance that no eps-best arm enters lies in the 95 % '
    f'interval, of {len(rows)}',
    sum(inside),
  )
  for name in duels:
    exponents = [
      row['exponents']
      for row in rows
      if row['duel'] == name
      and row['errors'] >= config.min_errors
      and math.isfinite(row['exponents'])
    ]
    if exponents:
      workdir.headline(
        f'smallest log P(error) of B3 over that of SH, {name}', min(exponents)
      )
  for row in _decay_rows(config, found):
    if row['N'] == max(config.num_arms) and row['duel'] == 'default t0':
      workdir.headline(
        f'B3: slope of log P(error) on T eps^2 / N, N = {row["N"]}, '
        f'alpha = {row["alpha"]}',
        row['slope'],
        row['low'],
        row['high'],
      )


def _rows(config, num, alpha, name, duel: Duel, outcome: Found) -> list[dict]:
  mu = pool(num, alpha)
  trials = config.replications
  b3, rival, missing = (
    _is_wrong(means, mu, config.eps).sum(0)
    for means in (outcome.b3, outcome.halving, mu[outcome.entered])
  )
  intervals = [
    stats.wilson_interval(counts, trials, records.LEVEL)
    for counts in (b3, rival, missing)
  ]
  ratio = stats.ratio_of_proportions_interval(
    b3, trials, rival, trials, records.LEVEL
  )
  good = _num_good(mu, config.eps)
  rows = []
  for at in np.ndindex(b3.shape):
    budget, eps = int(config.budgets[at[0]]), config.eps[at[1]]
    entered = duel.entered(num, budget)
    row = {
      'duel': name,
      'N': num,
      'alpha': alpha,
      'eps': eps,
      'T': budget,
      't0': duel.t0,
      'c0 of B3': entered,
      'c0 of SH': duel.size(num, budget),
    }
    for label, counts, interval in zip(
      ('B3', 'SH', 'not entered'), (b3, rival, missing), intervals, strict=True
    ):
      row[label] = float(counts[at] / trials)
      row[f'{label} low'] = float(interval.low[at])
      row[f'{label} high'] = float(interval.high[at])
    row['not entered exact'] = metrics.noninclusion_probability(
      num, int(good[at[1]]), entered
    )
    row['lost inside'] = float((b3[at] - missing[at]) / trials)
    row['errors'] = int(b3[at] + rival[at])
    row['exponents'] = _exponent_ratio(row['B3'], row['SH'])
    row['ratio'] = float(b3[at] / rival[at]) if rival[at] else float('nan')
    row['ratio low'] = float(ratio.low[at])
    row['ratio high'] = float(ratio.high[at])
    rows.append(row)
  return rows


def _exponent_ratio(error: float, rival_error: float) -> float:
  """Log P / log P': 1/2 means the error of half the budget; nan if undefined.

  The error of both falls exponentially with the budget.
  """
  if 0 < error < 1 and 0 < rival_error < 1:
    return math.log(error) / math.log(rival_error)
  return float('nan')


def _decay_rows(config, found) -> list[dict]:
  rows = []
  for (num, alpha, name), outcome in found.items():
    wrong = _is_wrong(outcome.b3, pool(num, alpha), config.eps)
    x = np.outer(config.budgets, np.square(config.eps)) / num
    counts = wrong.sum(0)
    used = (counts >= 10) & (counts < config.replications)
    if used.sum() < 3:
      continue
    slope, low, high = decay_rate(wrong[:, used].astype(float), x[used])
    rows.append(
      {
        'duel': name,
        'N': num,
        'alpha': alpha,
        'cells': int(used.sum()),
        'slope': slope,
        'low': low,
        'high': high,
      }
    )
  return rows


def _comparable(config, name, duel: Duel, rows) -> Claim:
  """P(error) of B3 is below `comparable_ratio` times that of its opponent."""
  parts, rare = [], 0
  for row in rows:
    if row['duel'] != name:
      continue
    if row['errors'] < config.min_errors:
      rare += 1
      continue
    where = ', '.join(f'{k} = {row[k]}' for k in ('N', 'alpha', 'eps', 'T'))
    parts.append(
      Claim(
        f'P(error) of B3 over that of SH at {where}',
        records.PAPER,
        row['ratio'],
        row['ratio low'],
        row['ratio high'],
        config.comparable_ratio,
        '<',
      )
    )
  arms = 'the arms that entered B3' if duel.is_matched else 'all it can pay for'
  if not parts:
    raise errors.UserError(
      f'config.min_errors = {config.min_errors} leaves no cell to judge: '
      'lower it or raise config.replications.'
    )
  return Claim.all_of(
    f'B3 (t0 = {duel.t0}) errs at most {config.comparable_ratio:g} times as '
    f'often as Sequential Halving that knows the budget, on as many random '
    f'arms as {arms}',
    f'{records.PAPER}, abstract',
    parts,
    note=f'{config.replications} replications a cell; {rare} more cells have '
    f'fewer than {config.min_errors} errors of both together and are not '
    'judged.',
  )


def _save_figures(config, workdir, rows) -> None:
  num = max(config.num_arms)

  def grid(name, alpha, *fields):
    """`[E, C]` arrays of these columns."""
    chosen = [
      row
      for row in rows
      if (row['duel'], row['N'], row['alpha']) == (name, num, alpha)
    ]
    shape = (len(config.budgets), len(config.eps))
    return tuple(
      np.reshape([row[field] for row in chosen], shape).T for field in fields
    )

  for alpha in config.alphas:
    curves = {}
    for name, t0 in (('same c0', config.matched_t0), ('default t0', 2)):
      for method, label in (('B3', f'B3 (t0={t0})'), ('SH', f'SH, {name}')):
        ends = grid(name, alpha, method, f'{method} low', f'{method} high')
        curves[label.replace('SH, default t0', 'SH, largest c0')] = ends
    workdir.save_figure(
      f'error_alpha_{alpha}',
      plots.error_curves(
        config.budgets,
        curves,
        list(config.eps),
        log_error=True,
        title=f'N = {num}, gaps (i/N)^{alpha:g}',
      ),
      f'Probability of an arm that is not eps-best, N = {num}, gaps '
      f'(i/N)^{alpha:g}; Sequential Halving (SH) knows the budget.',
    )
    middle = len(config.eps) // 2
    split = grid(
      'default t0', alpha, 'not entered', 'lost inside', 'not entered exact'
    )
    workdir.save_figure(
      f'split_alpha_{alpha}',
      plots.error_split(
        config.budgets,
        *(part[middle] for part in split),
        title=f'B3, eps = {config.eps[middle]:g}, N = {num}, gaps '
        f'(i/N)^{alpha:g}',
      ),
      'Errors of B3: no eps-best arm entered (circles: exact), or all that '
      'entered were lost.',
    )
