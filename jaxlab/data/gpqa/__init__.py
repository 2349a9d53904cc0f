"""GPQA: questions of graduate level in science (Rein et al., arXiv:2311.12022).

Files: `gpqa_main.csv`, `gpqa_diamond.csv`, `gpqa_extended.csv` of the GitHub
repository idavidrein/gpqa; data CC BY 4.0. The authors ask that questions never
be put online in plain text: none is shipped, also not in tests.
"""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import questions, tables

_FILES = {
  'main': 'gpqa_main.csv',
  'diamond': 'gpqa_diamond.csv',
  'extended': 'gpqa_extended.csv',
}
_LETTERS = 'ABCD'
_COLUMNS = {
  'questions': 'Question',
  'correct': 'Correct Answer',
  **{f'incorrect{i}': f'Incorrect Answer {i}' for i in (1, 2, 3)},
}


class ChoiceQuestions(NamedTuple):
  """Questions in the order of the file, their options shuffled.

  Attributes:
    questions: `[n]` str objects.
    options: `[n, 4]` str objects.
    letters: `[n]` str objects: A to D, the right option.
  """

  questions: np.ndarray
  options: np.ndarray
  letters: np.ndarray


def load(split: str | None = None, *, seed: int = 0) -> ChoiceQuestions:
  """Reads the questions.

  Args:
    split: `'main'`, `'diamond'` or `'extended'`; None where there is one file.
    seed: of the order of the options; that of a row depends on the seed and the
      row alone.

  Raises:
    UserError: if the split is unknown, the seed negative or the file damaged.
    MissingDataError: if there is no file.
  """
  if seed < 0:
    raise errors.UserError(f'gpqa: seed={seed} must be at least 0.')
  columns = SOURCE.load(split)
  texts = columns.pop('questions')
  # The right one is the first column.
  options = np.stack(list(columns.values()), axis=1)
  order = np.array(
    [
      np.random.default_rng([seed, row]).permutation(4)
      for row in range(len(texts))
    ]
  )
  letters = np.array(
    [_LETTERS[place] for place in order.argmin(axis=1)], object
  )
  shuffled = np.take_along_axis(options, order, axis=1)
  return ChoiceQuestions(texts, shuffled, letters)


def _read(
  folder: pathlib.Path, found: Sequence[pathlib.Path]
) -> questions.Columns:
  del folder
  table = tables.read_table(found[0], list(_COLUMNS.values()))
  for name, values in table.columns.items():
    empty = np.flatnonzero(values == '')
    if empty.size:
      raise table.failure(name, int(empty[0]), 'a text')
  return {
    name: list(map(str, table.columns[header]))
    for name, header in _COLUMNS.items()
  }


SOURCE = questions.QuestionSource(
  name='gpqa',
  what='questions of graduate level in biology, physics and chemistry',
  origin='the GitHub repository idavidrein/gpqa',
  licence='CC BY 4.0; do not put the questions online in plain text',
  homepage='https://github.com/idavidrein/gpqa',
  columns=tuple(_COLUMNS),
  wanted=' or '.join(_FILES.values()),
  find=lambda folder: questions.named_files(folder, _FILES),
  read=_read,
)
prepare, describe = SOURCE.prepare, SOURCE.describe
