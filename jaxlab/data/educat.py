"""A data set in the layout of the EduCAT library, from your files.

A folder with triplets (`triplets.csv`, or several files such as
`train_triples.csv` and `test_triples.csv`, which number their students apart),
`concept_map.json` (the concepts of each question) and `metadata.json`.
"""

import json
import pathlib
from typing import Any

import numpy as np

from jaxlab import errors
from jaxlab.data import files, tables
from jaxlab.data.response_matrix import Triplets, TripletSource, from_columns

_RAW = files.RawFiles(
  name='educat',
  patterns=[['*tripl*.csv'], ['concept_map.json'], ['metadata.json']],
  origin='files in the layout of the GitHub repository bigdata-ustc/EduCAT',
  shared='gpm',
)
_COLUMNS = ('student_id', 'question_id', 'correct')


def read_triplets(
  folder: pathlib.Path,
) -> tuple[Triplets, list[pathlib.Path]]:
  """Reads all answers in a folder.

  Raises:
    UserError: if a file is damaged, an examinee has answered an item rightly
      and wrongly, or there are more questions or concepts than `metadata.json`
      says.
  """
  logs = files.matching(folder, _RAW.patterns[0])
  columns: list[list[np.ndarray]] = [[], [], []]
  for path in logs:
    table = tables.read_table(path, _COLUMNS)
    student = table.columns['student_id']
    if len(logs) > 1:
      part = path.stem.partition('_')[0]
      student = np.char.add(f'{part}/', student)
    columns[0].append(student)
    columns[1].append(table.columns['question_id'])
    columns[2].append(tables.numbers(table, 'correct', 0, 1, whole=True))
  concepts = _concept_map(folder / 'concept_map.json')
  found = from_columns(
    ' and '.join(map(str, logs)),
    np.concatenate(columns[0]),
    np.concatenate(columns[1]),
    np.concatenate(columns[2]),
    concepts,
  )
  path = folder / 'metadata.json'
  about = read_json(path)
  counts = {
    'num_questions': len(found.items),
    'num_concepts': len(found.concepts),
  }
  for name, count in counts.items():
    if not isinstance(about, dict) or count > int(about.get(name, count)):
      raise errors.UserError(
        f'{path} must be an object whose {name} is at least {count}; take the'
        ' file again from its source.'
      )
  return found, [*logs, folder / 'concept_map.json', path]


def read_json(path: pathlib.Path) -> Any:
  """Reads a JSON file.

  Raises:
    UserError: if it cannot be read.
  """
  try:
    return json.loads(path.read_text(encoding='utf-8'))
  except (OSError, ValueError) as error:
    raise errors.UserError(
      f'{path} is not JSON ({error}); take the file again from its source.'
    ) from error


def _concept_map(path: pathlib.Path) -> dict[str, list[str]]:
  found = read_json(path)
  if not isinstance(found, dict) or not all(
    isinstance(concepts, list) for concepts in found.values()
  ):
    raise errors.UserError(
      f'{path} must be an object with a list of concepts for each question;'
      ' take the file again from its source.'
    )
  return {key: [str(each) for each in value] for key, value in found.items()}


SOURCE = TripletSource(_RAW, read_triplets, 'that of your files')
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
