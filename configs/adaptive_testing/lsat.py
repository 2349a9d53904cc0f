"""Calibration of two sections of the LSAT against published tables.

Command: jaxlab run adaptive_testing/lsat
Time: about 10 s on two cores
Claims: slopes, difficulties and log-likelihoods are those of the literature
Expected: all hold
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'adaptive_testing',
      'study': 'calibration',
      'seed': 0,
      'fast_compile': True,
      'sections': ('lsat6', 'lsat7'),
      'models': ('1PL', '2PL'),
    }
  )
  if mode == 'full':
    config.models = ('1PL', '2PL', '3PL')
  elif mode == 'test':
    config.sections = ('lsat6',)
  return config
