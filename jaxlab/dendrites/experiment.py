"""The experiments of the family: `configs/dendrites/*.py`."""

import importlib

from jaxlab import errors

STUDIES = (
  'celegans',
  'dhs_steps',
  'digits_mlp',
  'fit_conductances',
  'gap_vs_remat',
  'grad_check',
  'hh_equivalence',
  'speed',
)


def run(config, workdir) -> None:
  """Runs the study that the config names."""
  if config.study not in STUDIES:
    known = ', '.join(STUDIES)
    raise errors.UserError(
      f'config.study is {config.study!r}; choose one of {known}.'
    )
  module = importlib.import_module(
    f'jaxlab.dendrites.experiment_{config.study}'
  )
  module.run(config, workdir)
