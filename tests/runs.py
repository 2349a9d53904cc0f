"""Runs of experiments as the command line makes them, and what they leave."""

import csv
import json
import pathlib
from collections.abc import Callable

from jaxlab import main


def run(experiment: str, folder: pathlib.Path, *flags: str) -> dict:
  """Runs `family/config:test` and returns its summary."""
  code = main.main(['run', f'{experiment}:test', f'--workdir={folder}', *flags])
  assert code == 0
  return json.loads((folder / 'summary.json').read_text())


def table(folder: pathlib.Path, name: str) -> list[dict[str, str]]:
  """Reads a table of a run."""
  with open(folder / 'tables' / f'{name}.csv', newline='') as stream:
    return list(csv.DictReader(stream))


def holds(claim: dict) -> bool:
  """The interval lies wholly on the claimed side of the threshold."""
  if None in (claim['low'], claim['high'], claim['measured']):
    return False
  if claim['sense'] == '>':
    return claim['low'] > claim['threshold']
  return claim['high'] < claim['threshold']


def once(tmp_path_factory, run_config: Callable[[str, pathlib.Path], dict]):
  """Returns a function: config -> (folder, summary), each run only once."""
  done = {}

  def get(config: str):
    if config not in done:
      folder = tmp_path_factory.mktemp(config) / 'run'
      done[config] = folder, run_config(config, folder)
    return done[config]

  return get
