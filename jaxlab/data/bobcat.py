"""A data set in the layout of BOBCAT and BEAT, from your files.

A JSON list with an object for each examinee: `q_ids`, the places of the
questions answered, and `labels`, 1 for a right answer. In several files,
`train_task_*.json` and the like, are different examinees.
"""

import pathlib

import numpy as np

from jaxlab import errors
from jaxlab.data import educat, files
from jaxlab.data.response_matrix import Triplets, TripletSource, from_columns

_RAW = files.RawFiles(
  name='bobcat',
  patterns=[['*_task_*.json', '*.json']],
  origin='files in the layout of the GitHub repository arghosh/BOBCAT',
  shared='gpm',
)


def read_triplets(
  folder: pathlib.Path,
) -> tuple[Triplets, list[pathlib.Path]]:
  """Reads all answers in a folder.

  Raises:
    UserError: if a file is damaged, or an examinee has answered an item
      rightly and wrongly.
  """
  paths = files.matching(folder, _RAW.patterns[0])
  examinees, items, right = [], [], []
  for path in paths:
    people = educat.read_json(path)
    if not isinstance(people, list):
      raise _damage(path, 'a list of examinees')
    for row, person in enumerate(people):
      answers = _answers(path, row, person)
      name = f'{path.stem}/{row}' if len(paths) > 1 else str(row)
      examinees += [name] * len(answers)
      items += [item for item, _ in answers]
      right += [label for _, label in answers]
  if not examinees:
    raise _damage(paths[0], 'a list with answers')
  columns = (np.array(examinees), np.array(items), np.array(right))
  return from_columns(' and '.join(map(str, paths)), *columns), paths


def _answers(
  path: pathlib.Path, row: int, person: object
) -> list[tuple[str, int]]:
  have = person if isinstance(person, dict) else {}
  items, labels = have.get('q_ids'), have.get('labels')
  if not (
    isinstance(items, list)
    and isinstance(labels, list)
    and len(items) == len(labels)
    and set(labels) <= {0, 1}
  ):
    wanted = "with lists 'q_ids' and 'labels' of one length, labels 0 or 1"
    raise _damage(path, f'at place {row} an object {wanted}')
  pairs = zip(items, labels, strict=True)
  return [(str(item), int(label)) for item, label in pairs]


def _damage(path: pathlib.Path, wanted: str) -> errors.UserError:
  return errors.UserError(
    f'{path} does not hold {wanted}; take the file again from its source.'
  )


SOURCE = TripletSource(_RAW, read_triplets, 'that of your files')
load, prepare, describe = SOURCE.load, SOURCE.prepare, SOURCE.describe
