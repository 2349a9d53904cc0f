"""Static report over workdirs: one HTML page for people.

The page is a single file without any outside reference, so that it can be
mailed, archived and opened from disk. Everything that comes from a workdir is
escaped by the template, and a content security policy with the hashes of the
page's own style and script refuses all others.
"""

import base64
import functools
import hashlib
import pathlib
from collections.abc import Sequence

import jinja2

from jaxlab.harness import (
  files,
  report_format,
  report_records,
  report_results,
)

_HERE = pathlib.Path(__file__).parent


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
  runs = report_records.read_runs(workdirs)
  style = (_HERE / 'report_style.css').read_text('utf-8')
  script = (_HERE / 'report_script.js').read_text('utf-8')
  page = _template().render(
    runs=runs,
    title=runs[0].title if len(runs) == 1 else 'Results',
    verdict_line=report_results.verdict_line(runs),
    style=style,
    style_hash=_content_hash(style),
    script=script,
    script_hash=_content_hash(script),
  )
  files.write(out, page)
  return out


def _content_hash(text: str) -> str:
  digest = hashlib.sha256(text.encode()).digest()
  return f'sha256-{base64.b64encode(digest).decode()}'


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
