"""Comma-separated tables whose damage is reported by file and line."""

import csv
import operator
import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxlab import errors

_CURE = 'take the file again from its source'
_ENCODINGS = {'utf-8-sig': 'UTF-8'}


class Table(NamedTuple):
  """Columns of text.

  Attributes:
    path: the file.
    lines: `[n]` int64 line of each row in the file, from 1.
    columns: for each name the `[n]` texts, without blanks around them.
  """

  path: pathlib.Path
  lines: np.ndarray
  columns: dict[str, np.ndarray]

  def failure(self, column: str, row: int, wanted: str) -> errors.UserError:
    """Returns the error that a field is not what it must be."""
    text = str(self.columns[column][row])
    return errors.UserError(
      f'{self.path}, line {self.lines[row]}, column {column!r}: {text!r} is'
      f' not {wanted}; {_CURE}.'
    )


def read_table(
  path: pathlib.Path,
  columns: Sequence[str] | None = None,
  *,
  names: Sequence[str] | None = None,
  encoding: str = 'utf-8-sig',
) -> Table:
  """Reads a table of fields between commas, or between blanks.

  Blank lines and comments, which start with `|`, are no rows.

  Args:
    path: the file.
    columns: the columns to keep; None keeps all.
    names: names of the columns of a file without header; None takes them from
      the first line, where of two columns of one name the first counts.
    encoding: of the text.

  Raises:
    UserError: if the file cannot be read, lacks a column, has no rows or a row
      has another number of fields than the header.
  """
  try:
    # Some files break lines inside quotes: csv must see them unchanged.
    with path.open(encoding=encoding, newline='') as stream:
      return _parse(path, _rows(stream), columns, names)
  except OSError as error:
    raise errors.UserError(
      f'{path}: {error.strerror}; make it a readable file.'
    ) from error
  except (UnicodeDecodeError, csv.Error) as error:
    raise errors.UserError(
      f'{path} is not CSV in {_ENCODINGS.get(encoding, encoding)} ({error});'
      f' {_CURE}.'
    ) from error


def numbers(
  table: Table,
  column: str,
  low: float = -np.inf,
  high: float = np.inf,
  *,
  whole: bool = False,
  missing: Sequence[str] = (),
) -> np.ndarray:
  """Returns a column as `[n]` float64; int32 for whole numbers.

  Args:
    table: the table.
    column: the column.
    low: the smallest number allowed.
    high: the largest number allowed.
    whole: only whole numbers are right.
    missing: texts that stand for a missing number: NaN.

  Raises:
    UserError: if a field is no such number.
  """
  texts = table.columns[column]
  absent = np.isin(texts, missing)
  values = np.full(texts.shape, np.nan)
  try:
    values[~absent] = texts[~absent].astype(np.float64)
  except ValueError:
    values[~absent] = [_number(text) for text in texts[~absent]]
  good = (values >= low) & (values <= high) & np.isfinite(values)
  if whole:
    good &= values == np.round(values)
  bad = ~(good | absent)
  if bad.any():
    kind = 'a whole number' if whole else 'a number'
    limits = '' if low == -np.inf else f' from {low:g}'
    limits += '' if high == np.inf else f' to {high:g}'
    raise table.failure(column, int(bad.argmax()), kind + limits)
  return values.astype(np.int32) if whole and not absent.any() else values


def codes(table: Table, column: str, known: Sequence[str]) -> np.ndarray:
  """Returns a column as `[n]` int32 places in `known`.

  Raises:
    UserError: if a field is not one of `known`.
  """
  place = group_index(table.columns[column], known)
  if (place < 0).any():
    wanted = f'one of {", ".join(known)}'
    raise table.failure(column, int((place < 0).argmax()), wanted)
  return place


def group_index(
  values: np.ndarray, names: Sequence[str] | np.ndarray
) -> np.ndarray:
  """Returns `[n]` int32: the place of each value in `names`, -1 for none."""
  order = np.argsort(names)
  ordered = np.asarray(names)[order]
  place = np.searchsorted(ordered, values).clip(max=len(ordered) - 1)
  return np.where(ordered[place] == values, order[place], -1).astype(np.int32)


def _rows(stream: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
  """Yields the line and the fields of every row."""
  reader = csv.reader(stream, skipinitialspace=True)
  for fields in reader:
    if not fields or fields[0].startswith('|') or not ''.join(fields).strip():
      continue
    if len(fields) == 1:
      fields = fields[0].split()  # noqa: PLW2901 (blanks for commas)
    yield reader.line_num, fields


def _parse(
  path: pathlib.Path,
  rows: Iterator[tuple[int, list[str]]],
  columns: Sequence[str] | None,
  names: Sequence[str] | None,
) -> Table:
  header = list(names) if names else next(rows, (0, []))[1]
  header = [name.strip() for name in header]
  wanted = list(dict.fromkeys(columns or header))
  for name in wanted:
    if name not in header:
      have = re.sub(r'(.{200}).*', r'\1 ...', ', '.join(header)) or 'none'
      raise errors.UserError(
        f'{path} has no column {name!r} (it has {have}); {_CURE}.'
      )
  pick = operator.itemgetter(*(header.index(name) for name in wanted))
  lines, kept = [], []
  for line, fields in rows:
    if len(fields) != len(header):
      raise errors.UserError(
        f'{path}, line {line}: {len(fields)} fields, not {len(header)};'
        f' {_CURE}.'
      )
    lines.append(line)
    kept.append(pick(fields))
  if not kept:
    raise errors.UserError(f'{path} has no rows; {_CURE}.')
  texts = zip(*kept, strict=True) if len(wanted) > 1 else [kept]
  return Table(
    path,
    np.array(lines),
    {
      name: np.char.strip(np.array(column))
      for name, column in zip(wanted, texts, strict=True)
    },
  )


def _number(text: str) -> float:
  try:
    return float(text)
  except ValueError:
    return np.nan
