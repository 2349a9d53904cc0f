"""Can Box Thirding be stopped at any time without a bad moment?

Command: jaxlab run bandits/b3_anytime
Time: about 30 s on two cores
Claims: the regret of B3 never jumps up while it runs; averaged over the
  stopping time it is lower than that of doubling SH, Hyperband and BSH
Expected: see RESULTS.md; one run of each method gives all 64 points. B3 and
  doubling SH are stairs: their answer stands until a better-known arm comes.
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'bandits',
      'study': 'anytime',
      'seed': 0,
      'fast_compile': True,
      'num_arms': 10000,
      'alpha': 1.0,
      'sigma': 1.0,
      'first_checkpoint': 50,
      'budget': 8000,
      'num_checkpoints': 64,
      'replications': 1000,
      'step_tolerance': 0.05,
    }
  )
  if mode == 'full':
    config.fast_compile = False
    config.budget = 32000
    config.replications = 20000
    config.step_tolerance = 0.01
  elif mode == 'test':
    config.num_arms = 200
    config.budget = 200
    config.first_checkpoint = 20
    config.num_checkpoints = 8
    config.replications = 32
  return config
