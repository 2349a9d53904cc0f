"""Pareto fronts of certified training: CIFAR-10.

Command: jaxlab run certified/pareto_cifar10
Time: about 2 min on two cores; a comparison that says something needs `full`
  and a GPU
Claims: a search finds better settings than the published ones; SABR owns the
  end of high natural, MTL-IBP that of high certified accuracy
Expected: the default mode has a narrow network, 2,000 pictures and short
  trainings: it shows that all of it runs, and nothing about the methods
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'certified',
      'seed': 0,
      'fast_compile': False,
      'pictures': 'cifar10',
      'network': 'small_cnn',
      'width': 4,
      'eps': (2 / 255,),
      'methods': ('ibp', 'mtl_ibp'),
      'train': 2000,
      'validation': 200,
      'test': 200,
      # The search; `storage` names a study that several runs work on.
      'trials': 4,
      'lanes': 4,
      'sampler': 'motpe',
      'storage': '',
      # Training; `attack_steps` are those of PGD inside of a loss.
      'batch_size': 100,
      'epochs': 3,
      'attack_steps': 1,
      'checkpoint_every': 0,
      # Members of each front that are trained anew, and with how many seeds.
      'front': 3,
      'seeds': 3,
      # The verifier; `complete` pictures of a network meet branch and bound.
      'evaluated_at_once': 100,
      'complete': 10,
      'nodes': 500,
      'pgd_steps': 20,
      'pgd_restarts': 2,
    }
  )
  if mode == 'full':
    config.network = 'cnn7'
    config.width = 64
    config.eps = (2 / 255, 8 / 255)
    config.train = 45_000
    config.validation = 5000
    config.test = 10_000
    config.batch_size = 128
    config.methods = (
      *('ibp', 'crown_ibp', 'sabr', 'mtl_ibp'),
      *('cc_ibp', 'exp_ibp', 'taps', 'staps'),
    )
    config.trials = 100
    config.lanes = 8
    config.epochs = 160
    config.attack_steps = 8
    config.checkpoint_every = 1000
    config.front = 10
    config.seeds = 3
    config.complete = 10000
    config.nodes = 20_000
    config.pgd_steps = 100
    config.pgd_restarts = 10
  elif mode == 'test':
    config.fast_compile = True
    config.width = 2
    config.methods = ('ibp', 'mtl_ibp')
    config.train = 200
    config.validation = 50
    config.test = 50
    config.trials = 3
    config.lanes = 2
    config.batch_size = 50
    config.epochs = 1
    config.attack_steps = 1
    config.front = 1
    config.seeds = 2
    config.evaluated_at_once = 50
    config.complete = 1
    config.nodes = 8
    config.pgd_steps = 3
    config.pgd_restarts = 1
  return config
