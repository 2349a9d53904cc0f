"""Income of people in the American Community Survey of the US Census Bureau.

Public Use Microdata Sample (PUMS), person files `psam_pNN.csv`. The task is
ACSIncome of Ding, Hardt, Miller and Schmidt, "Retiring Adult" (2021). A split
is a file, named without `.csv`.
"""

import os
import pathlib

import numpy as np

from jaxlab import errors
from jaxlab.data import files, tables
from jaxlab.data.records import Records

_RAW = files.RawFiles(
  name='acs',
  patterns=[['psam_p*.csv', 'acs*.csv']],
  origin=(
    'the US Census Bureau, ACS PUMS person files (csv_pXX.zip of a state,'
    ' unpacked)'
  ),
)
_NUMERIC = ('AGEP', 'SCHL', 'WKHP')
# The relationship to the householder was recoded in 2019.
_RELATIONSHIP = ('RELP', 'RELSHIPP')
_CATEGORICAL = ('COW', 'MAR', 'OCCP', 'POBP', 'RELP', 'SEX', 'RAC1P')
_SEX = ('1', '2')
_SEX_NAMES = np.array(['Male', 'Female'])
_RACES = tuple('123456789')
_RACE_NAMES = np.array(
  [
    'White',
    'Black',
    'American Indian',
    'Alaska Native',
    'American Indian or Alaska Native, not specified',
    'Asian',
    'Pacific Islander',
    'Other',
    'Two or more',
  ]
)


def load_acs(
  csv: str | os.PathLike[str], *, income: float = 50_000.0
) -> Records:
  """Reads a person file.

  Kept are people over 16 with an income over $100 who work (some hours a week)
  and have a weight of at least 1.

  Args:
    csv: the file.
    income: the label is 1 for a yearly income over so many dollars.

  Returns:
    People with attributes `sex` and `race` and the survey weight.

  Raises:
    UserError: if the file is damaged or no row is kept.
    MissingDataError: if the file is not there.
  """
  path = pathlib.Path(csv).expanduser()
  if not path.is_file():
    raise files.missing(_RAW, [path])
  table = _table(path)

  def column(name: str) -> np.ndarray:
    return tables.numbers(table, name, missing=('',))

  weight, earned = column('PWGTP'), column('PINCP')
  numeric = np.stack([column(name) for name in _NUMERIC], axis=1)
  age, _, hours = numeric.T
  keep = (age > 16) & (earned > 100) & (hours > 0) & (weight >= 1)
  if not keep.any():
    raise errors.UserError(
      f'{path} has no one over 16 with work and income; take a person file'
      f' from {_RAW.origin}.'
    )
  codes = {name: _plain_codes(table, name) for name in _CATEGORICAL}
  table = table._replace(columns=codes)
  sex = _SEX_NAMES[tables.codes(table, 'SEX', _SEX)]
  race = _RACE_NAMES[tables.codes(table, 'RAC1P', _RACES)]
  return Records(
    numeric=numeric[keep],
    categorical=np.stack(list(codes.values()), axis=1)[keep],
    labels=(earned > income)[keep].astype(np.int32),
    weight=weight[keep],
    attributes={'sex': sex[keep], 'race': race[keep]},
    numeric_names=_NUMERIC,
    categorical_names=_CATEGORICAL,
  )


def load(split: str | None = None, *, income: float = 50_000.0) -> Records:
  """Reads one person file; see `load_acs`.

  Args:
    split: name of the file, `'psam_p06'`; None where there is only one.
    income: as in `load_acs`.
  """
  return load_acs(_file(split), income=income)


def prepare(manual_dir: str | None = None) -> str:
  """Checks all person files, and copies those of `manual_dir` to the cache."""
  found = files.find_all(_RAW, manual_dir)
  for path in found:
    load_acs(path)
  return files.keep(_RAW, found, manual_dir)


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  path = _file(split)
  acs = load_acs(path)
  return [
    ('source', _RAW.origin),
    ('licence', 'public domain (US government work)'),
    ('read from', str(path)),
    ('splits', ', '.join(sorted(_available()))),
    ('rows', f'{acs.labels.size:,}, for {acs.weight.sum():,.0f} people'),
    ('over $50,000', f'{np.average(acs.labels, weights=acs.weight):.2%}'),
    ('numbers', ', '.join(_NUMERIC)),
    ('categories', ', '.join(_CATEGORICAL)),
  ]


def _available() -> dict[str, pathlib.Path]:
  # Of files of one name the first found counts.
  return {path.stem: path for path in reversed(files.find_all(_RAW))}


def _file(split: str | None) -> pathlib.Path:
  available = _available()
  if split is None and len(available) == 1:
    split = next(iter(available))
  if split not in available:
    names = ', '.join(sorted(available))
    raise errors.UserError(f'acs: split={split!r} is not one of {names}.')
  return available[split]


def _table(path: pathlib.Path) -> tables.Table:
  others = [name for name in _CATEGORICAL if name != 'RELP']
  wanted = [*_NUMERIC, *others, 'PINCP', 'PWGTP']
  with path.open(encoding='utf-8-sig', errors='replace') as stream:
    header = stream.readline().replace('"', '').strip().split(',')
  relationship = next((n for n in _RELATIONSHIP if n in header), 'RELP')
  table = tables.read_table(path, [*wanted, relationship])
  return table._replace(
    columns={**table.columns, 'RELP': table.columns[relationship]}
  )


def _plain_codes(table: tables.Table, column: str) -> np.ndarray:
  """Returns codes written in one way: 01, 1.0 and 1 are the same."""
  values = tables.numbers(table, column, 0, missing=('',))
  number = np.nan_to_num(values).astype(np.int64)
  return np.where(np.isnan(values), '', number.astype(np.str_))
