"""Where the eigenvalues of networks with many 2- or 3-cycles lie.

Command: jaxlab run motifs/spectra_theory
Time: about 30 s on two cores
Claims: over 95 % of the eigenvalues lie inside the ellipse or hypotrochoid of
  the cycles, which holds more of them than a disc does
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'motifs',
      'study': 'spectra_theory',
      'seed': 0,
      'fast_compile': False,
      'arms': (
        '2-cycles, positive',
        '2-cycles, negative',
        '3-cycles, positive',
        '3-cycles, negative',
      ),
      'num_nodes': 240,
      'num_edges': 6000,
      'slack': 0.05,
      'seeds': 5,
    }
  )
  if mode == 'full':
    config.num_nodes = 1000
    config.num_edges = 60_000
    config.seeds = 20
  elif mode == 'test':
    config.arms = ('2-cycles, positive', '3-cycles, negative')
    config.num_nodes = 40
    config.num_edges = 240
    config.seeds = 2
  return config
