"""Calibration of raw scores, fitted in each group.

`make_groups(apply_calibrator(state, scores, groups), groups)` turns raw scores
into the calibrated ones that the rules of this family start from. Fit on other
rows than those that are judged, or take `state.out_of_fold`.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.fairness.calibrators import METHODS
from jaxlab.fairness.checks import (
  check_count,
  check_rows,
  group_numbers,
  is_traced,
  number_rows,
)

# Shapes of fewer sizes need fewer compilations.
_SMALLEST_LENGTH = 16


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class CalibratorState:
  """A calibrator for each of K groups.

  Attributes:
    params: `[K, ...]` parameters of the method, fitted on all rows.
    out_of_fold: `[n]` calibrated scores of the training rows: each by a fit
      without its own fold, or by `params` where there are no folds.
    method: name of the method, static.
  """

  params: Any
  out_of_fold: jax.Array
  method: str = dataclasses.field(metadata={'static': True})


def fit_calibrator(
  method: str,
  scores: ArrayLike,
  labels: ArrayLike,
  groups: ArrayLike,
  weights: ArrayLike | None = None,
  folds: int = 0,
  key: jax.Array | None = None,
  *,
  num_bins: int = 10,
) -> CalibratorState:
  """Fits a calibrator in each group; runs on the host.

  Args:
    method: `'histogram'` (bins of equal width), `'quantile'` (bins of equal
      mass), `'isotonic'`, `'platt'`, `'temperature'` or `'beta'`.
    scores: `[n]` raw scores: in [0, 1] for histogram, temperature and beta, any
      real numbers for the others.
    labels: `[n]` 0 or 1.
    groups: `[n]` integers from 0 to K - 1.
    weights: `[n]` weights of the rows, at least 0; 1 where it is None.
    folds: number of folds of the cross-fitted `out_of_fold` scores; 0 for none.
      Folds have each label of each group in equal parts.
    key: decides the folds.
    num_bins: bins of histogram and quantile.

  Returns:
    The calibrators, in the float type of the scores.

  Raises:
    UserError: if an argument is unknown or out of range, lengths differ, or a
      group has no rows or only one label; with folds, a single row of a label.
  """
  x, y, group, w = _checked_rows(method, scores, labels, groups, weights)
  num_bins = check_count('num_bins', num_bins)
  folds = check_count('folds', folds, 0)
  _check_labels(y, group, w, folds)
  fold = _folds(y, group, w, folds, key)
  place = _places(group)
  length = max(_SMALLEST_LENGTH, 1 << int(place.max()).bit_length())

  def padded(rows, fill):
    """`[n]` rows as `[K, length]`, one line a group."""
    out = np.full((group.max() + 1, length), fill, rows.dtype)
    out[group, place] = rows
    return out

  params, fitted = _fit(
    # Padding is in no fold, so that one mask serves all fits.
    *(padded(rows, 0) for rows in (x, y.astype(x.dtype), w.astype(x.dtype))),
    padded(fold, -1),
    method=method,
    folds=folds,
    num_bins=num_bins,
  )
  return CalibratorState(params, fitted[group, place], method)


def apply_calibrator(
  state: CalibratorState, scores: ArrayLike, groups: ArrayLike
) -> jax.Array:
  """Calibrates scores.

  Args:
    state: what `fit_calibrator` returned.
    scores: `[...]` raw scores.
    groups: `[...]` int group of each score.

  Returns:
    `[...]` probabilities; nan for a group that was not fitted, or a score that
    is nan.

  Raises:
    UserError: if shapes differ, or groups are no integers.
  """
  x = scores if is_traced(scores) else number_rows('scores', scores)
  x = jnp.asarray(x, state.out_of_fold.dtype)
  groups = jnp.asarray(group_numbers(groups), jnp.int32)
  if x.shape != groups.shape:
    raise UserError(
      f'groups has shape {groups.shape} but scores has {x.shape}; give one'
      ' group a score'
    )
  return _apply(state, x, groups)


@jax.jit
def _apply(
  state: CalibratorState, x: jax.Array, groups: jax.Array
) -> jax.Array:
  apply = METHODS[state.method].apply
  # [K, ...]: fewer reads than a row of parameters for every score.
  values = jax.vmap(apply, (0, None))(state.params, x)
  known = (groups >= 0) & (groups < values.shape[0])
  index = jnp.where(known, groups, 0)[None]
  value = jnp.take_along_axis(values, index, axis=0)[0]
  return jnp.where(known & ~jnp.isnan(x), jnp.clip(value, 0, 1), jnp.nan)


@functools.partial(jax.jit, static_argnames=('method', 'folds', 'num_bins'))
def _fit(x, y, w, fold, *, method, folds, num_bins):
  """Fits all groups on all rows and, in one go, without each fold.

  Args:
    x: `[K, L]` scores.
    y: `[K, L]` labels.
    w: `[K, L]` weights.
    fold: `[K, L]` int fold of each row.
    method: name of the method.
    folds: number of folds.
    num_bins: number of bins.

  Returns:
    `[K, ...]` parameters and `[K, L]` scores, out of fold where there are
    folds.
  """
  fit = functools.partial(METHODS[method].fit, num_bins=num_bins)
  apply = jax.vmap(METHODS[method].apply)
  # The last fit leaves out no fold.
  left_out = jnp.arange(folds + 1)[:, None, None]
  used = jnp.where(fold == left_out, 0, w)
  params = jax.vmap(lambda each: jax.vmap(fit)(x, y, each))(used)
  values = jax.vmap(apply, (0, None))(params, x)
  own = jnp.maximum(fold, 0)[None] if folds else jnp.zeros_like(fold)[None]
  scores = jnp.take_along_axis(values, own, axis=0)[0]
  whole = jax.tree.map(lambda leaf: leaf[-1], params)
  return whole, jnp.clip(scores, 0, 1)


def _checked_rows(method, scores, labels, groups, weights):
  """The rows as NumPy arrays, or the error that names the first bad value."""
  if method not in METHODS:
    known = ', '.join(METHODS)
    raise UserError(f'method={method!r} is not one of {known}.')
  x, y = number_rows('scores', scores), number_rows('labels', labels)
  group = group_numbers(groups)
  kind = x.dtype if x.dtype.kind == 'f' else float
  x = x.astype(jnp.zeros((), jax.dtypes.canonicalize_dtype(kind)).dtype)
  w = np.ones(x.shape, x.dtype)
  w = w if weights is None else number_rows('weights', weights)
  if x.ndim != 1 or not x.size:
    raise UserError(
      f'scores must be a list of at least one number, got shape {x.shape}.'
    )
  rows = {'labels': y, 'groups': group, 'weights': w}
  for name, values in rows.items():
    if values.shape != x.shape:
      raise UserError(
        f'{name} has shape {values.shape} but scores has {x.shape}; give one'
        ' entry a row.'
      )
  in_range = (x >= 0) & (x <= 1)
  if METHODS[method].takes_probabilities:
    check_rows(
      'scores', x, in_range, f"in [0, 1] for {method!r}, or use 'platt'"
    )
  check_rows('scores', x, np.isfinite(x), 'finite')
  check_rows('labels', y, (y == 0) | (y == 1), '0 or 1')
  check_rows('groups', group, group >= 0, 'integers from 0')
  check_rows('weights', w, (w >= 0) & np.isfinite(w), 'finite and at least 0')
  return x, y.astype(np.int32), group.astype(np.int32), w


def _check_labels(y, group, w, folds):
  """Raises unless every group has enough rows of both labels."""
  present = set(group[w > 0].tolist())
  absent = next(i for i in range(len(present) + 1) if i not in present)
  if absent <= group.max():
    raise UserError(
      f'group {absent} has no rows of positive weight; leave it out and number'
      ' the groups 0, 1, ... without a gap.'
    )
  counts = np.zeros((len(present), 2), int)
  np.add.at(counts, (group, y), w > 0)
  for number, count in enumerate(counts):
    if not count.all():
      raise UserError(
        f'group {number} has only label {count.argmax()}: cannot calibrate;'
        ' add rows or merge the group with another.'
      )
    if folds and count.min() < 2:
      raise UserError(
        f'group {number} has a single row of label {count.argmin()}: cannot'
        f' calibrate with folds={folds}; add rows or use folds=0.'
      )


def _places(group: np.ndarray) -> np.ndarray:
  """`[n]` number of earlier rows of the same group."""
  order = np.argsort(group, kind='stable')
  start = np.searchsorted(group[order], group[order])
  place = np.empty(group.size, int)
  place[order] = np.arange(group.size) - start
  return place


def _folds(y, group, w, folds, key):
  """`[n]` int32 folds: rows of a cell, in random order, are dealt in turn."""
  if folds == 0:
    return np.full(y.size, -1, np.int32)
  if folds < 2:
    raise UserError(f'folds={folds} must be 0 for none, or at least 2.')
  if key is None:
    raise UserError(
      f'folds={folds} needs a key: pass key=jax.random.key(seed).'
    )
  cell = np.where(w > 0, y, 2)
  order = np.lexsort((jax.random.permutation(key, y.size), cell, group))
  fold = np.empty(y.size, np.int32)
  fold[order] = np.arange(y.size) % folds
  return fold
