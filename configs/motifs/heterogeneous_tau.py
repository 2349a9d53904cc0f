"""Unequal time constants let two coupled 2-cycles oscillate.

Command: jaxlab run motifs/heterogeneous_tau
Time: about 35 s on two cores
Claims: with log tau uniform in +-1.5 some draws of 201 cycle, none with equal
  time constants, and none of the motifs with fewer 2-cycles
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'motifs',
      'study': 'heterogeneous_tau',
      'seed': 0,
      'fast_compile': False,
      'gain': 3.0,
      'spread': 1.5,
      'draws': 300,
      'starts': 4,
      'dt': 0.08,
      'burn_in': 400.0,
      'window': 200.0,
    }
  )
  if mode == 'full':
    config.draws = 4000
    config.starts = 12
    config.dt = 0.05
    config.burn_in = 1200.0
    config.window = 600.0
  elif mode == 'test':
    config.draws = 8
    config.starts = 3
    config.burn_in = 40.0
    config.window = 20.0
  return config
