"""Adult (Census Income): who of the US census of 1994 earns over $50,000.

B. Becker and R. Kohavi (1996), UCI Machine Learning Repository, CC BY 4.0.
"""

import os
import pathlib

import numpy as np

from jaxlab import errors
from jaxlab.data import files, tables
from jaxlab.data.records import Records

_RAW = files.RawFiles(
  name='adult',
  patterns=[['adult.data', 'adult.data.csv'], ['adult.test', 'adult.test.csv']],
  origin='the UCI Machine Learning Repository, data set 2 (Adult)',
)
_SPLITS = ('train', 'test')
_COLUMNS = (
  'age',
  'workclass',
  'fnlwgt',
  'education',
  'education-num',
  'marital-status',
  'occupation',
  'relationship',
  'race',
  'sex',
  'capital-gain',
  'capital-loss',
  'hours-per-week',
  'native-country',
  'income',
)
_NUMERIC = (
  'age',
  'education-num',
  'capital-gain',
  'capital-loss',
  'hours-per-week',
)
_CATEGORICAL = (
  'workclass',
  'education',
  'marital-status',
  'occupation',
  'relationship',
  'race',
  'sex',
  'native-country',
)
# The test file ends its labels with a full stop.
_LABELS = ('<=50K', '>50K', '<=50K.', '>50K.')


def load_adult(
  folder: str | os.PathLike[str] | None = None, split: str | None = None
) -> Records:
  """Reads the files, with or without the comment and blank lines of UCI.

  Args:
    folder: folder of the two files; None is the data set's under `JAXLAB_DATA`.
    split: `'train'` (32,561 rows) or `'test'` (16,281); None is both, one
      after the other.

  Returns:
    People with attributes `sex` and `race` and the census weight; the label
    is 1 for an income over $50,000.

  Raises:
    UserError: if the split is unknown or a file is damaged.
    MissingDataError: if the files are not there.
  """
  if split is not None and split not in _SPLITS:
    raise errors.UserError(
      f"adult: split={split!r} is not 'train' or 'test'; None is both."
    )
  found = dict(zip(_SPLITS, files.find(_RAW, folder), strict=True))
  chosen = found.values() if split is None else [found[split]]
  parts = [_read(path) for path in chosen]
  joined = {
    name: np.concatenate([part[name] for part in parts]) for name in parts[0]
  }
  place = {name: i for i, name in enumerate(_CATEGORICAL)}
  return Records(
    **joined,
    attributes={
      name: joined['categorical'][:, place[name]] for name in ('sex', 'race')
    },
    numeric_names=_NUMERIC,
    categorical_names=_CATEGORICAL,
  )


def load(split: str | None = None) -> Records:
  """Reads people; see `load_adult`."""
  return load_adult(split=split)


def prepare(manual_dir: str | None = None) -> str:
  """Checks the files, and copies those of `manual_dir` to the cache."""
  load_adult(manual_dir)
  return files.keep(_RAW, files.find(_RAW, manual_dir), manual_dir)


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  adult = load(split)
  missing = (adult.categorical == '').any(axis=1).sum()
  return [
    ('source', _RAW.origin),
    ('licence', 'CC BY 4.0'),
    ('read from', str(files.find(_RAW)[0].parent)),
    ('splits', 'train (32,561), test (16,281)'),
    ('rows', f'{adult.labels.size:,}, {missing:,} with a missing value'),
    ('over $50,000', f'{adult.labels.mean():.2%}'),
    ('numbers', ', '.join(_NUMERIC)),
    ('categories', ', '.join(_CATEGORICAL)),
  ]


def _read(path: pathlib.Path) -> dict[str, np.ndarray]:
  table = tables.read_table(path, names=_COLUMNS)
  texts = [table.columns[name] for name in _CATEGORICAL]
  numeric = [tables.numbers(table, name, 0, whole=True) for name in _NUMERIC]
  return {
    'numeric': np.stack(numeric, axis=1).astype(np.float64),
    'categorical': np.stack(
      [np.where(text == '?', '', text) for text in texts], axis=1
    ),
    'labels': tables.codes(table, 'income', _LABELS) % 2,
    'weight': tables.numbers(table, 'fnlwgt', 1),
  }
