"""From sensitive features of rows to the numbers of their groups."""

import math
from typing import Any

import numpy as np

from jaxlab.errors import UserError


def encode_groups(sensitive_features: Any, n: int) -> tuple[list, np.ndarray]:
  """Numbers the distinct rows of the sensitive features.

  Args:
    sensitive_features: `[n]` or `[n, f]`, array, list or frame; one group
      where it is None.
    n: number of rows.

  Returns:
    The groups, sorted, tuples where there are several features; and `[n]` the
    index of each row's group.

  Raises:
    UserError: if there is not one entry a row.
  """
  groups = set(_rows(sensitive_features, n))
  try:
    ordered = sorted(groups)
  except TypeError:  # of different types
    ordered = sorted(groups, key=str)
  return ordered, lookup_groups(sensitive_features, n, ordered)


def lookup_groups(sensitive_features: Any, n: int, groups: list) -> np.ndarray:
  """The index in `groups` of each row's group, `[n]`.

  Raises:
    UserError: naming a group that is not among them, or if the features are
      missing.
  """
  if sensitive_features is None and len(groups) > 1:
    raise UserError(
      f'sensitive_features is missing; the rule is for the groups {groups}'
    )
  if len(groups) == 1 and sensitive_features is None:
    return np.zeros(n, np.int64)
  index = {group: code for code, group in enumerate(groups)}
  rows = _rows(sensitive_features, n)
  unknown = [row for row in rows if row not in index]
  if unknown:
    raise UserError(
      f'sensitive_features has the group {unknown[0]!r}, unknown to '
      f'the rule; it is for the groups {groups}'
    )
  return np.array([index[row] for row in rows], np.int64)


def check_occupied(groups: list, codes: np.ndarray, weight: Any) -> None:
  """Refuses groups whose rows count for nothing.

  Raises:
    UserError: naming the group.
  """
  if weight is None:
    return
  totals = np.bincount(codes, weight, len(groups))
  for group, total in zip(groups, totals, strict=True):
    if total <= 0:
      raise UserError(
        f'group {group!r} has no rows of positive weight; leave it out'
      )


def _rows(sensitive_features: Any, n: int) -> list:
  """A hashable group for each row."""
  if sensitive_features is None:
    return ['all'] * n
  values = np.asarray(sensitive_features)
  if values.ndim not in (1, 2) or len(values) != n:
    raise UserError(
      f'sensitive_features must have one entry for each of {n} rows of X, got '
      f'shape {values.shape}'
    )
  rows = values.reshape(n, -1).tolist()
  for i, row in enumerate(rows):
    for value in filter(_is_missing, row):
      raise UserError(
        f'sensitive_features has {value} in row {i}; name that group'
      )
  if values.ndim == 2 and values.shape[1] > 1:
    return [tuple(row) for row in rows]
  return [row[0] for row in rows]


def _is_missing(value: Any) -> bool:
  return value is None or (isinstance(value, float) and math.isnan(value))
