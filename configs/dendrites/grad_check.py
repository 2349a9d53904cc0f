"""Gradients of a run against central differences and against generic autodiff.

Command: jaxlab run dendrites/grad_check
Time: about 30 s on two cores
Claims: equal to differences to 1e-5, to autodiff of dense steps to 1e-9
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'dendrites',
      'study': 'grad_check',
      'seed': 0,
      'fast_compile': False,
      'cell': '3_types',
      'seeds': 8,
      'steps': 160,
      'dt': 0.025,
      'max_len': 100.0,
      'amplitude': 1.5,
      'differences': (1e-2, 3e-3, 1e-3, 3e-4, 1e-4),
    }
  )
  if mode == 'full':
    config.cell = 'ca1_n120'
    config.max_len = 40.0
    config.seeds = 21
    config.steps = 400
  elif mode == 'test':
    config.cell = 'minimal'
    config.seeds = 2
    config.steps = 24
    config.differences = (1e-3,)
  return config
