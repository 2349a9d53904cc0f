"""Adaptive tests from the Swedish SAT, verbal part: 80 items.

Command: jaxlab run adaptive_testing/swesat_verbal
Time: about 2 min on two cores
Claims: as for the quantitative part: GPM needs fewer questions than the best
  rule without learning, and 20 % fewer than random choice and whole-space
  matching
Expected: 1 % [0, 3] fewer than the best rule without learning: undecided; 55 %
  fewer than random choice and BECAT, 24 % than its network matched in the
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
      'data': 'swesat_verbal',
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
      'horizon': 20,
      'rounds': 3,
      'steps': 500,
      'batch': 128,
      'rival_steps': 500,
      # Tests; `held_out` is the share of answers that they have to predict.
      'longest': 25,
      'lengths': (5, 8, 10, 15, 20),
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
