"""Which quadratic form foresees what rounding does to the output?

Command: jaxlab run quantization/fidelity
Time: about 100 s on two cores
Claims: the Fisher matrix along the path orders pictures better than diagonal
  forms, on every block
Expected: at three bits 0.96 to 1.00 against 0.77 to 0.81 for the diagonals; the
  squared error knows next to nothing of the first blocks
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'quantization',
      'study': 'fidelity',
      'seed': 0,
      'fast_compile': False,
      'networks': ('cnn',),
      'bits': ('W2A2', 'W3A3'),
      'seeds': 8,
      'calibration': 256,
      'test_pictures': 2000,
    }
  )
  if mode == 'full':
    config.networks = (
      'cnn',
      'vit',
      'ssm',
      'cnn_cifar',
      'vit_cifar',
      'ssm_cifar',
    )
    config.seeds = 10
    config.calibration = 1024
  elif mode == 'test':
    config.fast_compile = True
    config.networks = ('cnn_tiny',)
    config.bits = ('W2A2',)
    config.seeds = 2
    config.calibration = 32
    config.test_pictures = 100
  return config
