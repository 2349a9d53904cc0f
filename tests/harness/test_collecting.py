"""Batches that are made on the host from the state, one before each update."""

import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.harness import learners, training
from tests.harness import small_collect
from tests.harness.small_run import ROOT, assert_same, lines_of

# Adds the batch to the parameters, and shows both.
_ADDING = learners.Learner(
  lambda key, hyper: (jnp.zeros(2), (), None),
  lambda state, batch, key, hyper: (
    state._replace(params=state.params + batch.sum(axis=0)),
    {'loss': batch.sum()},
  ),
)


def test_sees_the_state_before_its_update():
  seen = []

  def collect(state, batch, key):
    params = np.asarray(state.params)
    seen.append((int(state.step), params, batch, jax.random.key_data(key)))
    return np.stack([params + 1, batch[:2]])

  rows = np.arange(40, dtype=np.float32).reshape(20, 2)
  state = training.fit(
    *(None, _ADDING, rows),
    batch_size=3,
    num_steps=4,
    key=0,
    collect=lambda state, batch, key: collect(state, batch.sum(axis=0), key),
  )
  assert [step for step, *_ in seen] == [0, 1, 2, 3]
  params = np.zeros(2)
  for _, found, batch, _ in seen:
    np.testing.assert_array_equal(found, params)
    params = params + (params + 1) + batch
  np.testing.assert_array_equal(state.params, params)
  assert len({tuple(key.tolist()) for *_, key in seen}) == 4


def test_drawn_batches_are_those_without_collect():
  """A function of a key is called on the host, with the key of the step."""

  def draw(key):
    return jax.random.uniform(key, (3, 2))

  options = {'num_steps': 3, 'key': 1}
  wanted = training.fit(None, _ADDING, draw, **options)
  found = training.fit(
    None, _ADDING, draw, **options, collect=lambda state, batch, key: batch
  )
  np.testing.assert_allclose(found.params, wanted.params, rtol=1e-6)


def test_killed_is_the_same(tmp_path):
  """Twenty steps, and ten, a death, and the rest in other processes."""
  wanted = small_collect.train(tmp_path / 'straight', 20)
  run = tmp_path / 'run'
  done = subprocess.run(
    [sys.executable, '-m', small_collect.__name__, str(run), '20', '13'],
    check=False,
    capture_output=True,
    text=True,
    cwd=ROOT,
  )
  assert done.returncode == -signal.SIGKILL, done.stderr
  kept = sorted(path.name for path in (run / 'checkpoints/train').iterdir())
  assert kept == ['10']
  state = small_collect.train(run, 20)
  assert_same(state, wanted)
  assert lines_of(run) == lines_of(tmp_path / 'straight')
  rewards = [line['train/reward'] for line in lines_of(run)]
  assert rewards[-1] > rewards[0] + 0.2


def test_what_is_refused():
  def collect(state, batch, key):
    return np.float32(0)

  rows = np.zeros((8, 2), np.float32)
  options = {'num_steps': 1, 'key': 0, 'batch_size': 4, 'collect': collect}
  with pytest.raises(UserError, match='collect is for one model, not for a p'):
    training.fit(None, _ADDING, rows, **options, population=2)
  with pytest.raises(UserError, match='a batch holds a scalar'):
    training.fit(None, _ADDING, rows, **options)
