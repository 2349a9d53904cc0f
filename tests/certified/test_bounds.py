"""Interval bounds, boxes and margins."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified import bounds
from jaxlab.errors import UserError
from tests.certified import nets

_ibp = jax.jit(bounds.ibp, static_argnums=0)


def test_input_box_is_cut_to_the_range():
  box = bounds.input_box(jnp.array([[0.05, 0.5, 0.95]]), 0.1)
  np.testing.assert_allclose(box.lower, [[0, 0.4, 0.85]], atol=1e-7)
  np.testing.assert_allclose(box.upper, [[0.15, 0.6, 1]], atol=1e-7)
  wide = bounds.input_box(jnp.array([[3.0]]), 1, clip=None)
  np.testing.assert_allclose(wide, [[[2]], [[4]]])


def test_input_box_of_a_radius_each_and_of_integers():
  box = bounds.input_box(jnp.ones((2, 1, 1), int), jnp.array([0.5, 0.25]))
  np.testing.assert_allclose(box.lower[:, 0, 0], [0.5, 0.75])
  assert box.lower.dtype == jnp.float32


def test_input_box_under_jit_checks_nothing():
  box = jax.jit(bounds.input_box)(jnp.array([[2.0]]), -1.0)
  assert box.lower.shape == (1, 1)


def test_margin_matrix_by_hand():
  C = bounds.margin_matrix(jnp.array([1, 0]), 3)
  np.testing.assert_array_equal(
    C, [[[-1, 1, 0], [0, 1, -1]], [[1, -1, 0], [1, 0, -1]]]
  )


@pytest.mark.parametrize(
  ('x', 'eps', 'words'),
  [
    ([0.2], -0.1, ['eps', '-0.1']),
    ([0.2], float('nan'), ['eps', 'nan']),
    ([1.4], 0.1, ['x', '1.4']),
    ([float('nan')], 0.1, ['x', 'nan']),
  ],
)
def test_bad_boxes(x, eps, words):
  with pytest.raises(UserError) as error:
    bounds.input_box(jnp.array([x]), eps)
  for word in words:
    assert word in str(error.value)


def test_bad_rows_labels_and_methods():
  net, params = nets.dense_net, nets.dense_params(0, (2, 3, 3))
  box = bounds.input_box(jnp.full((2, 2), 0.5), 0.1)
  for shape in [(1, 2), (3,), (1, 2, 3)]:
    with pytest.raises(UserError, match=r'C has shape \(.*3 logits'):
      bounds.ibp(net, params, box, jnp.zeros(shape))
  with pytest.raises(UserError, match='label 3'):
    bounds.margin_matrix(jnp.array([0, 3]), 3)
  with pytest.raises(UserError, match="'interval'"):
    bounds.crown(net, params, box, jnp.zeros((1, 3)), 'interval')
  with pytest.raises(UserError, match=r'lower 0\.6 .* upper 0\.4'):
    bounds.ibp(net, params, box[::-1], jnp.zeros((1, 3)))
  with pytest.raises(UserError, match='same shape'):
    bounds.ibp(net, params, (box.lower, box.upper[:1]), jnp.zeros((1, 3)))


def test_one_relu_by_hand():
  def net(params, x):
    hidden = jax.nn.relu(x @ jnp.array([[1.0, -1.0], [2.0, 1.0]]) + params)
    return hidden @ jnp.array([[1.0, 0.0], [-1.0, 2.0]])

  # Hidden inputs lie in [-0.2, 2.8] and [-0.8, 0.8]; the first logit minus the
  # second is h1 - 3 h2.
  box = bounds.Interval(jnp.zeros((1, 2)), jnp.ones((1, 2)))
  params = jnp.array([-0.2, 0.0])
  margins = _ibp(net, params, box, jnp.array([[1.0, -1.0]]))
  np.testing.assert_allclose(margins.lower, [[-3.0]], atol=1e-6)
  np.testing.assert_allclose(margins.upper, [[2.8]], atol=1e-6)


def test_affine_network_is_exact():
  rng = np.random.default_rng(0)
  weights, bias = rng.normal(size=(3, 2, 2)), rng.normal(size=2)

  def net(params, x):
    return (x @ params[0] + bias) @ params[1] @ params[2]

  box = bounds.Interval(jnp.array([[0.1, 0.2]]), jnp.array([[0.5, 0.9]]))
  C = rng.normal(size=(4, 2))
  slope = weights[0] @ weights[1] @ weights[2] @ C.T
  centre = np.array([0.3, 0.55]) @ slope + bias @ weights[1] @ weights[2] @ C.T
  radius = np.array([0.2, 0.35]) @ np.abs(slope)
  for bound in (bounds.ibp, bounds.crown):
    jitted = jax.jit(bound, static_argnums=0)
    margins = jitted(net, jnp.asarray(weights), box, C)
    np.testing.assert_allclose(margins.lower, [centre - radius], atol=1e-5)
    np.testing.assert_allclose(margins.upper, [centre + radius], atol=1e-5)


def test_maximum_is_monotone():
  def net(params, x):
    return jnp.maximum(x[:, :2], params * x[:, 2:])

  box = bounds.Interval(
    jnp.array([[0.0, -1.0, 0.5, -3.0]]), jnp.array([[1.0, 2.0, 0.7, 1.0]])
  )
  margins = _ibp(net, jnp.float32(1), box, jnp.eye(2))
  np.testing.assert_allclose(margins.lower, [[0.5, -1]], atol=1e-6)
  np.testing.assert_allclose(margins.upper, [[1, 2]], atol=1e-6)


class VariantsTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_rows_shared_or_own(self):
    params = nets.dense_params(1, (3, 4, 3))
    x = jax.random.uniform(jax.random.key(0), (3, 3))
    box = bounds.input_box(x, 0.1)
    C = bounds.margin_matrix(jnp.zeros(3, int), 3)

    def ibp(box, C):
      return bounds.ibp(nets.dense_net, params, box, C)

    own = self.variant(ibp)(box, C)
    shared = self.variant(ibp)(box, C[0])
    chex.assert_trees_all_close(own, shared, atol=1e-6)


@pytest.fixture(scope='module')
def many():
  """200 networks of one hidden layer, a box each, and the exact margins."""
  rng = np.random.default_rng(5)
  params = [nets.dense_params(seed, (3, 6, 3)) for seed in range(200)]
  lower = rng.random((200, 3)) * 0.6
  upper = lower + rng.random((200, 3)) * 0.6
  C = np.array([[1, -1, 0], [1, 0, -1]])
  exact = [
    [nets.vertex_minimum(p, row, low, high) for row in C]
    for p, low, high in zip(params, lower, upper, strict=True)
  ]
  stacked = jax.tree.map(
    lambda *leaves: np.stack(leaves).astype('float32'), *params
  )
  boxes = lower.astype('float32'), upper.astype('float32')
  return stacked, *boxes, C, np.array(exact)


@pytest.mark.parametrize('name', ['ibp', 'crown_ibp', 'crown', 'alpha_crown'])
def test_bounds_of_200_networks_are_below_the_exact_margins(many, name):
  params, lower, upper, C, exact = many

  def bound(params, lower, upper):
    box = bounds.Interval(lower[None], upper[None])
    return getattr(bounds, name)(nets.dense_net, params, box, C)

  margins = jax.jit(jax.vmap(bound))(params, lower, upper)
  gap = exact - margins.lower[:, 0]
  assert np.all(gap > -1e-5)
  assert np.all(margins.lower <= margins.upper)
  # Of the right size, too: with one hidden layer most boxes are almost tight.
  assert np.median(gap) < {'ibp': 1.0}.get(name, 0.05)


def test_upper_bounds_mirror_the_lower(many):
  params, lower, upper, C, _ = many

  def bound(params, lower, upper, C):
    box = bounds.Interval(lower[None], upper[None])
    return bounds.crown(nets.dense_net, params, box, C)

  run = jax.jit(jax.vmap(bound, in_axes=(0, 0, 0, None)))
  plus = run(params, lower, upper, C)
  minus = run(params, lower, upper, -C)
  np.testing.assert_allclose(plus.upper, -minus.lower, atol=1e-6)


@pytest.mark.parametrize('bound', [bounds.ibp, bounds.crown_ibp])
def test_gradients_agree_with_differences(bound):
  with jax.enable_x64(True):
    params = nets.dense_params(2, (3, 5, 5, 3))
    box = bounds.input_box(jnp.array([[0.2, 0.4, 0.9]], float), 0.08)
    C = bounds.margin_matrix(jnp.array([0]), 3)

    @jax.jit
    def total(scale):
      moved = jax.tree.map(lambda leaf: leaf * scale, params)
      return jnp.sum(bound(nets.dense_net, moved, box, C).lower)

    slope = jax.jit(jax.grad(total))(1.3)
    difference = (total(1.3 + 1e-6) - total(1.3 - 1e-6)) / 2e-6
    np.testing.assert_allclose(slope, difference, rtol=1e-6)


@pytest.mark.parametrize('name', ['ibp', 'crown', 'alpha_crown'])
def test_nan_never_certifies(name):
  params = nets.dense_params(0, (2, 3, 3))
  params[0][0][0, 0] = np.nan
  box = bounds.input_box(jnp.full((1, 2), 0.5), 0.1)
  C = bounds.margin_matrix(jnp.array([0]), 3)
  margins = jax.jit(
    lambda params: getattr(bounds, name)(nets.dense_net, params, box, C)
  )(params)
  assert np.all(np.isnan(margins.lower))
