"""Reads a workdir back for the report, whether its run finished or not."""

import base64
import csv
import dataclasses
import io
import json
import math
import pathlib
import re
import shlex
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jaxlab.errors import UserError
from jaxlab.harness.report_format import MINUS, MISSING, format_number

MAX_ROWS = 200


@dataclasses.dataclass(frozen=True)
class Figure:
  """A PNG with its caption; `width` and `height` in pixels, 0 if unknown."""

  caption: str
  href: str
  width: int
  height: int


@dataclasses.dataclass(frozen=True)
class Table:
  """A CSV as shown: at most `MAX_ROWS` rows of `(text, sort value)` cells.

  `numeric[j]` says that column j holds numbers only; `total` counts the rows
  of the file, and `href` is the whole file as a data URI.
  """

  name: str
  caption: str
  header: list[str]
  numeric: list[bool]
  rows: list[list[tuple[str, float | None]]]
  total: int
  href: str


@dataclasses.dataclass(frozen=True)
class Run:
  """What one workdir holds, finished or not."""

  name: str
  title: str
  finished: bool
  mode: str
  seed: Any
  seconds: float | None
  claims: list[dict[str, Any]]
  headline: list[dict[str, Any]]
  figures: list[Figure]
  tables: list[Table]
  config: list[tuple[str, Any]]
  provenance: list[tuple[str, Any]]
  command: str
  device: str
  revision: str
  metrics: list[tuple[str, Any]]


def read_runs(workdirs: Sequence[pathlib.Path]) -> list[Run]:
  """Reads workdirs, of which there must be one at least."""
  if not workdirs:
    raise UserError('No workdir to report on; name at least one.')
  return [read_run(pathlib.Path(path)) for path in workdirs]


def read_run(path: pathlib.Path) -> Run:
  """Reads all that a report shows of one workdir.

  Raises:
    UserError: if `path` has no `config.json` or one of its files is broken.
  """
  if not (path / 'config.json').is_file():
    raise UserError(
      f'{path} is not a workdir: it has no config.json; name the folder that '
      'a run wrote.'
    )
  record = _read_json(path / 'config.json')
  has_summary = (path / 'summary.json').is_file()
  summary = _read_json(path / 'summary.json') if has_summary else {}
  environment = dict(record.get('environment') or {})
  command = environment.pop('command', None) or ''
  facts = {**record, **summary}
  name = str(facts.get('name') or facts.get('experiment') or path.name)
  return Run(
    name=name,
    title=str(facts.get('title') or name),
    finished=has_summary and (path / 'DONE').exists(),
    mode=str(facts.get('mode') or 'default'),
    seed=facts.get('seed', environment.get('seed')),
    seconds=summary.get('wall_seconds'),
    headline=summary.get('headline') or [],
    claims=[
      {**claim, 'verdict': claim.get('verdict') or 'undecided'}
      for claim in summary.get('claims') or []
    ],
    figures=[
      _read_figure(file, caption)
      for file, caption in _captioned(path, 'figures', '.png', summary)
    ],
    tables=[
      _read_table(file, caption)
      for file, caption in _captioned(path, 'tables', '.csv', summary)
    ],
    config=list(_flatten(record.get('config') or {})),
    provenance=[('workdir', str(path)), *_flatten(environment)],
    command=command if isinstance(command, str) else shlex.join(command),
    device=_device(environment.get('device')),
    revision=_revision(environment),
    metrics=_last_metrics(path / 'metrics.jsonl'),
  )


def _read_bytes(path: pathlib.Path) -> bytes:
  try:
    return path.read_bytes()
  except OSError as error:
    raise UserError(
      f'{path} cannot be read ({error.strerror}); allow it or run again.'
    ) from error


def _read_json(path: pathlib.Path) -> dict[str, Any]:
  try:
    record = json.loads(_read_bytes(path))
  except (json.JSONDecodeError, UnicodeDecodeError):
    record = None
  if not isinstance(record, dict):
    raise UserError(f'{path} is no JSON object; repair it or run again.')
  return record


def _captioned(
  path: pathlib.Path, kind: str, suffix: str, summary: Mapping[str, Any]
) -> Iterator[tuple[pathlib.Path, str]]:
  """Yields the files of `kind`: as the summary orders them, then the rest."""
  files = {
    file.name.removesuffix(suffix): file
    for file in sorted((path / kind).glob(f'*{suffix}'))
    if not file.name.startswith('.')
  }
  for entry in summary.get(kind) or []:
    name = str(entry.get('name')).removesuffix(suffix)
    if name in files:
      yield files.pop(name), str(entry.get('caption') or _as_words(name))
  for name, file in files.items():
    yield file, _as_words(name)


def _as_words(name: str) -> str:
  words = re.sub(r'[_\-]+', ' ', name).strip()
  return words[:1].upper() + words[1:]


def _read_figure(path: pathlib.Path, caption: str) -> Figure:
  content = _read_bytes(path)
  is_png = content[:8] == b'\x89PNG\r\n\x1a\n' and len(content) >= 24
  width, height = struct.unpack('>II', content[16:24]) if is_png else (0, 0)
  return Figure(caption, _data_uri('image/png', content), width, height)


def _read_table(path: pathlib.Path, caption: str) -> Table:
  content = _read_bytes(path)
  text = io.StringIO(content.decode('utf-8-sig', 'replace'), newline='')
  try:
    header, *rows = [row for row in csv.reader(text) if row] or [[]]
  except csv.Error as error:
    raise UserError(
      f'{path} is no CSV table ({error}); repair it or run again.'
    ) from error
  width = max(len(row) for row in [header, *rows])
  header += [''] * (width - len(header))
  shown = [row + [''] * (width - len(row)) for row in rows[:MAX_ROWS]]
  columns = [
    _format_column(list(column)) for column in zip(*shown, strict=True)
  ]
  return Table(
    path.name,
    caption,
    header,
    [numeric for numeric, _ in columns] or [False] * width,
    [list(row) for row in zip(*(cells for _, cells in columns), strict=True)],
    len(rows),
    _data_uri('text/csv;charset=utf-8', content),
  )


def _format_column(
  cells: list[str],
) -> tuple[bool, list[tuple[str, float | None]]]:
  """Formats one column with aligned decimals when it holds numbers only."""
  cells = [cell.strip() for cell in cells]
  missing = [cell.lower() in ('', 'nan', 'none') for cell in cells]
  values = [_parse(cell) for cell in cells]
  known = [v for v in values if v is not None and not math.isnan(v)]
  if not known or len(known) + sum(missing) < len(cells):
    texts = [
      MISSING if absent else cell
      for cell, absent in zip(cells, missing, strict=True)
    ]
    return False, [(text, None) for text in texts]
  decimals = _shared_decimals(known)
  integers = all(v.is_integer() for v in known)
  formatted: list[tuple[str, float | None]] = []
  for cell, value, absent in zip(cells, values, missing, strict=True):
    if absent:
      formatted.append((MISSING, None))
    elif integers:
      formatted.append((cell.removesuffix('.0').replace('-', MINUS), value))
    else:
      formatted.append((format_number(value, decimals), value))
  return True, formatted


def _shared_decimals(values: list[float]) -> int | None:
  """Digits that show 4 figures of the largest value, 2 of the smallest."""
  sizes = [abs(v) for v in values if v and math.isfinite(v)]
  if not sizes:
    return None
  large, small = (math.floor(math.log10(f(sizes))) for f in (max, min))
  decimals = max(3 - large, 1 - small, 0)
  return decimals if decimals <= 6 else None


def _parse(cell: str) -> float | None:
  try:
    return None if '_' in cell else float(cell)
  except ValueError:
    return None


def _flatten(tree: Any, prefix: str = '') -> Iterator[tuple[str, Any]]:
  if isinstance(tree, Mapping) and (tree or not prefix):
    for key, value in tree.items():
      yield from _flatten(value, f'{prefix}.{key}' if prefix else str(key))
  else:
    yield prefix, MISSING if tree is None else tree


def _device(device: Any) -> str:
  if isinstance(device, Mapping):
    return ' '.join(str(value) for value in device.values())
  return str(device or '')


def _revision(environment: Mapping[str, Any]) -> str:
  git = environment.get('git')
  source = {**environment, **git} if isinstance(git, Mapping) else environment
  revision = str(source.get('revision') or '')[:12]
  return (
    f'{revision} (modified)' if revision and source.get('dirty') else revision
  )


def _last_metrics(path: pathlib.Path) -> list[tuple[str, Any]]:
  """Reads the last whole record; a killed run may leave half a line."""
  if not path.is_file():
    return []
  for line in reversed(_read_bytes(path).splitlines()):
    try:
      return list(_flatten(json.loads(line)))
    except ValueError:
      continue
  return []


def _data_uri(kind: str, content: bytes) -> str:
  return f'data:{kind};base64,{base64.b64encode(content).decode()}'
