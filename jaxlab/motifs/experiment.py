"""The experiments of the family: `configs/motifs/*.py`."""

import importlib

from jaxlab import errors

STUDIES = (
  'connectome_census',
  'generator_fidelity',
  'heterogeneous_tau',
  'regime_atlas',
  'robust_flexible',
  'simplex_dynamics',
  'spectra_theory',
)


def run(config, workdir) -> None:
  """Runs the study that the config names."""
  if config.study not in STUDIES:
    known = ', '.join(STUDIES)
    raise errors.UserError(
      f'config.study is {config.study!r}; choose one of {known}.'
    )
  module = importlib.import_module(f'jaxlab.motifs.experiment_{config.study}')
  module.run(config, workdir)
