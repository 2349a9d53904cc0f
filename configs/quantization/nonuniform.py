"""Uniform levels against codebooks, with and without the same alignment.

Command: jaxlab run quantization/nonuniform
Time: about 2 min 45 s on two cores, half of it to compile
Claims: uniform levels with alignment are at least equal to k-means levels
  without it, and within a point of k-means levels with it
Expected: 94 % for SHARP-Q and for k-means levels with the same transforms,
  93 % for k-means levels without, 90 % for SHARP-Q without; all differences
  are undecided with two seeds
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'quantization',
      'study': 'nonuniform',
      'seed': 0,
      'fast_compile': False,
      'networks': ('ssm',),
      'float_networks': 1,
      'bits': ('W2A2',),
      'methods': (
        'kmeans_recon',
        'kmeans_aligned',
        'sharp_no_transform',
        'sharp',
      ),
      'seeds': 2,
      'steps': 150,
      'calibration': 256,
      'test_pictures': 2000,
      'packed': ('kmeans_aligned', 'sharp'),
      'packed_seeds': 1,
    }
  )
  if mode == 'full':
    config.networks = ('cnn_cifar', 'vit_cifar', 'ssm_cifar')
    config.float_networks = 3
    config.bits = ('W2A2', 'W3A3')
    config.methods = (
      *('kmeans', 'apot', 'log2', 'adalog'),
      *('kmeans_recon', 'apot_recon', 'log2_recon', 'adalog_recon'),
      *('kmeans_aligned', 'sharp_no_transform', 'sharp'),
    )
    config.seeds = 5
    config.steps = 2000
    config.calibration = 1024
    config.test_pictures = 10_000
    config.packed_seeds = 5
  elif mode == 'test':
    config.fast_compile = True
    config.networks = ('cnn_tiny',)
    config.methods = ('kmeans', 'sharp')
    config.seeds = 2
    config.steps = 6
    config.calibration = 32
    config.test_pictures = 100
    config.packed = ('sharp',)
  return config
