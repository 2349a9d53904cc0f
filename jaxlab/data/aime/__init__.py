"""AIME: the American Invitational Mathematics Examination, from your files.

A split is a file (`.jsonl`, `.json` with a list, or `.csv`) and has the name of
the file. The contests are under copyright: none is shipped.
"""

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxlab.data import json_rows, questions, tables

_NAMES = {
  'ids': ('ID', 'id'),
  'questions': ('Problem', 'problem'),
  'answers': ('Answer', 'answer'),
}
_LARGEST = 999
_SUFFIXES = ('.jsonl', '.json', '.csv')


class ContestProblems(NamedTuple):
  """Problems in the order of the file.

  Attributes:
    ids: `[n]` str objects.
    questions: `[n]` str objects.
    answers: `[n]` str objects: whole numbers 0 to 999 without leading zeros.
  """

  ids: np.ndarray
  questions: np.ndarray
  answers: np.ndarray


def load(split: str | None = None) -> ContestProblems:
  """Reads the problems.

  Args:
    split: a file's name without its ending; None where there is one file.

  Raises:
    UserError: if the split is unknown or the file is damaged.
    MissingDataError: if there is no file.
  """
  return ContestProblems(**SOURCE.load(split))


def _find(folder: pathlib.Path) -> questions.Splits:
  return {
    re.sub(r'\W', '_', path.stem): [path]
    for path in sorted(folder.glob('*'))
    if path.suffix in _SUFFIXES
  }


def _read(
  folder: pathlib.Path, found: Sequence[pathlib.Path]
) -> questions.Columns:
  del folder
  path = found[0]
  if path.suffix == '.csv':
    rows = _table_rows(path)
  elif path.suffix == '.json':
    rows = json_rows.read_array(path)
  else:
    rows = json_rows.read_lines(path)
  columns: questions.Columns = {name: [] for name in _NAMES}
  for row in rows:
    for column, names in _NAMES.items():
      columns[column].append(row.text(*names))
    answer = columns['answers'][-1].strip()
    if not re.fullmatch('[0-9]{1,3}', answer):
      raise row.failure(f'answer {answer!r} is no whole number 0 to {_LARGEST}')
    columns['answers'][-1] = str(int(answer))
  return columns


def _table_rows(path: pathlib.Path) -> list[json_rows.Row]:
  table = tables.read_table(path)
  names = list(table.columns)
  return [
    json_rows.Row(
      f'{path}, line {line}', dict(zip(names, map(str, row), strict=True))
    )
    for line, *row in zip(table.lines, *table.columns.values(), strict=True)
  ]


SOURCE = questions.QuestionSource(
  name='aime',
  what='problems of the AIME, whose answers are whole numbers 0 to 999',
  origin='a copy of the contests that you may use',
  licence='copyright of the Mathematical Association of America',
  homepage='https://maa.org',
  columns=ContestProblems._fields,
  wanted=' or '.join(f'*{suffix}' for suffix in _SUFFIXES),
  find=_find,
  read=_read,
)
prepare, describe = SOURCE.prepare, SOURCE.describe
