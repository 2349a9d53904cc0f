"""Simulated adaptive tests, 2PL banks of 80 items whose parameters are known.

Command: jaxlab run adaptive_testing/sim_2pl
Time: about 2 min on two cores
Claims: GPM needs fewer questions than the best rule without learning (2PL),
  and 20 % fewer than random choice, BECAT and matching in the whole space
Expected: nothing to gain where the model is true: 2 % [1, 3] more questions
  than the best rule without learning, an error within 1 % of that of MFI; 63 %
  fewer than random choice, 23 % than its network in the whole space
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
      'model': '2PL',
      'num_items': 80,
      'dims': 1,
      'calibrated': False,
      'calibration_steps': 1000,
      'train_examinees': 3200,
      'test_examinees': 1000,
      'folds': 5,
      'rules': (
        *('random', 'mfi', 'kli', 'mpwi', 'mepv', 'becat_full', 'becat_point'),
        *('newton_match', 'gpm', 'gpm_full_space'),
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
    config.rules = (
      *config.rules,
      *('maat', 'gpm_items', 'gpm_bank_mlp', 'bobcat', 'bobcat_reinforce'),
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
