"""How do time and memory of a choice grow with the bank?

Command: jaxlab run adaptive_testing/scaling
Time: about 1 min on two cores
Claims: GPM grows linearly with the bank, BECAT faster; GPM chooses from 1,000
  items within 1 ms, ten times cheaper than BECAT
Expected: all hold: powers 0.8 to 1.0 against 2.7 and more, 0.2 ms, 30 to 50
  times; timings differ from machine to machine
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'adaptive_testing',
      'study': 'scaling',
      'seed': 0,
      'fast_compile': False,
      'num_items': (100, 300, 1000, 3000, 10_000, 30_000),
      'rules': (
        *('mfi', 'mepv', 'gpm', 'gpm_no_residuals', 'becat_point'),
        'becat_full',
      ),
      # What needs a matrix of all pairs of items ends earlier.
      'most_items': {'gpm': 10_000, 'becat_point': 3000, 'becat_full': 3000},
      'slope_from': 1000,
      'repeats': 200,
    }
  )
  if mode == 'full':
    config.num_items = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
    config.most_items.becat_point = 10_000
    config.repeats = 1000
  elif mode == 'test':
    config.fast_compile = True
    config.num_items = (30, 60)
    config.most_items = {'gpm': 60, 'becat_point': 60, 'becat_full': 30}
    config.repeats = 3
  return config
