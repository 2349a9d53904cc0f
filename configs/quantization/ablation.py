"""SHARP-Q without one part at a time.

Command: jaxlab run quantization/ablation
Time: about 2.5 min on two cores, half of it to compile
Claims: rectification, compensation, the Fisher form, its refreshes and gains
  with biases are each worth something; the Fisher form moves as blocks learn
Expected: without transforms 4 points less, without reconstruction 4 less;
  squared error, no refreshes, or no gains and biases do as well
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'quantization',
      'study': 'ablation',
      'seed': 0,
      'fast_compile': False,
      'networks': ('ssm',),
      'float_networks': 1,
      'bits': ('W2A2',),
      'methods': (
        *('sharp', 'har_only', 'sharp_no_transform', 'har_mse'),
        *('static_fisher', 'no_gain_bias'),
      ),
      'seeds': 2,
      'steps': 150,
      'calibration': 256,
      'test_pictures': 2000,
      'packed': (),
      'packed_seeds': 1,
    }
  )
  if mode == 'full':
    config.networks = ('cnn_cifar', 'vit_cifar', 'ssm_cifar')
    config.methods = (
      *('sharp', 'har_only', 'dfsc_only', 'har_mse', 'sharp_no_transform'),
      *('static_fisher', 'float_point', 'diag_fisher', 'sample_fisher'),
      *('no_gain_bias', 'probes_1', 'probes_2', 'probes_6'),
      *('comp_rank_8', 'comp_rank_16'),
    )
    config.seeds = 5
    config.steps = 2000
    config.calibration = 1024
    config.test_pictures = 10_000
    config.packed_seeds = 5
  elif mode == 'test':
    config.fast_compile = True
    config.networks = ('cnn_tiny',)
    config.methods = ('sharp', 'har_only', 'no_gain_bias')
    config.seeds = 2
    config.steps = 6
    config.calibration = 32
    config.test_pictures = 100
    config.packed = ('sharp',)
  return config
