"""The experiments of the family: `configs/quantization/*.py`."""

import importlib

from jaxlab import errors

STUDIES = {
  'ablation': 'experiment_ablation',
  'accuracy': 'experiment_accuracy',
  'bits_sweep': 'experiment_bits_sweep',
  'fidelity': 'experiment_fidelity',
  'nonuniform': 'experiment_nonuniform',
  'pretrained_effnet': 'experiment_pretrained_effnet',
  'train': 'experiment_train',
}


def run(config, workdir) -> None:
  """Runs the study that the config names."""
  if config.study not in STUDIES:
    known = ', '.join(STUDIES)
    raise errors.UserError(
      f'config.study is {config.study!r}; choose one of {known}.'
    )
  module = importlib.import_module(
    f'jaxlab.quantization.{STUDIES[config.study]}'
  )
  module.run(config, workdir)
