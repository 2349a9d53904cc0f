"""Do verifiable rewards mend what noisy demonstrations have taught?

Command: jaxlab run lm/grpo_addition
Time: about 135 s on two cores
Claims: GRPO with a verifier raises the share of sampled sums that are right,
  greedy ones lose less than 5 points, and as many rewards given at random do
  worse
Expected: 15 % of the demonstrations' digits are wrong, so that the model
  knows more than it says: greedy answers are mostly right from the start
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'lm',
      'study': 'grpo_addition',
      'seed': 0,
      'fast_compile': False,
      'seeds': 3,
      'digits': 2,
      'train': 8000,
      'test': 500,
      'layers': 2,
      'width': 64,
      'heads': 4,
      'sft_steps': 900,
      'sft_batch': 128,
      'sft_learning_rate': 3e-3,
      'corrupt': 0.15,
      # Reinforcement learning: `prompts` x `group` completions a step.
      'arms': ('verifier', 'random'),
      'prompts': 16,
      'group': 8,
      'rl_steps': 150,
      'rl_learning_rate': 2e-4,
      'warmup': 10,
      'clip': 1.0,
      'beta': 0.0,
      'adv': 'grpo',
      'aggregation': 'token',
    }
  )
  if mode == 'full':
    config.seeds = 10
    config.rl_steps = 1000
  elif mode == 'test':
    config.fast_compile = True
    config.seeds = 2
    config.digits = 1
    config.train = 60
    config.test = 8
    config.layers = 1
    config.width = 16
    config.heads = 2
    config.sft_steps = 3
    config.sft_batch = 16
    config.prompts = 4
    config.group = 2
    config.rl_steps = 3
    config.warmup = 1
  return config
