"""The solver on random instances, and what one threshold keeps.

Command: jaxlab run fairness/sufficiency_synthetic
Time: about 60 s on two cores
Claims: no rule of equal PPV and FOR has a lower loss; the rule closest to
  separation often costs little more; one threshold keeps independence and
  separation but not sufficiency
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'fairness',
      'study': 'synthetic',
      'seed': 0,
      'fast_compile': True,
      'groups': (2, 3, 5),
      'sizes': ((2, 8), (10, 50)),
      'instances': 1000,
      'programs': 200,
      'grid': 400,
      'criteria_instances': 1000,
      'criteria_groups': 3,
      'criteria_atoms': 20,
    }
  )
  if mode == 'full':
    config.fast_compile = False
    config.instances = 20_000
    config.programs = 2000
    config.grid = 2000
    config.criteria_instances = 20_000
  elif mode == 'test':
    config.groups = (2,)
    config.sizes = ((2, 8),)
    config.instances = 24
    config.programs = 4
    config.grid = 40
    config.criteria_instances = 16
  return config
