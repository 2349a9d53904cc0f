"""Do the logits of SmolLM2-135M equal those of an oracle?

Command: jaxlab run lm/parity_smollm2
Time: about 30 s on two cores
Claims: the largest difference of a logit in a prompt is below 2e-3, the
  divergence below 1e-6 nats, and the likeliest token is the same wherever the
  oracle is clear
Expected: `jaxlab data prepare smollm2-135m` installs the model once. The oracle
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
      'model': 'smollm2-135m',
      'oracle': 'float64',
      'prompts': 12,  # of the twelve; the longest is always among them
    }
  )
  if mode == 'full':
    config.oracle = 'transformers'
  elif mode == 'test':
    config.prompts = 2
  return config
