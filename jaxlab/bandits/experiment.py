"""The experiments of the family: `configs/bandits/*.py`."""

import importlib

from jaxlab import errors

STUDIES = ('ablation', 'anytime', 'caption', 'error', 'scaling', 'selection')


def run(config, workdir) -> None:
  """Runs the study that the config names and records what it finds."""
  if config.study not in STUDIES:
    known = ', '.join(STUDIES)
    raise errors.UserError(
      f'config.study is {config.study!r}; choose one of {known}.'
    )
  module = importlib.import_module(f'jaxlab.bandits.experiment_{config.study}')
  module.run(config, workdir)
