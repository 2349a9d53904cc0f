"""How many problems of GSM8K does SmolLM2-135M solve?

Command: jaxlab run lm/gsm8k_eval
Time: about 60 s on two cores
Claims: fewer than one in ten
Expected: 20 problems leave that undecided; `full` has all 1,319. A model of
  this size does not learn them by reinforcement on two cores either. `shots`
  puts worked examples before each problem
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'lm',
      'study': 'gsm8k_eval',
      'seed': 0,
      'fast_compile': False,
      'model': 'smollm2-135m',
      'dtype': 'float32',
      'problems': 20,
      'shots': 0,
      'batch': 20,
      'temperature': 0.0,
      'max_new': 256,
    }
  )
  if mode == 'full':
    config.problems = 1319
    config.batch = 64
    config.max_new = 400
  elif mode == 'test':
    config.problems = 2
    config.batch = 2
    config.max_new = 4
  return config
