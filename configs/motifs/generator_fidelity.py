"""Do generated graphs have the motif counts that were asked for?

Command: jaxlab run motifs/generator_fidelity
Time: about 30 s on two cores
Claims: feasible targets are reached within 5 % at identical degrees, and
  infeasible ones are reported as such
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'motifs',
      'study': 'generator_fidelity',
      'seed': 0,
      'fast_compile': False,
      'targets': ('layer 1', 'layer 2', 'layer 3', 'mixture'),
      'num_nodes': 60,
      'num_edges': 360,
      'moves': 150_000,
      'seeds': 5,
    }
  )
  if mode == 'full':
    config.num_nodes = 200
    config.num_edges = 2400
    config.moves = 5_000_000
    config.seeds = 20
  elif mode == 'test':
    config.targets = ('layer 1', 'mixture')
    config.num_nodes = 24
    config.num_edges = 72
    config.moves = 2000
    config.seeds = 2
  return config
