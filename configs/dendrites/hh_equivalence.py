"""Runs of three cells beside NEURON's, and the order of convergence.

Command: jaxlab run dendrites/hh_equivalence
Time: about 40 s on two cores; needs NEURON (`pip install 'jaxlab[neuron]'`)
Claims: voltages equal NEURON's to 1e-6 mV, spikes fall into the same steps;
  implicit Euler has order 1, Crank-Nicolson order 2
Expected: over 50 ms (`full`) differences grow with every spike, to 5e-5 mV
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'dendrites',
      'study': 'hh_equivalence',
      'seed': 0,
      'fast_compile': False,
      'seeds': 5,
      't_max': 10.0,
      'dt': 0.025,
      'max_len': 40.0,
      'order_time': 6.4,
      'order_dts': (0.04, 0.02, 0.01, 0.005),
    }
  )
  if mode == 'full':
    config.seeds = 20
    config.t_max = 50.0
  elif mode == 'test':
    config.seeds = 2
    config.t_max = 1.0
    config.max_len = 200.0
    config.order_time = 0.8
    config.order_dts = (0.04, 0.02)
  return config
