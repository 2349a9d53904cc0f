"""Static report over workdirs: one HTML page for people, `RESULTS.md` for git.

The page is a single file without any outside reference, so that it can be
mailed, archived and opened from disk. Everything that comes from a workdir is
escaped by the template, and a content security policy with the hashes of the
page's own style and script refuses all others.
"""

import base64
import collections
import functools
import hashlib
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

import jinja2

from jaxlab.errors import UserError
from jaxlab.harness import files, report_format, report_records
from jaxlab.harness.report_records import Run

_HERE = pathlib.Path(__file__).parent
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


def write_report(
  workdirs: Sequence[pathlib.Path], out: pathlib.Path
) -> pathlib.Path:
  """Writes one self-contained HTML page about `workdirs`.

  Args:
    workdirs: folders of runs, finished or not, in the order of the page.
    out: the HTML file; its folder is made when it is missing.

  Returns:
    `out`.

  Raises:
    UserError: if there is no workdir, a folder is not one, one of its files
      cannot be read, or `out` cannot be written.
  """
  runs = _read_runs(workdirs)
  style = (_HERE / 'report_style.css').read_text('utf-8')
  script = (_HERE / 'report_script.js').read_text('utf-8')
  page = _template().render(
    runs=runs,
    title=runs[0].title if len(runs) == 1 else 'Results',
    verdict_line=verdict_line(runs),
    style=style,
    style_hash=_content_hash(style),
    script=script,
    script_hash=_content_hash(script),
  )
  files.write(out, page)
  return out


def write_results(
  workdirs: Sequence[pathlib.Path], path: pathlib.Path
) -> pathlib.Path:
  """Writes the claims of `workdirs` as one Markdown table.

  Args:
    workdirs: folders of runs; one that has not finished gets one row.
    path: the Markdown file; its folder is made when it is missing.

  Returns:
    `path`.

  Raises:
    UserError: as `write_report`.
  """
  runs = _read_runs(workdirs)
  lines = ['# Results', '', f'{verdict_line(runs)}.', '']
  lines += [_markdown_row(_COLUMNS), _markdown_row(['---'] * len(_COLUMNS))]
  for run in runs:
    end = [run.mode, run.device, run.revision]
    if not run.finished:
      row = [run.name, *[None] * 5, 'unfinished', *end]
      lines.append(_markdown_row(row))
      continue
    for claim in run.claims:
      middle = [
        report_format.format_measured(claim),
        report_format.format_interval(claim),
        report_format.format_goal(claim),
        claim['verdict'],
      ]
      row = [run.name, claim.get('text'), claim.get('paper'), *middle, *end]
      lines.append(_markdown_row(row))
  files.write(path, '\n'.join(lines) + '\n')
  return path


def verdict_line(runs: Iterable[Run]) -> str:
  """Says in one line how many claims hold, fail and stay undecided."""
  runs = list(runs)
  finished = [run for run in runs if run.finished]
  claims = [claim for run in finished for claim in run.claims]
  count = collections.Counter(claim['verdict'] for claim in claims)
  tested = sum(len(run.claims) for run in finished if run.mode == 'test')
  unfinished = len(runs) - len(finished)
  parts = ['No claim measured']
  if claims:
    words = 'claim holds' if len(claims) == 1 else 'claims hold'
    parts = [f'{count["holds"]} of {len(claims)} {words}']
  rest = (
    (count['fails'], 'fails' if count['fails'] == 1 else 'fail'),
    (count['undecided'], 'undecided'),
    (tested, 'measured in test mode'),
    (unfinished, 'run unfinished' if unfinished == 1 else 'runs unfinished'),
  )
  return ', '.join(parts + [f'{n} {words}' for n, words in rest if n])


def _read_runs(workdirs: Sequence[pathlib.Path]) -> list[Run]:
  if not workdirs:
    raise UserError('No workdir to report on; name at least one.')
  return [report_records.read_run(pathlib.Path(path)) for path in workdirs]


def _content_hash(text: str) -> str:
  digest = hashlib.sha256(text.encode()).digest()
  return f'sha256-{base64.b64encode(digest).decode()}'


def _markdown_row(cells: Iterable[Any]) -> str:
  texts = [
    report_format.MISSING if cell in (None, '') else ' '.join(str(cell).split())
    for cell in cells
  ]
  escaped = [re.sub(r'([\\`*_|<>\[\]])', r'\\\1', text) for text in texts]
  return f'| {" | ".join(escaped)} |'


@functools.cache
def _template() -> jinja2.Template:
  environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(_HERE),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  environment.filters.update(
    number=report_format.format_number,
    measured=report_format.format_measured,
    interval=report_format.format_interval,
    goal=report_format.format_goal,
    duration=report_format.format_duration,
    plot=report_format.interval_plot,
  )
  return environment.get_template('report_template.html.j2')
