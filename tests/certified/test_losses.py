"""Losses against hand computation, their limits and each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified import (
  attacks,
  bounds,
  loss_latent,
  loss_terms,
  losses,
  regularizers,
)
from jaxlab.errors import UserError
from tests.certified.nets import dense_net, dense_params

KEY = jax.random.key(5)
HYPER = {
  'kappa': 0.3,
  'beta': 0.6,
  'lambda': 0.4,
  'alpha': 0.3,
  'attack_scale': 1.0,
  'taps_weight': 4.0,
}
EPS = 0.1
SPLIT = (
  lambda params, x: jax.nn.relu(dense_net(params[:1], x)),
  lambda params, z: dense_net(params[1:], z),
)


@functools.partial(jax.jit, static_argnames=('method', 'settings'))
def with_gradient(method, problem, eps, hyper, settings):
  settings = dict(settings)
  if method in ('taps', 'staps'):
    settings['split'] = SPLIT
  params, *data = problem
  loss = functools.partial(losses.LOSSES[method].loss, dense_net)
  return jax.value_and_grad(
    lambda params: loss(params, *data, eps, hyper, KEY, **settings),
    has_aux=True,
  )(params)


def run(method, problem, eps, hyper, settings=()):
  return with_gradient(method, problem, eps, hyper, settings)[0]


@pytest.fixture(scope='module')
def problem():
  """Parameters of a network 6-9-4, examples and labels."""
  return _drawn((6, 9, 4))


@pytest.fixture(scope='module')
def deep():
  """Likewise with a hidden layer more, behind the latent box."""
  return _drawn((6, 9, 8, 4))


def _drawn(widths):
  params = jax.tree.map(jnp.float32, dense_params(3, widths))
  x = np.random.default_rng(0).uniform(size=(10, 6)).astype(np.float32)
  return params, jnp.asarray(x), jnp.arange(10) % 4


def _with(**changed):
  return HYPER | changed


@pytest.mark.parametrize('method', sorted(losses.LOSSES))
def test_radius_zero_is_standard_training(problem, method):
  want, _ = run('standard', problem, 0.0, HYPER)
  found, terms = run(method, problem, 0.0, HYPER)
  np.testing.assert_allclose(found, want, rtol=1e-5)
  for value in terms.values():
    np.testing.assert_allclose(value, want, rtol=1e-5)


@pytest.mark.parametrize('method', sorted(losses.LOSSES))
def test_gradients_are_finite_and_not_zero(problem, method):
  _, gradient = with_gradient(method, problem, EPS, HYPER, ())
  leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(gradient)]
  assert all(np.isfinite(leaf).all() for leaf in leaves)
  assert all(np.abs(leaf).max() > 0 for leaf in leaves)


def test_one_relu_by_hand():
  """Logits `(2 relu(x - 1/2), 1/4)` at 0.6, radius 0.2: relu in [0, 0.3]."""

  def net(params, x):
    up = 2 * jax.nn.relu(x - params)
    return jnp.concatenate([up, jnp.full_like(x, 0.25)], axis=-1)

  def first(params, x):
    return jax.nn.relu(x - params)

  def second(params, z):
    return jnp.concatenate([2 * z, jnp.full_like(z, 0.25)], axis=-1)

  def log1p_exp(margins):
    return np.mean(np.logaddexp(0, -np.array(margins)))

  params = jnp.float32(0.5)
  x, y = jnp.array([[0.6], [0.6]]), jnp.array([0, 1])
  natural = log1p_exp([-0.05, 0.05])
  interval = log1p_exp([-0.25, -0.35])
  # Lower line of slope 1 under the first, chord 0.75 (z + 0.1) over the second.
  crown = log1p_exp([0.6 * -0.45 + 0.4 * -0.25, -0.35])
  worst = log1p_exp([-0.25, -0.35])
  want = {
    'ibp': 0.3 * natural + 0.7 * interval,
    'crown_ibp': 0.3 * natural + 0.7 * crown,
    # Centres 0.48 and 0.72 and radius 0.08: relu in [0, 0.06], [0.14, 0.3].
    'sabr': interval,
    'taps': worst,
  }
  for name, value in want.items():
    settings = {'split': (first, second)} if name == 'taps' else {}
    if losses.LOSSES[name].attacks:
      settings['steps'] = 12
    loss = functools.partial(losses.LOSSES[name].loss, net, **settings)
    found, _ = jax.jit(loss)(params, x, y, 0.2, HYPER, KEY)
    np.testing.assert_allclose(found, value, atol=1e-5, err_msg=name)


def test_ibp_term_is_the_bound_of_the_margin_matrix(problem):
  params, x, y = problem
  box = bounds.input_box(x, EPS)

  def margins(params):
    return loss_terms.ibp_margins(
      loss_terms.interval_pass(dense_net, params, box), y
    )

  found = jax.jit(margins)(params)
  rows = bounds.margin_matrix(y, 4)
  want = jax.jit(lambda p: bounds.ibp(dense_net, p, box, rows))(params)
  np.testing.assert_allclose(found.lower, want.lower, atol=1e-5)
  np.testing.assert_allclose(found.upper, want.upper, atol=1e-5)


def test_limits_of_the_knobs(problem):
  natural, _ = run('standard', problem, EPS, HYPER)
  interval, _ = run('ibp', problem, EPS, _with(kappa=0.0))
  attacked, _ = run('pgd', problem, EPS, HYPER)
  assert natural < attacked < interval
  close = functools.partial(np.testing.assert_allclose, rtol=1e-5)
  close(run('ibp', problem, EPS, _with(kappa=1.0))[0], natural)
  close(run('crown_ibp', problem, EPS, _with(kappa=0.0, beta=0.0))[0], interval)
  close(run('sabr', problem, EPS, _with(**{'lambda': 1.0}))[0], interval)
  for name in ('mtl_ibp', 'cc_ibp', 'exp_ibp'):
    close(run(name, problem, EPS, _with(alpha=1.0))[0], interval)
    close(run(name, problem, EPS, _with(alpha=0.0))[0], attacked)
    half, _ = run(name, problem, EPS, _with(alpha=0.5))
    assert attacked < half < interval
  small, _ = run('mtl_ibp', problem, EPS, _with(alpha=0.0, attack_scale=0.5))
  close(small, run('pgd', problem, EPS / 2, HYPER)[0])


def test_expressive_losses_in_their_order(problem):
  """A weighted geometric mean is below the arithmetic one, as are the logits'.

  De Palma et al. (2024), propositions on CC-IBP and Exp-IBP: both are at most
  MTL-IBP for the same alpha.
  """
  mtl, _ = run('mtl_ibp', problem, EPS, HYPER)
  for name in ('cc_ibp', 'exp_ibp'):
    assert run(name, problem, EPS, HYPER)[0] <= mtl + 1e-6


def test_latent_attack_is_below_the_interval_loss(deep):
  interval, _ = run('ibp', deep, EPS, _with(kappa=0.0))
  latent, _ = run('taps', deep, EPS, HYPER)
  assert 0.5 * interval < latent < interval + 1e-6


def test_small_boxes_make_smaller_latent_losses(problem):
  # The second part is linear here: the latent attack is as bad as the box.
  small, _ = run('staps', problem, EPS, HYPER)
  sabr, _ = run('sabr', problem, EPS, HYPER)
  whole, _ = run('taps', problem, EPS, HYPER)
  assert small < whole
  np.testing.assert_allclose(small, sabr, rtol=0.02)


def test_product_weighs_gradients(deep):
  params, *data = deep

  def parts(params):
    loss, terms = loss_latent.taps(
      dense_net,
      params,
      *data,
      EPS,
      _with(taps_weight=3.0),
      KEY,
      split=SPLIT,
      multiply=True,
    )
    values = jnp.stack([loss, terms['latent'], terms['robust']])
    return values, values

  jacobian, values = jax.jit(jax.jacrev(parts, has_aux=True))(params)
  whole, latent, robust = values
  np.testing.assert_allclose(whole, latent * robust, rtol=1e-6)
  for whole, of_latent, of_robust in jax.tree.leaves(jacobian):
    want = 1.5 * of_latent * robust + 0.5 * of_robust * latent
    np.testing.assert_allclose(whole, want, atol=1e-4)


def test_connector_gives_gradients_to_the_near_face():
  box = bounds.Interval(jnp.zeros(5), jnp.array([4.0, 4, 4, 4, 0]))
  point = jnp.array([0.0, 1.0, 2.0, 3.5, 0.0])

  def total(lower, upper):
    return loss_latent.connect(point, bounds.Interval(lower, upper)).sum()

  np.testing.assert_array_equal(loss_latent.connect(point, box), point)
  lower, upper = jax.jit(jax.grad(total, (0, 1)))(*box)
  np.testing.assert_allclose(lower, [1, 0.5, 0, 0, 0.5])
  np.testing.assert_allclose(upper, [0, 0, 0, 0.75, 0.5])


def test_fused_bound_is_sound_and_at_least_the_best_margins(problem):
  """One row for the whole loss, looser than bounds of every margin."""
  hyper = _with(kappa=0.0, beta=1.0)
  fused, _ = run('crown_ibp', problem, EPS, hyper, (('fusion', True),))
  attacked, _ = run('pgd', problem, EPS, HYPER)
  assert attacked <= fused
  tiny, _ = run('crown_ibp', problem, 1e-4, hyper, (('fusion', True),))
  exact, _ = run('crown_ibp', problem, 1e-4, hyper)
  np.testing.assert_allclose(tiny, exact, rtol=1e-4)


def test_lanes_of_knobs_are_the_single_losses(problem):
  kappas = jnp.array([0.0, 0.25, 1.0])
  lanes = jax.vmap(
    lambda kappa: run('ibp', problem, EPS, _with(kappa=kappa))[0]
  )(kappas)
  for kappa, value in zip(kappas, lanes, strict=True):
    single, _ = run('ibp', problem, EPS, _with(kappa=kappa))
    np.testing.assert_allclose(value, single, rtol=1e-5)


def test_adversarial_box_lies_in_the_ball(problem):
  params, x, y = problem
  box = jax.jit(
    lambda p: loss_latent.adversarial_box(
      dense_net, p, x, y, EPS, 0.4, KEY, 5, (0, 1)
    )
  )(params)
  whole = bounds.input_box(x, EPS)
  assert np.all(box.lower >= whole.lower - 1e-6)
  assert np.all(box.upper <= whole.upper + 1e-6)
  assert np.all(box.upper - box.lower <= 0.8 * EPS + 1e-6)
  centre = (box.lower + box.upper) / 2
  found, clean = (
    attacks.margin(dense_net(params, points), y) for points in (centre, x)
  )
  assert np.mean(found) < np.mean(clean)


def test_regularizers_by_hand():
  box = bounds.Interval(jnp.zeros((1, 4)), jnp.full((1, 4), 0.2))
  layers = [
    bounds.Interval(
      jnp.array([[1.0, 3.0, -2.0, -0.5]]), jnp.array([[2.0, 5.0, -1.0, 0.5]])
    )
  ]
  # Radii 0.5, 1, 0.5, 0.5; centres 1.5, 4 (on), -1.5 (off), 0 (either).
  radius, mean = 2.5 / 4, 1.0
  tight = max(0, 0.5 - 0.1 / radius) / 0.5
  np.testing.assert_allclose(
    jax.jit(regularizers.tightness)(layers, box), tight, rtol=1e-5
  )
  means = 1.5 / 5.5
  squares = (-1.5 - mean) ** 2 / ((1.5 - mean) ** 2 + (4 - mean) ** 2)
  penalty = (0.5 - means) / 0.5 + max(0, 0.5 - squares) / 0.5
  np.testing.assert_allclose(
    jax.jit(regularizers.balance)(layers), penalty, rtol=1e-5
  )
  point = bounds.Interval(box.lower, box.lower)
  flat = [bounds.Interval(layers[0].lower, layers[0].lower)]
  assert jax.jit(regularizers.tightness)(flat, point) == 0
  weights = {'a': jnp.array([[1.0, -2.0]]), 'b': jnp.array([9.0])}
  np.testing.assert_allclose(regularizers.l1(weights), 3.0)


def test_relu_bounds_leave_pooling_out():
  def net(params, x):
    z = jax.nn.relu(x @ params)
    pooled = jnp.maximum(z[:, :2], z[:, 2:])
    return jax.nn.relu(pooled - 0.5) @ params[:2, :3]

  params = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)))
  box = bounds.input_box(jnp.full((2, 4), 0.5), 0.1)
  found = jax.jit(
    lambda p: regularizers.relu_bounds(loss_terms.interval_pass(net, p, box))
  )(params)
  assert [layer.lower.shape for layer in found] == [(2, 4), (2, 2)]
  centre = box.lower + 0.1
  radius = 0.1 * np.abs(params).sum(axis=0)
  np.testing.assert_allclose(
    found[0].lower, centre @ params - radius, atol=1e-5
  )


@pytest.mark.parametrize('method', ['standard', 'ibp', 'sabr', 'taps'])
def test_labels_must_be_classes(problem, method):
  params, x, y = problem
  settings = {'split': SPLIT} if method == 'taps' else {}
  with pytest.raises(UserError, match=r'label.*7'):
    losses.LOSSES[method].loss(
      dense_net, params, x, y.at[2].set(7), EPS, HYPER, KEY, **settings
    )
