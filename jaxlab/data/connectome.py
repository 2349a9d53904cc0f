"""Directed connectomes: five that are ready, and files in common formats.

The worms are from Witvliet et al. (2021) and White et al. (1986), read from the
Python package cect; the fly larva's mushroom bodies are from Eichler et al.
(2017), read from graspologic. Weights are numbers of synapses or contacts.
"""

import csv
import os
import pathlib
import zipfile
from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np

from jaxlab import errors
from jaxlab.data import files, tables

_FILES = {
  'witvliet8': 'celegans_witvliet8_adult_chemical.csv',
  'witvliet1': 'celegans_witvliet1_L1_chemical.csv',
  'white1986': 'celegans_white1986_chemical.csv',
  'larva_left': 'drosophila_larva_mushroom_body_left.csv',
  'larva_right': 'drosophila_larva_mushroom_body_right.csv',
}
_ORIGIN = (
  'the Python packages cect 0.3.5 (worms) and graspologic 3.4.4 (larva) as'
  ' tables with the columns pre, post and weight'
)
SPLITS = tuple(_FILES)


class Connectome(NamedTuple):
  """A weighted directed graph.

  Attributes:
    names: the N nodes, in the order of their first occurrence in the file.
    pre: `[E]` int32 nodes that the edges leave.
    post: `[E]` int32 nodes that they enter.
    weight: `[E]` float64 weights, none of them 0.
  """

  names: Sequence[str]
  pre: np.ndarray
  post: np.ndarray
  weight: np.ndarray


def adjacency(
  connectome: Connectome, num_nodes: int | None = None
) -> np.ndarray:
  """Returns `[N, N]` bool A: an edge i -> j of weight > 0 is `A[i, j]`.

  Args:
    connectome: the graph.
    num_nodes: N, where there are nodes without edges; they come last.
  """
  return weight_matrix(connectome, num_nodes).T > 0


def weight_matrix(
  connectome: Connectome, num_nodes: int | None = None
) -> np.ndarray:
  """Returns `[N, N]` float64 W: the weight from i to j is `W[j, i]`.

  Raises:
    UserError: if there are more nodes than `num_nodes`.
  """
  named = len(connectome.names)
  size = named if num_nodes is None else num_nodes
  if size < named:
    raise errors.UserError(
      f'num_nodes={num_nodes}, but the connectome has {named} nodes.'
    )
  matrix = np.zeros((size, size))
  np.add.at(matrix, (connectome.post, connectome.pre), connectome.weight)
  return matrix


def read_file(path: str | os.PathLike[str]) -> Connectome:
  """Reads a connectome by the ending of its name.

  - `.csv`: rows pre, post and, if any, weight under these names; or a square
    matrix, with or without names, whose rows are the sources;
  - `.xlsx`: such a matrix on the first sheet (needs openpyxl);
  - `.graphml`: edges with an optional attribute `weight`; undirected ones
    count in both directions;
  - `.mat`: a square matrix, `CIJ` in the files of the Brain Connectivity
    Toolbox, and `Names` if there are any.

  Raises:
    UserError: if the file cannot be read or holds no such graph.
  """
  path = pathlib.Path(path)
  readers: dict[str, Callable[[pathlib.Path], Connectome]] = {
    '.csv': _read_csv,
    '.xlsx': _read_xlsx,
    '.graphml': _read_graphml,
    '.mat': _read_mat,
  }
  if path.suffix.lower() not in readers:
    raise errors.UserError(
      f'{path} ends in none of {", ".join(readers)}; convert it to one of them.'
    )
  try:
    return readers[path.suffix.lower()](path)
  except OSError as error:
    raise errors.UserError(
      f'{path}: {error.strerror or error}; make it a readable file.'
    ) from error


def load(
  split: str | None = None, *, file: str | os.PathLike[str] | None = None
) -> Connectome:
  """Reads a connectome.

  Args:
    split: 'witvliet8' (adult worm), 'witvliet1' (young larva of the worm),
      'white1986', 'larva_left' or 'larva_right' (mushroom body of the fly).
    file: a file of your own instead; see `read_file`.

  Raises:
    UserError: if the split is unknown or the file damaged.
    MissingDataError: if the file is not on this machine.
  """
  if file is not None:
    files.no_split('connectome with a file', split)
    return read_file(file)
  return read_file(files.find(_raw(split))[0])


def prepare(manual_dir: str | None = None) -> str:
  """Checks the five files, and copies those of `manual_dir` to the cache."""
  raw = files.RawFiles(
    'connectome', [[name] for name in _FILES.values()], _ORIGIN, 'motif_rnn'
  )
  found = files.find(raw, manual_dir)
  for path in found:
    read_file(path)
  return files.keep(raw, found, manual_dir)


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source and sizes; see `jaxlab.data.describe`."""
  rows = [
    ('source', 'Witvliet et al. 2021, White et al. 1986, Eichler et al. 2017'),
    ('licence', 'MIT (the packages cect and graspologic)'),
  ]
  for name in SPLITS if split is None else [split]:
    graph = load(name)
    rows.append(
      (name, f'{len(graph.names)} nodes, {len(graph.pre):,} directed edges')
    )
  return rows


def _raw(split: str | None) -> files.RawFiles:
  if split not in _FILES:
    raise errors.UserError(
      f'connectome: split={split!r}; use one of {", ".join(SPLITS)}, or file=.'
    )
  return files.RawFiles('connectome', [[_FILES[split]]], _ORIGIN, 'motif_rnn')


def _read_csv(path: pathlib.Path) -> Connectome:
  with path.open(encoding='utf-8-sig', newline='') as stream:
    header = [cell.strip() for cell in next(csv.reader(stream), [])]
  if not {'pre', 'post'} <= set(header):
    with path.open(encoding='utf-8-sig', newline='') as stream:
      return _from_cells(path, list(filter(None, csv.reader(stream))))
  names = ['pre', 'post'] + ['weight'] * ('weight' in header)
  table = tables.read_table(path, names)
  pre, post = (table.columns[name].tolist() for name in ('pre', 'post'))
  weight = (
    tables.numbers(table, 'weight') if 'weight' in header else np.ones(len(pre))
  )
  return _from_edges(pre, post, weight)


def _read_xlsx(path: pathlib.Path) -> Connectome:
  try:
    import openpyxl  # noqa: PLC0415 (only this format needs it)
  except ImportError as error:
    raise errors.UserError(
      f'{path} needs openpyxl; run `pip install openpyxl`, or save it as CSV.'
    ) from error
  try:
    sheet = openpyxl.load_workbook(path, read_only=True, data_only=True).active
  except (
    ValueError,
    KeyError,
    zipfile.BadZipFile,
    openpyxl.utils.exceptions.InvalidFileException,
  ) as error:
    raise errors.UserError(f'{path} is no XLSX workbook ({error}).') from error
  cells = [
    ['' if cell is None else str(cell) for cell in row]
    for row in sheet.iter_rows(values_only=True)
  ]
  return _from_cells(path, cells)


def _read_graphml(path: pathlib.Path) -> Connectome:
  try:
    root = ElementTree.parse(path).getroot()
  except ElementTree.ParseError as error:
    raise errors.UserError(f'{path} is no GraphML ({error}).') from error
  graph = root.find('{*}graph')
  if graph is None:
    raise errors.UserError(f'{path} has no element <graph>.')
  keys = {
    key.get('id')
    for key in root.findall('{*}key')
    if key.get('attr.name') == 'weight' and key.get('for') in ('edge', 'all')
  }
  directed = graph.get('edgedefault') == 'directed'
  pre, post, weight = [], [], []
  for edge in graph.findall('{*}edge'):
    ends = edge.get('source', ''), edge.get('target', '')
    found = [d.text for d in edge.findall('{*}data') if d.get('key') in keys]
    one_way = {'true': True, 'false': False}.get(
      edge.get('directed', ''), directed
    )
    for source, target in [ends] if one_way else [ends, ends[::-1]]:
      pre.append(source)
      post.append(target)
      weight.append(_number(path, found[0] or '' if found else '1'))
  nodes = [node.get('id', '') for node in graph.findall('{*}node')]
  return _from_edges(pre, post, np.array(weight, np.float64), nodes)


def _read_mat(path: pathlib.Path) -> Connectome:
  from scipy import io  # noqa: PLC0415 (heavy; only this format needs it)

  try:
    content = io.loadmat(path)
  except (
    ValueError,
    TypeError,
    NotImplementedError,
    io.matlab.MatReadError,
  ) as error:
    raise errors.UserError(
      f'{path} is no MATLAB file of version 4 to 7.2 ({error}).'
    ) from error
  matrices = {
    name: np.asarray(value.todense() if hasattr(value, 'todense') else value)
    for name, value in content.items()
    if getattr(value, 'ndim', 0) == 2
    and value.shape[0] == value.shape[1] > 1
    and value.dtype.kind in 'biuf'
  }
  chosen = 'CIJ' if 'CIJ' in matrices else next(iter(matrices), None)
  if chosen is None or ('CIJ' not in matrices and len(matrices) > 1):
    raise errors.UserError(
      f'{path} must hold a square matrix CIJ, or only one square matrix; it has'
      f' {sorted(matrices) or "none"}.'
    )
  names = [
    str(np.ravel(n)[0]).strip() for n in np.ravel(content.get('Names', []))
  ]
  return _from_matrix(path, matrices[chosen].astype(np.float64), names)


def _from_cells(path: pathlib.Path, rows: list[list[str]]) -> Connectome:
  """A matrix of text, with or without a row and a column of names."""
  if not rows:
    raise errors.UserError(f'{path} is empty; it should hold a matrix.')
  is_square = all(len(row) == len(rows) for row in rows)
  names: list[str] = []
  if not is_square or not _is_number(rows[0][0]):
    names = [cell.strip() for cell in rows[0]]
    rows = rows[1:]
    if rows and len(rows[0]) == len(rows) + 1:
      names = names[-len(rows) :]
      rows = [row[1:] for row in rows]
  if not rows or any(len(row) != len(rows) for row in rows):
    widths = sorted({len(row) for row in rows})
    raise errors.UserError(
      f'{path} has {len(rows)} rows of {widths} numbers; it needs the columns'
      ' pre and post, or a square matrix with or without names.'
    )
  matrix = [[_number(path, cell or '0') for cell in row] for row in rows]
  return _from_matrix(path, np.array(matrix, np.float64), names)


def _from_matrix(
  path: pathlib.Path, matrix: np.ndarray, names: list[str]
) -> Connectome:
  if not np.isfinite(matrix).all():
    row, column = np.argwhere(~np.isfinite(matrix))[0]
    raise errors.UserError(
      f'{path}: entry ({row}, {column}) is {matrix[row, column]}; make it a'
      ' number.'
    )
  if len(names) != len(matrix) or len(set(names)) < len(names):
    names = [str(node) for node in range(len(matrix))]
  pre, post = matrix.nonzero()
  return Connectome(
    tuple(names),
    pre.astype(np.int32),
    post.astype(np.int32),
    matrix[pre, post],
  )


def _from_edges(
  pre: list[str], post: list[str], weight: np.ndarray, nodes: Sequence[str] = ()
) -> Connectome:
  """Numbers the nodes by first occurrence; edges of weight 0 are no edges."""
  ends = [end for pair in zip(pre, post, strict=True) for end in pair]
  number = {
    name: place for place, name in enumerate(dict.fromkeys([*nodes, *ends]))
  }
  kept = np.asarray(weight) != 0
  source, target = (
    np.array([number[name] for name in side], np.int32)[kept]
    for side in (pre, post)
  )
  return Connectome(tuple(number), source, target, np.asarray(weight)[kept])


def _is_number(text: str) -> bool:
  try:
    float(text)
  except ValueError:
    return False
  return True


def _number(path: pathlib.Path, text: str) -> float:
  if not _is_number(text) or not np.isfinite(float(text)):
    raise errors.UserError(f'{path}: {text!r} is no weight; make it a number.')
  return float(text)
