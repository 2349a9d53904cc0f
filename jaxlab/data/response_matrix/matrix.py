"""Matrices of responses, split by examinee."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import files

SPLITS = ('train', 'validation', 'test')
FOLDS = 5
_VALIDATION = 0.16  # share of all examinees


class ResponseMatrix(NamedTuple):
  """Right and wrong answers.

  Attributes:
    responses: `[E, n]` int8, 1 for a right answer, 0 for a wrong or no answer.
    mask: `[E, n]` bool, where there is an answer.
    examinees: `[E]` names.
    items: `[n]` names.
    q_matrix: `[n, D]` int8 which concepts an item needs, or None.
    concepts: `[D]` their names.
  """

  responses: np.ndarray
  mask: np.ndarray
  examinees: np.ndarray
  items: np.ndarray
  q_matrix: np.ndarray | None = None
  concepts: Sequence[str] = ()


def take(matrix: ResponseMatrix, rows: np.ndarray) -> ResponseMatrix:
  """Returns the examinees of some rows."""
  return matrix._replace(
    responses=matrix.responses[rows],
    mask=matrix.mask[rows],
    examinees=matrix.examinees[rows],
  )


def split_rows(
  num_examinees: int, split: str | None, *, fold: int = 0, seed: int = 0
) -> np.ndarray:
  """Returns the rows of a split, in ascending order.

  Of every 25 examinees, 5 are for testing, 4 for validation, 16 for training.
  Each examinee is in the test split of one fold; the validation split of a fold
  comes from the test split of the next one.

  Args:
    num_examinees: E.
    split: one of `SPLITS`; None for all rows.
    fold: 0 to 4.
    seed: of the order in which examinees are dealt out.

  Raises:
    UserError: if the split or the fold is unknown.
  """
  if split is None:
    return np.arange(num_examinees)
  if split not in SPLITS:
    raise errors.UserError(
      f'split={split!r} is not one of {", ".join(SPLITS)}; None takes all.'
    )
  if fold not in range(FOLDS):
    raise errors.UserError(f'fold={fold!r} is not one of 0 to {FOLDS - 1}.')
  order = np.random.default_rng(seed).permutation(num_examinees)
  parts = np.array_split(order, FOLDS)
  parts = [*parts[fold:], *parts[:fold]]
  count = min(round(_VALIDATION * num_examinees), len(parts[1]))
  rows = {
    'test': parts[0],
    'validation': parts[1][:count],
    'train': np.concatenate([parts[1][count:], *parts[2:]]),
  }
  return np.sort(rows[split])


def size_rows(matrix: ResponseMatrix) -> list[tuple[str, str]]:
  """Returns the sizes of a matrix as (label, text) rows."""
  answers = matrix.mask.sum()
  share = matrix.responses.sum() / max(answers, 1)
  return [
    ('examinees', f'{len(matrix.examinees):,}'),
    ('items', f'{len(matrix.items):,}'),
    ('answers', f'{answers:,}, {share:.1%} right'),
    ('missing', f'{1 - answers / matrix.mask.size:.1%}'),
    ('concepts', f'{len(matrix.concepts):,}'),
  ]


@dataclasses.dataclass(frozen=True)
class MatrixSource:
  """A data set of one matrix in small files.

  Attributes:
    raw: the files.
    read: `(paths, **options) -> ResponseMatrix`.
    licence: of the files.
  """

  raw: files.RawFiles
  read: Callable[..., ResponseMatrix]
  licence: str

  def load(
    self,
    split: str | None = None,
    *,
    fold: int = 0,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    **options: Any,
  ) -> ResponseMatrix:
    """Reads the examinees of a split.

    Args:
      split: 'train', 'validation', 'test'; None for all examinees.
      fold: 0 to 4; see `split_rows`.
      seed: of the order in which examinees are dealt out.
      folder: of the files; None is the data set's under `JAXLAB_DATA`.
      **options: of the data set.

    Raises:
      UserError: an unknown split, fold or option; damaged files.
      MissingDataError: if the files are not on this machine.
    """
    matrix = self.read(files.find(self.raw, folder), **options)
    rows = split_rows(len(matrix.examinees), split, fold=fold, seed=seed)
    return take(matrix, rows)

  def prepare(self, manual_dir: str | None = None) -> str:
    """Checks the files, and copies those of `manual_dir` to the cache."""
    found = files.find(self.raw, manual_dir)
    self.read(found)
    return files.keep(self.raw, found, manual_dir)

  def describe(self, split: str | None = None) -> list[tuple[str, str]]:
    """Returns source, licence and sizes; see `jaxlab.data.describe`."""
    return [
      ('source', self.raw.origin),
      ('licence', self.licence),
      ('read from', str(files.find(self.raw)[0].parent)),
      *size_rows(self.load(split)),
    ]


def read_arrays(
  path: pathlib.Path, shapes: dict[str, tuple[int | None, ...]]
) -> dict[str, np.ndarray]:
  """Reads arrays of an npz file.

  Args:
    path: the file.
    shapes: for each name the shape, None for any length.

  Raises:
    UserError: if the file cannot be read or lacks such an array.
  """
  try:
    with np.load(path) as content:
      found = {name: content[name] for name in shapes if name in content.files}
  except (OSError, ValueError, EOFError) as error:
    raise errors.UserError(
      f'{path} is not an npz file ({error}); take the file again from its'
      ' source.'
    ) from error
  for name, shape in shapes.items():
    have = found[name].shape if name in found else 'no'
    fits = have != 'no' and len(have) == len(shape)
    if not fits or any(
      want not in (None, got) for want, got in zip(shape, have, strict=True)
    ):
      wanted = ' x '.join('?' if size is None else str(size) for size in shape)
      raise errors.UserError(
        f'{path}: array {name!r} must be {wanted}, found {have}; take the file'
        ' again from its source.'
      )
  return found


def numbered(count: int, prefix: str = '') -> np.ndarray:
  """Returns the names `prefix0`, `prefix1`, ... `[count]`."""
  return np.array([f'{prefix}{index}' for index in range(count)])
