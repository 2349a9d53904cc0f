"""Equal PPV and FOR for COMPAS risk deciles, by race.

Command: jaxlab run fairness/sufficiency_compas
Time: about 30 s on two cores
Claims: one threshold leaves unequal PPV and FOR; the published optimum; the
  rule closest to separation is another one
Expected: on all rows the least loss is 0.350063 with PPV 0.628893 and FOR
  0.332814: a threshold at decile 5 for Black defendants, a lottery for White
  ones. `--config.filter=propublica` takes ProPublica's rows: 0.343715.
"""

import ml_collections

_WHITE, _BLACK = 'Caucasian', 'African-American'
_BEST = 'Sufficiency, least loss'
_CLOSE = 'Sufficiency, closest to separation'


def _published(rows: str, loss: float, ppv: float, for_: float, close: tuple):
  """Printed figures, with the digits that are printed and their setting."""
  when = {'groups': (_WHITE, _BLACK), 'score': 'pooled', 'filter': rows}
  return {
    f'optimum_{rows}': {
      'text': 'Least loss, PPV and FOR as published',
      'digits': 6,
      'when': when,
      'figures': {
        f'{_BEST}: loss': loss,
        f'{_BEST}: PPV': ppv,
        f'{_BEST}: FOR': for_,
      },
    },
    f'separation_{rows}': {
      'text': 'Rule closest to separation as published',
      'digits': 4,
      'when': when,
      'figures': {f'{_CLOSE}: PPV': close[0], f'{_CLOSE}: FOR': close[1]},
    },
    f'rules_{rows}': {
      'text': 'A hard threshold for Black defendants',
      'digits': 0,
      'when': when,
      'figures': {f'{_BEST}: scores drawn by lot {_BLACK}': 0},
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
      'dataset': 'compas',
      'filter': 'none',
      'score': 'pooled',
      'groups': (_WHITE, _BLACK),
      'replications': 1000,
      'front_points': 41,
      'more_groups': ('Hispanic',),
      'published': {
        **_published('none', 0.350063, 0.628893, 0.332814, (0.6094, 0.3140)),
        **_published(
          'propublica', 0.343715, 0.644558, 0.334563, (0.6807, 0.3620)
        ),
      },
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
