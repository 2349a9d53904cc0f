"""Adaptive tests of four concepts by neural cognitive diagnosis: Swedish SAT.

The concepts are blocks of 20 items: the file does not say which subtest an item
is of.

Command: jaxlab run adaptive_testing/ncd
Time: about 110 s on two cores
Claims: GPM needs fewer questions than the best rule without learning, and 20 %
  fewer than random choice and matching in the whole space
Expected: 13 % [6, 19] more questions than the best rule, with 300 steps of
  training; 45 % fewer than random choice, 65 % than its network matched in the
  whole space
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
      # Examinees; those of a fold are tested with rules of their own training.
      # A `folder` takes the place of the one under JAXLAB_DATA.
      'data': 'swesat_quant',
      'folder': '',
      'model': 'NCD',
      # Widths of the network; the paper of the model has (128, 64).
      'hidden': (32, 16),
      # With data='simulated': banks of items that need one or two of `dims`.
      'num_items': 80,
      'dims': 4,
      'calibrated': False,
      'train_examinees': 3200,
      'test_examinees': 1000,
      'calibration_steps': 1000,
      'min_answers': 20,
      'most_examinees': 1500,
      'folds': 2,
      'rules': ('random', 'mfi', 'mepv', 'gpm', 'gpm_full_space'),
      # Training; rules are trained for tests of `horizon` items.
      'horizon': 10,
      'rounds': 2,
      'steps': 150,
      'batch': 128,
      'rival_steps': 500,
      # Tests; `held_out` is the share of answers that they have to predict.
      'longest': 13,
      'lengths': (3, 5, 8, 10),
      'held_out': 0.2,
      'resamples': 1000,
    }
  )
  if mode == 'full':
    config.hidden = (128, 64)
    config.folds = 5
    config.most_examinees = 100_000
    config.rounds = 3
    config.steps = 500
    config.horizon = 20
    config.longest = 25
    config.lengths = (5, 8, 10, 15, 20)
    config.rules = (
      *config.rules,
      *('maat', 'becat_point', 'gpm_items', 'gpm_bank_mlp', 'bobcat'),
      *('bobcat_reinforce', 'ncat', 'oracle'),
    )
    config.rival_steps = 4000
    config.resamples = 4000
  elif mode == 'test':
    config.fast_compile = True
    config.most_examinees = 60
    config.folds = 2
    config.rules = ('random', 'mfi', 'gpm')
    config.horizon = 4
    config.rounds = 1
    config.steps = 4
    config.batch = 16
    config.longest = 5
    config.lengths = (2, 4)
    config.resamples = 20
    config.calibration_steps = 4
  return config
