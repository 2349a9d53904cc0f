"""Sweeps on a real Slurm, where there is one."""

import csv
import json
import os
import shutil
import subprocess
import time

import pytest

from jaxlab import errors
from jaxlab.harness import slurm


def _has_slurm() -> bool:
  if shutil.which('sbatch') is None or shutil.which('squeue') is None:
    return False
  asked = subprocess.run(
    ['sinfo', '--noheader', '--states=idle,mixed,allocated', '--format=%D'],
    capture_output=True,
    text=True,
    check=False,
  )
  return asked.returncode == 0 and asked.stdout.strip() != ''


on_slurm = pytest.mark.skipif(
  not _has_slurm(), reason='needs a Slurm cluster (sbatch and a node)'
)


def _sweep(lab, *arguments, **variables):
  return lab.start(
    'sweep',
    'toy.py:test',
    '--vary=config.seed=1,2,3,4,5,6',
    '--launcher=slurm',
    '--slurm=time=5',
    '--out=out',
    *arguments,
    **variables,
  )


def _ids(lab):
  return json.loads((lab.folder / 'out' / 'slurm.json').read_text())


@on_slurm
@pytest.mark.slow
def test_twelve_runs_survive_scancel_and_restart(lab):
  # Runs of unit 1 hang, so that some are alive when one is cancelled.
  process = _sweep(lab, '--parallel=2', TOY_HANG='1')
  deadline = time.monotonic() + 90
  while not lab.computed() and time.monotonic() < deadline:
    time.sleep(0.5)
  running = subprocess.run(
    ['squeue', '--me', '-h', '--array', '--states=RUNNING', '--format=%i'],
    capture_output=True,
    text=True,
    check=True,
  ).stdout.split()
  victims = set(_ids(lab).values()) & set(running)
  subprocess.run(['scancel', *victims], check=True)
  process.kill()  # the sweep itself dies, too
  process.communicate()
  queued = [id for id in _ids(lab).values() if id not in victims]
  subprocess.run(['scancel', *queued], check=True)

  out, err = _sweep(lab, '--parallel=2').communicate(timeout=300)
  assert 'table: out/sweep.csv' in out, err
  with (lab.folder / 'out' / 'sweep.csv').open() as stream:
    rows = list(csv.DictReader(stream))
  assert len({row['run'] for row in rows}) == 12
  assert not [row for row in rows if row['kind'] == 'failed']
  before = lab.computed()
  out, _ = _sweep(lab).communicate(timeout=60)
  assert '12 of 12 runs are finished already' in out
  assert lab.computed() == before


@on_slurm
@pytest.mark.slow
def test_a_second_start_waits_for_jobs_that_still_run(lab):
  first = _sweep(lab, '--vary=config.units=2', '--parallel=1')
  while not (lab.folder / 'out' / 'slurm.json').exists():
    time.sleep(0.2)
  first.kill()
  first.communicate()
  submitted = _ids(lab)
  out, err = _sweep(lab, '--vary=config.units=2').communicate(timeout=300)
  assert 'table: out/sweep.csv' in out, err
  assert _ids(lab) == submitted
  assert len(lab.computed()) == 2 * len(submitted)


def test_without_slurm_the_cure_is_named(monkeypatch):
  monkeypatch.setattr(shutil, 'which', lambda _: None)
  with pytest.raises(errors.UserError, match=r'sbatch.*--launcher=local'):
    slurm.launcher(1, {})


def test_a_run_that_fails_on_a_node_gives_its_code(tmp_path):
  log = tmp_path / 'run.log'
  command = slurm.Command(['sh', '-c', 'echo bad luck; exit 3'], log)
  assert command() == 3
  assert log.read_text() == 'bad luck\n'


def test_ranks_above_zero_have_logs_of_their_own(tmp_path, monkeypatch):
  monkeypatch.setenv('SLURM_PROCID', '1')
  slurm.Command(['echo', 'here'], tmp_path / 'run.log')()
  assert os.listdir(tmp_path) == ['run.1.log']
