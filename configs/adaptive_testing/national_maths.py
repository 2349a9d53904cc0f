"""Short adaptive tests from a Swedish national test of mathematics: 28 items.

Command: jaxlab run adaptive_testing/national_maths
Time: about 2 min on two cores
Claims: GPM needs fewer questions than the best rule without learning, with 640
  examinees to train on
Expected: not so: 5 % [-1, 12] more, for the correlations of so few examinees
  are mostly noise; 54 % fewer than random choice
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
      'data': 'national_maths',
      'folder': '',
      'model': '2PL',
      'dims': 1,
      'calibration_steps': 1000,
      'min_answers': 20,
      'most_examinees': 100_000,
      'folds': 5,
      'rules': (
        *('random', 'mfi', 'kli', 'mpwi', 'mepv', 'becat_full', 'becat_point'),
        *('newton_match', 'pool_reduction', 'gpm', 'gpm_full_space'),
      ),
      # Training; rules are trained for tests of `horizon` items.
      'horizon': 10,
      'rounds': 3,
      'steps': 500,
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
    config.rules = (
      *config.rules,
      *('maat', 'gpm_items', 'gpm_bank_mlp', 'bobcat', 'bobcat_reinforce'),
      *('ncat', 'oracle'),
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
  return config
