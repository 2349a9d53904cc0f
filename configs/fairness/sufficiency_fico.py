"""Equal PPV and FOR for TransRisk credit scores of 2003, by race.

Command: jaxlab run fairness/sufficiency_fico
Time: about 40 s on two cores
Claims: one threshold leaves unequal PPV and FOR; the published optimum; the
  rule closest to separation costs little more
Expected: accuracy 0.8819 falls to 0.8676 with PPV 0.9116 and FOR 0.2346 in both
  groups; the rule closest to separation has accuracy 0.8668. All printed
  figures agree.
"""

import ml_collections

_WHITE, _BLACK = 'Non- Hispanic white', 'Black'
_BEST = 'Sufficiency, least loss'
_CLOSE = 'Sufficiency, closest to separation'

# Printed figures, with the digits that are printed and their setting.
_TWO = {'groups': (_WHITE, _BLACK)}
_FOUR = {**_TWO, 'more_groups': ('Hispanic', 'Asian')}
_PUBLISHED = {
  'optimum': {
    'text': 'Bayes and sufficient optimum as published',
    'digits': 4,
    'when': _TWO,
    'figures': {
      'Bayes: accuracy': 0.8819,
      f'{_BEST}: accuracy': 0.8676,
      f'{_BEST}: PPV': 0.9116,
      f'{_BEST}: FOR': 0.2346,
    },
  },
  'thresholds': {
    'text': 'PPV and FOR of one threshold as published',
    'digits': 3,
    'when': _TWO,
    'figures': {
      f'Bayes: PPV {_WHITE}': 0.910,
      f'Bayes: PPV {_BLACK}': 0.785,
      f'Bayes: FOR {_WHITE}': 0.198,
      f'Bayes: FOR {_BLACK}': 0.129,
    },
  },
  'separation': {
    'text': 'Rule closest to separation as published',
    'digits': 4,
    'when': _TWO,
    'figures': {
      f'{_CLOSE}: accuracy': 0.8668,
      f'{_CLOSE}: PPV': 0.9035,
      f'{_CLOSE}: FOR': 0.2239,
      f'{_CLOSE}: gap sum': 0.7827,
      'Sufficiency, least larger gap: PPV': 0.8711,
    },
  },
  'larger_gap': {
    'text': 'Least larger gap as published',
    'digits': 5,
    'when': _TWO,
    'figures': {'Sufficiency, least larger gap: larger gap': 0.40407},
  },
  'baselines': {
    'text': 'Exact baselines as published',
    'digits': 4,
    'when': _TWO,
    'figures': {
      'Statistical parity: accuracy': 0.8455,
      'Equalized odds: accuracy': 0.8405,
      'Equal opportunity: accuracy': 0.8627,
    },
  },
  'more_groups': {
    'text': 'Least loss with three and with four groups as published',
    'digits': 5,
    'when': _FOUR,
    'figures': {'3 groups: loss': 0.16585, '4 groups: loss': 0.16503},
  },
  'rules': {
    'text': 'A threshold for Black borrowers, nearly one for White ones',
    'digits': 3,
    'when': _TWO,
    'figures': {
      f'{_BEST}: rise of the rule {_BLACK}': 1.0,
      f'{_BEST}: rise of the rule {_WHITE}': 0.968,
    },
  },
}


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'fairness',
      'study': 'published',
      'seed': 0,
      'fast_compile': True,
      'dataset': 'fico',
      'groups': (_WHITE, _BLACK),
      'replications': 1000,
      'front_points': 41,
      'more_groups': ('Hispanic', 'Asian'),
      'published': _PUBLISHED,
    }
  )
  if mode == 'full':
    config.fast_compile = False
    config.replications = 10_000
    config.front_points = 201
  elif mode == 'test':
    config.replications = 16
    config.front_points = 5
  return config
