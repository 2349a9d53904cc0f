"""Robustness and flexibility of trained networks, by their motifs.

Command: jaxlab run motifs/robust_flexible
Time: about 90 s on two cores
Claims: which mixtures are more robust, or more flexible, than networks with
  the same edges, degrees, weights and spectral radius
Expected: a claim holds only where its interval excludes 0; how many do stands
  in the summary, even if none does
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'motifs',
      'study': 'robust_flexible',
      'seed': 0,
      'fast_compile': False,
      'mixtures': ('layer 1', 'layer 2', 'layer 3', 'mixture'),
      'num_nodes': 48,
      'num_edges': 360,
      'radius': 1.2,
      'alpha': 0.5,
      'batch': 32,
      'steps': 300,
      'learning_rate': 0.003,
      'held_out': 400,
      'draws': 2,
      'floor': 0.6,
      'switch_updates': 40,
      'perturbations': {
        'input_noise': (0.0, 0.2, 0.4, 0.8),
        'weight_noise': (0.0, 0.2, 0.4, 0.8),
        'unit_lesions': (0.0, 0.1, 0.2, 0.4),
        'edge_lesions': (0.0, 0.1, 0.2, 0.4),
      },
      'seeds': 24,
    }
  )
  if mode == 'full':
    config.num_nodes = 128
    config.num_edges = 2400
    config.batch = 64
    config.steps = 2000
    config.draws = 10
    config.seeds = 30
    config.perturbations = {
      **config.perturbations,
      'recurrent_noise': (0.0, 0.05, 0.1, 0.2),
      'input_dropout': (0.0, 0.1, 0.2, 0.4),
      'adversarial_inputs': (0.0, 0.05, 0.1, 0.2),
    }
  elif mode == 'test':
    config.mixtures = ('layer 1', 'layer 3')
    config.num_nodes = 24
    config.num_edges = 72
    config.batch = 16
    config.steps = 60
    config.held_out = 50
    config.draws = 1
    config.floor = 0.05
    config.switch_updates = 4
    config.perturbations = {'weight_noise': (0.0, 0.5)}
    config.seeds = 2
  return config
