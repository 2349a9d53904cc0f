"""How many tokens a second does SmolLM2-135M draw, beside other programs?

Command: jaxlab run lm/sample_speed
Time: about 85 s on two cores; with both peers about 4.5 min
Claims: none; a table and a figure
Expected: `jaxlab data prepare smollm2-135m` installs the model once. A peer
  that is not installed (pip install torch transformers xllamacpp) is named in
  the table. llama.cpp multiplies packed weights of 4 bits, the others float32
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'lm',
      'study': 'sample_speed',
      'seed': 0,
      'fast_compile': False,
      'model': 'smollm2-135m',
      'dtype': 'float32',
      'peers': ('transformers', 'xllamacpp'),
      'batches': (1, 8, 32),
      'prompt': 64,
      'new': 64,
      'repeats': 3,
    }
  )
  if mode == 'full':
    config.batches = (1, 2, 4, 8, 16, 32, 64, 128)
    config.new = 256
  elif mode == 'test':
    config.peers = ()
    config.batches = (1, 2)
    config.prompt = 4
    config.new = 2
    config.repeats = 1
  return config
