"""Choices against the best of all subsets: banks of 12 items.

Command: jaxlab run adaptive_testing/enumeration
Time: about 1 min on two cores
Claims: the best subset is personal; greedy growth is near it; GPM is nearer to
  it than rules without learning
Expected: 96 % of the examinees have another best subset than the most common
  one; greedy growth that sees all responses has 2 times its error, rules that
  do not see them 20 times: GPM, MFI and MEPV alike
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'adaptive_testing',
      'study': 'enumeration',
      'seed': 0,
      'fast_compile': False,
      'data': 'simulated',
      'model': '2PL',
      'num_items': 12,
      'dims': 1,
      'calibrated': False,
      'calibration_steps': 1000,
      'train_examinees': 3200,
      'test_examinees': 200,
      'folds': 3,
      'sizes': (3, 4),
      'num_points': 5,
      'rules': ('random', 'mfi', 'mepv', 'gpm', 'gpm_full_space'),
      'rounds': 3,
      'steps': 500,
      'batch': 128,
      'rival_steps': 500,
    }
  )
  if mode == 'full':
    config.num_items = 16
    config.sizes = (3, 4, 6, 8)
    config.folds = 10
    config.test_examinees = 1000
  elif mode == 'test':
    config.fast_compile = True
    config.num_items = 6
    config.train_examinees = 40
    config.test_examinees = 5
    config.folds = 2
    config.sizes = (2,)
    config.rules = ('random', 'gpm')
    config.rounds = 1
    config.steps = 4
    config.batch = 16
  return config
