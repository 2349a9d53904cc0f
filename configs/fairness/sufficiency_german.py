"""Which loan is good? Equal PPV and FOR for women and men.

Command: jaxlab run fairness/sufficiency_german
Time: about 45 s on two cores
Claims: gaps of PPV and FOR at least three times smaller than those of one
  threshold, at a cost of less than one accuracy point
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'fairness',
      'study': 'learned',
      'seed': 0,
      'fast_compile': True,
      'dataset': 'german',
      'attribute': 'sex',
      'groups': ('female', 'male'),
      'seeds': 5,
      'max_people': 0,
      'shares': (0.4, 0.3, 0.3),
      'hidden': (),
      'steps': 600,
      'batch_size': 128,
      'learning_rate': 0.01,
      'weight_decay': 1e-4,
      'calibrator': 'isotonic',
      'max_atoms': 64,
      'rate_floor': 0.05,
    }
  )
  if mode == 'full':
    config.fast_compile = False
    config.seeds = 20
  elif mode == 'test':
    config.seeds = 2
    config.steps = 20
    config.calibrator = 'quantile'
    config.max_atoms = 16
  return config
