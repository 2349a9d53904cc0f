"""How do time and memory of a simulation grow with arms and replications?

Command: jaxlab run bandits/b3_scaling
Time: about 60 s on two cores
Claims: the time grows linearly with the arms that enter, the working memory
  stays within its bound
Expected: see RESULTS.md; timings differ from machine to machine. T is a fixed
  share of N, so c0 grows with both. Where few replications of a small pool are
  run, a fixed cost of each call rules and the slope is lower.
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'bandits',
      'study': 'scaling',
      'seed': 0,
      'fast_compile': True,
      'num_arms': (1000, 5000, 20000, 100000),
      'middle_arms': 5000,
      'replications': (100, 1000, 10000),
      # Enough for the work of a replication to outweigh that of a call.
      'arms_replications': 1000,
      'budget_share': 0.5,
      'repeats': 5,
      'max_bytes': 2**28,
      'slope_tolerance': 0.1,
    }
  )
  if mode == 'full':
    config.fast_compile = False
    config.num_arms = (1000, 10000, 100000, 1000000)
    config.middle_arms = 10000
    config.replications = (100, 1000, 10000, 100000)
    config.repeats = 9
    config.max_bytes = 2**30
  elif mode == 'test':
    config.num_arms = (200, 400)
    config.middle_arms = 200
    config.replications = (8, 64)
    config.arms_replications = 8
    config.repeats = 2
    config.max_bytes = 2**26
  return config
