"""Dynamics of networks over the shares of the three layers of motifs.

Command: jaxlab run motifs/simplex_dynamics
Time: about 60 s on two cores
Claims: at the same edges, degrees, weights and spectral radius the shares of
  motifs change the largest Lyapunov exponent
Expected: the ordering of the mixtures is a result, not an assumption; it
  stands in the table `ordering`
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'motifs',
      'study': 'simplex_dynamics',
      'seed': 0,
      'fast_compile': False,
      'grid': 2,
      'laws': ('free', 'positive pairs', 'negative loops'),
      'gains': (1.0, 1.5),
      'claim_gain': 1.5,
      'num_nodes': 64,
      'num_edges': 420,
      'seeds': 8,
      'exponents': 3,
      'dt': 0.1,
      'time': 80.0,
      'burn_in': 60.0,
      'starts': 2,
      'input_steps': 300,
      'max_lag': 20,
    }
  )
  if mode == 'full':
    config.grid = 5
    config.laws = (*config.laws, 'negative pairs', 'positive loops')
    config.gains = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
    config.num_nodes = 512
    config.num_edges = 12_000
    config.seeds = 10
    config.exponents = 10
    config.time = 400.0
    config.burn_in = 400.0
    config.starts = 4
    config.input_steps = 2000
    config.max_lag = 60
  elif mode == 'test':
    config.grid = 1
    config.laws = ('negative loops', 'positive pairs')
    config.gains = (1.5,)
    config.num_nodes = 24
    config.num_edges = 72
    config.seeds = 2
    config.time = 6.0
    config.burn_in = 4.0
    config.input_steps = 60
    config.max_lag = 5
  return config
