"""Credit scores and repayment of four groups of US borrowers, 2003.

Aggregates of TransUnion TransRisk scores from the Federal Reserve Board's
Report to the Congress on Credit Scoring (2007): the distribution of the score
and the share of bad loans at each score, by group. Files: GitHub repository
fairmlbook/fairmlbook.github.io, folder `code/creditscore/data`.
"""

import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import files, tables

_RAW = files.RawFiles(
  name='fico',
  patterns=[
    ['fico_transrisk_cdf_by_race_ssa.csv', 'transrisk_cdf_by_race_ssa.csv'],
    [
      'fico_transrisk_performance_by_race_ssa.csv',
      'transrisk_performance_by_race_ssa.csv',
    ],
    ['fico_totals.csv', 'totals.csv'],
  ],
  origin=(
    'the GitHub repository fairmlbook/fairmlbook.github.io, folder'
    ' code/creditscore/data'
  ),
)
# Race as recorded by the Social Security Administration.
_KIND = 'SSA'
# The distribution is printed in hundredths of a per cent.
_ROUNDING = 0.02


class Fico(NamedTuple):
  """The distribution of a calibrated score in K groups.

  Attributes:
    names: the K groups.
    levels: `[m]` float64 score levels, rising.
    pmf: `[K, m]` float64 share of the group at each level; rows sum to 1.
    good: `[K, m]` float64 probability that a loan at the level is repaid.
    weight: `[K]` float64 shares of the groups among those chosen; sum to 1.
    totals: `[K]` float64 number of people.
  """

  names: Sequence[str]
  levels: np.ndarray
  pmf: np.ndarray
  good: np.ndarray
  weight: np.ndarray
  totals: np.ndarray


def load_fico(
  folder: str | os.PathLike[str] | None = None,
  columns: Sequence[str] | None = None,
) -> Fico:
  """Reads the three files.

  Args:
    folder: their folder; None is the data set's under `JAXLAB_DATA`.
    columns: names of the groups, in the order wanted; None is all, in the
      order of the file.

  Raises:
    UserError: if a group is unknown or named twice, or a file is damaged: a
      distribution falls or does not end at 100 per cent.
    MissingDataError: if the files are not there.
  """
  cdf_file, bad_file, totals_file = files.find(_RAW, folder)
  cdf = tables.read_table(cdf_file)
  known = [name for name in cdf.columns if name != 'Score']
  names = known if columns is None else list(columns)
  unknown = [name for name in names if name not in known]
  if unknown or not names or len(set(names)) < len(names):
    raise errors.UserError(
      f'fico: columns={names} must be different names out of {known}.'
    )
  bad = tables.read_table(bad_file, ['Score', *names])
  levels = tables.numbers(cdf, 'Score')
  if not np.array_equal(levels, tables.numbers(bad, 'Score')):
    raise errors.UserError(
      f'{bad_file} has other scores than {cdf_file}; take both again from'
      f' {_RAW.origin}.'
    )
  return Fico(
    names=names,
    levels=levels,
    pmf=np.stack([_pmf(cdf, name) for name in names]),
    good=np.stack([1 - tables.numbers(bad, n, 0, 100) / 100 for n in names]),
    **_shares(totals_file, names),
  )


def as_rows(fico: Fico) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns `[K m]` scores, groups and weights: one row a level of a group."""
  groups, _ = np.indices(fico.good.shape, np.int32)
  weight = fico.weight[:, None] * fico.pmf
  return fico.good.ravel(), groups.ravel(), weight.ravel()


def load(
  split: str | None = None, *, columns: Sequence[str] | None = None
) -> Fico:
  """Reads the distributions; see `load_fico`. There are no splits."""
  files.no_split('fico', split)
  return load_fico(columns=columns)


def prepare(manual_dir: str | None = None) -> str:
  """Checks the files, and copies those of `manual_dir` to the cache."""
  load_fico(manual_dir)
  return files.keep(_RAW, files.find(_RAW, manual_dir), manual_dir)


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source and sizes; see `jaxlab.data.describe`."""
  fico = load(split)
  rate = (fico.pmf * fico.good).sum(axis=1)
  return [
    ('source', f'Federal Reserve Board (2007); {_RAW.origin}'),
    ('licence', 'none stated; aggregates published by a US agency'),
    ('read from', str(files.find(_RAW)[0].parent)),
    ('levels', f'{fico.levels.size} scores'),
    *(
      (name, f'{total:,.0f} people, {repaid:.2%} of loans repaid')
      for name, total, repaid in zip(fico.names, fico.totals, rate, strict=True)
    ),
  ]


def _pmf(cdf: tables.Table, name: str) -> np.ndarray:
  """Returns the `[m]` masses of a distribution in per cent."""
  values = tables.numbers(cdf, name, 0, 100)
  mass = np.diff(values, prepend=0)
  if mass.min() < -_ROUNDING:
    at_least = 'at or above the value of the line before'
    raise cdf.failure(name, int(mass.argmin()), at_least)
  if values[-1] != 100:
    raise cdf.failure(name, len(values) - 1, 'the last value, 100')
  mass = mass.clip(min=0)
  return mass / mass.sum()


def _shares(path: pathlib.Path, names: list[str]) -> dict[str, np.ndarray]:
  table = tables.read_table(path, ['Kind', *names])
  row = table.columns['Kind'] == _KIND
  if row.sum() != 1:
    raise errors.UserError(
      f'{path} must have one row of Kind {_KIND!r}; take it again from'
      f' {_RAW.origin}.'
    )
  totals = np.array([tables.numbers(table, n, 1)[row].item() for n in names])
  return {'totals': totals, 'weight': totals / totals.sum()}
