"""How well scores are calibrated, and how firmly a rule keeps its rates.

Measure on rows that neither the calibrator nor the rule has seen.
"""

import functools
import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab import stats
from jaxlab.errors import UserError
from jaxlab.fairness.checks import number_rows
from jaxlab.fairness.metrics import group_metrics, largest_gap
from jaxlab.fairness.types import GroupScores

# How unlikely a warning about calibrated scores is.
_FALSE_ALARM = 0.01

_wilson_interval = jax.jit(stats.wilson_interval)


class Reliability(NamedTuple):
  """Labels beside scores, by group and cell; nan in cells without rows.

  Cells are bins of the score, or the scores of a `GroupScores`.

  Attributes:
    weight: `[K, B]` total weight of the rows.
    trials: `[K, B]` number of equally weighted rows of the same precision.
    score: `[K, B]` mean score.
    rate: `[K, B]` share of label 1.
    low: `[K, B]` lower end of Wilson's interval of the rate.
    high: `[K, B]` upper end.
  """

  weight: jax.Array
  trials: jax.Array
  score: jax.Array
  rate: jax.Array
  low: jax.Array
  high: jax.Array


@functools.partial(jax.jit, static_argnames=('num_groups', 'num_bins'))
def reliability_table(
  scores: ArrayLike,
  labels: ArrayLike,
  groups: ArrayLike,
  num_groups: int,
  weights: ArrayLike | None = None,
  *,
  num_bins: int = 10,
  level: ArrayLike = 0.95,
) -> Reliability:
  """Share of label 1 in bins of equal width, `(b, b+1] / num_bins`.

  Args:
    scores: `[n]` probabilities.
    labels: `[n]` 0 or 1.
    groups: `[n]` int groups in `[0, num_groups)`.
    num_groups: K, static.
    weights: `[n]` weights; 1 where it is None.
    num_bins: number of bins, static.
    level: confidence level of the intervals.
  """
  s = jnp.asarray(scores)
  edges = jnp.arange(1, num_bins, dtype=s.dtype) / num_bins
  cell = jnp.asarray(groups) * num_bins + jnp.searchsorted(edges, s)
  shape = num_groups, num_bins
  return _tabulate(s, labels, cell, shape, weights, level)


@jax.jit
def observed_rates(
  gs: GroupScores,
  scores: ArrayLike,
  labels: ArrayLike,
  groups: ArrayLike,
  weights: ArrayLike | None = None,
  *,
  level: ArrayLike = 0.95,
) -> Reliability:
  """Share of label 1 at each score of a distribution.

  Args:
    gs: score distributions, without leading axes.
    scores: `[n]` probabilities; each counts for the nearest score of its group.
    labels: `[n]` 0 or 1.
    groups: `[n]` int groups.
    weights: `[n]` weights; 1 where it is None.
    level: confidence level of the intervals.

  Returns:
    The rates `[K, m]`.
  """
  s, group = jnp.asarray(scores, gs.scores.dtype), jnp.asarray(groups)
  # Ascending midpoints between neighbours; padding has none of its own.
  rising = gs.scores[:, ::-1]
  middle = (rising[:, 1:] + rising[:, :-1]) / 2
  place = jax.vmap(lambda m: jnp.searchsorted(m, s, side='right'))(middle)
  last = gs.scores.shape[1] - 1
  index = last - jnp.take_along_axis(place, group[None], axis=0)[0]
  cell = group * (last + 1) + jnp.minimum(index, gs.n_atoms[group] - 1)
  return _tabulate(s, labels, cell, gs.scores.shape, weights, level)


def expected_calibration_error(table: Reliability) -> jax.Array:
  """`[K]` mean of |share of label 1 - mean score| over the rows of a group."""
  return _mean(table, jnp.abs(table.rate - table.score))


def calibration_in_the_large(table: Reliability) -> jax.Array:
  """`[K]` share of label 1 minus mean score of a group."""
  return _mean(table, table.rate - table.score)


def check_calibration(
  gs: GroupScores,
  y: ArrayLike,
  tol: float = 0.02,
  *,
  trials: ArrayLike | None = None,
) -> float:
  """Warns where scores are not the rates they claim to be; for the host.

  Args:
    gs: score distributions, without leading axes.
    y: `[K, m]` share of label 1 at each score, `observed_rates(...).rate`; nan
      where there is none.
    tol: largest difference to pass over.
    trials: `[K, m]` rows behind each share, `observed_rates(...).trials`. If
      given, a difference counts only where chance hardly explains it: at
      calibrated scores a warning has a probability of about 1 %.

  Returns:
    The largest difference that counts; 0 without one.

  Raises:
    UserError: for another shape, such as labels of rows.
  """
  scores, rates = np.asarray(gs.scores), number_rows('y', y)
  for name, cells in ('y', rates), ('trials', trials):
    if cells is not None and np.shape(cells) != scores.shape:
      raise UserError(
        f'{name} has shape {np.shape(cells)} but the scores of gs have '
        f'{scores.shape}; for labels of rows use observed_rates(gs, scores, '
        'labels, groups), its rate and trials'
      )
  difference = np.where(np.asarray(gs.mass) > 0, np.abs(rates - scores), np.nan)
  seen = np.isfinite(difference)
  if trials is not None:
    level = 1 - _FALSE_ALARM / max(seen.sum(), 1)
    n = np.asarray(trials)
    low, high = _wilson_interval(np.nan_to_num(rates) * n, n, level)
    seen &= (scores < np.asarray(low)) | (scores > np.asarray(high))
  difference = np.where(seen, difference, 0)
  group, atom = np.unravel_index(difference.argmax(), difference.shape)
  largest = float(difference[group, atom])
  if largest > tol:
    warnings.warn(
      f'scores are not calibrated: in group {group} the share of label 1 at'
      f' score {scores[group, atom]:.4g} is {rates[group, atom]:.4g}, off by'
      f' {largest:.4g} (tol={tol:g}); fit_calibrator calibrates them.',
      stacklevel=2,
    )
  return largest


class Robustness(NamedTuple):
  """Rates of a rule on labelled rows, with bootstrap intervals.

  Attributes:
    ppv: `[K]` PPV of each group.
    for_: `[K]` FOR of each group.
    ppv_gap: largest difference of PPV between groups.
    for_gap: largest difference of FOR.
    ppv_interval: `[K]` interval of `ppv`.
    for_interval: `[K]` interval of `for_`.
    ppv_gap_interval: interval of `ppv_gap`.
    for_gap_interval: interval of `for_gap`. Gaps are never negative: intervals
      of gaps that are truly 0 lie above 0.
  """

  ppv: jax.Array
  for_: jax.Array
  ppv_gap: jax.Array
  for_gap: jax.Array
  ppv_interval: stats.Interval
  for_interval: stats.Interval
  ppv_gap_interval: stats.Interval
  for_gap_interval: stats.Interval


@functools.partial(jax.jit, static_argnames=('num_groups', 'num_resamples'))
def rate_robustness(
  key: jax.Array,
  y: ArrayLike,
  r_prob: ArrayLike,
  groups: ArrayLike,
  num_groups: int,
  weights: ArrayLike | None = None,
  *,
  num_resamples: int = 1000,
  level: ArrayLike = 0.95,
) -> Robustness:
  """Bootstrap of a rule's PPV, FOR and their gaps over held-out rows.

  Args:
    key: PRNG key.
    y: `[n]` labels, 0 or 1.
    r_prob: `[n]` probability of a positive decision.
    groups: `[n]` int groups in `[0, num_groups)`.
    num_groups: K, static.
    weights: `[n]` weights of the rows; 1 where it is None.
    num_resamples: number of resamples of the rows.
    level: confidence level.

  Returns:
    Percentile intervals over the resamples in which the rate is defined.
  """
  r = jnp.asarray(r_prob)
  w = jnp.ones_like(r) if weights is None else jnp.asarray(weights)
  rows = jnp.asarray(y), r, jnp.asarray(groups), w
  statistic = _rates_of_rows(num_groups)
  found = stats.bootstrap_distribution(
    key, rows, statistic, num_resamples=num_resamples
  )
  tails = jnp.stack([0.5 - 0.5 * jnp.asarray(level), 0.5 + 0.5 * level])
  low, high = jnp.nanquantile(found, tails, axis=0)
  point = statistic(rows)

  def interval(part):
    return stats.Interval(low[part], high[part])

  ppv, for_ = slice(num_groups), slice(num_groups, 2 * num_groups)
  return Robustness(
    ppv=point[ppv],
    for_=point[for_],
    ppv_gap=point[-2],
    for_gap=point[-1],
    ppv_interval=interval(ppv),
    for_interval=interval(for_),
    ppv_gap_interval=interval(-2),
    for_gap_interval=interval(-1),
  )


@functools.cache
def _rates_of_rows(num_groups: int) -> Callable[..., jax.Array]:
  """The same function object for the same K: compiled once."""

  def statistic(rows):
    y, r_prob, groups, weights = rows
    rates = group_metrics(y, r_prob, groups, num_groups, weights)
    gaps = jnp.stack([largest_gap(rates.ppv), largest_gap(rates.for_)])
    return jnp.concatenate([rates.ppv, rates.for_, gaps])

  return statistic


def _tabulate(
  s: jax.Array,
  labels: ArrayLike,
  cell: jax.Array,
  shape: tuple[int, ...],
  weights: ArrayLike | None,
  level: ArrayLike,
) -> Reliability:
  w = jnp.ones_like(s) if weights is None else jnp.asarray(weights, s.dtype)
  y = jnp.asarray(labels, s.dtype)
  columns = jnp.stack([w, w * w, w * s, w * y], axis=-1)
  size = shape[0] * shape[1]
  sums = jax.ops.segment_sum(columns, cell, size).reshape(*shape, 4)
  total, squares, score, positive = jnp.moveaxis(sums, -1, 0)
  full = total > 0
  whole = jnp.where(full, total, 1)
  rate = positive / whole
  trials = jnp.where(full, total**2 / jnp.where(full, squares, 1), 0)
  low, high = stats.wilson_interval(rate * trials, trials, level)
  return Reliability(
    weight=total,
    trials=trials,
    score=jnp.where(full, score / whole, jnp.nan),
    rate=jnp.where(full, rate, jnp.nan),
    low=low,
    high=high,
  )


def _mean(table: Reliability, values: jax.Array) -> jax.Array:
  known = jnp.where(table.weight > 0, values, 0)
  return jnp.sum(table.weight * known, axis=-1) / jnp.sum(table.weight, axis=-1)
