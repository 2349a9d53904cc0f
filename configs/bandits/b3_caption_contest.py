"""Which of thousands of cartoon captions is the funniest, with few votes?

Command: jaxlab run bandits/b3_caption_contest
Time: about 2 minutes on two cores
Claims: B3 has lower simple regret than uniform allocation and BSH under noise
  and stays within .01 of Sequential Halving that knows the budget
Expected: see RESULTS.md. t0 = 2 was fixed before contests 690 and 540 were
  looked at; contest 651 served to choose it.
Data: jaxlab data prepare caption_contest --manual_dir=DIR
"""

import ml_collections

_ALL = (
  '510_LilUCB',
  '510_RoundRobin',
  '540',
  '558',
  '559',
  '560',
  '587',
  '600',
  '619',
  '651',
  '671',
  '690',
  '691',
)


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'bandits',
      'study': 'caption',
      'seed': 0,
      'fast_compile': True,
      'contests': ('651', '690', '540'),
      'regimes': ('high', 'moderate', 'deterministic'),
      'replications': 300,
      'budgets': (250, 500, 1000, 2000, 4000, 8000, 16000, 32000),
      'max_ratio': 3.5,  # pulls per caption
      'eps': (0.02, 0.05, 0.1),
      'claims_from': 2000,
      'methods': (
        'B3',
        'Uniform',
        'SH (knows T)',
        'Doubling SH',
        'Hyperband',
        'BSH',
        'BUCB',
      ),
      'all_baselines': False,
      'bucb_regimes': ('high',),
      'max_bracket_budget': 2000,
      'max_bsh_budget': 8000,
      'max_index_budget': 0,
    }
  )
  if mode == 'full':
    config.fast_compile = False
    config.contests = _ALL
    config.replications = 2000
    config.all_baselines = True
    config.bucb_regimes = ('high', 'moderate', 'deterministic')
    config.max_bracket_budget = 32000
    config.max_bsh_budget = 32000
    config.max_index_budget = 32000
  elif mode == 'test':
    config.contests = ('559',)
    config.regimes = ('high', 'deterministic')
    config.replications = 16
    config.budgets = (50, 200)
    config.claims_from = 200
    config.methods = ('B3', 'Uniform', 'SH (knows T)', 'Doubling SH', 'BSH')
  return config
