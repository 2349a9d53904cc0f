"""The experiments of the family: `configs/adaptive_testing/*.py`."""

import importlib

from jaxlab import errors

STUDIES = (
  'ablation',
  'accuracy',
  'calibration',
  'enumeration',
  'scaling',
  'transfer',
)


def run(config, workdir) -> None:
  """Runs the study that the config names."""
  if config.study not in STUDIES:
    known = ', '.join(STUDIES)
    raise errors.UserError(
      f'config.study is {config.study!r}; choose one of {known}.'
    )
  module = importlib.import_module(
    f'jaxlab.adaptive_testing.experiment_{config.study}'
  )
  module.run(config, workdir)
