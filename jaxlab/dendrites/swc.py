"""SWC files, cut into sections as NEURON's import does.

Format: Cannon et al. (1998), J. Neurosci. Methods 84:49-54; somata of three
points: neuromorpho.org. The rules for sections, for where they attach and for
where their cable starts are those of Import3d of NEURON 9. They differ in one
place: where the first point of a neurite has children besides the next row,
NEURON goes by the order of rows and takes the second row of a file apart; here
such children attach to the 0-end, whatever their order and type.
"""

import itertools
import operator
import os
import pathlib
from typing import NamedTuple

import numpy as np

from jaxlab.dendrites import morphology, swc_rows
from jaxlab.dendrites.morphology import (
  SOMA,
  Morphology,
  MorphologyError,
  Section,
)
from jaxlab.dendrites.swc_rows import Rows

# A soma of three points is a sphere if its ends are a diameter apart.
_SPHERE_TOLERANCE = 0.01


def read_swc(
  path: str | os.PathLike[str],
  *,
  soma: str = 'auto',
  on_multiple_roots: str = 'error',
) -> Morphology:
  """Reads a reconstructed neuron; see `parse_swc`.

  Raises:
    MorphologyError: if the file cannot be read or is no neuron; the message
      begins with the path.
  """
  path = pathlib.Path(path)
  try:
    text = path.read_text(encoding='utf-8-sig', errors='replace')
  except OSError as error:
    raise MorphologyError(
      f'{path}: {error.strerror or error}; make it a readable file.'
    ) from error
  try:
    return parse_swc(text, soma=soma, on_multiple_roots=on_multiple_roots)
  except MorphologyError as error:
    raise MorphologyError(f'{path}: {error}') from error


def parse_swc(
  text: str, *, soma: str = 'auto', on_multiple_roots: str = 'error'
) -> Morphology:
  """Cuts a reconstructed neuron into sections.

  A section is a run of points of one type. A soma of one point is a cylinder
  of the sphere's area, and neurites start at their own first point; else the
  soma is a stack of frusta.

  Args:
    text: rows of id, type, x, y, z, radius and parent, between blanks or
      commas, in any order; what follows a `#` is a comment.
    soma: 'auto' takes a soma of three points that mark a sphere for one point;
      'frusta' stacks frusta along them.
    on_multiple_roots: 'error', or 'largest' to keep the tree of most points.

  Raises:
    MorphologyError: if a row does not parse, there is none, a radius is not
      positive, a parent is unknown, parents form a cycle or there are several
      roots.
    ValueError: if an option is unknown.
  """
  _check('soma', soma, ('auto', 'frusta'))
  _check('on_multiple_roots', on_multiple_roots, ('error', 'largest'))
  rows, report = swc_rows.parse_rows(text, on_multiple_roots)
  report += swc_rows.oddities(rows)
  if soma == 'auto' and (ends := _sphere_ends(rows)) is not None:
    report.append('the three points of the soma mark a sphere: taken for one.')
    kept = ~np.isin(np.arange(len(rows.ids)), ends)
    rows = swc_rows.take(rows, kept)
  return Morphology(_sections(rows, report), tuple(report))


class _Runs(NamedTuple):
  """Rows in runs, each of which becomes a section.

  Attributes:
    first: `[m]` first row of each run.
    last: `[m]` its last row.
    of: `[n]` run of each row.
    splits: `[n]` bool: children that are not the next row attach to the 0-end.
  """

  first: np.ndarray
  last: np.ndarray
  of: np.ndarray
  splits: np.ndarray


class _Piece(NamedTuple):
  """A section that has no name yet; see `Section`."""

  type: int
  points: np.ndarray
  parent: int
  parent_x: float


def _sections(rows: Rows, report: list[str]) -> tuple[Section, ...]:
  is_soma = rows.type == SOMA
  within = is_soma & (rows.parent >= 0) & is_soma[rows.parent]
  soma_children = np.bincount(rows.parent[within], minlength=len(rows.ids))
  runs = _runs(rows, soma_children)
  pieces = []
  for first, last in zip(runs.first, runs.last, strict=True):
    points = rows.points[first : last + 1]
    above = rows.parent[first]
    parent, x = -1, 0.5
    if above >= 0:
      parent = int(runs.of[above])
      x, from_parent = _attachment(rows, runs, soma_children, first, above)
      if from_parent or len(points) == 1:
        start = rows.points[above].copy()
        if is_soma[above] and not is_soma[first]:
          start[3] = points[0, 3]
        points = np.concatenate([start[None], points])
    elif len(points) == 1:
      points = morphology.sphere(points[0, :3], points[0, 3])
    pieces.append(_Piece(int(rows.type[first]), points, parent, x))
  pieces = _without_points(pieces, report)
  names = morphology.numbered([piece.type for piece in pieces])
  return tuple(
    Section(n, *piece) for n, piece in zip(names, pieces, strict=True)
  )


def _without_points(pieces: list[_Piece], report: list[str]) -> list[_Piece]:
  """Drops pieces of no length; what hangs on them attaches above them."""
  empty = [
    piece.parent >= 0 and bool(np.ptp(piece.points[:, :3], axis=0).max() == 0)
    for piece in pieces
  ]
  if not any(empty):
    return pieces
  report.append(f'{sum(empty)} sections of no length: dropped.')
  place = np.cumsum(~np.array(empty)) - 1
  kept = []
  for piece in itertools.compress(pieces, map(operator.not_, empty)):
    parent, x = piece.parent, piece.parent_x
    while parent >= 0 and empty[parent]:
      parent, x = pieces[parent].parent, pieces[parent].parent_x
    parent = int(place[parent]) if parent >= 0 else -1
    kept.append(piece._replace(parent=parent, parent_x=x))
  return kept


def _runs(rows: Rows, soma_children: np.ndarray) -> _Runs:
  n = len(rows.ids)
  kind, parent = rows.type, rows.parent
  children = np.bincount(parent[parent >= 0], minlength=n)
  is_root = parent < 0
  splits = (kind != SOMA) & (is_root | (kind[parent] == SOMA))
  trunk = (kind == SOMA) & (is_root | (soma_children < 2))
  followed = np.zeros(n, bool)
  followed[:-1] = (parent[1:] == np.arange(n - 1)) & (kind[1:] == kind[:-1])
  followed &= (children == 1) | splits | trunk
  first = np.flatnonzero(~np.append(False, followed[:-1]))
  return _Runs(
    first,
    np.flatnonzero(~followed),
    np.searchsorted(first, np.arange(n), 'right') - 1,
    splits,
  )


def _attachment(
  rows: Rows,
  runs: _Runs,
  soma_children: np.ndarray,
  child: int,
  point: int,
) -> tuple[float, bool]:
  """Where a section attaches, and whether its cable starts at that point.

  Args:
    rows: the points.
    runs: their runs.
    soma_children: `[n]` soma points that are children of each soma point.
    child: the section's first row.
    point: the row of its parent.
  """
  run = runs.of[point]
  first, last = runs.first[run], runs.last[run]
  is_soma = bool(rows.type[child] == SOMA)
  on_soma = bool(rows.type[point] == SOMA)
  outside = is_soma or soma_children[point] < 2
  if point == first and rows.parent[first] < 0:
    if on_soma and first == last and not is_soma:
      return 0.5, False
    return 0.0, outside
  if not on_soma:
    return float(child == point + 1 or not runs.splits[point]), True
  return (1.0, outside) if point == last else (0.5, is_soma)


def _sphere_ends(rows: Rows) -> np.ndarray | None:
  """The two soma points that are ends of a sphere's diameter, if they are."""
  soma = np.flatnonzero(rows.type == SOMA)
  if soma.tolist() != [0, 1, 2]:
    return None
  points = rows.points[soma]
  if (
    rows.parent[:3].tolist() != [-1, 0, 0]
    or np.isin(rows.parent, soma[1:]).any()
    or (points[:, 3] != points[0, 3]).any()
  ):
    return None
  across = np.linalg.norm(points[1:, :3] - points[0, :3], axis=1).sum()
  diameter = 2 * points[0, 3]
  is_sphere = abs(across - diameter) <= _SPHERE_TOLERANCE * diameter
  return soma[1:] if is_sphere else None


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
  if value not in known:
    raise ValueError(f'{name}={value!r} must be one of {", ".join(known)}.')
