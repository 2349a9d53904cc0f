"""The experiments of the family: `configs/fairness/*.py`."""

import importlib

import jax

from jaxlab import errors

STUDIES = ('calibration', 'learned', 'published', 'scaling', 'synthetic')


def run(config, workdir) -> None:
  """Runs the study that the config names, in float64."""
  if config.study not in STUDIES:
    known = ', '.join(STUDIES)
    raise errors.UserError(
      f'config.study is {config.study!r}; choose one of {known}.'
    )
  module = importlib.import_module(f'jaxlab.fairness.experiment_{config.study}')
  with jax.enable_x64(True):
    module.run(config, workdir)
