"""Runs a config under many settings and joins the results in one table."""

import collections
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from absl import flags as absl_flags

from jaxlab import errors
from jaxlab.harness import configs, files, ownership, progress, startup


class Job(NamedTuple):
  """One run of a sweep.

  Attributes:
    name: made of its settings; also the name of its folder.
    settings: dotted config field -> value as on the command line.
    workdir: where its results go.
    command: the program and its arguments.
    is_done: it has finished before.
  """

  name: str
  settings: dict[str, str]
  workdir: pathlib.Path
  command: list[str]
  is_done: bool


Ended = Generator[tuple[Job, int], None, None]
Launcher = Callable[[Sequence[Job]], Ended]
"""Starts jobs and yields each with its exit code when it has ended."""


def run(
  loaded: configs.Loaded,
  vary: Sequence[str],
  out: pathlib.Path,
  *,
  flags: Sequence[str] = (),
  launch: Launcher,
) -> int:
  """Runs all settings and writes `sweep.csv`.

  Args:
    loaded: the config with the overrides that hold for all runs.
    vary: `field=value,value,...` each; crossed with each other and with
      `get_sweep()` of the config file.
    out: folder for the workdirs, their logs and the table.
    flags: more arguments for every run.
    launch: how jobs are started, such as `local_launcher(2)`.

  Returns:
    The exit code: 1 if some run failed, else 0.

  Raises:
    UserError: if a setting does not fit the config or what lies in `out`;
      nothing was started then.
  """
  jobs = _jobs(loaded, vary, out, flags)
  todo = [job for job in jobs if not job.is_done]
  if len(todo) < len(jobs):
    print(f'{len(jobs) - len(todo)} of {len(jobs)} runs are finished already')
  codes = {}
  with (
    contextlib.closing(launch(todo)) as ended,
    progress.Progress('sweep', len(todo)) as shown,
  ):
    for job, code in ended:
      codes[job.name] = code
      shown.advance()
  failed = [job for job in todo if codes[job.name]]
  rows = [row for job in jobs for row in _rows(job, failed=job in failed)]
  files.write(out / 'sweep.csv', files.csv_text(rows))
  print(f'table: {out / "sweep.csv"}')
  for job in failed:
    print(f'failed: {job.name} ({_last_line(job)})', file=sys.stderr)
  return 1 if failed else 0


def local_launcher(parallel: int = 1) -> Launcher:
  """Returns a launcher that keeps `parallel` processes on this machine busy."""

  def launch(jobs: Sequence[Job]) -> Ended:
    waiting = collections.deque(jobs)
    running: dict[str, tuple[Job, subprocess.Popen]] = {}
    try:
      while waiting or running:
        while waiting and len(running) < parallel:
          job = waiting.popleft()
          running[job.name] = job, _start(job, parallel)
        for job, process in list(running.values()):
          if process.poll() is not None:
            del running[job.name]
            yield job, process.returncode
        time.sleep(0.05)
    finally:
      for _, process in running.values():
        process.terminate()
      for _, process in running.values():
        process.wait()

  return launch


def grid(vary: Sequence[str]) -> list[dict[str, str]]:
  """Crosses `config.field=v1,v2` specifications.

  Args:
    vary: specifications; the leading `config.` may be left out. Commas inside
      brackets do not separate.

  Returns:
    One mapping field -> value per combination; `[{}]` for none.

  Raises:
    UserError: if one is not of that form.
  """
  axes = []
  for specification in vary:
    field, equals, values = specification.partition('=')
    field = field.removeprefix('config.')
    if not (field and equals and values):
      raise errors.UserError(
        f'--vary={specification} is not of the form config.field=v1,v2.'
      )
    parts = re.findall(r'(?:\([^)]*\)|\[[^]]*\]|[^,])+', values)
    axes.append([(field, part) for part in parts])
  return [dict(combination) for combination in itertools.product(*axes)]


def _jobs(
  loaded: configs.Loaded,
  vary: Sequence[str],
  out: pathlib.Path,
  flags: Sequence[str],
) -> list[Job]:
  fixed = {key: str(value) for key, value in loaded.overrides.items()}
  reference = f'{loaded.path}:{loaded.mode}'.rstrip(':')
  jobs = {}
  for inner, outer in itertools.product(
    configs.sweep_of(loaded.path)(), grid(vary)
  ):
    varied = {
      key.removeprefix('config.'): str(value)
      for key, value in {**inner, **outer}.items()
    }
    settings = {**fixed, **varied}
    overrides = [f'--config.{key}={value}' for key, value in settings.items()]
    config = configs.load(reference, overrides, absl_flags.FlagValues()).config
    name = _name(varied)
    workdir = out / name
    command = [sys.executable, '-m', 'jaxlab.main', 'run', reference]
    command += [*overrides, f'--workdir={workdir}', *flags]
    is_done = ownership.is_finished(workdir, config)
    jobs[name] = Job(name, varied, workdir, command, is_done)
  return list(jobs.values())


def _name(settings: Mapping[str, str]) -> str:
  """Names a run by its settings; a hash stands for what a path cannot hold."""
  text = ','.join(f'{key}={value}' for key, value in settings.items())
  plain = re.sub(r'[^\w.=,+-]', '_', text)[:80]
  if plain == text:
    return plain or 'default'
  return f'{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}'


def log_path(job: Job) -> pathlib.Path:
  """Where the output of a run goes."""
  return job.workdir.parent / 'logs' / f'{job.name}.log'


def _start(job: Job, parallel: int) -> subprocess.Popen:
  environment = dict(os.environ)
  if parallel > 1:
    # Runs side by side share the cores and the accelerator's memory.
    cores = max(1, startup.cores() // parallel)
    environment.setdefault('JAX_NUM_CPU_DEVICES', str(cores))
    environment.setdefault('XLA_PYTHON_CLIENT_PREALLOCATE', 'false')
  try:
    log_path(job).parent.mkdir(parents=True, exist_ok=True)
    stream = log_path(job).open('wb')
  except OSError as error:
    raise errors.UserError(
      f'cannot write {log_path(job)}: {error.strerror}; choose another --out.'
    ) from error
  with stream:
    return subprocess.Popen(
      job.command,
      stdin=subprocess.DEVNULL,
      stdout=stream,
      stderr=subprocess.STDOUT,
      env=environment,
    )


def _last_line(job: Job) -> str:
  try:
    lines = log_path(job).read_text(errors='replace').strip().splitlines()
  except FileNotFoundError:
    return 'it never started'
  return lines[-1] if lines else f'see {log_path(job)}'


def _rows(job: Job, *, failed: bool) -> Iterator[dict[str, Any]]:
  """Yields one row for each headline number and claim of a run."""
  start = {'run': job.name, **job.settings}
  if failed:
    yield {**start, 'kind': 'failed', 'name': _last_line(job)}
    return
  summary = json.loads((job.workdir / 'summary.json').read_text())
  for entry in summary['headline']:
    yield {**start, 'kind': 'headline', **entry}
  for claim in summary['claims']:
    yield {
      **start,
      'kind': 'claim',
      'name': claim['text'],
      'value': claim['measured'],
      **{key: claim[key] for key in ('low', 'high', 'unit', 'verdict')},
    }
