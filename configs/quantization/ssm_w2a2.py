"""Two-bit weights and activations: a vision network of state spaces.

Command: jaxlab run quantization/ssm_w2a2
Time: about 2 min on two cores, half of it to compile
Claims: SHARP-Q is 20 points ahead of rounding to nearest and ahead of
  QDrop; transforms help on unseen pictures; packed integers give the same
  classes
Expected: 95 % for SHARP-Q, 92 % for k-means levels, 85 % for QDrop and 52 % for
  rounding to nearest
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'quantization',
      'study': 'accuracy',
      'seed': 0,
      'fast_compile': False,
      'networks': ('ssm',),
      'float_networks': 1,
      'bits': ('W2A2',),
      'methods': ('rtn_mse', 'qdrop', 'kmeans_recon', 'sharp'),
      'seeds': 3,
      'steps': 150,
      'calibration': 256,
      'test_pictures': 2000,
      'packed': ('rtn_mse', 'sharp'),
      'packed_seeds': 1,
    }
  )
  if mode == 'full':
    config.networks = ('ssm_cifar',)
    config.float_networks = 3
    config.bits = ('W2A2', 'W3A3', 'W4A4')
    config.methods = (
      *('rtn_minmax', 'rtn_mse', 'smoothquant', 'hadamard', 'hadamard_gptq'),
      *('gptq', 'adaround', 'brecq', 'qdrop', 'aphq', 'fima_q'),
      *('ptq4vit', 'repq_vit'),
      *('kmeans', 'kmeans_recon', 'sharp', 'sharp_select'),
    )
    config.seeds = 5
    config.steps = 2000
    config.calibration = 1024
    config.test_pictures = 10_000
    config.packed_seeds = 5
  elif mode == 'test':
    config.fast_compile = True
    config.networks = ('ssm_tiny',)
    config.methods = ('rtn_mse', 'sharp')
    config.seeds = 2
    config.steps = 6
    config.calibration = 32
    config.test_pictures = 100
    config.packed = ('sharp',)
  return config
