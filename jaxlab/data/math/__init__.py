r"""MATH: problems of US competitions (Hendrycks et al., arXiv:2103.03874).

Files as published: `train/TYPE/*.json` and `test/TYPE/*.json`, one problem
each, and the subset of 500 test problems as lines of JSON. Rights of the
problems are unclear: none is shipped.
"""

import pathlib
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxlab.boxed import last_boxed
from jaxlab.data import json_rows, questions

_SUBSETS = ('test500.jsonl', 'math500.jsonl', 'math_500.jsonl', 'test.jsonl')
# A few solutions box one sign without braces.
_SHORT_BOX = re.compile(r'\\boxed\s+([^\s{}$])')


class CompetitionProblems(NamedTuple):
  r"""Problems by type and number of the file; of the subset in file order.

  Attributes:
    questions: `[n]` str objects, LaTeX.
    solutions: `[n]` str objects; '' in a subset without them.
    answers: `[n]` str objects: what the last `\boxed{}` of the solution holds.
    levels: `[n]` str objects, `Level 1` to `Level 5`.
    types: `[n]` str objects, such as `Algebra`.
    ids: `[n]` str objects, such as `test/algebra/2.json`.
  """

  questions: np.ndarray
  solutions: np.ndarray
  answers: np.ndarray
  levels: np.ndarray
  types: np.ndarray
  ids: np.ndarray


def load(split: str | None = None) -> CompetitionProblems:
  """Reads the problems.

  Args:
    split: `'train'`, `'test'`, or `'test500'` for the subset.

  Raises:
    UserError: if the split is unknown or a file is damaged.
    MissingDataError: if the files are not on this machine.
  """
  return CompetitionProblems(**SOURCE.load(split))


def _find(folder: pathlib.Path) -> questions.Splits:
  found = {
    split: sorted(folder.glob(f'{split}/*/*.json'), key=_order)
    for split in ('train', 'test')
  }
  subsets = [folder / name for name in _SUBSETS]
  found['test500'] = [path for path in subsets if path.is_file()][:1]
  return {split: each for split, each in found.items() if each}


def _order(path: pathlib.Path) -> tuple[str, int, str]:
  number = int(path.stem) if path.stem.isdecimal() else -1
  return path.parent.name, number, path.stem


def _read(
  folder: pathlib.Path, found: Sequence[pathlib.Path]
) -> questions.Columns:
  if found[0].suffix == '.jsonl':
    rows = [_of_subset(folder, row) for row in json_rows.read_lines(found[0])]
  else:
    rows = [_of_file(folder, path) for path in found]
  names = CompetitionProblems._fields
  return {
    name: list(each)
    for name, each in zip(names, zip(*rows, strict=True), strict=True)
  }


def _of_file(folder: pathlib.Path, path: pathlib.Path) -> tuple[str, ...]:
  row = json_rows.read_object(path)
  solution = row.text('solution')
  answer = last_boxed(solution)
  if answer is None:
    short = _SHORT_BOX.findall(solution)
    if not short:
      raise row.failure(r"'solution' has no answer in a last \boxed{}")
    answer = short[-1]
  return (
    row.text('problem'),
    solution,
    answer,
    row.text('level'),
    row.text('type'),
    path.relative_to(folder).as_posix(),
  )


def _of_subset(folder: pathlib.Path, row: json_rows.Row) -> tuple[str, ...]:
  """A row with the problem, or with the name of a file that has it."""
  name, answer = row.text('unique_id'), row.text('answer')
  if 'problem' in row.values:
    level = row.text('level') if 'level' in row.values else ''
    return (
      row.text('problem'),
      row.text('solution') if 'solution' in row.values else '',
      answer,
      f'Level {level}' if level.isdigit() else level,
      row.text('subject', 'type') if _has_type(row) else '',
      name,
    )
  path = folder / name
  # The name comes from a file: it must not lead out of the folder.
  if '..' in path.parts or not path.is_file():
    raise row.failure(f"no 'problem', and no file {name!r} in {folder}")
  question, solution, _, level, kind, _ = _of_file(folder, path)
  return question, solution, answer, level, kind, name


def _has_type(row: json_rows.Row) -> bool:
  return 'subject' in row.values or 'type' in row.values


SOURCE = questions.QuestionSource(
  name='math',
  what='problems of mathematics competitions with worked answers',
  origin='the GitHub repository hendrycks/math',
  licence='of the code MIT; rights of the problems unclear',
  homepage='https://github.com/hendrycks/math',
  columns=CompetitionProblems._fields,
  wanted=f'train/*/*.json, test/*/*.json or {" or ".join(_SUBSETS)}',
  find=_find,
  read=_read,
)
prepare, describe = SOURCE.prepare, SOURCE.describe
