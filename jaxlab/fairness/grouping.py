"""From rows of (score, group) to the distribution of the score per group."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.fairness.checks import (
  check_count,
  check_rows,
  group_numbers,
  number_rows,
)
from jaxlab.fairness.types import GroupScores


def make_groups(
  scores: ArrayLike,
  groups: ArrayLike,
  sample_weight: ArrayLike | None = None,
  num_groups: int | None = None,
  max_atoms: int | None = None,
) -> GroupScores:
  """Counts the distinct scores of each group; runs on the host.

  Scores that are equal in JAX's default float type are merged exactly; rows of
  weight 0 are dropped. For crossed attributes pass the index of the
  combination as the group.

  Args:
    scores: `[n]` calibrated probabilities `P(Y=1 | S, A)` in [0, 1].
    groups: `[n]` integers in `0..num_groups-1`.
    sample_weight: `[n]` non-negative weights; 1 by default.
    num_groups: K; by default the largest group label + 1.
    max_atoms: m, the number of distinct scores to pad to; by default the
      largest that occurs in a group.

  Returns:
    The `GroupScores` in JAX's default float type (float64 under x64).

  Raises:
    UserError: for lengths that differ, scores outside [0, 1], bad labels or
      weights, an empty group, or more distinct scores than `max_atoms`.
  """
  if max_atoms is not None:
    max_atoms = check_count('max_atoms', max_atoms)
  dtype = jnp.zeros(()).dtype
  score, group, weight = _checked_rows(scores, groups, sample_weight)
  num_groups = _checked_num_groups(group, num_groups)
  kept = weight > 0
  score, group, weight = score[kept].astype(dtype), group[kept], weight[kept]
  # By a power of two, that is exactly, so that sums do not overflow.
  weight = np.ldexp(weight, -np.frexp(weight.max())[1])
  occupied = np.unique(group)
  if len(occupied) < num_groups:
    gaps = np.append(occupied, -1) != np.arange(len(occupied) + 1)
    raise UserError(
      f'group {int(gaps.argmax())} has no rows of positive weight; '
      'leave it out and number the groups 0, 1, ... without a gap'
    )

  order = np.lexsort((-score, group))
  score, group, weight = score[order], group[order], weight[order]
  is_new = np.diff(score, prepend=np.nan) != 0
  is_new |= np.diff(group, prepend=-1) != 0
  starts = np.flatnonzero(is_new)
  score, group = score[starts], group[starts]
  total = np.add.reduceat(weight, starts)

  n_atoms = np.bincount(group, minlength=num_groups)
  width = int(n_atoms.max()) if max_atoms is None else max_atoms
  if width < n_atoms.max():
    worst = int(n_atoms.argmax())
    raise UserError(
      f'group {worst} has {n_atoms[worst]} distinct scores, more than '
      f'max_atoms={width}; raise max_atoms or round the scores'
    )
  first = np.cumsum(n_atoms) - n_atoms
  column = np.arange(len(group)) - first[group]
  padded = np.repeat(score[first + n_atoms - 1][:, None], width, axis=1)
  padded[group, column] = score
  mass = np.zeros((num_groups, width))
  mass[group, column] = total
  group_total = mass.sum(axis=1)
  return GroupScores(
    scores=jnp.asarray(padded, dtype),
    mass=jnp.asarray(mass / group_total[:, None], dtype),
    weight=jnp.asarray(group_total / group_total.sum(), dtype),
    n_atoms=jnp.asarray(n_atoms, jnp.int32),
  )


def _checked_rows(
  scores: ArrayLike, groups: ArrayLike, sample_weight: ArrayLike | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """The rows as NumPy arrays, or the error that names the first bad value."""
  score = number_rows('scores', scores).astype(np.float64)
  group = group_numbers(groups)
  weight = np.ones(score.shape)
  if sample_weight is not None:
    weight = number_rows('sample_weight', sample_weight).astype(np.float64)
  if score.ndim != 1 or not score.size:
    raise UserError(
      f'scores must be a list of at least one number, got shape {score.shape}'
    )
  for name, rows in ('groups', group), ('sample_weight', weight):
    if rows.shape != score.shape:
      raise UserError(
        f'{name} has shape {rows.shape} but scores has {score.shape}; give '
        'one entry a row'
      )
  bad = ~((score >= 0) & (score <= 1))
  if bad.any():
    row = int(bad.argmax())
    raise UserError(
      f'scores must lie in [0, 1], got {score[row]} in row {row}; calibrate '
      'them first'
    )
  good = (weight >= 0) & np.isfinite(weight)
  check_rows('sample_weight', weight, good, 'finite and >= 0')
  if not weight.any():
    raise UserError('sample_weight is 0 in all rows; give some rows a weight')
  return score, group, weight


def _checked_num_groups(group: np.ndarray, num_groups: int | None) -> int:
  """K, or the error that names the label outside `0..K-1`."""
  if num_groups is None:
    num_groups = int(group.max()) + 1 if group.min() >= 0 else len(group)
  num_groups = check_count('num_groups', num_groups)
  bad = (group < 0) | (group >= num_groups)
  if bad.any():
    row = int(bad.argmax())
    raise UserError(
      f'groups must lie in 0..{num_groups - 1}, got {group[row]} in row {row}'
    )
  return num_groups


def check_groups(gs: GroupScores) -> GroupScores:
  """Returns groups that were made by hand if they are well formed.

  Runs on the host; `make_groups` needs no check.

  Args:
    gs: `[..., K, m]` groups.

  Raises:
    UserError: naming what is wrong.
  """
  s, mass, weight, n = map(np.asarray, gs)
  slack = 64 * s.shape[-1] * np.finfo(s.dtype).eps
  is_padding = np.arange(s.shape[-1]) >= n[..., None]
  for is_good, wanted in (
    (((s >= 0) & (s <= 1)).all(), 'scores in [0, 1]'),
    ((np.diff(s) <= 0).all(), 'scores that fall along the last axis'),
    ((mass >= 0).all(), 'masses of at least 0'),
    ((mass[is_padding] == 0).all(), 'no mass from n_atoms on'),
    ((np.abs(mass.sum(-1) - 1) <= slack).all(), 'masses that sum to 1'),
    ((weight >= 0).all(), 'weights of at least 0'),
    ((np.abs(weight.sum(-1) - 1) <= slack).all(), 'weights that sum to 1'),
  ):
    if not is_good:
      raise UserError(f'gs must have {wanted}; make_groups makes such groups')
  return gs
