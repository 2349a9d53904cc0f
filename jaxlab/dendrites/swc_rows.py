"""Rows of SWC files: parsing, and faults in the tree that they should be."""

import math
from typing import NamedTuple

import numpy as np

from jaxlab.dendrites.morphology import SOMA, MorphologyError

_FIELDS = ('id', 'type', 'x', 'y', 'z', 'radius', 'parent')
_WHOLE = ('id', 'type', 'parent')
_ROOT = -1


class Rows(NamedTuple):
  """Points of a neuron in the order of their ids.

  Attributes:
    ids: `[n]` int64 ids, rising.
    type: `[n]` int64 SWC types.
    points: `[n, 4]` float64 x, y, z and radius in um.
    parent: `[n]` int64 row of each point's parent; -1 at a root.
  """

  ids: np.ndarray
  type: np.ndarray
  points: np.ndarray
  parent: np.ndarray


def parse_rows(text: str, on_multiple_roots: str) -> tuple[Rows, list[str]]:
  """Reads rows that make one tree.

  Faults are looked for in this order: a row that does not parse, no rows, a
  radius, an unknown parent, a cycle, several roots.

  Args:
    text: content of an SWC file.
    on_multiple_roots: 'error', or 'largest' to keep the tree of most points.

  Returns:
    The rows, and a line for each repair.

  Raises:
    MorphologyError: if there is a fault.
  """
  numbers = _numbers(text)
  if not numbers:
    raise MorphologyError('the SWC file is empty; it needs a row a point.')
  table = np.array(numbers)
  report = []
  if (np.diff(table[:, 0]) < 0).any():
    report.append('the rows were not in the order of their ids: sorted.')
    table = table[np.argsort(table[:, 0])]
  ids, kind, links = table[:, [0, 1, 6]].astype(np.int64).T
  points = table[:, 2:6]
  bad = ~((points[:, 3] > 0) & np.isfinite(points[:, 3]))
  if bad.any():
    row = bad.argmax()
    raise MorphologyError(
      f'point {ids[row]}: radius {points[row, 3]} must be positive and finite.'
    )
  rows = Rows(ids, kind, points, _parent_rows(ids, links))
  return _one_tree(rows, on_multiple_roots, report)


def take(rows: Rows, kept: np.ndarray) -> Rows:
  """Returns the rows of a mask; they must hold the parents of all of them."""
  parent = rows.parent[kept]
  return Rows(
    rows.ids[kept],
    rows.type[kept],
    rows.points[kept],
    np.where(parent < 0, -1, (np.cumsum(kept) - 1)[parent]),
  )


def oddities(rows: Rows) -> list[str]:
  """Returns a line for everything that is legal but seldom meant."""
  found = []
  if not (rows.type == SOMA).any():
    found.append('there is no soma (type 1): the first section is the root.')
  unusual = sorted({int(t) for t in rows.type if not SOMA <= t <= 4})
  if unusual:
    found.append(f'types {unusual} are none of soma, axon, basal and apical.')
  child = np.flatnonzero(rows.parent >= 0)
  same = rows.points[child, :3] == rows.points[rows.parent[child], :3]
  count = int(same.all(axis=1).sum())
  if count:
    found.append(f'{count} points lie where their parents are.')
  return found


def _numbers(text: str) -> list[list[float]]:
  rows: list[list[float]] = []
  line_of: dict[float, int] = {}
  for line, content in enumerate(text.splitlines(), 1):
    fields = content.partition('#')[0].replace(',', ' ').split()
    if not fields:
      continue
    if len(fields) < len(_FIELDS):
      raise MorphologyError(
        f'line {line}: {len(fields)} numbers, not the {len(_FIELDS)} of a row'
        f' ({", ".join(_FIELDS)}).'
      )
    pairs = zip(_FIELDS, fields, strict=False)
    row = [_number(line, name, field) for name, field in pairs]
    if row[0] in line_of:
      raise MorphologyError(
        f'line {line}: id {fields[0]} is that of line {line_of[row[0]]}; make'
        ' ids unique.'
      )
    line_of[row[0]] = line
    rows.append(row)
  return rows


def _number(line: int, name: str, field: str) -> float:
  wanted = 'a whole number' if name in _WHOLE else 'a number'
  try:
    value = float(field)
  except ValueError:
    raise MorphologyError(
      f'line {line}: {name} {field!r} is not {wanted}.'
    ) from None
  whole = name not in _WHOLE or value.is_integer()
  if name != 'radius' and not (math.isfinite(value) and whole):
    raise MorphologyError(f'line {line}: {name} {field!r} is not {wanted}.')
  return value


def _parent_rows(ids: np.ndarray, links: np.ndarray) -> np.ndarray:
  place = np.searchsorted(ids, links).clip(max=len(ids) - 1)
  unknown = (links != _ROOT) & (ids[place] != links)
  if unknown.any():
    row = unknown.argmax()
    raise MorphologyError(
      f'point {ids[row]}: parent {links[row]} is not the id of a row; a root'
      ' has parent -1.'
    )
  return np.where(links == _ROOT, -1, place)


def _roots(parent: np.ndarray) -> np.ndarray:
  """Returns `[n]` the root above each row, -1 where a cycle is above it."""
  top = np.where(parent < 0, np.arange(len(parent)), parent)
  for _ in range(max(1, len(parent).bit_length())):
    top = top[top]
  return np.where(parent[top] < 0, top, -1)


def _one_tree(
  rows: Rows, on_multiple_roots: str, report: list[str]
) -> tuple[Rows, list[str]]:
  root = _roots(rows.parent)
  if (root < 0).any():
    raise MorphologyError(
      f'point {rows.ids[(root < 0).argmax()]} is in or below a cycle of'
      ' parents; every path of parents must end at a root, whose parent is -1.'
    )
  tops, counts = np.unique(root, return_counts=True)
  if len(tops) == 1:
    return rows, report
  named = ', '.join(map(str, rows.ids[tops][:5]))
  named += ', ...' if len(tops) > 5 else ''
  if on_multiple_roots != 'largest':
    raise MorphologyError(
      f'{len(tops)} points have no parent (ids {named}), but a neuron has one'
      " root; set on_multiple_roots='largest' to keep the largest tree."
    )
  kept = root == tops[counts.argmax()]
  report.append(
    f'{len(tops)} roots (ids {named}): kept the tree of {kept.sum()} points,'
    f' dropped {(~kept).sum()} points.'
  )
  return take(rows, kept), report
