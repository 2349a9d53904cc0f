"""Reader of the summary files of contests: one row a caption with its votes."""

import csv
import pathlib
import re
import warnings
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from jaxlab import errors

SOURCE = 'nextml/caption-contest-data-api, folder contests/summaries'
VOTES = ('unfunny', 'somewhat_funny', 'funny')
# Reward of a vote, in the order of VOTES.
REWARD_VALUES = {'mean': (0.0, 0.5, 1.0), 'funny_rate': (0.0, 0.0, 1.0)}

_FILE = re.compile(r'(?P<contest>[^_]+)_summary_(?P<algorithm>.+)\.csv')
# The files print scores in full or rounded to three decimals at the least.
_SCORE_TOLERANCE = 5.1e-4
_SUSPECT_SHARE = 0.9
_SUSPECT_COUNT = 100


class Contest(NamedTuple):
  """A summary file's contest and the algorithm that chose what was shown."""

  contest: str
  algorithm: str

  @property
  def file(self) -> str:
    """The name of the summary file."""
    return f'{self.contest}_summary_{self.algorithm}.csv'

  @property
  def split(self) -> str:
    """The name of the split."""
    return f'{self.contest}_{self.algorithm}'


class Summary(NamedTuple):
  """All rows of a summary file, in file order.

  Attributes:
    file: name of the file.
    origin: folder or prepared copy that the rows were read from.
    captions: the N captions.
    votes: `[N, 3]` int64 votes, in the order of `VOTES`.
  """

  file: str
  origin: str
  captions: list[str]
  votes: np.ndarray


class CaptionContest(NamedTuple):
  """A contest as a bandit: an arm is a caption.

  The arms are in file order, which is SORTED BY RANK: an algorithm must draw
  its own random order of arms, or it starts with the winners.

  Attributes:
    mu: `[N]` float64 mean reward in [0, 1].
    probs: `[N, 3]` float64 shares of unfunny, somewhat funny and funny votes,
      whose rewards are 0, 1/2 and 1 (`REWARD_VALUES`).
    counts: `[N]` int64 number of votes.
    captions: the N captions; equal captions are separate arms.
    suspect_rows: rows of the file, from 0, whose votes look stuffed: more than
      90 % of more than 100 votes are funny.
  """

  mu: np.ndarray
  probs: np.ndarray
  counts: np.ndarray
  captions: list[str]
  suspect_rows: list[int]


def load_caption_contest(
  dir: str | pathlib.Path,
  contest: int | str,
  algorithm: str | None = None,
  min_count: int = 1,
  score: str = 'mean',
  drop_suspect: bool = False,
) -> CaptionContest:
  """Reads a contest from a folder of summary files.

  Args:
    dir: folder of files `CONTEST_summary_ALGORITHM.csv`.
    contest: the contest, `651` or `'508-round1'`.
    algorithm: the sampling algorithm in the file's name; None where the contest
      has only one file.
    min_count: fewest votes that a caption must have, at least 1.
    score: `'mean'` rewards somewhat funny with 1/2, so that `mu` is
      (score - 1)/2 of the file's score; `'funny_rate'` rewards funny alone.
    drop_suspect: drops the captions of `suspect_rows`; else they are only
      reported.

  Returns:
    The contest's arms in file order. Captions without votes are dropped, and
    suspect rows reported, with a warning.

  Raises:
    UserError: if an option is unknown, the algorithm is not named where it must
      be, or the file is damaged: a column is missing, votes are no whole
      numbers, `count` is not their sum or `score` not their mean.
    MissingDataError: if the folder or the contest is not there.
  """
  folder = pathlib.Path(dir)
  found = contests(folder)
  if not found:
    raise errors.MissingDataError(
      f'{folder} has no files CONTEST_summary_ALGORITHM.csv: take them from the'
      f' GitHub repository {SOURCE}.'
    )
  return to_arms(
    read_summary(folder, choose(found, str(contest), algorithm)),
    min_count=min_count,
    score=score,
    drop_suspect=drop_suspect,
  )


def contests(dir: str | pathlib.Path) -> list[Contest]:
  """Lists the summary files of a folder, sorted; none if it does not exist."""
  names = (each.name for each in pathlib.Path(dir).glob('*_summary_*.csv'))
  matches = (_FILE.fullmatch(name) for name in names)
  return sorted(Contest(*match.groups()) for match in matches if match)


def choose(
  available: Iterable[Contest], contest: str, algorithm: str | None
) -> Contest:
  """Returns the one available file of a contest and algorithm.

  Raises:
    MissingDataError: if the contest is not available.
    UserError: if the algorithm is not, or must be named.
  """
  known = sorted(available)
  files = [each for each in known if each.contest == contest]
  if not files:
    have = ', '.join(dict.fromkeys(each.contest for each in known))
    raise errors.MissingDataError(
      f'caption contest {contest} is not here (there are {have}): take'
      f' {contest}_summary_*.csv from the GitHub repository {SOURCE}.'
    )
  labels = ', '.join(each.algorithm for each in files)
  if algorithm is not None:
    files = [each for each in files if each.algorithm == algorithm]
    if not files:
      raise errors.UserError(
        f'caption contest {contest} has no algorithm {algorithm!r};'
        f' it has {labels}.'
      )
  if len(files) > 1:
    raise errors.UserError(
      f'caption contest {contest} has several algorithms, name one of {labels}'
      f' (algorithm={files[0].algorithm!r} or split={files[0].split!r}).'
    )
  return files[0]


def read_summary(folder: pathlib.Path, contest: Contest) -> Summary:
  """Reads and checks a summary file.

  `count` and `score` are checked where the file has them; what other columns
  there are differs by year.

  Raises:
    UserError: if the file is damaged; names the file, the column and the row,
      counted from 0 without the header.
  """
  path = folder / contest.file
  columns = _columns(path)
  votes = np.stack(
    [_whole(path, name, columns[name]) for name in VOTES], axis=1
  )
  total = votes.sum(axis=1)
  if 'count' in columns:
    count = _whole(path, 'count', columns['count'])
    _check(path, 'count', count, total, 'the sum of the votes', 0)
  if 'score' in columns:
    mean = votes @ [1, 2, 3] / np.maximum(total, 1)
    given = np.array([_number(text) for text in columns['score']])
    given = np.where(total > 0, given, mean)  # without votes there is no score
    meaning = 'the mean of the votes'
    _check(path, 'score', given, mean, meaning, _SCORE_TOLERANCE)
  return Summary(contest.file, str(folder), list(columns['caption']), votes)


def to_arms(
  table: Summary,
  *,
  min_count: int = 1,
  score: str = 'mean',
  drop_suspect: bool = False,
) -> CaptionContest:
  """Turns a file's rows into arms; see `load_caption_contest`."""
  if min_count < 1:
    raise errors.UserError(f'min_count={min_count} is below 1.')
  if score not in REWARD_VALUES:
    raise errors.UserError(
      f'score={score!r} is not one of {", ".join(REWARD_VALUES)}.'
    )
  counts = table.votes.sum(axis=1)
  share = table.votes[:, 2] / np.maximum(counts, 1)
  suspect = (share > _SUSPECT_SHARE) & (counts > _SUSPECT_COUNT)
  empty = int((counts == 0).sum())
  if empty:
    warnings.warn(
      f'{table.file}: {empty} rows with count = 0 dropped.', stacklevel=3
    )
  if suspect.any():
    warnings.warn(
      f'{table.file}: votes of rows {np.flatnonzero(suspect).tolist()} look'
      f' stuffed (over {_SUSPECT_SHARE:.0%} funny);'
      f' {"dropped" if drop_suspect else "kept"}.',
      stacklevel=3,
    )
  keep = counts >= min_count
  if drop_suspect:
    keep &= ~suspect
  if not keep.any():
    raise errors.UserError(
      f'{table.file}: no caption has min_count={min_count} votes.'
    )
  probs = table.votes[keep] / counts[keep, None]
  return CaptionContest(
    mu=table.votes[keep] @ REWARD_VALUES[score] / counts[keep],
    probs=probs,
    counts=counts[keep],
    captions=[table.captions[row] for row in np.flatnonzero(keep)],
    suspect_rows=np.flatnonzero(suspect).tolist(),
  )


def _columns(path: pathlib.Path) -> dict[str, tuple[str, ...]]:
  try:
    # Captions hold line breaks: the csv module must see them unchanged.
    with path.open(encoding='utf-8-sig', newline='') as stream:
      header, *rows = list(csv.reader(stream)) or [[]]
  except OSError as error:
    raise errors.UserError(f'{path}: {error.strerror}.') from error
  except (UnicodeDecodeError, csv.Error) as error:
    raise errors.UserError(f'{path} is not CSV in UTF-8: {error}.') from error
  rows = [fields for fields in rows if fields]  # blank lines are no rows
  for name in (*VOTES, 'caption'):
    if name not in header:
      raise errors.UserError(f'{path} has no column {name!r}.')
  for row, fields in enumerate(rows):
    if len(fields) != len(header):
      raise errors.UserError(
        f'{path}, row {row}: {len(fields)} fields, the header has'
        f' {len(header)} columns ({", ".join(header)}).'
      )
  if not rows:
    raise errors.UserError(f'{path} has no rows below its header.')
  return dict(zip(header, zip(*rows, strict=True), strict=True))


def _number(text: str) -> float:
  try:
    return float(text)
  except ValueError:
    return np.nan


def _whole(
  path: pathlib.Path, column: str, texts: tuple[str, ...]
) -> np.ndarray:
  numbers = np.array([_number(text) for text in texts])
  bad = ~((numbers >= 0) & (numbers < 2**53) & (numbers == np.floor(numbers)))
  if bad.any():
    row = int(bad.argmax())
    raise errors.UserError(
      f'{path}, column {column!r}, row {row}: {texts[row]!r} is not a whole'
      ' number of votes.'
    )
  return numbers.astype(np.int64)


def _check(
  path: pathlib.Path,
  column: str,
  given: np.ndarray,
  right: np.ndarray,
  meaning: str,
  tolerance: float,
) -> None:
  bad = ~(np.abs(given - right) <= tolerance)
  if bad.any():
    row = int(bad.argmax())
    raise errors.UserError(
      f'{path}, column {column!r}, row {row}: {given[row]} is not {meaning},'
      f' {right[row]}.'
    )
