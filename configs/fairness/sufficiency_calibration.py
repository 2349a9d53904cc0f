"""How many people a calibration needs, by calibrator.

Command: jaxlab run fairness/sufficiency_calibration
Time: about 60 s on two cores
Claims: the gaps of PPV and FOR on the true distribution fall about as the
  square root of the number of people, whatever the calibrator
Expected: of the calibrators temperature alone does not improve with numbers:
  it cannot correct a shift
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'fairness',
      'study': 'calibration',
      'seed': 0,
      'fast_compile': True,
      'methods': (
        'histogram',
        'quantile',
        'isotonic',
        'platt',
        'temperature',
        'beta',
      ),
      'sizes': (200, 1000, 5000, 25_000),
      'seeds': 10,
      'bins': 20,
      'max_atoms': 201,
      'rate_floor': 0.1,
    }
  )
  if mode == 'full':
    config.fast_compile = False
    config.sizes = (100, 316, 1000, 3162, 10_000, 31_623, 100_000)
    config.seeds = 50
    config.max_atoms = 1001
  elif mode == 'test':
    config.methods = ('quantile',)
    config.sizes = (400, 800)
    config.seeds = 4
    config.bins = 10
    config.max_atoms = 64
  return config
