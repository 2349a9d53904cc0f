"""A language model answers a prompt.

Command: jaxlab run lm/chat --config.prompt="Why is the sky blue?"
Time: about 20 s on two cores
Claims: none; shows the answer of a public model while it is drawn
Expected: `jaxlab data prepare smollm2-135m` installs the model once. It has
  135 million parameters: it writes well and knows little. Another `prompt`,
  `seed` or `temperature` is another run
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'lm',
      'study': 'chat',
      'seed': 0,
      'fast_compile': False,
      # A package's name, a GGUF file, or a folder of the Hugging Face hub.
      'model': 'smollm2-135m',
      'dtype': 'float32',
      'prompt': 'What is the capital of France, and what is it famous for?',
      'system': '',
      'chat': True,  # False continues the prompt without a template
      'temperature': 0.2,
      'top_k': 0,
      'top_p': 0.9,
      'max_new': 200,
    }
  )
  if mode == 'full':
    config.max_new = 1000
  elif mode == 'test':
    config.max_new = 4
  return config
