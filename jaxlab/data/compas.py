"""COMPAS scores of defendants in Broward County, 2013-2014, with recidivism.

Public records that ProPublica published with its article "Machine Bias" (2016).
File: GitHub repository propublica/compas-analysis,
`compas-scores-two-years.csv`, or a copy of it with fewer columns. `load` takes
the prepared copy, the TensorFlow data set `jaxlab_compas`, when there is one.
"""

import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import files, prepared, tables

RAW = files.RawFiles(
  name='compas',
  patterns=[['compas-scores-two-years.csv', 'compas_two_years_min.csv']],
  origin='the GitHub repository propublica/compas-analysis',
)
TEXTS = ('sex', 'race', 'c_charge_degree', 'score_text')
COUNTS = (
  'age',
  'juv_fel_count',
  'juv_misd_count',
  'juv_other_count',
  'priors_count',
)
# What other whole numbers there are, with their range.
_RANGES = {'decile_score': (-1, 10), 'is_recid': (-1, 1)}
DAYS = 'days_b_screening_arrest'
LABEL = 'two_year_recid'
WHOLE = (*COUNTS, *_RANGES, LABEL)
FILTERS = ('propublica', 'none')
_COPY = 'jaxlab_compas'

Columns = dict[str, np.ndarray]


class Compas(NamedTuple):
  """Defendants, one a row, in file order.

  Attributes:
    decile: `[n]` int32 risk score 1..10.
    labels: `[n]` int32, 1 for a new offence within two years.
    race: `[n]` text.
    sex: `[n]` text.
    age: `[n]` int32 years.
    priors: `[n]` int32 number of prior offences.
    juvenile: `[n, 3]` int32 juvenile felonies, misdemeanours, other offences.
    degree: `[n]` text: degree of the charge, F felony, M misdemeanour.
  """

  decile: np.ndarray
  labels: np.ndarray
  race: np.ndarray
  sex: np.ndarray
  age: np.ndarray
  priors: np.ndarray
  juvenile: np.ndarray
  degree: np.ndarray


def load_compas(
  folder: str | os.PathLike[str] | None = None, filter: str = 'propublica'
) -> Compas:
  """Reads the file.

  Args:
    folder: its folder; None is the data set's under `JAXLAB_DATA`.
    filter: `'propublica'` keeps the rows of ProPublica's analysis: arrested
      within 30 days of the screening, known outcome, no ordinary traffic
      offence, with a score; `'none'` keeps all.

  Raises:
    UserError: if the filter is unknown or the file is damaged.
    MissingDataError: if the file is not there.
  """
  return choose(read_columns(files.find(RAW, folder)[0]), filter)


def decile_scores(
  compas: Compas, races: Sequence[str], *, pooled: bool = True
) -> tuple[np.ndarray, np.ndarray]:
  """The rate of new offences at a defendant's decile as a score.

  Args:
    compas: the defendants.
    races: the K groups to compare; other defendants are left out.
    pooled: one rate a decile over all groups compared; else one a group.

  Returns:
    `[n]` float64 scores and `[n]` int32 groups, places in `races`.

  Raises:
    UserError: if a race is unknown.
  """
  known = np.unique(compas.race)
  unknown = [race for race in races if race not in known]
  if unknown or not races:
    raise errors.UserError(
      f'compas: races={list(races)} must be out of {", ".join(known)}.'
    )
  group = tables.group_index(compas.race, races)
  rows = group >= 0
  group, decile, label = group[rows], compas.decile[rows], compas.labels[rows]
  cell = decile if pooled else decile + 11 * group
  count = np.bincount(cell)
  rate = np.bincount(cell, label) / np.maximum(count, 1)
  return rate[cell], group


def load(split: str | None = None, *, filter: str = 'propublica') -> Compas:
  """Reads the defendants; see `load_compas`. There are no splits."""
  files.no_split('compas', split)
  columns, _ = _read()
  return choose(columns, filter)


def prepare(manual_dir: str | None = None) -> str:
  """Builds the prepared copy of the file.

  Args:
    manual_dir: folder of the file; None is the data set's under `JAXLAB_DATA`.

  Raises:
    UserError: if the file is damaged or the copy cannot be written.
    MissingDataError: if the file is not there.
  """
  (path,) = files.find(RAW, manual_dir)
  rows = len(read_columns(path)[LABEL])
  where, built = prepared.build(_COPY, path.parent, [path])
  done = 'prepared' if built else 'was prepared already'
  return f'compas {done}: {rows:,} rows of {path.name}, in {where}.'


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source and sizes; see `jaxlab.data.describe`."""
  files.no_split('compas', split)
  columns, origin = _read()
  everyone, kept = choose(columns, 'none'), choose(columns, 'propublica')
  races, counts = np.unique(everyone.race, return_counts=True)
  return [
    ('source', f'ProPublica, {RAW.origin}'),
    ('licence', 'none stated; public records'),
    ('read from', origin),
    ('rows', f'{everyone.labels.size:,}; {kept.labels.size:,} after filter'),
    ('new offence', f'{everyone.labels.mean():.2%} within two years'),
    *((str(r), f'{n:,} rows') for r, n in zip(races, counts, strict=True)),
  ]


def read_columns(path: pathlib.Path) -> Columns:
  """Reads all rows of a file, by the names of its columns.

  Raises:
    UserError: if the file is damaged.
  """
  table = tables.read_table(path, [*TEXTS, *WHOLE, DAYS])
  whole = {name: (0.0, np.inf) for name in COUNTS} | {LABEL: (0.0, 1.0)}
  return {
    **{name: table.columns[name] for name in TEXTS},
    **{
      name: tables.numbers(table, name, *limits, whole=True)
      for name, limits in (whole | _RANGES).items()
    },
    DAYS: tables.numbers(table, DAYS, missing=('',)),
  }


def choose(columns: Columns, filter: str) -> Compas:
  """Returns the rows that a filter keeps; see `load_compas`."""
  if filter not in FILTERS:
    raise errors.UserError(
      f'compas: filter={filter!r} is not one of {", ".join(FILTERS)}.'
    )
  keep = columns['decile_score'] > 0
  if filter == 'propublica':
    keep &= (
      (np.abs(columns[DAYS]) <= 30)
      & (columns['is_recid'] != -1)
      & (columns['c_charge_degree'] != 'O')
      & (columns['score_text'] != 'N/A')
    )
  of = {name: values[keep] for name, values in columns.items()}
  juvenile = [of[name] for name in COUNTS if name.startswith('juv')]
  return Compas(
    decile=of['decile_score'],
    labels=of[LABEL],
    race=of['race'],
    sex=of['sex'],
    age=of['age'],
    priors=of['priors_count'],
    juvenile=np.stack(juvenile, axis=1),
    degree=of['c_charge_degree'],
  )


def _read() -> tuple[Columns, str]:
  """Returns all rows and where they were read from."""
  builder = prepared.find(_COPY)
  if builder is None:
    (path,) = files.find(RAW)
    return read_columns(path), str(path)
  rows = prepared.read(builder, 'train')
  columns = {
    name: np.array([_plain(row[name]) for row in rows])
    for name in (*TEXTS, *WHOLE, DAYS)
  }
  whole = {name: columns[name].astype(np.int32) for name in WHOLE}
  return columns | whole, f'prepared copy {builder.data_path}'


def _plain(value: Any) -> Any:
  return value.decode() if isinstance(value, bytes) else value
