"""Logs of answers: triplets (examinee, item, right or wrong)."""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import files, prepared
from jaxlab.data.response_matrix import matrix

COPY = 'response_matrix'
_LARGEST = 500_000_000  # cells of a matrix


class Triplets(NamedTuple):
  """Answers, each examinee at most once an item.

  Attributes:
    examinee: `[m]` int32 place in `examinees`.
    item: `[m]` int32 place in `items`.
    right: `[m]` int8, 1 for a right answer, else 0.
    examinees: `[E]` names.
    items: `[n]` names.
    concepts: `[D]` names.
    needs: for each item the places of its concepts.
  """

  examinee: np.ndarray
  item: np.ndarray
  right: np.ndarray
  examinees: np.ndarray
  items: np.ndarray
  concepts: Sequence[str] = ()
  needs: Sequence[Sequence[int]] = ()


def from_columns(
  where: str,
  examinee: np.ndarray,
  item: np.ndarray,
  right: np.ndarray,
  concepts_of: Mapping[str, Iterable[str]] | None = None,
  *,
  keep_first: bool = False,
) -> Triplets:
  """Makes triplets of the columns of a log; equal rows count once.

  Args:
    where: the file, for messages.
    examinee: `[m]` names.
    item: `[m]` names.
    right: `[m]` 0 or 1.
    concepts_of: the concepts that items need, by the item's name.
    keep_first: of different answers of one examinee to one item, whether the
      first counts; else they are an error.

  Raises:
    UserError: if an examinee has answered an item rightly and wrongly.
  """
  examinees, who = _codes(examinee)
  items, what = _codes(item)
  pair = who.astype(np.int64) * len(items) + what
  _, first, inverse = np.unique(pair, return_index=True, return_inverse=True)
  right = np.asarray(right, np.int8)
  differ = np.zeros(len(first), bool)
  differ[inverse[right != right[first][inverse]]] = True
  if differ.any() and not keep_first:
    row = first[differ.argmax()]
    raise errors.UserError(
      f'{where}: {differ.sum():,} pairs of examinee and item have a right and a'
      f' wrong answer, first {examinee[row]} and {item[row]}; of each pair one'
      ' answer counts: leave that row alone.'
    )
  kept = np.sort(first)
  concepts, needs = _needs(items, concepts_of)
  return Triplets(
    who[kept], what[kept], right[kept], examinees, items, concepts, needs
  )


def assemble(
  triplets: Triplets,
  *,
  min_items: int = 1,
  min_examinees: int = 1,
) -> matrix.ResponseMatrix:
  """Makes a matrix.

  Args:
    triplets: the answers.
    min_items: answers that an examinee must have.
    min_examinees: answers that an item must have. Both are applied until they
      hold for all that is left.

  Raises:
    UserError: if nothing is left, or more than fits in memory.
  """
  kept = np.ones(len(triplets.right), bool)
  while True:
    by_examinee = np.bincount(triplets.examinee[kept], minlength=1)
    by_item = np.bincount(triplets.item[kept], minlength=1)
    rows = np.pad(by_examinee, (0, len(triplets.examinees) - len(by_examinee)))
    columns = np.pad(by_item, (0, len(triplets.items) - len(by_item)))
    enough = kept & (rows[triplets.examinee] >= min_items)
    enough &= columns[triplets.item] >= min_examinees
    if (enough == kept).all():
      break
    kept = enough
  rows, columns = np.flatnonzero(rows), np.flatnonzero(columns)
  if not kept.any():
    raise errors.UserError(
      f'min_items={min_items} and min_examinees={min_examinees} leave nothing;'
      ' ask for fewer answers.'
    )
  shape = (len(rows), len(columns))
  if shape[0] * shape[1] > _LARGEST:
    raise errors.UserError(
      f'{shape[0]:,} examinees by {shape[1]:,} items do not fit in memory; ask'
      ' for more answers by min_items and min_examinees.'
    )
  at = (
    np.searchsorted(rows, triplets.examinee[kept]),
    np.searchsorted(columns, triplets.item[kept]),
  )
  responses, mask = np.zeros(shape, np.int8), np.zeros(shape, bool)
  responses[at], mask[at] = triplets.right[kept], True
  return matrix.ResponseMatrix(
    responses,
    mask,
    triplets.examinees[rows],
    triplets.items[columns],
    *_concepts(triplets, columns),
  )


@dataclasses.dataclass(frozen=True)
class TripletSource:
  """A data set that is a log of answers.

  Attributes:
    raw: the files.
    read: `(folder) -> (Triplets, files read)`.
    licence: of the files.
  """

  raw: files.RawFiles
  read: Callable[[pathlib.Path], tuple[Triplets, list[pathlib.Path]]]
  licence: str

  def load(
    self,
    split: str | None = None,
    *,
    fold: int = 0,
    seed: int = 0,
    min_items: int = 1,
    min_examinees: int = 1,
    folder: str | os.PathLike[str] | None = None,
  ) -> matrix.ResponseMatrix:
    """Reads the examinees of a split.

    Args:
      split: 'train', 'validation', 'test'; None for all examinees.
      fold: 0 to 4; see `matrix.split_rows`.
      seed: of the order in which examinees are dealt out.
      min_items: answers that an examinee must have.
      min_examinees: answers that an item must have.
      folder: of the files; None is the prepared copy, or else the data set's
        under `JAXLAB_DATA`.

    Raises:
      UserError: an unknown split or fold, too few or too many answers, damaged
        files.
      MissingDataError: if the files are not on this machine.
    """
    triplets, _ = self._read(folder)
    found = assemble(triplets, min_items=min_items, min_examinees=min_examinees)
    rows = matrix.split_rows(len(found.examinees), split, fold=fold, seed=seed)
    return matrix.take(found, rows)

  def prepare(self, manual_dir: str | None = None) -> str:
    """Builds the prepared copy; see `jaxlab.data.prepare`."""
    folder = files.find(self.raw, manual_dir)[0].parent
    triplets, found = self.read(folder)
    where, built = prepared.build(COPY, folder, found, self.raw.name)
    done = 'prepared' if built else 'was prepared already'
    size = f'{len(triplets.right):,} answers of {len(found)} files'
    return f'{self.raw.name} {done}: {size}, in {where}.'

  def describe(self, split: str | None = None) -> list[tuple[str, str]]:
    """Returns source, licence and sizes; see `jaxlab.data.describe`."""
    triplets, origin = self._read(None)
    if split is None:
      sizes = [
        ('examinees', f'{len(triplets.examinees):,}'),
        ('items', f'{len(triplets.items):,}'),
        ('answers', f'{len(triplets.right):,}'),
        ('right', f'{triplets.right.mean():.1%}'),
        ('concepts', f'{len(triplets.concepts):,}'),
      ]
    else:
      sizes = matrix.size_rows(self.load(split))
    return [
      ('source', self.raw.origin),
      ('licence', self.licence),
      ('read from', origin),
      *sizes,
    ]

  def _read(
    self, folder: str | os.PathLike[str] | None
  ) -> tuple[Triplets, str]:
    """Returns all answers and where they were read from."""
    builder = None if folder else prepared.find(COPY, self.raw.name)
    if builder is not None:
      return _from_copy(builder), f'prepared copy {builder.data_path}'
    place = files.find(self.raw, folder)[0].parent
    return self.read(place)[0], str(place)


def _codes(names: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Returns distinct names in the order of their appearance, and places."""
  values, first, inverse = np.unique(
    names, return_index=True, return_inverse=True
  )
  order = np.argsort(first)
  rank = np.empty(len(order), np.int32)
  rank[order] = np.arange(len(order))
  return values[order], rank[inverse]


def _needs(
  items: np.ndarray, concepts_of: Mapping[str, Iterable[str]] | None
) -> tuple[list[str], list[list[int]]]:
  if concepts_of is None:
    return [], []
  lists = [sorted({*concepts_of.get(str(item), ())}) for item in items]
  concepts = sorted({name for names in lists for name in names})
  place = {name: index for index, name in enumerate(concepts)}
  return concepts, [[place[name] for name in names] for names in lists]


def _concepts(
  triplets: Triplets, columns: np.ndarray
) -> tuple[np.ndarray | None, tuple[str, ...]]:
  """Returns the Q-matrix of some items and the names of its concepts."""
  if not triplets.concepts:
    return None, ()
  q_matrix = np.zeros((len(columns), len(triplets.concepts)), np.int8)
  for row, column in enumerate(columns):
    q_matrix[row, list(triplets.needs[column])] = 1
  used = q_matrix.any(axis=0)
  names = tuple(np.array(triplets.concepts)[used].tolist())
  return q_matrix[:, used], names


def _from_copy(builder: Any) -> Triplets:
  rows = prepared.read(builder, 'train')
  counts = [len(row['items']) for row in rows]
  about = builder.info.metadata
  return Triplets(
    examinee=np.repeat(np.arange(len(rows), dtype=np.int32), counts),
    item=np.concatenate([row['items'] for row in rows]),
    right=np.concatenate([row['right'] for row in rows]),
    examinees=np.array([row['examinee'].decode() for row in rows]),
    items=np.array(about['items']),
    concepts=about['concepts'],
    needs=about['needs'],
  )
