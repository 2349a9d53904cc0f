"""ASSISTments 2009-2010, skill builder: pupils' answers to problems.

The file has a row for each skill of a problem that was answered; the rows of
one answer count once, and of several tries at a problem the first one.
"""

import pathlib

import numpy as np

from jaxlab.data import files, tables
from jaxlab.data.response_matrix import Triplets, TripletSource, from_columns

_RAW = files.RawFiles(
  name='assistments2009',
  patterns=[
    [
      'skill_builder_data_corrected*.csv',
      'skill_builder_data*.csv',
      'assistments2009.csv',
    ]
  ],
  origin='sites.google.com/site/assistmentsdata',
  shared='gpm',
)
_COLUMNS = ('user_id', 'problem_id', 'correct', 'skill_id')
_NO_SKILL = ('', 'NA', 'nan')


def read_triplets(
  folder: pathlib.Path,
) -> tuple[Triplets, list[pathlib.Path]]:
  """Reads all answers of the file in a folder, which is in Latin-1.

  Raises:
    UserError: if the file is damaged.
  """
  path = files.matching(folder, _RAW.patterns[0])[0]
  table = tables.read_table(path, _COLUMNS, encoding='latin-1')
  right = tables.numbers(table, 'correct', 0, 1, whole=True)
  user, problem, _, skill = (table.columns[name] for name in _COLUMNS)
  skills: dict[str, set[str]] = {}
  for each in np.unique(np.stack([problem, skill]), axis=1).T:
    item, text = map(str, each)
    names = text.replace(',', '_').split('_')
    skills.setdefault(item, set()).update(
      name.removesuffix('.0') for name in names if name not in _NO_SKILL
    )
  found = from_columns(str(path), user, problem, right, skills, keep_first=True)
  return found, [path]


SOURCE = TripletSource(_RAW, read_triplets, 'none stated')
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
