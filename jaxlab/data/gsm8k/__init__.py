"""GSM8K: word problems of primary school (Cobbe et al., arXiv:2110.14168).

Files: GitHub repository openai/grade-school-math, `train.jsonl` (7,473
problems) and `test.jsonl` (1,319); MIT licence.
"""

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxlab.data import json_rows, questions

_FILES = {'train': 'train.jsonl', 'test': 'test.jsonl'}
_MARK = re.compile(r'<<[^<>]*>>')
_NUMBER = re.compile(r'-?[0-9]+(?:\.[0-9]+)?')


class WordProblems(NamedTuple):
  """Problems in the order of the file.

  Attributes:
    questions: `[n]` str objects.
    solutions: `[n]` str objects: worked answers, which end with `#### number`.
    answers: `[n]` str objects: that number without commas.
  """

  questions: np.ndarray
  solutions: np.ndarray
  answers: np.ndarray


def load(
  split: str | None = None, *, calculator_marks: bool = True
) -> WordProblems:
  """Reads the problems.

  Args:
    split: `'train'` or `'test'`.
    calculator_marks: leaves the marks `<<5+7=12>>` in the solutions.

  Raises:
    UserError: if the split is unknown or the file is damaged.
    MissingDataError: if the files are not on this machine.
  """
  columns = SOURCE.load(split)
  if not calculator_marks:
    texts = columns['solutions']
    texts[:] = [_MARK.sub('', text) for text in texts]
  return WordProblems(**columns)


def _read(
  folder: pathlib.Path, found: Sequence[pathlib.Path]
) -> questions.Columns:
  del folder
  columns: questions.Columns = {name: [] for name in WordProblems._fields}
  for row in json_rows.read_lines(found[0]):
    solution = row.text('answer')
    _, marker, last = solution.rpartition('####')
    answer = last.strip().replace(',', '')
    if not marker or not _NUMBER.fullmatch(answer):
      raise row.failure("'answer' does not end with #### and a number")
    columns['questions'].append(row.text('question'))
    columns['solutions'].append(solution)
    columns['answers'].append(answer)
  return columns


SOURCE = questions.QuestionSource(
  name='gsm8k',
  what='word problems of primary school with worked answers',
  origin='the GitHub repository openai/grade-school-math',
  licence='MIT',
  homepage='https://github.com/openai/grade-school-math',
  columns=WordProblems._fields,
  wanted=' or '.join(_FILES.values()),
  find=lambda folder: questions.named_files(folder, _FILES),
  read=_read,
)
prepare, describe = SOURCE.prepare, SOURCE.describe
