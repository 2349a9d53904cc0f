"""Members of a population train alone, and what they are worth is sound."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified import bounds, cascade, lanes, losses, search_space
from jaxlab.certified.networks import Layer, Network
from jaxlab.errors import UserError
from jaxlab.harness import learners, training

NETWORK = Network(
  (Layer('dense', 10, norm=True), Layer('dense', 3, relu=False)),
  (6,),
  initializer='he',
)
STEPS = 16
EPS = 0.05


def _data(seed, count):
  """Three classes around three corners."""
  rng = np.random.default_rng(seed)
  y = np.arange(count) % 3
  centre = 0.2 + 0.6 * np.eye(3).repeat(2, axis=1)
  x = np.clip(centre[y] + 0.12 * rng.normal(size=(count, 6)), 0, 1)
  return x.astype(np.float32), y


def _hyper(method, **changed):
  """A lane for each value of the lists."""
  values = {k.name: 0.5 * (k.low + k.high) for k in search_space.space(method)}
  values |= {'learning_rate': 0.03, 'l1': 1e-5, 'warmup': 0.1}
  lists = {name: list(column) for name, column in changed.items()}
  count = len(next(iter(lists.values())))
  rows = [
    search_space.hyper(
      method, values | {k: v[i] for k, v in lists.items()}, EPS
    )
    for i in range(count)
  ]
  return {
    name: np.array([row[name] for row in rows], np.float32) for name in rows[0]
  }


def _fit(method, hyper, **settings):
  x, y = _data(0, 96)
  parts = lanes.learner_parts(NETWORK, method, num_steps=STEPS, **settings)
  learner = learners.gradient_learner(*parts, has_extra=True)
  return training.fit(
    None,
    learner,
    {'x': x, 'y': y},
    num_steps=STEPS,
    key=0,
    batch_size=32,
    hyper=hyper,
    population=len(hyper['l1']),
    log_every=STEPS,
  )


def _member(tree, index):
  return jax.tree.map(lambda leaf: np.asarray(leaf[index]), tree)


def _assert_equal(a, b, atol=1e-5):
  jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=atol), a, b)


@pytest.fixture(scope='module')
def trained():
  """Three lanes of SABR: two knobs, and one knob under another key."""
  return _fit('sabr', _hyper('sabr', **{'lambda': [0.2, 0.9, 0.2]}), steps=3)


def test_a_lane_is_its_own_solo_run(trained):
  alone = _fit('sabr', _hyper('sabr', **{'lambda': [0.2]}), steps=3)
  for name in ('params', 'extra', 'opt_state'):
    _assert_equal(
      _member(getattr(trained, name), 0), _member(getattr(alone, name), 0)
    )


def test_lanes_differ_in_knobs_and_in_keys(trained):
  first, second, third = (_member(trained.params, i) for i in range(3))
  for other in (second, third):
    apart = jax.tree.map(lambda a, b: np.abs(a - b).max(), first, other)
    assert max(jax.tree.leaves(apart)) > 1e-2


@pytest.mark.parametrize('unroll', [False, True])
def test_one_lane_after_the_other_gives_what_vmap_gives(unroll):
  def step(state, batch, key, hyper):
    noise = jax.random.normal(key, state['w'].shape)
    w = state['w'] - hyper['rate'] * (state['w'] * batch + noise)
    return {'w': w, 'step': state['step'] + 1}, {'loss': jnp.sum(w**2)}

  state = {'w': jnp.arange(6.0).reshape(3, 2), 'step': jnp.int32(4)}
  axes = ({'w': 0, 'step': None}, None, 0, 0)
  arguments = (
    state,
    jnp.array([1.0, 2.0]),
    jax.random.split(jax.random.key(0), 3),
    {'rate': jnp.array([0.1, 0.2, 0.3])},
  )
  want = jax.vmap(step, axes)(*arguments)
  found = jax.jit(jax.vmap(lanes.sequential(step, unroll=unroll), axes))(
    *arguments
  )
  _assert_equal(found, want, 1e-6)


def test_every_step_counts_and_statistics_follow(trained):
  np.testing.assert_array_equal(trained.extra['step'], [STEPS] * 3)
  found = trained.extra['statistics']['dense_0']
  assert np.all(np.abs(found['mean']).max(axis=1) > 0)
  assert np.all(found['var'] > 0)


def test_the_schedule_follows_hyper():
  """The first step is natural, the last one has the whole radius."""
  parts = lanes.learner_parts(NETWORK, 'ibp', num_steps=STEPS)
  hyper = _member(_hyper('ibp', kappa_start=[0.8], kappa_end=[0.1]), 0)
  params, extra = parts.init(jax.random.key(0))
  x, y = _data(0, 32)

  @jax.jit
  def at(step):
    value, (metrics, _) = parts.loss(
      params,
      {'x': jnp.asarray(x), 'y': jnp.asarray(y)},
      jax.random.key(1),
      hyper | {'l1': 0.0, 'regularizer': 0.0},
      extra=extra | {'step': step},
    )
    return value, metrics

  value, metrics = at(0)
  assert metrics['eps'] == 0
  np.testing.assert_allclose(value, metrics['natural'], rtol=1e-5)
  value, metrics = at(STEPS)
  np.testing.assert_allclose(metrics['eps'], hyper['eps_train'], rtol=1e-6)
  want = 0.1 * metrics['natural'] + 0.9 * metrics['robust']
  np.testing.assert_allclose(value, want, rtol=1e-5)
  assert metrics['robust'] > metrics['natural']


@pytest.mark.parametrize('method', losses.LOSSES)
def test_every_method_has_parts(method):
  """Shapes alone: compiling all of them would take long."""
  parts = lanes.learner_parts(NETWORK, method, num_steps=STEPS)
  hyper = dict.fromkeys(lanes.knobs(method), jnp.float32(0.5))
  params, extra = jax.eval_shape(parts.init, jax.random.key(0))
  x, y = _data(0, 8)

  def loss(params, extra):
    batch = {'x': jnp.asarray(x), 'y': jnp.asarray(y)}
    return parts.loss(params, batch, jax.random.key(1), hyper, extra=extra)

  value, (metrics, after) = jax.eval_shape(loss, params, extra)
  assert value.shape == ()
  assert {m.shape for m in metrics.values()} == {()}
  assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, extra)


@pytest.fixture(scope='module')
def evaluated(trained):
  params = lanes.deployed(
    NETWORK, _member(trained.params, 1), _member(trained.extra, 1)
  )
  x, y = _data(1, 50)
  found = cascade.evaluate(
    NETWORK, params, x, y, 2 * EPS, jax.random.key(2), batch_size=32, steps=10
  )
  return params, x, y, found


def test_certified_is_below_attacked_is_below_natural(evaluated):
  *_, found = evaluated
  assert found.violations == 0
  stages = list(found.certified.values())
  assert list(found.certified) == ['ibp', 'crown_ibp', 'alpha_crown']
  for before, after in itertools.pairwise(stages):
    assert np.all(before <= after)
  assert np.all(found.proved <= found.attacked)
  assert np.all(found.attacked <= found.natural)
  assert 0 < found.certified_accuracy <= found.attacked_accuracy
  assert found.attacked_accuracy <= found.natural_accuracy
  assert found.natural_accuracy > 0.8


def test_stages_are_the_bounds_of_all_examples_at_once(evaluated):
  params, x, y, found = evaluated
  box = bounds.input_box(jnp.asarray(x), 2 * EPS)
  margins = jax.jit(
    lambda p: bounds.ibp(NETWORK.apply, p, box, bounds.margin_matrix(y, 3))
  )(params)
  want = np.all(np.asarray(margins.lower) > 0, axis=1)
  np.testing.assert_array_equal(found.certified['ibp'], want)
  np.testing.assert_array_equal(
    found.natural, np.argmax(NETWORK.apply(params, x), axis=1) == y
  )


def test_violations_are_counted():
  yes, no = np.ones(3, bool), np.zeros(3, bool)
  stage = np.array([True, False, True])
  assert cascade.Evaluation(yes, {'ibp': stage}, no).violations == 2
  assert cascade.Evaluation(yes, {'ibp': stage}, yes).violations == 0


def test_bad_input(evaluated):
  params, x, y, _ = evaluated
  key = jax.random.key(0)

  def call(params=params, x=x, y=y, eps=EPS, **options):
    options = {'batch_size': 32, 'steps': 10} | options
    return cascade.evaluate(NETWORK, params, x, y, eps, key, **options)

  with pytest.raises(UserError, match='label 3'):
    call(y=y + 1)
  with pytest.raises(UserError, match='eps'):
    call(eps=-0.1)
  with pytest.raises(UserError, match='x holds'):
    call(x=x + 1)
  with pytest.raises(UserError, match='lirpa'):
    call(stages=('ibp', 'lirpa'))
  with pytest.raises(UserError, match='dense_0 has no batch statistics'):
    call(params=_stripped(params))
  broken = jax.tree.map(np.copy, params)
  broken['dense_1']['kernel'][0, 0] = np.inf
  with pytest.raises(UserError, match='ibp gives NaN'):
    call(params=broken)
  with pytest.raises(UserError, match='colt'):
    lanes.knobs('colt')
  with pytest.raises(UserError, match='split is 2'):
    lanes.learner_parts(NETWORK, 'taps', num_steps=1, split=2)


def _stripped(params):
  return {
    name: {k: v for k, v in leaf.items() if k not in ('mean', 'var')}
    for name, leaf in params.items()
  }
