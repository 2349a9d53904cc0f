"""Simulated adaptive tests of two abilities: MIRT banks of 80 items.

Command: jaxlab run adaptive_testing/sim_mirt
Time: about 100 s on two cores
Claims: GPM needs fewer questions than the best rule without learning (two
  abilities), and 20 % fewer than random choice and matching in the whole space
Expected: level with MFI and with the best rule; 66 % fewer questions than
  random choice
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'adaptive_testing',
      'study': 'accuracy',
      'seed': 0,
      'fast_compile': False,
      # A fold is a random bank with examinees of its own; its parameters are
      # known, unless they are calibrated.
      'data': 'simulated',
      'model': 'MIRT',
      'num_items': 80,
      'dims': 2,
      'calibrated': False,
      'calibration_steps': 1000,
      'train_examinees': 3200,
      'test_examinees': 1000,
      'folds': 3,
      'rules': (
        *('random', 'mfi', 'mepv', 'maat', 'becat_point', 'gpm'),
        'gpm_full_space',
      ),
      # Training; rules are trained for tests of `horizon` items.
      'horizon': 20,
      'rounds': 3,
      'steps': 500,
      'batch': 128,
      'rival_steps': 500,
      # Tests; `held_out` is the share of answers that they have to predict.
      'longest': 25,
      'lengths': (5, 8, 10, 15, 20),
      'held_out': 0.0,
      'resamples': 1000,
    }
  )
  if mode == 'full':
    config.num_items = 500
    config.test_examinees = 10_000
    config.folds = 5
    config.rules = (
      *config.rules,
      *('gpm_items', 'gpm_bank_mlp', 'bobcat', 'bobcat_reinforce'),
      *('ncat', 'oracle'),
    )
    config.rival_steps = 4000
    config.held_out = 0.2
    config.resamples = 4000
  elif mode == 'test':
    config.fast_compile = True
    config.num_items = 12
    config.train_examinees = 40
    config.test_examinees = 20
    config.folds = 2
    config.rules = ('random', 'mfi', 'gpm')
    config.horizon = 4
    config.rounds = 1
    config.steps = 4
    config.batch = 16
    config.longest = 5
    config.lengths = (2, 4)
    config.resamples = 20
  return config
