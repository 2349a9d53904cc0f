"""A circuit of C. elegans: simulated, trained through weights, and weighed.

Command: jaxlab run dendrites/celegans
Time: about 100 s on two cores
Claims: voltages stay finite and in [-120, 80] mV; 30 updates of
  backpropagation through time halve the loss, for target traces and for a
  target correlation matrix; the gradient of one second of all 302 neurons
  fits 24 GiB
Expected: both losses fall about 27-fold (means over 3 teachers), the one under
  another stimulus less; weights do not approach the teacher's, for few traces
  leave them open; the plan for the worm is 0.13 GiB
"""

import ml_collections

# Sensory neurons, interneurons, command and head motor neurons.
_HEAD = (
  *('AWCL', 'AWCR', 'ASEL', 'ASER', 'AIAL', 'AIAR', 'AIYL', 'AIYR'),
  *('AIBL', 'AIBR', 'AIZL', 'AIZR', 'RIAL', 'RIAR', 'RIML', 'RIMR'),
  *('RIBL', 'RIBR', 'AVAL', 'AVAR', 'AVBL', 'AVBR', 'AVEL', 'AVER'),
  *('SMDDL', 'SMDDR', 'SMDVL', 'SMDVR', 'RMEL', 'RMER'),
)


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'dendrites',
      'study': 'celegans',
      'seed': 0,
      'fast_compile': False,
      # Neurons; () is all 302.
      'neurons': _HEAD,
      # Longest segment in um; 0 takes the numbers of the source.
      'max_len': 0.0,
      # Neurons that inhibit; () draws this share by the seed.
      'inhibitory': (),
      'inhibitory_fraction': 0.3,
      # Of synapses and junctions: nearest, soma or random.
      'place': 'nearest',
      'v0': -65.0,
      'dt': 0.1,
      # Times in ms, current in nA; a window is what is trained on.
      't_max': 50.0,
      'window': 50.0,
      'every': 10,
      'driven': _HEAD[:4],
      'amplitude': 0.05,
      'onset': 2.0,
      'spacing': 8.0,
      'duration': 20.0,
      # Neurons that have a target; () is all.
      'targets': _HEAD[18:],
      'goals': ('traces', 'correlations'),
      'updates': 30,
      'learning_rate': 0.1,
      'seeds': 3,
    }
  )
  if mode == 'full':
    config.neurons = ()
    config.t_max = 1000.0
  elif mode == 'test':
    config.fast_compile = True
    config.neurons = ('AWCL', 'AWCR', 'ASEL', 'ASER')
    config.driven = ('ASEL',)
    config.targets = ('AWCL', 'AWCR')
    config.max_len = 1000.0
    config.t_max = 4.0
    config.window = 2.0
    config.onset = 0.2
    config.every = 2
    config.amplitude = 0.1
    config.updates = 4
    config.seeds = 2
  return config
