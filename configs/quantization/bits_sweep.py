"""Accuracy against bit-widths, for every method.

Command: jaxlab run quantization/bits_sweep
Time: about 2.5 min on two cores, most of it to compile
Claims: SHARP-Q is 30 points ahead of rounding to nearest at two bits; eight
  bits need no method; in `full` it is not behind k-means levels at three
Expected: with two bits SHARP-Q depends on the calibration pictures (64 to 92 %
  on this network), from three bits on it does not; eight bits cost nothing
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'quantization',
      'study': 'bits_sweep',
      'seed': 0,
      'fast_compile': False,
      'networks': ('cnn_even',),
      'float_networks': 1,
      'bits': ('W2A2', 'W3A3', 'W4A4', 'W8A8'),
      'methods': ('rtn_minmax', 'rtn_mse', 'sharp'),
      'seeds': 3,
      'steps': 150,
      'calibration': 256,
      'test_pictures': 2000,
      'packed': ('rtn_mse', 'sharp'),
      'packed_seeds': 1,
    }
  )
  if mode == 'full':
    config.networks = ('cnn_cifar', 'vit_cifar', 'ssm_cifar')
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
    config.networks = ('cnn_tiny',)
    config.bits = ('W2A2', 'W8A8')
    config.methods = ('rtn_minmax', 'rtn_mse')
    config.seeds = 2
    config.steps = 6
    config.calibration = 32
    config.test_pictures = 100
    config.packed = ('sharp',)
  return config
