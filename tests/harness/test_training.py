import functools
import json
import signal
import subprocess
import sys

import grain
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlab import parallel
from jaxlab.data import pipeline
from jaxlab.errors import UserError
from jaxlab.harness import learners, progress, training
from tests.harness import small_run
from tests.test_parallel import run_python

DATA = small_run.DATA


def fit(batches=None, learner=None, **options):
  """Trains without a folder."""
  options = {'key': 3, 'num_steps': 6, **options}
  if batches is None:
    batches, options = DATA, {'batch_size': 16, **options}
  return training.fit(None, learner or small_run.learner(), batches, **options)


def lines_of(folder):
  return [json.loads(x) for x in (folder / 'metrics.jsonl').open()]


def assert_same(tree, other, tolerance=0.0):
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=0, atol=tolerance),
    parallel.gather(tree),
    parallel.gather(other),
  )


@pytest.fixture(scope='module')
def straight(tmp_path_factory):
  """40 steps without interruption."""
  folder = tmp_path_factory.mktemp('straight')
  state = small_run.train(
    folder, num_steps=40, checkpoint_every=10, log_every=3, grain=True
  )
  return folder, state


# -- what a step is


def test_equals_a_plain_loop():
  """Rows of 30 in order, three batches an epoch, against optax by hand."""
  x, y = small_run.X[:48], small_run.Y[:48]
  batches = pipeline.batches({'x': x, 'y': y}, 16, seed=0, shuffle=False)
  state = fit(batches, num_steps=7)
  init_key, _, _ = jax.random.split(jax.random.key(3), 3)
  params = small_run.init_fn(init_key)
  optimizer = optax.adam(0.01)
  opt_state = optimizer.init(params)
  for step in range(7):
    rows = slice(16 * (step % 3), 16 * (step % 3) + 16)
    batch = {'x': x[rows], 'y': y[rows]}
    grads, _ = jax.grad(small_run.loss_fn, has_aux=True)(
      params, batch, jax.random.key(0)
    )
    updates, opt_state = optimizer.update(grads, opt_state)
    params = optax.apply_updates(params, updates)
  assert int(state.step) == 7
  assert_same(state.params, params, 1e-6)
  assert_same(state.opt_state, opt_state, 1e-6)


def test_every_row_once_an_epoch():
  """A learner of one's own that counts rows; 60 rows in batches of 8."""
  learner = learners.Learner(
    lambda key, hyper: (jnp.zeros(60), (), None),
    lambda state, batch, key, hyper: (
      state._replace(params=state.params.at[batch].add(1)),
      {'loss': 0.0},
    ),
  )
  train = functools.partial(
    fit, np.arange(60), learner, batch_size=8, num_steps=15
  )
  np.testing.assert_array_equal(train().params, 2 * np.ones(60))
  # After 7.5 batches an epoch's order is done, and the next has another.
  halves = [train(num_steps=n, key=k).params for n, k in ((7, 0), (7, 1))]
  assert [h.sum() for h in halves] == [56, 56]
  assert (halves[0] != halves[1]).any()


@pytest.mark.parametrize('has_extra', [False, True])
def test_accumulation_equals_the_whole_batch(has_extra):
  def loss_fn(params, batch, key, extra=None):
    loss, metrics = small_run.loss_fn(params, batch, key)
    if has_extra:
      return loss, (metrics, extra + batch['x'].sum())
    return loss, metrics

  def init_fn(key):
    params = small_run.init_fn(key)
    return (params, jnp.float32(1)) if has_extra else params

  whole, parts = (
    fit(
      learner=learners.gradient_learner(
        init_fn,
        loss_fn,
        optax.sgd(0.1),
        accumulate=count,
        has_extra=has_extra,
      ),
      num_steps=3,
    )
    for count in (1, 4)
  )
  assert_same(parts.params, whole.params, 1e-6)
  if has_extra:
    assert_same(parts.extra, whole.extra, 1e-4)
    assert float(whole.extra) != 1


def test_drawn_batches_follow_key_and_step():
  seen = []

  def draw(key):
    x = jax.random.normal(key, (16, 8))
    jax.debug.callback(lambda v: seen.append(float(v)), x[0, 0])
    return {'x': x, 'y': x[:, :4]}

  state = fit(draw, num_steps=4)
  jax.effects_barrier()
  first = list(seen)
  assert len(set(first)) == 4
  again = fit(draw, num_steps=4)
  jax.effects_barrier()
  assert seen == first * 2
  assert_same(state.params, again.params)


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


# -- killed, resumed, moved


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


def test_killed_twice_is_the_same(straight, tmp_path):
  folder, wanted = straight
  run = tmp_path / 'run'
  options = {'num_steps': 40, 'checkpoint_every': 10, 'log_every': 3}
  for death in (21, 34):
    code, err = start(run, **options, grain=True, kill_at=death)
    assert code == -signal.SIGKILL, err
    assert not (tmp_path / 'run.npz').exists()
  state = small_run.train(run, **options, grain=True)
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
  assert [x for x in lines_of(tmp_path) if 'train/loss' in x] == lines_of(folder)


def test_finished_run_trains_no_more(straight):
  folder, wanted = straight
  state = small_run.train(folder, num_steps=40, log_every=3, grain=True)
  assert_same(state, wanted)
  assert [x['step'] for x in lines_of(folder)] == [*range(3, 40, 3), 40]


def test_torn_last_step_falls_back_and_says_so(tmp_path, capsys):
  train = functools.partial(small_run.train, tmp_path, checkpoint_every=4)
  train(num_steps=8)
  torn = tmp_path / 'checkpoints' / 'train' / '8' / 'arrays'
  for path in (torn / 'd').iterdir():
    path.write_bytes(path.read_bytes()[:20])
  state = train(num_steps=10)
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
  return {k: v.addressable_shards[0].data.shape for k, v in state.params.items()}

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


# -- what is reported


def test_no_look_at_the_device_between_lines(tmp_path, monkeypatch):
  fetches = []
  get = jax.device_get
  monkeypatch.setattr(
    jax, 'device_get', lambda tree: fetches.append(tree) or get(tree)
  )
  small_run.train(tmp_path, num_steps=40, log_every=20)
  # Two lines, each with one look at the guard; the last step is saved, too.
  assert len(fetches) <= 2 * 2 + 4
  assert [x['step'] for x in lines_of(tmp_path)] == [20, 40]


def test_lines_are_means_of_their_steps(tmp_path):
  small_run.train(tmp_path / 'each', num_steps=6, log_every=1)
  small_run.train(tmp_path / 'four', num_steps=6, log_every=4)
  each, four = lines_of(tmp_path / 'each'), lines_of(tmp_path / 'four')
  assert four[0].keys() == {
    'step', 'train/loss', 'train/largest', 'train/grad_norm',
  }  # fmt: skip
  for line, part in zip(four, (each[:4], each[4:]), strict=True):
    assert line['step'] == part[-1]['step']
    for name in line:
      if name != 'step':
        mean = np.mean([x[name] for x in part])
        np.testing.assert_allclose(line[name], mean, rtol=1e-12)


def test_bar_counts_on_from_the_checkpoint(tmp_path, monkeypatch):
  counts = []
  monkeypatch.setattr(
    progress.Progress, 'advance', lambda self, steps=1: counts.append(steps)
  )
  small_run.train(tmp_path, num_steps=4)
  small_run.train(tmp_path, num_steps=7)
  assert counts == [0, 1, 1, 1, 1, 4, 1, 1, 1]


def test_best_state_is_kept(tmp_path):
  scores = [0.0, 3, 1, 2, 9, 4, 5]
  train = functools.partial(
    small_run.train,
    tmp_path,
    eval_fn=lambda state: {'score': scores[int(state.step)]},
    eval_every=1,
    keep_last=1,
    keep_best=('score', 'min'),
  )
  seen = small_run.train(tmp_path / 'other', num_steps=2)
  train(num_steps=4)
  state = train(num_steps=6)
  kept = sorted(p.name for p in (tmp_path / 'checkpoints/train').iterdir())
  assert kept == ['2', '6']
  with small_run.open_workdir(tmp_path) as folder:
    best = training.best(folder, state, 'min')
  assert_same(best.params, seen.params)
  evaluated = [x for x in lines_of(tmp_path) if 'train/eval/score' in x]
  assert [x['train/eval/score'] for x in evaluated] == scores[1:]


# -- what goes wrong


def bad_row(step):
  """Batches of 4 in order, of which that of a step holds a NaN."""
  x = np.resize(small_run.X, (80, 8)).copy()
  x[4 * (step - 1) + 2, 3] = np.nan
  y = np.resize(small_run.Y, (80, 4))
  return pipeline.batches({'x': x, 'y': y}, 4, seed=0, shuffle=False)


def test_not_finite_names_the_step(tmp_path):
  train = functools.partial(small_run.train, tmp_path, batch_size=None)
  options = {'num_steps': 20, 'log_every': 5, 'checkpoint_every': 4}
  for _ in range(2):  # and so again when it is started again
    with pytest.raises(UserError, match=r'at step 7; the last good.* step 4 in'):
      train(**options, batches=bad_row(7))
  assert [p.name for p in (tmp_path / 'checkpoints/train').iterdir()] == ['4']
  assert [x['step'] for x in lines_of(tmp_path)] == [5]
  state = train(**options, batches=bad_row(20 + 1 - 20))  # read before
  assert int(state.step) == 20
  with pytest.raises(UserError, match='at step 7; there is no checkpoint'):
    fit(bad_row(7), num_steps=20)


def hyper_learner():
  return learners.gradient_learner(
    small_run.init_fn,
    small_run.loss_fn,
    lambda hyper: optax.adam(hyper['learning_rate']),
  )


def test_population_equals_its_members(tmp_path, capsys):
  """Each with its own rate, seed and batches; one of them blows up."""
  rates = np.float32([0.01, 1e38, 0.03, 0.001])
  noise = np.float32([0.0, 0.1, 0.2, 0.3])
  options = {'num_steps': 6, 'log_every': 2}
  with small_run.open_workdir(tmp_path) as folder:
    state = training.fit(
      folder,
      hyper_learner(),
      DATA,
      batch_size=16,
      key=3,
      hyper={'learning_rate': rates, 'noise': noise},
      population=4,
      member_batches=True,
      **options,
    )
  keys = parallel.replication_keys(jax.random.key(3), 4)
  for member in (0, 2, 3):
    hyper = {'learning_rate': rates[member], 'noise': noise[member]}
    alone = fit(
      learner=hyper_learner(), key=keys[member], hyper=hyper, **options
    )
    part = jax.tree.map(lambda x, m=member: x[m], state.params)
    assert_same(part, alone.params, 1e-6)
  # The first update is finite, though senseless; the loss after it is not.
  np.testing.assert_array_equal(state.failed_at, [-1, 2, -1, -1])
  assert np.isfinite(state.params['w1']).all()
  assert 'member 1 became NaN or infinite at step 2' in capsys.readouterr().err
  last = lines_of(tmp_path)[-1]
  assert last['train/loss/1'] is None
  assert all(last[f'train/loss/{m}'] > 0 for m in (0, 2, 3))


def test_population_goes_on_with_its_failures(tmp_path, capsys):
  options = {
    'learner': hyper_learner(),
    'batches': lambda key: {
      'x': jax.random.normal(key, (16, 8)),
      'y': jnp.ones((16, 4)),
    },
    'hyper': {'learning_rate': jnp.float32([0.01, 1e38])},
    'population': 2,
    'key': 0,
    'log_every': 4,
  }
  states = []
  for name, stops in (('a', [10]), ('b', [3, 10])):
    for num_steps in stops:
      with small_run.open_workdir(tmp_path / name) as folder:
        state = training.fit(folder, **options, num_steps=num_steps)
    states.append(state)
  assert_same(states[0].params, states[1].params)
  np.testing.assert_array_equal(states[1].failed_at, [-1, 2])
  with pytest.raises(UserError, match='at step 2; there is no checkpoint'):
    training.fit(
      None,
      **{**options, 'hyper': {'learning_rate': jnp.float32([1e38, 1e38])}},
      num_steps=10,
    )


def test_batches_that_end():
  batches = pipeline.batches(DATA, 16, seed=0, epochs=1)
  with pytest.raises(UserError, match='the batches ended after step 3'):
    fit(batches)


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


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'num_steps': 0}, 'must be positive'),
    ({'batch_size': 61}, 'batch_size=61 must be from 1 to the 60 rows'),
    ({'batch_size': None}, 'batch_size=None'),
    ({'batches': {'x': DATA['x'], 'y': DATA['y'][:9]}, 'batch_size': 4},
     'one common first axis'),
    ({'batches': [1, 2]}, 'batches is a list'),
    ({'batches': lambda key: key, 'batch_size': 4}, 'is for arrays'),
    ({'batches': lambda key: key[None]}, None),
    ({'member_batches': True}, 'needs a population'),
    ({'population': 2, 'shard_params': True}, 'leave out shard_params'),
    ({'population': 2, 'hyper': {'a': np.ones(3)}}, r'shape \(3,\).*2 members'),
    ({'keep_best': ('loss', 'min')}, 'needs eval_fn'),
    ({'keep_best': ('loss', 'min'), 'eval_fn': lambda s: {'a': 0.0}},
     "asks for 'loss', but eval_fn gives \\['a'\\]"),
  ],
)  # fmt: skip
def test_bad_options(options, message):
  if message is None:
    pytest.skip('not an error of ours')
  with pytest.raises(UserError, match=message):
    fit(**options)
