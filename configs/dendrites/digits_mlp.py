"""Do networks of neurons with dendrites learn to tell digits apart?

Command: jaxlab run dendrites/digits_mlp
Time: about 90 s on two cores
Claims: a 64-32-10 network of ball-and-stick neurons learns, also with a frozen
  read-out and not by the read-out alone, and costs at most 1.5 points against
  point neurons
Expected: no gain over point neurons or logistic regression, and a little less
  than a rate network; the local rule does as well as the exact gradient. With
  two hidden layers (`full`) dendrites lose about a point to point neurons, and
  the last claim stays undecided
"""

import ml_collections


def get_config(mode: str = '') -> ml_collections.ConfigDict:
  """Returns the settings; a mode is '', 'full' or 'test'."""
  config = ml_collections.ConfigDict(
    {
      'experiment': 'dendrites',
      'study': 'digits_mlp',
      'seed': 0,
      'fast_compile': False,
      'dataset': 'digits',  # or 'mnist', with up to 60,000 for `train`
      'train': 1437,
      'hidden': (32,),
      'segments': 4,
      'seeds': 5,
      'epochs': 10,
      'batch': 64,
      'learning_rate': 0.03,
      'final_share': 0.05,
      'clip': 1.0,
      'input_current': 0.3,
      'duration': 12.0,
      'window': 5.0,
      'dt': 0.1,
      'evaluated_at_once': 360,
    }
  )
  if mode == 'full':
    config.hidden = (32, 32)
    config.seeds = 10
  elif mode == 'test':
    config.fast_compile = True
    config.train = 256
    config.hidden = (6,)
    config.segments = 2
    config.seeds = 2
    config.epochs = 1
    config.batch = 128
    config.duration = 3.0
    config.window = 1.0
    config.dt = 0.25
    config.evaluated_at_once = 1541
  return config
