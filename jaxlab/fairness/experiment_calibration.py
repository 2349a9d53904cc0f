"""How many people a calibration needs: gaps on the true distribution.

The raw score of a person is sigmoid(z) of a normal z, but
`P(Y=1 | z) = sigmoid(slope z + shift)`, with a slope and a shift of the group.
Calibrators see n people; the rule of equal PPV and FOR that follows is measured
on the distribution itself, by quadrature.
"""

import functools
import warnings

import jax
import numpy as np
import scipy.special
import scipy.stats

from jaxlab import plots, stats
from jaxlab.fairness import experiment_records as records
from jaxlab.fairness.calibration import apply_calibrator, fit_calibrator
from jaxlab.fairness.calibrators import METHODS
from jaxlab.fairness.decisions import decision_probabilities
from jaxlab.fairness.grouping import make_groups
from jaxlab.fairness.sufficiency import optimal_sufficient
from jaxlab.fairness.types import GroupScores, Solution
from jaxlab.harness.progress import Progress

_SLOPE = np.asarray([1.6, 0.7])
_SHIFT = np.asarray([0.2, -0.5])
_SHARE = np.asarray([0.6, 0.4])
_NODES = 4000  # of the quadrature, equally probable


def run(config, workdir) -> None:
  """Fits every calibrator on samples of every size."""
  records.check_positive(
    config, 'sizes', 'seeds', 'max_atoms', 'bins', 'rate_floor'
  )
  records.check_rising(config, 'sizes')
  records.check(config, 'seeds', config.seeds > 2, 'at least 3')
  records.check(config, 'max_atoms', config.max_atoms > 1, 'at least 2')
  records.check(config, 'rate_floor', config.rate_floor < 0.5, 'below 0.5')
  records.check_names(config, 'methods', tuple(METHODS))
  found = {}
  with Progress('calibrating', len(config.methods)) as progress:
    for method in config.methods:
      compute = functools.partial(_gaps_of_method, config, method)
      found[method] = workdir.cached(method, compute)['gaps']
      progress.advance()
  _record(config, workdir, found)


def _gaps_of_method(config, method: str) -> dict[str, np.ndarray]:
  """`[seeds, sizes, 2]` true PPV and FOR gaps; nan where infeasible."""
  solve = jax.jit(
    functools.partial(
      optimal_sufficient, vacuous='forbid', rate_floor=config.rate_floor
    )
  )
  gaps = np.full((config.seeds, len(config.sizes), 2), np.nan)
  for seed in range(config.seeds):
    for column, size in enumerate(config.sizes):
      rng = np.random.default_rng([config.seed, seed, size])
      gaps[seed, column] = _true_gaps(config, method, solve, rng, size)
  return {'gaps': gaps}


def _true_gaps(config, method, solve, rng, size: int) -> np.ndarray:
  """Gaps of the rule that one calibration sample leads to."""
  count = np.round(size * _SHARE).astype(int)
  group = np.repeat([0, 1], count)
  z = rng.standard_normal(size=len(group))
  rate = scipy.special.expit(_SLOPE[group] * z + _SHIFT[group])
  y = rng.random(len(group)) < rate
  raw = _raw(method, z)
  calibrator = fit_calibrator(
    method, raw, y.astype(int), group, num_bins=config.bins
  )
  score = functools.partial(_rounded, calibrator, config.max_atoms)
  gs = make_groups(
    score(raw, group), group, num_groups=2, max_atoms=config.max_atoms
  )
  rule = solve(gs)
  if int(rule.status) == 1:
    return np.full(2, np.nan)
  return _rates(gs, rule, lambda z, group: score(_raw(method, z), group))


def _raw(method: str, z: np.ndarray) -> np.ndarray:
  """What a calibrator is given: Platt's takes scores on the logit scale."""
  return z if method == 'platt' else scipy.special.expit(z)


def _rounded(calibrator, max_atoms: int, raw, group) -> np.ndarray:
  """Calibrated scores, rounded so that there are at most `max_atoms`."""
  levels = max_atoms - 1
  value = np.asarray(apply_calibrator(calibrator, raw, group))
  return np.round(value * levels) / levels


def _rates(gs: GroupScores, rule: Solution, score) -> np.ndarray:
  """True gaps of PPV and FOR of the rule; nan if nobody is chosen."""
  z = scipy.stats.norm.ppf((np.arange(_NODES) + 0.5) / _NODES)
  ppv, for_ = [], []
  for group in (0, 1):
    whose = np.full(_NODES, group)
    probability = np.asarray(
      decision_probabilities(rule, gs, score(z, whose), whose, snap=True)
    )
    good = scipy.special.expit(_SLOPE[group] * z + _SHIFT[group])
    with np.errstate(invalid='ignore', divide='ignore'):
      ppv.append(good @ probability / probability.sum())
      for_.append(good @ (1 - probability) / (1 - probability).sum())
  return np.asarray([np.ptp(ppv), np.ptp(for_)])


def _record(config, workdir, found) -> None:
  rows, curves = [], {}
  for method, gaps in found.items():
    worst = gaps.max(axis=2)  # nan where infeasible
    ends = []
    for size, column in zip(config.sizes, worst.T, strict=True):
      known = column[np.isfinite(column)]
      mean = low = high = np.nan
      if len(known) > 1:
        interval = stats.mean_interval(known, level=records.LEVEL)
        mean, low, high = known.mean(), *map(float, interval[:2])
      ends.append((mean, max(low, 1e-5), high))
      rows.append(
        {
          'calibrator': method,
          'people': size,
          'largest gap': mean,
          'low': low,
          'high': high,
          'feasible': float(np.isfinite(column).mean()),
        }
      )
    curves[method] = tuple(np.asarray(ends).T)
    _slope_claim(config, workdir, method, worst)
  workdir.save_table(
    'gaps',
    rows,
    'The larger of the PPV and FOR gaps on the true distribution, of the rule '
    'that follows from a calibration on so many people.',
  )
  workdir.save_figure(
    'gaps',
    plots.line_with_bands(
      np.asarray(config.sizes),
      curves,
      xlabel='people in the calibration',
      ylabel='largest gap',
      xscale='log',
      yscale='log'
      if any(np.isfinite(c[0]).any() for c in curves.values())
      else 'linear',
    ),
    'Gaps on the true distribution against the size of the calibration.',
  )


def _slope_claim(config, workdir, method: str, worst: np.ndarray) -> None:
  """That the gap falls about as n^-1/2: the slope of its mean, by bootstrap."""
  logs = np.log(np.asarray(config.sizes, float))
  centred = logs - logs.mean()

  def slope(rows):
    with warnings.catch_warnings():
      # A draw may hold only seeds without a feasible rule: nan.
      warnings.simplefilter('ignore', RuntimeWarning)
      mean = np.nanmean(rows, axis=0)
    return np.log(mean) @ centred / (centred @ centred)

  if np.isfinite(worst).sum(axis=0).min() < 3:
    return  # too few to say anything
  rng = np.random.default_rng(config.seed)
  draws = [
    slope(worst[rng.integers(len(worst), size=len(worst))]) for _ in range(1000)
  ]
  workdir.add_claim(
    records.quantile_claim(
      f'Gaps after {method} calibration fall about as n^-1/2 (slope < -0.35)',
      float(slope(worst)),
      np.asarray(draws),
      threshold=-0.35,
      sense='<',
      unit='log-log slope',
      note=f'{len(worst)} seeds',
    )
  )
