"""What `fit` computes, reports and refuses; `test_resuming` interrupts it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlab import parallel
from jaxlab.data import pipeline
from jaxlab.errors import UserError
from jaxlab.harness import learners, placement, progress, training
from tests.harness import small_run
from tests.harness.small_run import DATA, assert_same, fit, lines_of

# -- what a step is


def test_equals_a_plain_loop():
  """Rows of 30 in order, three batches an epoch, against optax by hand."""
  x, y = small_run.X[:48], small_run.Y[:48]
  batches = pipeline.batches({'x': x, 'y': y}, 16, seed=0, shuffle=False)
  state = fit(batches, num_steps=7)
  init_key, _, _ = jax.random.split(jax.random.key(3), 3)
  params = jax.jit(small_run.init_fn)(init_key)
  gradient = jax.jit(jax.grad(small_run.loss_fn, has_aux=True))
  optimizer = optax.adam(0.01)
  opt_state = optimizer.init(params)
  for step in range(7):
    rows = slice(16 * (step % 3), 16 * (step % 3) + 16)
    batch = {'x': x[rows], 'y': y[rows]}
    grads, _ = gradient(params, batch, jax.random.key(0))
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


def test_accumulation_equals_the_whole_batch():
  """And what the network changes by itself sees every part."""

  def loss_fn(params, batch, key, extra):
    loss, metrics = small_run.loss_fn(params, batch, key)
    return loss, (metrics, extra + batch['x'].sum())

  whole, parts = (
    fit(
      made=learners.gradient_learner(
        lambda key: (small_run.init_fn(key), jnp.float32(1)),
        loss_fn,
        optax.sgd(0.1),
        accumulate=count,
        has_extra=True,
      ),
      num_steps=3,
    )
    for count in (1, 4)
  )
  assert_same(parts.params, whole.params, 1e-6)
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


# -- what is reported


def test_trainings_of_one_kind_share_their_program():
  """A search trains the same learner again and again: it is traced once."""
  traced = []

  def step(state, batch, key, hyper):
    traced.append(hyper)
    params = state.params + hyper['rate'] * batch.mean()
    return state._replace(params=params), {'loss': params}

  learner = learners.Learner(lambda key, hyper: (jnp.zeros(()), (), None), step)
  found = [
    fit(
      jnp.ones(6),
      learner,
      batch_size=2,
      num_steps=3,
      hyper={'rate': jnp.array(rates)},
      population=2,
    )
    for rates in ((0.5, 1.0), (2.0, 3.0))
  ]
  np.testing.assert_allclose(found[0].params, [1.5, 3])
  np.testing.assert_allclose(found[1].params, [6, 9])
  assert len(traced) == 1
  fit(jnp.ones(6), learner, batch_size=2, num_steps=1, hyper={'rate': 1.0})
  assert len(traced) == 2


def test_looks_at_the_device_only_for_lines(tmp_path, monkeypatch):
  fetches = []
  get = jax.device_get
  monkeypatch.setattr(
    jax, 'device_get', lambda tree: fetches.append(1) or get(tree)
  )
  counts = []
  for num_steps in (10, 40):
    folder = tmp_path / str(num_steps)
    small_run.train(folder, num_steps=num_steps, log_every=num_steps // 2)
    counts.append(len(fetches) - sum(counts))
    steps = [x['step'] for x in lines_of(folder)]
    assert steps == [num_steps // 2, num_steps]
  assert counts[0] == counts[1]


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
        np.testing.assert_allclose(line[name], mean, rtol=1e-6)


def test_bar_counts_on_from_the_checkpoint(tmp_path, monkeypatch):
  counts = []
  monkeypatch.setattr(
    progress.Progress, 'advance', lambda self, steps=1: counts.append(steps)
  )
  small_run.train(tmp_path, num_steps=4)
  small_run.train(tmp_path, num_steps=7)
  assert counts == [0, 1, 1, 1, 1, 4, 1, 1, 1]


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
    with pytest.raises(
      UserError, match=r'at step 7; the last good.* step 4 in'
    ):
      train(**options, batches=bad_row(7))
  assert [p.name for p in (tmp_path / 'checkpoints/train').iterdir()] == ['4']
  assert [x['step'] for x in lines_of(tmp_path)] == [5]
  # Good data from there on: the pipeline goes on behind row 16.
  state = train(**options, batches=bad_row(1))
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
    alone = fit(made=hyper_learner(), key=keys[member], hyper=hyper, **options)
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
    ({'member_batches': True}, 'needs a population'),
    ({'population': 2, 'shard_params': True}, 'leave out shard_params'),
    ({'population': 2, 'hyper': {'a': np.ones(3)}}, r'shape \(3,\).*2 members'),
    ({'keep_best': ('loss', 'min')}, 'needs eval_fn'),
    ({'keep_best': ('loss', 'min'), 'eval_fn': lambda s: {'a': 0.0}},
     "asks for 'loss', but eval_fn gives \\['a'\\]"),
  ],
)  # fmt: skip
def test_bad_options(options, message):
  with pytest.raises(UserError, match=message):
    fit(**options)


# -- where arrays lie


def test_parameters_are_spread_along_their_largest_axis_that_fits():
  mesh = jax.sharding.AbstractMesh((4,), ('data',))
  shapes = {'a': (3, 8, 12), 'b': (8, 8), 'c': (6, 2), 'd': (), 'e': (2, 4)}
  leaves = {k: jax.ShapeDtypeStruct(s, jnp.float32) for k, s in shapes.items()}
  where = placement.Placement(mesh, shard_params=True)
  specs = jax.tree.map(lambda s: tuple(s.spec), where.state(leaves))
  assert specs == {
    'a': (None, None, 'data'),
    'b': ('data',),
    'c': (),
    'd': (),
    'e': (None, 'data'),
  }  # fmt: skip


@pytest.mark.parametrize(
  ('options', 'shape', 'message'),
  [
    ({}, (6, 2), 'a batch of 6 does not divide over the 4 devices'),
    ({}, (), 'a batch holds a scalar'),
    ({'population': 6}, (8,), 'a population of 6 does not divide over the 4'),
    ({'population': 4, 'member_batches': True}, (8,), 'starts with 8 rows'),
  ],
)
def test_what_cannot_be_spread(options, shape, message):
  mesh = jax.sharding.AbstractMesh((4, 2), ('data', 'model'))
  with pytest.raises(UserError, match=message):
    placement.Placement(mesh, **options).check_batch(np.zeros(shape))
