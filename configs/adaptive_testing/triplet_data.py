"""Adaptive tests from logs of answers: ASSISTments 2009, or your own data.

Command: jaxlab run adaptive_testing/triplet_data --config.folder=/your/folder
Time: depends on the data; minutes
Claims: GPM needs fewer questions than the best rule without learning, and 20 %
  fewer than random choice, BECAT and matching in the whole ability space
Expected: nothing, for the files cannot be shipped. Set `config.data` to
  assistments2009, eedi, educat (also for Junyi and EdNet) or bobcat, and
  `config.folder` to where they are
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
      'data': 'assistments2009',
      'folder': '',
      'model': '2PL',
      'dims': 1,
      'calibration_steps': 1000,
      'min_answers': 100,
      'most_examinees': 100_000,
      'folds': 3,
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
    config.data = 'swesat_quant'
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
