"""Do the logits of Gemma 3 270M equal those of an oracle?

Command: jaxlab run lm/parity_gemma3
Time: about 60 s on two cores
Claims: the largest difference of a logit in a prompt is below 2e-3, the
  divergence below 1e-6 nats, and the likeliest token is the same wherever the
  oracle is clear
Expected: `jaxlab data prepare gemma3-270m` installs the model once. The oracle
  is our NumPy forward pass in float64; --config.oracle=transformers is
  PyTorch's (pip install torch transformers)
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'lm',
      'study': 'parity',
      'seed': 0,
      'fast_compile': True,
      'model': 'gemma3-270m',
      'oracle': 'float64',
      'prompts': 12,  # of the twelve; the longest is always among them
    }
  )
  if mode == 'full':
    config.oracle = 'transformers'
  elif mode == 'test':
    config.prompts = 2
  return config
