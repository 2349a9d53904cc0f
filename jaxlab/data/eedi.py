"""Diagnostic questions of Eedi: the NeurIPS 2020 Education Challenge.

Answers of pupils to multiple-choice questions in mathematics (Wang et al.,
"Diagnostic Questions", 2020). Files: `train_task_3_4.csv` or
`train_task_1_2.csv`, and beside it or in `../metadata/`, where they are known,
the subjects of the questions, `question_metadata_task_3_4.csv`.
"""

import json
import pathlib

from jaxlab.data import files, tables
from jaxlab.data.response_matrix import Triplets, TripletSource, from_columns

_RAW = files.RawFiles(
  name='eedi',
  patterns=[['train_task_3_4.csv', 'train_task_1_2.csv']],
  origin='eedi.com/projects/neurips-education-challenge',
  shared='gpm',
)


def read_triplets(
  folder: pathlib.Path,
) -> tuple[Triplets, list[pathlib.Path]]:
  """Reads all answers in a folder.

  Raises:
    UserError: if a file is damaged, or a pupil has answered a question rightly
      and wrongly.
  """
  (path,) = files.matching(folder, _RAW.patterns[0])
  table = tables.read_table(path, ('QuestionId', 'UserId', 'IsCorrect'))
  right = tables.numbers(table, 'IsCorrect', 0, 1, whole=True)
  name = path.name.replace('train_', 'question_metadata_')
  places = [folder / name, folder.parent / 'metadata' / name]
  about = next((place for place in places if place.exists()), None)
  found = from_columns(
    str(path),
    table.columns['UserId'],
    table.columns['QuestionId'],
    right,
    _subjects(about) if about else None,
  )
  return found, [path, *([about] if about else [])]


def _subjects(path: pathlib.Path) -> dict[str, list[str]]:
  """Returns the subjects of each question."""
  table = tables.read_table(path, ('QuestionId', 'SubjectId'))
  found = {}
  for row, text in enumerate(table.columns['SubjectId']):
    try:
      subjects = [str(int(subject)) for subject in json.loads(str(text))]
    except (TypeError, ValueError) as error:
      raise table.failure('SubjectId', row, 'a list of numbers') from error
    found[str(table.columns['QuestionId'][row])] = subjects
  return found


SOURCE = TripletSource(_RAW, read_triplets, 'CC BY-NC-ND 4.0')
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
