"""A toy experiment that the command line can run, in or out of process."""

import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from jaxlab.harness import startup

_EXPERIMENT = """
import os
import time

import numpy as np

from jaxlab.harness import claims


def run(config, workdir):
  faults = {'value': ValueError, 'runtime': RuntimeError}
  if config.fault:
    raise faults[config.fault]('bad\\nluck')
  means = []
  for unit in range(config.units):

    def compute(unit=unit):
      with open(os.environ['TOY_LOG'], 'a') as log:
        log.write(f'{unit}\\n')
      if os.environ.get('TOY_HANG') == str(unit):
        time.sleep(60)
      draws = np.random.default_rng(config.seed + unit).normal(size=1000)
      return {'draws': draws + config.shift}

    means.append(workdir.cached(f'units/{unit}', compute)['draws'].mean())
    workdir.log(unit, mean=means[-1])
  mean, half = np.mean(means), 2 / np.sqrt(1000 * config.units)
  workdir.save_table('means', [{'mean': mean} for mean in means])
  workdir.headline('grand mean', mean, mean - half, mean + half, 'points')
  workdir.add_claim(
    claims.Claim('the mean [all] is positive', 'Toy 2026', mean, mean - half,
                 mean + half, 0.0, '>')
  )
"""

_CONFIG = '''
"""Means of normal draws.

Time: 3 s
Claims: the mean
  is positive
Other text.
"""

import ml_collections


def get_config(mode=''):
  return ml_collections.ConfigDict({
    'experiment': 'toy_lab.experiment',
    'seed': 7,
    'units': {'': 4, 'full': 40, 'test': 2}[mode],
    'shift': 1.0,
    'fault': '',
    'sizes': (1, 2),
    'inner': {'rate': 0.5},
  })


def get_sweep():
  return [{'config.shift': 0.5}, {'config.shift': -0.5}]
'''


class Lab:
  """The toy files and a way to start `python -m jaxlab.main`."""

  def __init__(self, folder: pathlib.Path):
    self.folder = folder
    (folder / 'toy_lab').mkdir()
    (folder / 'toy_lab' / 'experiment.py').write_text(_EXPERIMENT)
    self.config = folder / 'toy.py'
    self.config.write_text(textwrap.dedent(_CONFIG).lstrip())
    self.log = folder / 'toy.log'

  def computed(self) -> list[str]:
    return self.log.read_text().split() if self.log.exists() else []

  def start(self, *arguments: str, **variables: str) -> subprocess.Popen:
    return subprocess.Popen(
      [sys.executable, '-m', 'jaxlab.main', *arguments],
      cwd=self.folder,
      env={**os.environ, 'PYTHONPATH': str(self.folder), **variables},
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )


@pytest.fixture
def lab(tmp_path, monkeypatch):
  folder = tmp_path / 'lab'
  folder.mkdir()
  lab = Lab(folder)
  monkeypatch.chdir(folder)
  monkeypatch.syspath_prepend(folder)
  monkeypatch.setenv('TOY_LOG', str(lab.log))
  monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
  # In process, the devices of the test session stay as they are.
  monkeypatch.setattr(startup, 'start_jax', lambda device, **_: None)
  return lab
