"""Does a tiny language model learn to add from demonstrations?

Command: jaxlab run lm/sft_addition
Time: about 60 s on two cores
Claims: a model of two layers, trained from scratch, gives more than 95 % of
  the sums of two numbers of two digits exactly, none of which it has seen
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'lm',
      'study': 'sft_addition',
      'seed': 0,
      'fast_compile': False,
      'seeds': 3,
      'digits': 2,
      'train': 8000,
      'test': 500,
      'layers': 2,
      'width': 64,
      'heads': 4,
      'sft_steps': 800,
      'sft_batch': 128,
      'sft_learning_rate': 3e-3,
    }
  )
  if mode == 'full':
    config.seeds = 10
    config.digits = 3
    config.train = 200_000
    config.test = 2000
    config.layers = 4
    config.width = 128
    config.sft_steps = 10_000
    config.sft_batch = 512
    config.sft_learning_rate = 1e-3
  elif mode == 'test':
    config.fast_compile = True
    config.seeds = 2
    config.digits = 1
    config.train = 60
    config.test = 8
    config.layers = 1
    config.width = 16
    config.heads = 2
    config.sft_steps = 4
    config.sft_batch = 16
  return config
