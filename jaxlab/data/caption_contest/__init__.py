"""The New Yorker Cartoon Caption Contest.

Readers of its weekly cartoon rate captions as unfunny, somewhat funny or funny;
a contest is a bandit with thousands of arms. Source: GitHub repository
nextml/caption-contest-data-api, folders `contests/summaries` (votes by caption)
and `contests/responses` (every single vote); data CC BY 4.0.

A split is a contest, `'651'`, with its sampling algorithm where a contest has
several, `'510_LilUCB'`. `load` takes it from the prepared copy when there is
one, else from the CSV files in `caption_contest/` or `box_thirding/` under
`JAXLAB_DATA`; both give the same arrays.
"""

import functools
import pathlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxlab import errors
from jaxlab.data import paths, prepared
from jaxlab.data.caption_contest.responses import (
  CaptionResponses,
  load_caption_responses,
)
from jaxlab.data.caption_contest.summaries import (
  REWARD_VALUES,
  SOURCE,
  CaptionContest,
  Contest,
  Summary,
  choose,
  contests,
  load_caption_contest,
  read_summary,
  to_arms,
)

__all__ = [
  'REWARD_VALUES',
  'CaptionContest',
  'CaptionResponses',
  'Contest',
  'contests',
  'describe',
  'load',
  'load_caption_contest',
  'load_caption_responses',
  'prepare',
]

_FOLDERS = ('caption_contest', 'box_thirding')


def load(
  split: str | int | None = None,
  *,
  algorithm: str | None = None,
  min_count: int = 1,
  score: str = 'mean',
  drop_suspect: bool = False,
) -> CaptionContest:
  """Reads one contest; see `load_caption_contest` for all but `split`.

  Args:
    split: `'651'`, or `'510_LilUCB'` for a contest with several algorithms.
    algorithm: the algorithm, where `split` does not name it.
    min_count: fewest votes that a caption must have.
    score: `'mean'` or `'funny_rate'`.
    drop_suspect: drops captions whose votes look stuffed.

  Raises:
    UserError: if the split or an option is unknown or the file is damaged.
    MissingDataError: if the contest is not on this machine.
  """
  return to_arms(
    _read(split, algorithm),
    min_count=min_count,
    score=score,
    drop_suspect=drop_suspect,
  )


def prepare(manual_dir: str | None = None) -> str:
  """Builds the prepared copy of all summary files of a folder.

  An earlier copy of other files is replaced once all files have been read and
  found sound. The copy appears under its name only when it is complete.

  Args:
    manual_dir: folder of the files `CONTEST_summary_ALGORITHM.csv`; None is the
      data set's folder under `JAXLAB_DATA`.

  Returns:
    One line: what was done and where the copy lies.

  Raises:
    UserError: if a file is damaged or the copy cannot be written.
    MissingDataError: if the folder holds no summary file.
  """
  folder = pathlib.Path(manual_dir).expanduser() if manual_dir else _folder()
  found = contests(folder) if folder else []
  if not folder or not found:
    raise _missing(folder)
  captions = sum(len(read_summary(folder, each).captions) for each in found)
  where, built = prepared.build(
    'caption_contest', folder, [folder / each.file for each in found]
  )
  done = 'prepared' if built else 'was prepared already'
  size = f'{len(found)} files, {captions:,} captions'
  return f'caption_contest {done}: {size}, in {where}.'


def describe(split: str | int | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  rows = [
    ('source', f'GitHub repository {SOURCE}'),
    ('licence', 'CC BY 4.0'),
    ('columns', 'caption; votes unfunny, somewhat funny, funny'),
  ]
  if split is not None:
    table = _read(split, None)
    with warnings.catch_warnings(action='ignore'):  # it is a row below
      arms = to_arms(table)
    low, middle, high = np.percentile(arms.counts, [0, 50, 100])
    return [
      *rows,
      ('read from', f'{table.file} in {table.origin}'),
      ('captions', f'{len(arms.captions):,}'),
      ('votes', f'{arms.counts.sum():,}'),
      ('votes a caption', f'{low:g} / {middle:g} / {high:g} (min/median/max)'),
      ('mean reward', f'best {arms.mu.max():.4f}, mean {arms.mu.mean():.4f}'),
      ('suspect rows', ', '.join(map(str, arms.suspect_rows)) or 'none'),
    ]
  tables = {key: read() for key, read in sorted(_available().items())}
  origins = sorted({table.origin for table in tables.values()})
  return [
    *rows,
    ('read from', '; '.join(origins)),
    *(
      (
        key.split,
        f'{len(table.captions):,} captions, {table.votes.sum():,} votes',
      )
      for key, table in tables.items()
    ),
  ]


def _read(split: str | int | None, algorithm: str | None) -> Summary:
  available = _available()
  if split is None:
    raise errors.UserError(
      'caption_contest: name a contest as split, one of '
      + ', '.join(contest.split for contest in sorted(available))
      + '.'
    )
  contest, _, label = str(split).partition('_')
  return available[choose(available, contest, algorithm or label or None)]()


def _available() -> dict[Contest, Callable[[], Summary]]:
  """Returns a reader for every contest, from the prepared copy if it can."""
  readers: dict[Contest, Callable[[], Summary]] = {}
  folder = _folder()
  if folder:
    for contest in contests(folder):
      readers[contest] = functools.partial(read_summary, folder, contest)
  builder = prepared.find('caption_contest')
  for split in builder.info.splits if builder else ():
    contest = Contest(*split.split('_', 1))
    readers[contest] = functools.partial(_read_prepared, builder, contest)
  if not readers:
    raise _missing(folder)
  return readers


def _read_prepared(builder: Any, contest: Contest) -> Summary:
  rows = prepared.read(builder, contest.split)
  return Summary(
    file=contest.file,
    origin=f'prepared copy {builder.data_path}',
    captions=[row['caption'].decode() for row in rows],
    votes=np.stack([row['votes'] for row in rows]),
  )


def _folder() -> pathlib.Path | None:
  candidates = [paths.data_root() / name for name in _FOLDERS]
  return next((each for each in candidates if contests(each)), None)


def _missing(folder: pathlib.Path | None) -> errors.MissingDataError:
  root = paths.data_root()
  looked = [folder] if folder else [root / name for name in _FOLDERS]
  places = ' and '.join(f'{each}/*_summary_*.csv' for each in looked)
  return errors.MissingDataError(
    f'caption_contest is not here (looked for {places}): take the files from'
    f' the GitHub repository {SOURCE}, and run `jaxlab data prepare'
    ' caption_contest --manual_dir=DIR`, or point the variable JAXLAB_DATA to'
    f' a folder that holds them in {_FOLDERS[0]}/.'
  )
