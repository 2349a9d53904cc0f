"""The rows of a benchmark as a table and as a file."""

import json
import pathlib
from collections.abc import Sequence

import rich.markup
import rich.table

from benchmarks.timing import Row

_MARKS = {True: 'yes', False: 'NO', None: ''}


def table(title: str, rows: Sequence[Row]) -> rich.table.Table:
  """Lays rows out for the terminal.

  Args:
    title: name of the family.
    rows: the rows.
  """
  result = rich.table.Table(title=title, title_justify='left', box=None)
  result.add_column('work', overflow='fold', ratio=3)
  for name in ('ours', 'peer'):
    result.add_column(name, justify='right', no_wrap=True)
  result.add_column('unit')
  result.add_column('faster', justify='right', no_wrap=True)
  for name in ('goal', 'met'):
    result.add_column(name)
  result.add_column('peer version', overflow='fold', ratio=2)
  for row in rows:
    cells = (
      row.work,
      _number(row.ours),
      _number(row.peer),
      row.unit,
      f'{1 / row.ratio:.3g}x' if row.ratio else '',
      row.goal,
      _MARKS[row.met],
      row.peer_version,
    )
    result.add_row(*map(rich.markup.escape, cells))
  return result


def line(row: Row) -> str:
  """Returns a row in short, for the time before the table is whole."""
  if row.ours is None:
    return f'{row.work}: not measured, {row.note or row.peer_version}'
  beside = f', {1 / row.ratio:.3g}x as fast as the peer' if row.ratio else ''
  return f'{row.work}: {_number(row.ours)} {row.unit}'.rstrip() + beside


def text(rows: Sequence[Row]) -> str:
  """Returns rows as indented JSON: a list of objects."""
  return json.dumps([row._asdict() for row in rows], indent=2) + '\n'


def write(path: pathlib.Path, rows: Sequence[Row]) -> None:
  """Writes rows as JSON.

  Args:
    path: the file; its folder is made.
    rows: the rows.
  """
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text(rows))


def _number(value: float | None) -> str:
  return '-' if value is None else f'{value:.3g}'
