"""`RESULTS.md`: the claims of all experiments as one Markdown table for git."""

import collections
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from jaxlab.errors import UserError
from jaxlab.harness import files, report_format, report_records
from jaxlab.harness.report_records import Run

_COLUMNS = (
  'Method',
  'Claim',
  'Paper',
  'Measured',
  'Interval',
  'Goal',
  'Verdict',
  'Mode',
  'Device',
  'Revision',
)
_VERDICT, _MODE = _COLUMNS.index('Verdict'), _COLUMNS.index('Mode')
_UNFINISHED = 'unfinished'


def write_results(
  workdirs: Sequence[pathlib.Path], path: pathlib.Path
) -> pathlib.Path:
  """Writes the claims of `workdirs` into a Markdown table.

  Rows that the file has of other experiments stay, so that one experiment can
  be measured anew; delete the file to begin anew.

  Args:
    workdirs: folders of runs; one that has not finished gets one row.
    path: the Markdown file; its folder is made when it is missing.

  Returns:
    `path`.

  Raises:
    UserError: as `report.write_report`, and if the file has another table.
  """
  fresh = _rows(report_records.read_runs(workdirs))
  measured = {row[0] for row in fresh}
  rows = [row for row in _stored(path) if row[0] not in measured] + fresh
  rows.sort(key=lambda row: row[0])
  lines = ['# Results', '', f'{_line(_counted(rows))}.', '']
  lines += map(_joined, (_COLUMNS, ['---'] * len(_COLUMNS), *rows))
  files.write(path, '\n'.join(lines) + '\n')
  return path


def verdict_line(runs: Iterable[Run]) -> str:
  """Says in one line how many claims hold, fail and stay undecided."""
  return _line(_counted(_rows(runs)))


def _rows(runs: Iterable[Run]) -> list[list[str]]:
  """Escaped cells of each claim."""
  found = []
  for run in runs:
    end = [run.mode, run.device, run.revision]
    if not run.finished:
      found.append([run.name, *[None] * 5, _UNFINISHED, *end])
      continue
    for claim in run.claims:
      middle = [
        report_format.format_measured(claim),
        report_format.format_interval(claim),
        report_format.format_goal(claim),
        claim['verdict'],
      ]
      found.append(
        [run.name, claim.get('text'), claim.get('paper'), *middle, *end]
      )
  return [[_escaped(cell) for cell in row] for row in found]


def _stored(path: pathlib.Path) -> list[list[str]]:
  """Escaped cells of the table in the file, if there is one."""
  if not path.is_file():
    return []
  lines = [line for line in path.read_text('utf-8').splitlines() if line]
  rows = [_cells(line) for line in lines if line.startswith('| ')]
  if not rows:
    return []
  if rows[0] != list(_COLUMNS) or {len(row) for row in rows} != {len(_COLUMNS)}:
    raise UserError(
      f'{path} has a table of other columns; move it away, or name another '
      'file.'
    )
  return rows[2:]


def _cells(line: str) -> list[str]:
  return [cell.strip() for cell in re.split(r'(?<!\\)\|', line)[1:-1]]


def _joined(cells: Iterable[str]) -> str:
  return f'| {" | ".join(cells)} |'


def _escaped(cell: Any) -> str:
  missing = cell in (None, '')
  text = report_format.MISSING if missing else ' '.join(str(cell).split())
  return re.sub(r'([\\`*_|<>\[\]])', r'\\\1', text)


def _counted(rows: Iterable[Sequence[str]]) -> collections.Counter[str]:
  """Verdicts, and under 'test' the claims measured in test mode."""
  count = collections.Counter(row[_VERDICT] for row in rows)
  count['test'] = sum(
    row[_MODE] == 'test' and row[_VERDICT] != _UNFINISHED for row in rows
  )
  return count


def _line(count: collections.Counter[str]) -> str:
  claims = count['holds'] + count['fails'] + count['undecided']
  parts = ['No claim measured']
  if claims:
    words = 'claim holds' if claims == 1 else 'claims hold'
    parts = [f'{count["holds"]} of {claims} {words}']
  unfinished = count[_UNFINISHED]
  rest = (
    (count['fails'], 'fails' if count['fails'] == 1 else 'fail'),
    (count['undecided'], 'undecided'),
    (count['test'], 'measured in test mode'),
    (unfinished, 'run unfinished' if unfinished == 1 else 'runs unfinished'),
  )
  return ', '.join(parts + [f'{n} {words}' for n, words in rest if n])
