"""Pareto fronts of certified training: 8x8 digits.

Command: jaxlab run certified/pareto_digits
Time: about 130 s on two cores
Claims: a search finds better settings than the published ones; SABR owns the
  end of high natural, MTL-IBP that of high certified accuracy
Expected: nobody has published settings for these digits: those of MNIST at
  radius 0.1 stand for them, made for trainings of 33,000 steps; here they have
  600, and lose the more, the fewer they have. With --config.epochs=100 and 200
  the search is still ahead of them; with 200 SABR owns its end
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'certified',
      'seed': 0,
      'fast_compile': False,
      'pictures': 'digits',
      'network': 'mlp',
      'width': 100,
      'eps': (0.1,),
      'methods': ('ibp', 'crown_ibp', 'sabr', 'mtl_ibp'),
      'train': 1000,
      'validation': 300,
      'test': 497,
      # The search; `storage` names a study that several runs work on.
      'trials': 8,
      'lanes': 4,
      'sampler': 'motpe',
      'storage': '',
      # Training; `attack_steps` are those of PGD inside of a loss.
      'batch_size': 100,
      'epochs': 60,
      'attack_steps': 3,
      'checkpoint_every': 0,
      # Members of each front that are trained anew, and with how many seeds.
      'front': 3,
      'seeds': 3,
      # The verifier; `complete` pictures of a network meet branch and bound.
      'evaluated_at_once': 100,
      'complete': 20,
      'nodes': 500,
      'pgd_steps': 40,
      'pgd_restarts': 2,
    }
  )
  if mode == 'full':
    config.methods = (
      *('ibp', 'crown_ibp', 'sabr', 'mtl_ibp'),
      *('cc_ibp', 'exp_ibp', 'taps', 'staps'),
    )
    config.trials = 100
    config.lanes = 10
    config.epochs = 400
    config.attack_steps = 8
    config.checkpoint_every = 1000
    config.front = 10
    config.seeds = 10
    config.complete = 497
    config.nodes = 20_000
    config.pgd_steps = 100
    config.pgd_restarts = 10
  elif mode == 'test':
    config.fast_compile = True
    config.width = 8
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
