"""Which parts of Box Thirding matter, and how sensitive is it to t0 and r?

Command: jaxlab run bandits/b3_ablation
Time: about 60 s on two cores, nearly all of it compilation
Claims: reusing the pulls of lifted arms helps, the growth r = 1.7282 is near
  the best, recommending the largest mean of all arms does not work
Expected: see RESULTS.md. The variants share all replications; the pool is
  contest 651, or arms drawn with the same mean and spread where it is missing.
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'bandits',
      'study': 'ablation',
      'seed': 0,
      'fast_compile': True,
      'contest': '651',
      'num_arms': 0,  # of the synthetic pool; 0 for as many as contest 651
      'regimes': ('high',),
      'budgets': (500, 2000, 8000),
      'replications': 1000,
      'base_pulls': (1, 2, 4, 8),
      'growths': (1.4, 1.728, 1.9),
      'full_grid': False,
      'max_reuse_t0': 8,
      'growth_tolerance': 0.01,
    }
  )
  if mode == 'full':
    config.fast_compile = False
    config.regimes = ('high', 'moderate')
    config.base_pulls = (1, 2, 4, 8, 16)
    config.growths = (1.2, 1.4, 1.587, 1.728, 1.9)
    config.replications = 4000
    config.full_grid = True
  elif mode == 'test':
    config.contest = 'synthetic'
    config.num_arms = 150
    config.budgets = (30, 90)
    config.replications = 32
    config.base_pulls = (2,)
    config.growths = (1.728, 1.9)
  return config
