"""Which three-node motifs do worm and fly connectomes have too many of?

Command: jaxlab run motifs/connectome_census
Time: about 60 s on two cores
Claims: counts are exact; against graphs with the same in-, out- and mutual
  degrees the feed-forward loop is over-represented and the ring is not, in
  both species
Expected: the first fails in the fly larva, whose left half has fewer
  feed-forward loops than random graphs of these degrees (z about -14)
"""

import ml_collections

# Counts by networkx 3.6.1, in the order of `jaxlab.motifs.NAMES`.
_COUNTS = {
  'witvliet8': (
    *(7245, 7129, 8228, 3111, 4355, 1548, 48),
    *(726, 274, 689, 203, 330, 83),
  ),
  'witvliet1': (
    *(1322, 1749, 1898, 510, 429, 234, 5),
    *(40, 41, 53, 15, 15, 12),
  ),
  'white1986': (
    *(7399, 14670, 12759, 3159, 3295, 1777, 65),
    *(362, 389, 601, 186, 175, 48),
  ),
  'larva_left': (
    *(39086, 19724, 33315, 29612, 45883, 19685, 1046),
    *(14450, 5897, 26280, 8483, 21200, 12825),
  ),
  'larva_right': (
    *(31155, 19074, 34849, 30982, 42135, 21384, 1149),
    *(13308, 7251, 26572, 9180, 21779, 14246),
  ),
}

# Dense graphs refuse nine swaps of ten, so that their chains must be longer.
_SWAPS = {
  **dict.fromkeys((*_COUNTS, 'random'), 10),
  **dict.fromkeys(('larva_left', 'larva_right'), 40),
}


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'motifs',
      'study': 'connectome_census',
      'seed': 0,
      'fast_compile': False,
      'graphs': tuple(_COUNTS),
      'species': {
        'Worm': ('witvliet8', 'witvliet1', 'white1986'),
        'Fly larva': ('larva_left', 'larva_right'),
      },
      'counts': _COUNTS,
      'null': 'degree_mutual',
      'replicas': 100,
      'swaps_an_edge': _SWAPS,
      'random_graphs': 8,
    }
  )
  if mode == 'full':
    config.replicas = 2000
    config.swaps_an_edge = dict.fromkeys(_SWAPS, 200)
    config.random_graphs = 20
  elif mode == 'test':
    config.graphs = ('witvliet1',)
    config.species = {'Worm': ('witvliet1',)}
    config.replicas = 4
    config.swaps_an_edge = dict.fromkeys(_SWAPS, 1)
    config.random_graphs = 2
  return config
