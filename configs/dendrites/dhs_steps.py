"""Steps of the dendritic schedule for real neurons and any number of threads.

Command: jaxlab run dendrites/dhs_steps
Time: about 7 s on two cores
Claims: as few steps as the lower bound, never more than serial
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'dendrites',
      'study': 'dhs_steps',
      'seed': 0,
      'fast_compile': False,
      'threads': (1, 2, 4, 8, 16, 32, 64),
      'max_len': 40.0,
      'cells': ('ca1_n120', 'l5pc_with_axon', 'allen_485574832'),
      'worms': 302,
    }
  )
  if mode == 'full':
    config.max_len = 5.0
  elif mode == 'test':
    config.cells = ('ca1_n120',)
    config.threads = (1, 4, 16)
    config.worms = 3
  return config
