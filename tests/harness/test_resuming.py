"""Runs that are killed, stopped, damaged or moved to other devices."""

import functools
import gc
import json
import signal
import socket
import subprocess
import sys

import grain
import jax
import jax.numpy as jnp
import pytest

from jaxlab.errors import UserError
from jaxlab.harness import training
from tests.harness import small_run
from tests.harness.small_run import DATA, assert_same, fit, lines_of
from tests.test_parallel import run_python

# Reading damaged files leaves errors of orbax's threads to the collector.
pytestmark = pytest.mark.filterwarnings(
  'ignore::pytest.PytestUnraisableExceptionWarning'
)


@pytest.fixture(scope='module')
def straight(tmp_path_factory):
  """40 steps without interruption."""
  folder = tmp_path_factory.mktemp('straight')
  state = small_run.train(
    folder, num_steps=40, checkpoint_every=10, log_every=3, grain=True
  )
  return folder, state


def start(folder, **options):
  program = [sys.executable, small_run.__file__, str(folder)]
  done = subprocess.run(
    [*program, json.dumps(options)],
    check=False,
    capture_output=True,
    text=True,
    cwd=small_run.ROOT,
  )
  return done.returncode, done.stderr


def test_killed_twice_is_the_same(straight, tmp_path, capsys):
  folder, wanted = straight
  run = tmp_path / 'run'
  options = {'num_steps': 40, 'checkpoint_every': 10, 'log_every': 3}
  for death in (21, 34):
    code, err = start(run, **options, grain=True, kill_at=death)
    assert code == -signal.SIGKILL, err
    assert not (tmp_path / 'run.npz').exists()
    assert ('goes on from step ' in err) == (death == 34)
  state = small_run.train(run, **options, grain=True)
  assert 'train goes on from step ' in capsys.readouterr().err
  assert_same(state, wanted)
  assert [x for x in lines_of(run) if 'train/loss' in x] == lines_of(folder)
  steps = [x['step'] for x in lines_of(run) if 'train/loss' in x]
  assert steps == [*range(3, 40, 3), 40]


class _StopError(BaseException):
  pass


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_signal_saves_and_goes_on(straight, tmp_path, capsys, number):
  def stop(*_):
    raise _StopError

  folder, wanted = straight
  options = {'num_steps': 40, 'log_every': 3, 'grain': True}
  before = signal.signal(number, stop)
  try:
    with pytest.raises(_StopError):
      small_run.train(
        tmp_path,
        **options,
        eval_every=17,
        eval_fn=lambda state: signal.raise_signal(number) or {'a': 0.0},
      )
    assert signal.getsignal(number) is stop
  finally:
    signal.signal(number, before)
  assert 'stopping after this step' in capsys.readouterr().err
  assert (tmp_path / 'checkpoints' / 'train' / '17').exists()
  state = small_run.train(tmp_path, **options)
  assert_same(state, wanted)
  assert [x for x in lines_of(tmp_path) if 'train/loss' in x] == lines_of(
    folder
  )


def test_finished_run_trains_no_more(straight):
  folder, wanted = straight
  state = small_run.train(folder, num_steps=40, log_every=3, grain=True)
  assert_same(state, wanted)
  assert [x['step'] for x in lines_of(folder)] == [*range(3, 40, 3), 40]


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')
def test_torn_last_step_falls_back_and_says_so(tmp_path, capsys):
  train = functools.partial(small_run.train, tmp_path, checkpoint_every=4)
  train(num_steps=8)
  torn = tmp_path / 'checkpoints' / 'train' / '8' / 'arrays'
  for path in (torn / 'd').iterdir():
    path.write_bytes(path.read_bytes()[:20])
  state = train(num_steps=10)
  gc.collect()
  err = capsys.readouterr().err
  assert 'step 8' in err
  assert 'is damaged' in err
  assert_same(state, fit(num_steps=10))
  assert [x['step'] for x in lines_of(tmp_path)] == [2, 4, 6, 8, 10]


def test_another_key_is_refused(tmp_path):
  small_run.train(tmp_path, num_steps=2)
  with pytest.raises(UserError, match='another key'):
    small_run.train(tmp_path, num_steps=4, key=4)


_DEVICES = """
import functools, json, pathlib, tempfile
import jax, numpy as np
from jaxlab import parallel
from tests.harness import small_run

folder = pathlib.Path(tempfile.mkdtemp())
one, two, all_ = (parallel.mesh(devices=jax.devices()[:n]) for n in (1, 2, 8))

def train(name, **options):
  return small_run.train(folder / name, **options)

def host(tree):
  return jax.tree.map(np.asarray, tree)

wanted = host(train('one', num_steps=12, mesh=one).params)

def error(state):
  difference = jax.tree.map(
    lambda a, b: float(np.abs(np.asarray(a) - b).max()), state.params, wanted
  )
  return max(jax.tree.leaves(difference))

def shards(state):
  return {
    k: v.addressable_shards[0].data.shape for k, v in state.params.items()
  }

result = {'data': error(train('data', num_steps=12, mesh=all_))}
fsdp = train('fsdp', num_steps=12, mesh=all_, shard_params=True)
result['fsdp'] = error(fsdp)
result['shards'] = shards(fsdp)
result['moments'] = fsdp.opt_state[0].mu['w1'].addressable_shards[0].data.shape
parts = train('parts', num_steps=12, mesh=all_, shard_params=True, accumulate=2)
result['accumulate'] = error(parts)
train('moved', num_steps=4, mesh=one)
train('moved', num_steps=8, mesh=all_, shard_params=True)
moved = train('moved', num_steps=12, mesh=two, shard_params=True)
result['moved'] = error(moved)
result['moved_shards'] = shards(moved)
lines = [json.loads(x) for x in (folder / 'moved' / 'metrics.jsonl').open()]
result['steps'] = [line['step'] for line in lines]
members = {
  m.size: host(train(f'p{m.size}', num_steps=3, population=8, mesh=m).params)
  for m in (one, all_)
}
result['population'] = max(jax.tree.leaves(jax.tree.map(
  lambda a, b: float(np.abs(a - b).max()), members[1], members[8])))
print(json.dumps(result))
"""


def test_devices_do_not_matter():
  [printed] = run_python(_DEVICES, devices=8)
  result = json.loads(printed)
  for case in ('data', 'fsdp', 'accumulate', 'moved', 'population'):
    assert result[case] < 1e-6, (case, result)
  assert result['shards'] == {'w1': [1, 8], 'b1': [1], 'w2': [1, 4]}
  assert result['moments'] == [1, 8]
  assert result['moved_shards'] == {'w1': [4, 8], 'b1': [4], 'w2': [4, 4]}
  assert result['steps'] == [2, 4, 6, 8, 10, 12]


_HOSTS = """
import os, pathlib
from jaxlab import parallel
from tests.harness import small_run

parallel.initialize()
small_run.train(
  pathlib.Path(os.environ['FOLDER']), num_steps=6, grain=True,
  shard_params=True, checkpoint_every=4,
)
"""


def test_two_hosts_then_one(tmp_path):
  """Parameters spread over two processes, each with half of the rows."""
  with socket.socket() as free:
    free.bind(('localhost', 0))
    port = free.getsockname()[1]
  run_python(
    _HOSTS,
    processes=2,
    JAX_COORDINATOR_ADDRESS=f'localhost:{port}',
    JAX_NUM_PROCESSES='2',
    JAX_PROCESS_ID='{rank}',
    FOLDER=str(tmp_path / 'two'),
  )
  moved, wanted = (
    small_run.train(tmp_path / name, num_steps=10, grain=True)
    for name in ('two', 'one')
  )
  assert_same(moved.params, wanted.params, 1e-6)
  steps = [x['step'] for x in lines_of(tmp_path / 'two')]
  assert steps == [2, 4, 6, 8, 10]


def test_double_precision(tmp_path):
  train = functools.partial(small_run.train, tmp_path, checkpoint_every=2)
  with jax.enable_x64(True):
    state = train(num_steps=2)
    state = train(num_steps=4)
    assert state.params['w1'].dtype == jnp.float64
    # Accumulated means of float64 data stay float64.
    assert state.opt_state[0].mu['b1'].dtype == jnp.float64
  message = r'params.b1 is float64\[8\] there and float32\[8\] here'
  with pytest.raises(UserError, match=message):
    train(num_steps=6)


def test_best_state_is_kept(tmp_path):
  scores = [0.0, 3, 1, 2, 9, 4, 5]
  folder = tmp_path / 'run'
  train = functools.partial(
    small_run.train,
    folder,
    eval_fn=lambda state: {'score': scores[int(state.step)]},
    eval_every=1,
    keep_last=1,
    keep_best=('score', 'min'),
  )
  seen = small_run.train(tmp_path / 'other', num_steps=2)
  train(num_steps=4)
  state = train(num_steps=6)
  kept = sorted(p.name for p in (folder / 'checkpoints/train').iterdir())
  assert kept == ['2', '6']
  with small_run.open_workdir(folder) as opened:
    best = training.best(opened, state, 'min')
  assert_same(best.params, seen.params)
  evaluated = [x for x in lines_of(folder) if 'train/eval/score' in x]
  assert [x['train/eval/score'] for x in evaluated] == scores[1:]


def test_loader_is_read_on(tmp_path):
  """A DataLoader, whose position is opaque."""
  rows = [{'x': x, 'y': y} for x, y in zip(*DATA.values(), strict=True)]
  options = {'batch_size': None, 'checkpoint_every': 5}

  def loader():
    return grain.load(
      rows, num_epochs=None, shuffle=True, seed=1, batch_size=16
    )

  for num_steps in (5, 10):
    moved = small_run.train(
      tmp_path, num_steps=num_steps, batches=loader(), **options
    )
  assert_same(moved.params, fit(loader(), num_steps=10).params)
