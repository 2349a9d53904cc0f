"""Runs the jobs of a sweep on a Slurm cluster, through submitit."""

import json
import os
import pathlib
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from jaxlab import errors
from jaxlab.harness import files
from jaxlab.harness.sweep import Ended, Job, Launcher, log_path

_POLL_SECONDS = 2.0
_LEAVING = ('CG', 'CA', 'CD', 'F', 'TO')  # states of jobs that have ended
_JOBS = 'slurm.json'  # name of a run -> id of its job


class Command:
  """A command as a function that submitit can send to a node.

  A job that runs into its time limit or is preempted is queued again: the run
  that it restarts goes on where it was.
  """

  def __init__(self, command: Sequence[str], log: pathlib.Path):
    self._command = list(command)
    self._log = log

  def __call__(self) -> int:
    """Runs the command; its output goes to the log of the run.

    Returns:
      The exit code.
    """
    rank = int(os.environ.get('SLURM_PROCID', '0'))
    path = self._log if rank == 0 else self._log.with_suffix(f'.{rank}.log')
    with path.open('ab') as stream:
      return subprocess.run(
        self._command,
        stdin=subprocess.DEVNULL,
        stdout=stream,
        stderr=subprocess.STDOUT,
        check=False,
      ).returncode

  def checkpoint(self) -> Any:
    """Says to submitit that the job is to be queued again as it is."""
    import submitit  # noqa: PLC0415

    return submitit.helpers.DelayedSubmission(self)


def launcher(parallel: int, options: Mapping[str, str]) -> Launcher:
  """Returns a launcher that submits jobs to the cluster's own Slurm.

  Jobs of an earlier start of the same sweep that are still queued or running
  are waited for, not submitted again.

  Args:
    parallel: jobs that may run at a time.
    options: of submitit's `SlurmExecutor`, such as partition, time in minutes,
      nodes, gpus_per_node, cpus_per_task or mem.

  Raises:
    UserError: if submitit or Slurm is missing, or an option is unknown.
  """
  try:
    import submitit  # noqa: PLC0415
  except ImportError:
    raise errors.UserError(
      "--launcher=slurm needs submitit: pip install 'jaxlab[slurm]'."
    ) from None
  if shutil.which('sbatch') is None:
    raise errors.UserError(
      '--launcher=slurm finds no sbatch here: start the sweep on a login node '
      'of the cluster, or use --launcher=local.'
    )

  def launch(jobs: Sequence[Job]) -> Ended:
    if not jobs:
      return
    out = jobs[0].workdir.parent
    log_path(jobs[0]).parent.mkdir(parents=True, exist_ok=True)
    ids = _known_ids(out)
    queue = _queue()
    executor = submitit.SlurmExecutor(folder=out / 'slurm')
    try:
      executor.update_parameters(
        job_name='jaxlab',
        array_parallelism=parallel,
        **{key: _number(value) for key, value in options.items()},
      )
    except (TypeError, ValueError) as error:
      raise errors.UserError(
        f'--slurm: {" ".join(str(error).split())}'
      ) from None
    new = [job for job in jobs if ids.get(job.name) not in queue]
    with executor.batch():
      sent = [executor.submit(Command(j.command, log_path(j))) for j in new]
    ids |= {job.name: s.job_id for job, s in zip(new, sent, strict=True)}
    files.write(out / _JOBS, files.json_text(ids))
    yield from _ended(jobs, ids, out)

  return launch


def _ended(
  jobs: Sequence[Job], ids: Mapping[str, str], out: pathlib.Path
) -> Ended:
  """Yields jobs with their exit codes as they leave the queue."""
  import submitit  # noqa: PLC0415

  waiting = list(jobs)
  while waiting:
    queue = _queue()
    for job in list(waiting):
      if ids[job.name] in queue:
        continue
      waiting.remove(job)
      sent: Any = submitit.SlurmJob(folder=out / 'slurm', job_id=ids[job.name])
      yield job, _exit_code(sent)
    if waiting:
      time.sleep(_POLL_SECONDS)


def _exit_code(sent: Any) -> int:
  """The exit code of a job that has left the queue; 1 if it was cancelled."""
  if not sent.paths.result_pickle.exists():
    return 1
  return 1 if sent.exception() else max(sent.results())


def _queue() -> set[str]:
  """The ids of this user's jobs that wait or run; arrays element by element.

  Raises:
    UserError: if Slurm does not answer.
  """
  command = ['squeue', '--me', '--noheader', '--array', '--format=%i %t']
  asked = subprocess.run(command, capture_output=True, text=True, check=False)
  if asked.returncode:
    raise errors.UserError(
      f'Slurm does not answer ({" ".join(asked.stderr.split())}); start the '
      'sweep again later: it goes on where it was.'
    )
  states = dict(line.split() for line in asked.stdout.splitlines())
  return {id for id, state in states.items() if state not in _LEAVING}


def _known_ids(out: pathlib.Path) -> dict[str, str]:
  try:
    return json.loads((out / _JOBS).read_text())
  except FileNotFoundError:
    return {}


def _number(text: str) -> int | str:
  return int(text) if text.isdecimal() else text
