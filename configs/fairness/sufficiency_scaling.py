"""How does the time of the exact optimum grow with scores and groups?

Command: jaxlab run fairness/sufficiency_scaling
Time: about 60 s on two cores
Claims: the time grows almost linearly with the scores of a group; two groups
  of 1000 scores take less than 5 ms
Expected: see RESULTS.md; timings differ from machine to machine. Below about
  1000 scores the fixed cost of a call rules, so the slope is measured above.
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'fairness',
      'study': 'scaling',
      'seed': 0,
      # Timings are those of optimized programs.
      'fast_compile': False,
      'groups': (2, 3, 5),
      'sizes': (10, 100, 1000, 10_000, 100_000),
      'slope_from': 1000,
      'slope_below': 1.15,
      'limit_size': 1000,
      'limit_ms': 5.0,
      'repeats': 5,
      'seconds': 0.05,
      'batch': 1000,
      'batch_size': 200,
      'chunk': 16,
    }
  )
  if mode == 'full':
    config.sizes = (10, 100, 1000, 10_000, 100_000, 1_000_000)
    config.repeats = 15
    config.seconds = 0.2
    config.batch = 10_000
  elif mode == 'test':
    config.groups = (2,)
    config.sizes = (10, 40)
    config.slope_from = 10
    config.limit_size = 40
    config.repeats = 2
    config.seconds = 0.002
    config.batch = 8
    config.batch_size = 10
  return config
