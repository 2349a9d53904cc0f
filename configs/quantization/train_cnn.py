"""Trains the convolutional network that others quantize.

Command: jaxlab run quantization/train_cnn
Time: about 15 s on two cores
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
      'networks': ('cnn',),
      'float_networks': 1,
      'test_pictures': 2000,
      'wanted': 95.0,
    }
  )
  if mode == 'full':
    config.networks = ('cnn_cifar',)
    config.float_networks = 3
    config.test_pictures = 10_000
    config.wanted = 88.0
  elif mode == 'test':
    config.fast_compile = True
    config.networks = ('cnn_tiny',)
    config.test_pictures = 100
    config.wanted = 10.0
  return config
