"""A process that trains some trials of a search: `LANES TRIALS EPOCHS`.

Prints the Euclidean norm of the parameters of each trained network as JSON.
"""

import json
import os
import sys

import jax
import ml_collections
import numpy as np
import optax

from jaxlab.certified import experiment_problem, experiment_training
from jaxlab.certified.search_space import published
from jaxlab.harness import startup

METHOD = 'ibp'
_EPS = 0.1


def environment() -> dict[str, str]:
  """Variables of a process that compiles as if it were the first one."""
  return os.environ | {'JAX_ENABLE_COMPILATION_CACHE': 'false'}


def main() -> None:
  """Trains the digits' MLP, `LANES` trials at a time."""
  lanes, trials, epochs = map(int, sys.argv[1:])
  jax.config.update('jax_num_cpu_devices', startup.cores())
  config = ml_collections.ConfigDict(
    {
      'pictures': 'digits',
      'network': 'mlp',
      'width': 100,
      'train': 1000,
      'validation': 300,
      'test': 497,
      'lanes': lanes,
      'batch_size': 100,
      'epochs': epochs,
      'attack_steps': 3,
      'checkpoint_every': 0,
    }
  )
  setting = published(METHOD, 'digits')['published'].values
  rates = np.geomspace(1e-3, 2e-3, trials)
  problem = experiment_problem.load(config)
  norms = []
  for start in range(0, trials, lanes):
    settings = [
      {**setting, 'learning_rate': rate}
      for rate in rates[start : start + lanes].tolist()
    ]
    found = experiment_training.train(
      *(problem, config, METHOD, _EPS, settings, jax.random.key(0))
    )
    norms += [float(optax.global_norm(params)) for params in found]
  print(json.dumps(norms))


if __name__ == '__main__':
  main()
