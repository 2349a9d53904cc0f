"""EfficientNet-Lite0 with real weights, on photographs.

Command: jaxlab run quantization/pretrained_effnet
Time: about 3 min on two cores, most of it to compile
Claims: eight bits keep the class on four of five crops; at fewer bits better
  grids come closer to the float network
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'quantization',
      'study': 'pretrained_effnet',
      'seed': 0,
      'fast_compile': False,
      'bits': ('W8A8', 'W4A8'),
      'methods': ('rtn_minmax', 'rtn_mse'),
      'steps': 150,
      'calibration': 32,
      'crops': 40,
      'image_size': 224,
      'imagenet': '',  # or your folder of pictures, one for each class
      'imagenet_split': 'val',
      'imagenet_index': '',
      'per_class': 0,
    }
  )
  if mode == 'full':
    config.bits = ('W8A8', 'W4A8', 'W4A4', 'W3A3')
    config.methods = (
      'rtn_minmax',
      'rtn_mse',
      'gptq',
      'qdrop',
      'har_only',
      'sharp',
    )
    config.steps = 2000
    config.calibration = 256
    config.crops = 200
  elif mode == 'test':
    config.fast_compile = True
    config.bits = ('W8A8',)
    config.methods = ('rtn_minmax',)
    config.calibration = 16
    config.crops = 8
    config.image_size = 32
  return config
