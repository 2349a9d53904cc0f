"""Reconstructed neurons, and the nervous system of the worm C. elegans.

Three reconstructions of rodents' pyramidal cells and eight made-up ones with
awkward somata are from jaxleyverse/jaxley (originals: NeuroMorpho.org, archive
Turner; Allen Cell Types Database). The worm's 302 neurons, the parameters of
their membranes and their connections are from Jessie940611/BAAIWorm (Zhao et
al. 2024, Nature Computational Science), converted to SWC and CSV.
"""

import os
import pathlib
import re
from typing import NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import files, tables

RECONSTRUCTIONS = (
  'ca1_n120',
  'l5pc_with_axon',
  'allen_485574832',
  '3_types',
  '3_types_single_point_soma',
  'interrupted_soma',
  'minimal',
  'non_somatic_branchpoint',
  'soma_both_ends',
  'somatic_branchpoint',
  'variable_radiuses_within_branch',
)
_TABLES = ('neurons.csv', 'cell_params.csv', 'connectome.csv')
_ORIGIN = (
  'the GitHub repositories jaxleyverse/jaxley (tests/swc_files) and'
  ' Jessie940611/BAAIWorm, converted to SWC and CSV'
)
_SECTION = re.compile(r'(\w+) nseg=(\d+)(?: parent=(\w+))?')


class Reconstruction(NamedTuple):
  """A neuron as it was measured.

  Attributes:
    name: its name.
    swc: content of its SWC file.
  """

  name: str
  swc: str


class Worm(NamedTuple):
  """The N neurons of a hermaphrodite, C chemical connections, J junctions.

  Attributes:
    names: the neurons, in the order of `neurons.csv`.
    kinds: sensory, interneuron, command, motor or head motor, for each.
    templates: the neuron whose fitted parameters each one has.
    swc: content of each one's SWC file.
    nseg: for each the numbers of segments that the source gives its sections,
      in depth-first order.
    params: `[N]` float64 by column: `soma.` or `neurite.` and `Ra` (ohm cm),
      `cm` (uF/cm2), `epas` (mV), or a conductance density (S/cm2); NaN where
      the table has none.
    pre: `[C]` int32 presynaptic neurons.
    post: `[C]` int32 postsynaptic neurons.
    synapses: `[C]` int32 numbers of synapses.
    gap: `[J, 2]` int32 pairs of neurons with gap junctions, each pair once
      with the smaller index first.
    junctions: `[J]` int32 numbers of gap junctions.
    report: what was left out or looks odd, a line each.
  """

  names: tuple[str, ...]
  kinds: tuple[str, ...]
  templates: tuple[str, ...]
  swc: tuple[str, ...]
  nseg: tuple[tuple[int, ...], ...]
  params: dict[str, np.ndarray]
  pre: np.ndarray
  post: np.ndarray
  synapses: np.ndarray
  gap: np.ndarray
  junctions: np.ndarray
  report: tuple[str, ...]


def load_worm(folder: str | os.PathLike[str] | None = None) -> Worm:
  """Reads the worm's neurons, parameters and connections.

  Args:
    folder: folder of the files; None is the data set's under `JAXLAB_DATA`.

  Raises:
    UserError: if a file is damaged, or names a neuron that there is not.
    MissingDataError: if a file is not there.
  """
  table_files = files.find(_raw(*map(_table_patterns, _TABLES)), folder)
  neurons, params, links = map(tables.read_table, table_files)
  names = neurons.columns['Neuroname'].tolist()
  paths = files.find(_raw(*map(_worm_patterns, names)), folder)
  texts = tuple(map(_text, paths))
  row = tables.codes(neurons, 'Neuroname', params.columns['neuron'].tolist())
  kind = tables.codes(links, 'kind', ('chemical', 'gapjunction'))
  ends = np.stack(
    [tables.codes(links, side, names) for side in ('pre', 'post')], axis=1
  )
  count = tables.numbers(links, 'count', 1, whole=True)
  chemical = kind == 0
  gap, junctions, report = _junctions(ends[~chemical], count[~chemical], names)
  return Worm(
    names=tuple(names),
    kinds=tuple(neurons.columns['type'].tolist()),
    templates=tuple(neurons.columns['param'].tolist()),
    swc=texts,
    nseg=tuple(map(_nseg, texts)),
    params={
      name: tables.numbers(params, name, missing=('',))[row]
      for name in params.columns
      if name != 'neuron'
    },
    pre=ends[chemical, 0],
    post=ends[chemical, 1],
    synapses=count[chemical],
    gap=gap,
    junctions=junctions,
    report=tuple(report),
  )


def load_reconstruction(
  name: str, folder: str | os.PathLike[str] | None = None
) -> Reconstruction:
  """Reads one neuron.

  Args:
    name: one of `RECONSTRUCTIONS`, or a neuron of the worm, as `AVAL`.
    folder: folder of the files; None is the data set's under `JAXLAB_DATA`.

  Raises:
    UserError: if the name is unknown.
    MissingDataError: if the files are not there.
  """
  if name in RECONSTRUCTIONS:
    patterns = _patterns(name)
  else:
    found = files.find(_raw(_table_patterns(_TABLES[0])), folder)
    worm = tables.read_table(found[0]).columns['Neuroname'].tolist()
    if name not in worm:
      raise errors.UserError(
        f'neurons: split={name!r}; use one of {", ".join(RECONSTRUCTIONS)}, or'
        f' one of the {len(worm)} neurons of the worm, as {worm[0]!r}.'
      )
    patterns = _worm_patterns(name)
  return Reconstruction(name, _text(files.find(_raw(patterns), folder)[0]))


def load(split: str | None = None) -> Reconstruction | Worm:
  """Reads a neuron by name; None is the whole worm."""
  return load_worm() if split is None else load_reconstruction(split)


def prepare(manual_dir: str | None = None) -> str:
  """Checks the files, and copies those of `manual_dir` to the cache."""
  worm = load_worm(manual_dir)
  raw = _raw(
    *map(_table_patterns, _TABLES),
    *map(_patterns, RECONSTRUCTIONS),
    *map(_worm_patterns, worm.names),
  )
  return files.keep(raw, files.find(raw, manual_dir), manual_dir)


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  rows = [('source', _ORIGIN), ('licence', 'Apache-2.0')]
  if split is not None:
    lines = load_reconstruction(split).swc.splitlines()
    points = sum(bool(line.partition('#')[0].strip()) for line in lines)
    return [*rows, (split, f'{points:,} points')]
  worm = load_worm()
  return [
    *rows,
    ('splits', f'{", ".join(RECONSTRUCTIONS)}, or a neuron of the worm'),
    (
      'worm',
      f'{len(worm.names)} neurons, {sum(map(sum, worm.nseg)):,} segments',
    ),
    ('synapses', f'{len(worm.pre):,} chemical connections'),
    ('junctions', f'{len(worm.gap):,} pairs'),
    *(('note', line) for line in worm.report),
  ]


def _nseg(text: str) -> tuple[int, ...]:
  """Numbers of segments in the list of sections that a file begins with."""
  children: dict[str, list[tuple[str, int]]] = {}
  for name, count, parent in _SECTION.findall(text.partition('\n')[0]):
    children.setdefault(parent, []).append((name, int(count)))
  counts, waiting = [], children.get('', [])[::-1]
  while waiting:
    name, count = waiting.pop()
    counts.append(count)
    waiting += reversed(children.get(name, []))
  return tuple(counts)


def _junctions(
  ends: np.ndarray, count: np.ndarray, names: list[str]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
  """Counts each pair once: the table has both directions of a junction."""
  n, report = len(names), []
  matrix = np.zeros((n, n), np.int32)
  np.add.at(matrix, (ends[:, 0], ends[:, 1]), count)
  loops = np.count_nonzero(matrix.diagonal())
  if loops:
    np.fill_diagonal(matrix, 0)
    report.append(f'{loops} gap junctions of a neuron with itself: left out.')
  uneven = np.argwhere(np.triu(matrix != matrix.T))
  for i, j in uneven:
    report.append(
      f'gap junctions {names[i]}-{names[j]}: {matrix[i, j]} one way,'
      f' {matrix[j, i]} the other: the larger number is taken.'
    )
  matrix = np.triu(np.maximum(matrix, matrix.T))
  pairs = np.argwhere(matrix).astype(np.int32)
  return pairs, matrix[matrix > 0], report


def _raw(*patterns: list[str]) -> files.RawFiles:
  return files.RawFiles('neurons', patterns, _ORIGIN, 'heliox')


def _patterns(name: str) -> list[str]:
  return [f'swc/morph_{name}.swc', f'morph_{name}.swc']


def _worm_patterns(name: str) -> list[str]:
  return [f'celegans_swc/{name}.swc', f'{name}.swc']


def _table_patterns(name: str) -> list[str]:
  return [f'celegans_params/{name}', name]


def _text(path: pathlib.Path) -> str:
  try:
    return path.read_text(encoding='utf-8', errors='replace')
  except OSError as error:
    raise errors.UserError(
      f'{path}: {error.strerror or error}; make it a readable file.'
    ) from error
