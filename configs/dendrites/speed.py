"""What a step of a neuron costs, forward and with its gradient.

Command: jaxlab run dendrites/speed
Time: about 2 min on two cores, both of which it times
Claims: the cost is linear in compartments, cells and steps; a gradient costs
  at most 5 forward runs; both take less CPU time than NEURON and Jaxley, where
  these are installed
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'dendrites',
      'study': 'speed',
      'seed': 0,
      'fast_compile': False,
      'cell': 'ca1_n120',
      'max_len': 40.0,
      'repeats': 7,
      'batches': (1, 64, 1024),
      'batch_steps': (400, 100, 40),
      'sweep_cells': 64,
      'sweep_steps': 40,
      'max_lens': (80.0, 28.0, 10.0),
      'cells': (64, 192, 512),
      'steps': (50, 150, 450),
      'peers': True,
      'peer_steps': 100,
      'neuron_cells': (1, 64),
    }
  )
  if mode == 'full':
    config.repeats = 25
    config.batch_steps = (400, 400, 400)
    config.max_lens = (160.0, 80.0, 40.0, 20.0, 10.0, 5.0)
    config.cells = (64, 128, 256, 512, 1024, 4096)
    config.steps = (100, 200, 400, 800, 1600, 3200)
    config.peer_steps = 400
  elif mode == 'test':
    config.cell = '3_types'
    config.max_len = 1.0
    config.repeats = 3
    config.batches = (1, 2)
    config.batch_steps = (8, 4)
    config.sweep_cells = 2
    config.sweep_steps = 4
    config.max_lens = (4.0, 0.5)
    config.cells = (2, 8)
    config.steps = (4, 16)
    config.peer_steps = 160
    config.neuron_cells = (1,)
  return config
