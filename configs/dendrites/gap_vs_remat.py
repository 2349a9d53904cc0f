"""Memory and time of a neuron's gradient, by what the way there stores.

Command: jaxlab run dendrites/gap_vs_remat
Time: about 1 min on two cores
Claims: memory grows as the root of the number of steps with checkpoints, and
  in proportion without; checkpoints cost less than twice the time
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'dendrites',
      'study': 'gap_vs_remat',
      'seed': 0,
      'fast_compile': False,
      'cell': 'ca1_n120',
      'max_len': 40.0,
      'cells': 4,
      'repeats': 5,
      'steps': (100, 400, 1600),
      'remat': ('none', 'sqrt', '20', 'binomial:24'),
    }
  )
  if mode == 'full':
    config.cells = 64
    config.repeats = 10
    config.steps = (100, 400, 1600, 6400)
  elif mode == 'test':
    config.cell = '3_types'
    config.max_len = 0.5
    config.cells = 2
    config.repeats = 2
    config.steps = (16, 64)
    config.remat = ('none', 'sqrt', 'binomial:8')
  return config
