"""Reader of the response files: one row a vote, for replay environments."""

import csv
import io
import pathlib
import re
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jaxlab import errors

_REWARDS = {1.0: 0.0, 2.0: 0.5, 3.0: 1.0}
_RATING_WORDS = {'rating', 'reward', 'answer'}


class CaptionResponses(NamedTuple):
  """Single votes by caption, for replay without replacement.

  Attributes:
    rewards: `[N, H]` float32; row i holds the rewards 0, 1/2, 1 of caption i in
      the order of the file, then NaN. H is the largest number of votes.
    lengths: `[N]` int32 number of votes.
    targets: the N captions' identifiers (their text where the file has no
      identifier), in the order in which they first appear.
  """

  rewards: np.ndarray
  lengths: np.ndarray
  targets: list[str]


def load_caption_responses(
  path: str | pathlib.Path, *, algorithm: str | None = None
) -> CaptionResponses:
  """Reads a response file.

  Header names differ by year; columns are recognised by the words in them: a
  rating 1..3 (rating, reward or answer), the caption shown (target or caption,
  preferably with id) and the algorithm that chose it (alg or algorithm).

  Args:
    path: a file `contests/responses/*.csv.zip`, or the CSV file in it.
    algorithm: label of the votes to keep; None keeps all.

  Raises:
    UserError: if the file is damaged, has no such column, a rating is not 1, 2
      or 3, or no vote bears the label.
    MissingDataError: if the file is not there.
  """
  path = pathlib.Path(path)
  if not path.is_file():
    raise errors.MissingDataError(
      f'{path} is not there: response files come from the GitHub repository'
      ' nextml/caption-contest-data-api, folder contests/responses.'
    )
  header, rows = _table(path)
  rating, target, label = _columns(path, header)
  votes: dict[str, list[float]] = {}
  labels = set()
  for row, fields in enumerate(rows):
    if algorithm is not None:
      labels.add(fields[label])
      if fields[label] != algorithm:
        continue
    reward = _reward(path, header[rating], row, fields[rating])
    votes.setdefault(fields[target], []).append(reward)
  if not votes:
    known = f'; labels: {", ".join(sorted(labels))}' if labels else ''
    raise errors.UserError(
      f'{path} has no votes for algorithm={algorithm!r}{known}.'
    )
  lengths = np.array([len(each) for each in votes.values()], np.int32)
  rewards = np.full((len(votes), lengths.max()), np.nan, np.float32)
  for row, each in enumerate(votes.values()):
    rewards[row, : len(each)] = each
  return CaptionResponses(rewards, lengths, list(votes))


def _table(path: pathlib.Path) -> tuple[list[str], list[list[str]]]:
  try:
    header, *rows = list(csv.reader(_lines(path))) or [[]]
  except (UnicodeDecodeError, csv.Error, zipfile.BadZipFile) as error:
    raise errors.UserError(f'{path} is not CSV in UTF-8: {error}.') from error
  rows = [fields for fields in rows if fields]  # blank lines are no rows
  for row, fields in enumerate(rows):
    if len(fields) != len(header):
      raise errors.UserError(
        f'{path}, row {row}: {len(fields)} fields, not {len(header)}.'
      )
  return header, rows


def _lines(path: pathlib.Path) -> Iterator[str]:
  if path.suffix != '.zip':
    with path.open(encoding='utf-8-sig', newline='') as stream:
      yield from stream
    return
  with zipfile.ZipFile(path) as archive:
    # Archives made on a Mac carry a second, binary entry for every file.
    names = [
      name
      for name in archive.namelist()
      if name.endswith('.csv') and not name.startswith('__MACOSX/')
    ]
    if len(names) != 1:
      raise errors.UserError(f'{path} must hold one CSV file, has {names}.')
    with archive.open(names[0]) as stream:
      yield from io.TextIOWrapper(stream, encoding='utf-8-sig', newline='')


def _columns(path: pathlib.Path, header: list[str]) -> tuple[int, int, int]:
  """Returns the columns of rating, target and algorithm label (-1: none)."""
  words = [set(re.findall('[a-z]+', name.lower())) for name in header]
  rating = [i for i, each in enumerate(words) if each & _RATING_WORDS]
  target = [
    i
    for i, each in enumerate(words)
    if each & {'target', 'caption'} and i not in rating
  ]
  label = [i for i, each in enumerate(words) if each & {'alg', 'algorithm'}]
  if not rating or not target:
    raise errors.UserError(
      f'{path} has no column for the {"target" if rating else "rating"};'
      f' it has {", ".join(header)}.'
    )
  by_id = [i for i in target if 'id' in words[i]]
  return rating[0], (by_id or target)[0], label[0] if label else -1


def _reward(path: pathlib.Path, column: str, row: int, text: str) -> float:
  try:
    return _REWARDS[float(text)]
  except (ValueError, KeyError):
    raise errors.UserError(
      f'{path}, column {column!r}, row {row}: {text!r} is not a rating 1, 2'
      ' or 3.'
    ) from None
