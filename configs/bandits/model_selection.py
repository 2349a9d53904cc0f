"""Which of 4,096 digit classifiers is best, with few evaluations?

Command: jaxlab run bandits/model_selection
Time: about 60 s on two cores
Claims: B3 has lower simple regret than uniform allocation, bracketing and
  anytime halving, and comes close to Sequential Halving that knows the budget
Expected: B3 is far better than uniform allocation and BSH, level with BUCB,
  doubling SH and Hyperband, and one to two accuracy points behind the methods
  that are told the budget (RESULTS.md). Good candidates are plentiful here:
  B3 with t0 = 2 takes in nearly twice as many arms as SH (1,462 against 800
  at T = 8,000) and compares them on two binary scores, which often tie.
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'bandits',
      'study': 'selection',
      'seed': 0,
      'fast_compile': True,
      'num_arms': 4096,
      'replications': 160,
      'budgets': (500, 1000, 2000, 4000, 8000),
      'claims_from': 1000,
      'max_bracket_budget': 2000,
      'max_index_budget': 2000,
    }
  )
  if mode == 'full':
    config.fast_compile = False
    config.replications = 2000
    config.budgets = (250, 500, 1000, 2000, 4000, 8000, 16000, 32000)
    config.max_bracket_budget = 32000
    config.max_index_budget = 32000
  elif mode == 'test':
    config.num_arms = 64
    config.replications = 16
    config.budgets = (50, 200)
    config.claims_from = 200
  return config
