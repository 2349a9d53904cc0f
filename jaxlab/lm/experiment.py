"""The experiments of language models: `configs/lm/*.py`."""

import importlib

from jaxlab import errors

STUDIES = (
  'chat',
  'grpo_addition',
  'gsm8k_eval',
  'parity',
  'sample_speed',
  'sft_addition',
)


def run(config, workdir) -> None:
  """Runs the study that the config names."""
  if config.study not in STUDIES:
    known = ', '.join(STUDIES)
    raise errors.UserError(
      f'config.study is {config.study!r}; choose one of {known}.'
    )
  module = importlib.import_module(f'jaxlab.lm.experiment_{config.study}')
  module.run(config, workdir)
