"""German Credit: 1,000 loans of a bank, 300 of them bad.

H. Hofmann (1994), UCI Machine Learning Repository, Statlog (German Credit
Data), CC BY 4.0.
"""

import os

import numpy as np

from jaxlab.data import files, tables
from jaxlab.data.records import Records

_RAW = files.RawFiles(
  name='german',
  patterns=[['german.data', 'german.data.csv']],
  origin='the UCI Machine Learning Repository, data set 144 (Statlog, German)',
)
_COLUMNS = (
  'status',
  'duration',
  'credit-history',
  'purpose',
  'amount',
  'savings',
  'employment',
  'instalment-rate',
  'personal-status',
  'guarantors',
  'residence',
  'property',
  'age',
  'other-instalments',
  'housing',
  'credits',
  'job',
  'dependents',
  'telephone',
  'foreign-worker',
  'class',
)
_NUMERIC = (
  'duration',
  'amount',
  'instalment-rate',
  'residence',
  'age',
  'credits',
  'dependents',
)
_CATEGORICAL = tuple(
  name for name in _COLUMNS if name not in (*_NUMERIC, 'class')
)
# Personal status and sex in one code.
_STATUS = ('A91', 'A92', 'A93', 'A94', 'A95')
_SEX = np.array(['male', 'female', 'male', 'male', 'female'])
_CLASSES = ('1', '2')


def load_german(folder: str | os.PathLike[str] | None = None) -> Records:
  """Reads the file, with fields between commas or, as at UCI, blanks.

  Args:
    folder: its folder; None is the data set's under `JAXLAB_DATA`.

  Returns:
    Borrowers with attribute `sex`; the label is 1 for a good loan (class 1 of
    the file) and 0 for a bad one (class 2).

  Raises:
    UserError: if the file is damaged.
    MissingDataError: if the file is not there.
  """
  table = tables.read_table(files.find(_RAW, folder)[0], names=_COLUMNS)
  numeric = [tables.numbers(table, name, 0, whole=True) for name in _NUMERIC]
  texts = [table.columns[name] for name in _CATEGORICAL]
  labels = 1 - tables.codes(table, 'class', _CLASSES)
  return Records(
    numeric=np.stack(numeric, axis=1).astype(np.float64),
    categorical=np.stack(texts, axis=1),
    labels=labels.astype(np.int32),
    weight=np.ones(labels.size),
    attributes={'sex': _SEX[tables.codes(table, 'personal-status', _STATUS)]},
    numeric_names=_NUMERIC,
    categorical_names=_CATEGORICAL,
  )


def load(split: str | None = None) -> Records:
  """Reads borrowers; see `load_german`. There are no splits."""
  files.no_split('german', split)
  return load_german()


def prepare(manual_dir: str | None = None) -> str:
  """Checks the file, and copies that of `manual_dir` to the cache."""
  load_german(manual_dir)
  return files.keep(_RAW, files.find(_RAW, manual_dir), manual_dir)


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  german = load(split)
  women = german.attributes['sex'] == 'female'
  return [
    ('source', _RAW.origin),
    ('licence', 'CC BY 4.0'),
    ('read from', str(files.find(_RAW)[0].parent)),
    ('rows', f'{german.labels.size:,}, {women.sum():,} women'),
    ('bad loans', f'{(german.labels == 0).sum():,}'),
    ('numbers', ', '.join(_NUMERIC)),
    ('categories', ', '.join(_CATEGORICAL)),
  ]
