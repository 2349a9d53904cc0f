"""What each of the 13 three-node motifs can do, for random weights.

Command: jaxlab run motifs/regime_atlas
Time: about 35 s on two cores
Claims: feed-forward motifs rest at one point; pairwise feedback gives several
  fixed points and no cycle; a directed loop oscillates; two lines over the
  cycle products say when the origin is stable
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'motifs',
      'study': 'regime_atlas',
      'seed': 0,
      'fast_compile': False,
      'gains': (3.0,),
      'claim_gain': 3.0,
      'draws': 200,
      'starts': 6,
      'dt': 0.05,
      'burn_in': 300.0,
      'window': 150.0,
      'origin_time': 300.0,
      'near_line': 0.02,
    }
  )
  if mode == 'full':
    config.gains = (1.0, 2.0, 3.0, 4.0)
    config.draws = 1000
    config.starts = 12
  elif mode == 'test':
    config.draws = 8
    config.starts = 3
    config.dt = 0.1
    config.burn_in = 40.0
    config.window = 20.0
    config.origin_time = 20.0
  return config
