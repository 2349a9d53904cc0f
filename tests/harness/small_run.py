"""A small regression that tests train, here or as a program of its own.

python small_run.py FOLDER '{"num_steps": 20, "checkpoint_every": 10}'
"""

import json
import os
import pathlib
import signal
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlab import parallel
from jaxlab.data import pipeline
from jaxlab.harness import learners, training, workdir

ROOT = pathlib.Path(__file__).parents[2]

_RNG = np.random.default_rng(5)
X = _RNG.normal(size=(60, 8)).astype(np.float32)
Y = np.sin(X @ _RNG.normal(size=(8, 4))).astype(np.float32)
DATA = {'x': X, 'y': Y}


def init_fn(key: jax.Array) -> dict[str, jax.Array]:
  """Two layers of eight units."""
  first, second = jax.random.split(key)
  return {
    'w1': jax.random.normal(first, (8, 8)) / 3,
    'b1': jnp.zeros(8),
    'w2': jax.random.normal(second, (8, 4)) / 3,
  }


def loss_fn(params, batch, key, hyper=None):
  """Squared error with a little noise on the inputs."""
  noise = 0.0 if hyper is None else hyper.get('noise', 0.0)
  x = batch['x'] + noise * jax.random.normal(key, batch['x'].shape)
  hidden = jnp.tanh(x @ params['w1'] + params['b1'])
  error = hidden @ params['w2'] - batch['y']
  return jnp.mean(error**2), {'largest': jnp.max(jnp.abs(error))}


def learner(**options: Any) -> learners.Learner:
  """Adam on the two layers."""
  return learners.gradient_learner(
    init_fn, loss_fn, optax.adam(0.01), **options
  )


def open_workdir(path: pathlib.Path) -> workdir.Workdir:
  """Opens the folder of a run whose settings do not matter."""
  return workdir.Workdir.open(path, config={'seed': 0}, name='small')


def train(path: pathlib.Path, **options: Any) -> learners.TrainState:
  """Trains in a folder; batches of 16 rows unless told otherwise."""
  made = learner(accumulate=options.pop('accumulate', 1))
  options = {'key': 3, 'log_every': 2, **options}
  if options.pop('grain', False):
    share = (jax.process_index(), jax.process_count())
    options['batches'] = pipeline.batches(DATA, 16, seed=1, shard=share)
  else:
    options.setdefault('batch_size', 16)
    options.setdefault('batches', DATA)
  with open_workdir(path) as folder:
    return training.fit(folder, made, options.pop('batches'), **options)


def fit(batches: Any = None, made: Any = None, **options: Any) -> Any:
  """Trains without a folder, as `train` does otherwise."""
  options = {'key': 3, 'num_steps': 6, **options}
  if batches is None:
    batches, options = DATA, {'batch_size': 16, **options}
  return training.fit(None, made or learner(), batches, **options)


def lines_of(folder: pathlib.Path) -> list[dict[str, Any]]:
  """Returns the lines of metrics of a run."""
  return [json.loads(x) for x in (folder / 'metrics.jsonl').open()]


def assert_same(tree: Any, other: Any, tolerance: float = 0.0) -> None:
  """Compares two states or parts of them, keys too."""

  def check(a, b):
    if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
      a, b = jax.random.key_data(a), jax.random.key_data(b)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)

  jax.tree.map(check, tree, other)


def main(folder: str, text: str) -> None:
  """Trains as the JSON says; `kill_at` is the step at which it dies."""
  options = json.loads(text)
  parallel.initialize()
  death = options.pop('kill_at', None)
  if death is not None:
    options['eval_every'] = 1
    options['eval_fn'] = lambda state: _die(int(state.step) == death)
  state = train(pathlib.Path(folder), **options)
  params = parallel.gather(state.params)
  if jax.process_index() == 0:
    np.savez(f'{folder}.npz', **params)


def _die(now: bool) -> dict[str, float]:
  if now:
    os.kill(os.getpid(), signal.SIGKILL)
  return {'alive': 1.0}


if __name__ == '__main__':
  main(*sys.argv[1:])
