"""Perceptrons of neurons against other routes to the same numbers."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.integrate
import scipy.special

from jaxlab import dendrites
from jaxlab.dendrites import mlp, mlp_baselines, mlp_training
from jaxlab.errors import UserError
from jaxlab.harness.learners import Learner
from jaxlab.harness.training import fit

# Area of the soma, um2, and its membrane by hand: S/cm2, mV, ms.
_AREA = np.pi * 20.0 * 20.0
_LEAK, _K, _E_K, _TAU = 3e-4, 3.6e-3, -77.0, 5.0


def _short(sizes, unit=None, **kwargs):
  unit = unit or mlp.ball_and_stick()
  settings = {'duration': 4.0, 'window': 1.0, 'dt': 0.2} | kwargs
  return mlp.make(sizes, unit, **settings)


def _drawn(model, seed=0):
  """Parameters, none of them at a special value, and places."""
  params = mlp.init(model, jax.random.key(seed))
  leaves, tree = jax.tree.flatten(params)
  rng = np.random.default_rng(seed)
  leaves = [x + jnp.asarray(0.3 * rng.normal(size=x.shape)) for x in leaves]
  params = jax.tree.unflatten(tree, leaves)
  return params, mlp.draw_landing(model, jax.random.key(seed + 1))


def _images(model, count=3, seed=2):
  rng = np.random.default_rng(seed)
  return jnp.asarray(rng.uniform(size=(count, model.sizes[0])))


def _soma(current, times):
  """Voltage of the soma alone by SciPy; nA in, mV out."""

  def opening(v):
    return scipy.special.expit((v + 45) / 7)

  def slope(_, y):
    v, n = y
    # nA over um2 is 1e5 uA/cm2; S/cm2 times mV is 1e3 uA/cm2.
    inward = 1e5 * current / _AREA
    outward = 1e3 * (_LEAK * (v + 65) + _K * n * (v - _E_K))
    return [1e-3 * (inward - outward) / 1e-3, (opening(v) - n) / _TAU]

  start = [-65.0, opening(-65.0)]
  run = scipy.integrate.solve_ivp(
    slope, (0, times[-1]), start, t_eval=times, rtol=1e-9, atol=1e-9
  )
  return run.y[0]


def test_point_unit_follows_its_differential_equation():
  model = _short((2, 1), mlp.point_neuron(), duration=8.0, dt=0.01)
  params = mlp.init(model, jax.random.key(0))
  params['weights'] = [jnp.array([[0.5], [-0.25]])]
  params['bias'] = [jnp.array([0.1])]
  landing = mlp.draw_landing(model, jax.random.key(1))
  images = jnp.array([[0.0, 0.0], [1.0, 0.4], [0.0, 1.0]])
  recording = mlp.run(model, params, landing, images)
  every = np.arange(0, 801, 50)
  for b, drive in enumerate((0.1, 0.5, -0.15)):
    want = _soma(0.3 * drive, 0.01 * every)
    # Euler's error at this step is 0.02 mV.
    np.testing.assert_allclose(recording.v[every, 0, b], want, atol=0.05)


def test_agrees_with_a_network_built_synapse_by_synapse():
  with jax.enable_x64(True):
    model = _short((3, 2, 3, 2))
    params, landing = _drawn(model)
    images = _images(model)
    got = mlp.run(model, params, landing, images).v
    cell, first = model.net.cells[0], (0, 2, 5, 7)
    parts = []
    for layer in (1, 2):
      for i in range(model.sizes[layer]):
        for j in range(model.sizes[layer + 1]):
          w = float(params['weights'][layer][i, j])
          kind = mlp.EXCITATION if w > 0 else mlp.INHIBITION
          node = model.nodes[int(landing[layer][i, j])]
          pre, post = first[layer - 1] + i, first[layer] + j
          parts.append(dendrites.connect(kind, pre, post, node, abs(w)))
    net = dendrites.network([cell] * 7, parts)
    stimuli = [
      dendrites.current_clamp((unit, 0), 0.0, 100.0, 0.3 * float(bias))
      for unit, bias in enumerate(jnp.concatenate(params['bias']))
    ]
    for i in range(3):
      for j in range(2):
        node = model.nodes[int(landing[0][i, j])]
        amplitude = 0.3 * images[:, i] * params['weights'][0][i, j]
        stimuli.append(
          dendrites.current_clamp((j, node), 0.0, 100.0, amplitude)
        )
    cable = dendrites.init_params(net)
    state = dendrites.init_state(net, cable, -65.0, batch=3)
    want, _ = dendrites.simulate(net, cable, state, stimuli, 4.0, 0.2)
    np.testing.assert_allclose(got, want.v, atol=1e-9)
    assert np.ptp(np.asarray(got)) > 5


def test_gradient_agrees_with_central_differences():
  with jax.enable_x64(True):
    model = _short((2, 2, 2))
    params, landing = _drawn(model)
    images, labels = _images(model), jnp.array([0, 1, 0])

    @jax.jit
    def loss(params):
      logits = mlp.logits(model, params, landing, images)
      entropy = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
      return entropy.sum()

    flat, unravel = jax.flatten_util.ravel_pytree(params)
    grad, _ = jax.flatten_util.ravel_pytree(jax.grad(loss)(params))
    eps = 1e-4
    for i in range(len(flat)):
      ends = [loss(unravel(flat.at[i].add(sign * eps))) for sign in (1, -1)]
      want = (ends[0] - ends[1]) / (2 * eps)
      np.testing.assert_allclose(grad[i], want, rtol=1e-5, atol=1e-9)
    assert np.all(np.asarray(grad) != 0)


@pytest.fixture(scope='module')
def chain():
  """(weights, bias, place) -> mean voltages of two units in a row."""
  model = _short((1, 1, 1), duration=60.0, window=0.5, dt=0.5)
  params = mlp.init(model, jax.random.key(0))

  @jax.jit
  def voltage(weights, bias, place):
    own = {
      **params,
      'weights': [jnp.full((1, 1), weight) for weight in weights],
      'bias': [jnp.array([bias]), jnp.zeros(1)],
    }
    landing = [jnp.full((1, 1), place)] * 2
    recording = mlp.run(model, own, landing, jnp.ones((1, 1)))
    return mlp.mean_voltage(model, recording)[0]

  return voltage


def test_weights_excite_or_inhibit_by_their_sign(chain):
  rest = chain((0.0, 0.0), 1.0, 0)
  for index in range(2):
    for sign in (1, -1):
      weights = [0.0, 0.0]
      weights[index] = float(sign)
      moved = chain(tuple(weights), 1.0, 0) - rest
      assert sign * moved[index] > 1, (weights, moved)


def test_far_input_is_attenuated_as_in_a_cable(chain):
  rest = chain((0.0, 0.0), 0.0, 0)
  moved = [chain((-0.05, 0.0), 0.0, p)[0] - rest[0] for p in range(4)]
  # By reciprocity the soma answers to a current at x as x does to one at the
  # soma: in steady state like the cable with a sealed end.
  space = 1e4 * np.sqrt(2e-4 / 4 / (1e-4 * 100.0))  # um
  want = np.cosh((400 - np.array([50, 150, 250, 350])) / space)
  np.testing.assert_allclose(
    np.array(moved) / moved[0], want / want[0], rtol=0.01
  )


class ReadOutTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_starts_as_the_scaled_voltage(self):
    model = _short((4, 2, 3))
    params = mlp.init(model, jax.random.key(0))
    voltage = jnp.array([[0.0, 0.0, -65.0, -55.0, -85.0]])
    read_out = self.variant(lambda p, v: mlp.read_out(model, p, v))
    want = [[0.0, 1.0, -2.0]]
    np.testing.assert_allclose(read_out(params, voltage), want, atol=1e-6)


def test_drawn_weights_and_places_have_their_laws():
  model = _short((400, 50))
  params = mlp.init(model, jax.random.key(0))
  (weight,) = params['weights']
  chex.assert_shape(weight, (400, 50))
  # 20,000 draws: the standard error of the deviation is 0.5 %.
  np.testing.assert_allclose(np.std(weight), 1 / 20, rtol=0.025)
  (landing,) = mlp.draw_landing(model, jax.random.key(1))
  counts = np.bincount(np.ravel(landing), minlength=4)
  np.testing.assert_allclose(counts / 20_000, 0.25, atol=0.015)


@pytest.mark.parametrize(
  ('sizes', 'kwargs', 'match'),
  [
    ((64,), {}, 'sizes'),
    ((64, 0, 10), {}, 'sizes'),
    ((64, 10), {'window': 20.0}, 'window'),
    ((64, 10), {'window': 0.01}, 'window'),
  ],
)
def test_refuses_what_makes_no_network(sizes, kwargs, match):
  with pytest.raises(UserError, match=match):
    mlp.make(sizes, mlp.point_neuron(), **kwargs)


def test_local_rule_is_exact_for_currents_into_the_soma():
  model = _short((1, 2), duration=8.0)
  params = mlp.init(model, jax.random.key(0))
  params['weights'] = [jnp.zeros((1, 2))]
  params['bias'] = [jnp.array([0.7, -0.4])]
  landing = [jnp.array([[0, 3]])]
  images = jnp.ones((1, 1))
  curve = mlp_baselines.static_curve(model)

  def exact(params):
    return mlp.logits(model, params, landing, images)

  def local(params):
    return mlp_baselines.local_logits(model, curve, params, landing, images)

  np.testing.assert_allclose(local(params), exact(params), atol=1e-6)
  grads = [jax.grad(lambda p, f=f: f(p).sum())(params) for f in (exact, local)]
  want, got = ([g['bias'][0], g['weights'][0][0]] for g in grads)
  np.testing.assert_allclose(got[0], want[0], rtol=0.01)
  # To the rule a dendrite is the soma; in truth the tip counts for less.
  np.testing.assert_allclose(got[1], got[0], rtol=1e-5)
  ratio = np.asarray(want[1] / got[1])
  assert 1 > ratio[0] > ratio[1] + 0.05 > 0.05


@pytest.mark.slow
def test_local_rule_has_the_simulated_logits_and_the_sign_of_the_gradient():
  model = _short((3, 3, 2), duration=8.0)
  params, landing = _drawn(model)
  images = _images(model, count=8)
  curve = mlp_baselines.static_curve(model)

  def exact(params):
    return mlp.logits(model, params, landing, images)

  def local(params):
    return mlp_baselines.local_logits(model, curve, params, landing, images)

  np.testing.assert_allclose(local(params), exact(params), atol=1e-5)
  for output in range(2):
    grads = [
      jax.grad(lambda p, f=f, c=output: f(p)[:, c].sum())(params)['weights']
      for f in (exact, local)
    ]
    for want, got in zip(*grads, strict=True):
      cosine = np.vdot(want, got) / np.linalg.norm(want) / np.linalg.norm(got)
      assert cosine > 0.8


def test_frozen_entries_stay_and_the_others_learn():
  model = _short((4, 3), mlp.point_neuron())
  rng = np.random.default_rng(0)
  labels = rng.integers(0, 3, 96)
  centres = rng.normal(size=(3, 4))
  images = (centres[labels] + 0.1 * rng.normal(size=(96, 4))).astype(np.float32)
  frozen = ((), ('readout',), ('weights', 'bias'))
  net = mlp_training.biophysical(model, frozen)
  init, step = mlp_training.copies(net, optax.adam(0.05), 60)
  state = fit(
    None,
    Learner(init, step),
    {'images': images, 'labels': labels},
    batch_size=32,
    num_steps=60,
    key=0,
    population=2,
    member_batches=True,
  )
  start = state.extra['start']
  for copy, names in enumerate(frozen):
    for name, before in start.items():
      same = [
        np.array_equal(a[:, copy], b[:, copy])
        for a, b in zip(
          jax.tree.leaves(before),
          jax.tree.leaves(state.params[name]),
          strict=True,
        )
      ]
      assert all(same) if name in names else not any(same), (names, name)
  curve = np.asarray(state.extra['curve'])
  chex.assert_shape(curve, (2, 3, 60))
  # All learn to tell the clusters apart; each copy has its own accuracy.
  assert np.all(curve[:, :2, -10:].mean(axis=-1) > 0.95)
  assert np.all(curve[:, :2, :3].mean(axis=-1) < 0.9)
  assert not np.array_equal(curve[:, 0], curve[:, 2])
  # Seeds start from other weights at other places.
  weights = np.asarray(start['weights'][0])
  assert not np.array_equal(weights[0], weights[1])
  np.testing.assert_array_equal(weights[:, 0], weights[:, 1])


def test_distance_moved_is_relative_to_the_norm():
  start = jnp.array([[[3.0, 4.0]], [[0.0, 2.0]]])
  end = jnp.array([[[3.0, 4.0]], [[0.0, -1.0]]])
  moved = mlp_training.distance_moved(start, end)
  np.testing.assert_allclose(moved, [0.0, 1.5], rtol=1e-6)
