"""Gradient Path Matching with one thing changed at a time: Swedish SAT.

Command: jaxlab run adaptive_testing/ablation
Time: about 2.5 min on two cores
Claims: Newton steps against mean gradients, paths against the whole space, one
  network for all items against parts for each and against a network of the
  bank, and learning against the closed form are worth something
Expected: residual correlations are worth all of it; without training the
  closed form has most of it; three folds leave the rest undecided
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'adaptive_testing',
      'study': 'ablation',
      'seed': 0,
      'fast_compile': False,
      # Examinees; those of a fold are tested with rules of their own training.
      # A `folder` takes the place of the one under JAXLAB_DATA.
      'data': 'swesat_quant',
      'folder': '',
      'model': '2PL',
      'dims': 1,
      'calibration_steps': 1000,
      'min_answers': 20,
      'most_examinees': 100_000,
      'folds': 3,
      'rules': (
        *('mfi', 'pool_reduction', 'gpm', 'gpm_items', 'gpm_no_residuals'),
        *('gpm_mean', 'gpm_full_space', 'gpm_bank_mlp'),
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
    config.folds = 5
    config.rules = (
      *config.rules,
      *('mepv', 'gpm_mepv_start', 'gpm_skip', 'gpm_table', 'gpm_embedding'),
      *('gpm_pairs', 'gpm_teacher', 'gpm_student', 'gpm_uniform'),
      *('gpm_straight_through', 'gpm_darts'),
    )
    config.resamples = 4000
  elif mode == 'test':
    config.fast_compile = True
    config.most_examinees = 60
    config.folds = 2
    config.rules = ('mfi', 'gpm', 'gpm_skip', 'gpm_mean')
    config.horizon = 4
    config.rounds = 1
    config.steps = 4
    config.batch = 16
    config.longest = 5
    config.lengths = (2, 4)
    config.resamples = 20
  return config
