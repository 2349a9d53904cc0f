"""Trains the vision transformer that others quantize.

Command: jaxlab run quantization/train_vit
Time: about 20 s on two cores
Claims: its accuracy is worth quantizing
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'quantization',
      'study': 'train',
      'seed': 0,
      'fast_compile': False,
      'networks': ('vit',),
      'float_networks': 1,
      'test_pictures': 2000,
      'wanted': 95.0,
    }
  )
  if mode == 'full':
    config.networks = ('vit_cifar',)
    config.float_networks = 3
    config.test_pictures = 10_000
    config.wanted = 80.0
  elif mode == 'test':
    config.fast_compile = True
    config.networks = ('vit_tiny',)
    config.test_pictures = 100
    config.wanted = 10.0
  return config
