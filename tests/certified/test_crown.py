"""Backward linear relaxation against closed forms, programs and samples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified import bounds, crown
from jaxlab.certified.graph import capture
from jaxlab.certified.milp import minimum_margins
from tests.certified import nets

_crown = jax.jit(bounds.crown, static_argnums=0)


def _one_relu(params, x):
  return params * jax.nn.relu(x)


@pytest.mark.parametrize(
  ('lower', 'upper', 'sign', 'expected'),
  [
    # Below: the line z where it leaves the smaller triangle, else 0.
    (-1.0, 3.0, 1, (-1.0, 3.0)),
    (-3.0, 1.0, 1, (0.0, 1.0)),
    (-2.0, 2.0, 1, (-2.0, 2.0)),
    (0.5, 2.0, 1, (0.5, 2.0)),
    (-2.0, -0.5, 1, (0.0, 0.0)),
    (-1.0, 3.0, -1, (-3.0, 1.0)),
  ],
)
def test_one_relu(lower, upper, sign, expected):
  box = bounds.Interval(jnp.array([[lower]]), jnp.array([[upper]]))
  margins = _crown(_one_relu, jnp.float32(sign), box, jnp.eye(1))
  np.testing.assert_allclose(margins, np.reshape(expected, (2, 1, 1)))


def test_alpha_finds_the_best_slope_of_one_relu():
  # relu(z) - z/2 on [-1, 3] is bounded below by (a - 1/2) z, best at a = 1/2.
  def net(params, x):
    return jax.nn.relu(x) - params * x

  box = bounds.Interval(jnp.array([[-1.0]]), jnp.array([[3.0]]))
  problem = (net, jnp.float32(0.5), box, jnp.eye(1))
  np.testing.assert_allclose(_crown(*problem).lower, [[-0.5]], atol=1e-6)
  best = jax.jit(bounds.alpha_crown, static_argnums=0)(*problem).lower
  np.testing.assert_allclose(best, [[0]], atol=0.02)


def test_relaxation_encloses_relu():
  rng = np.random.default_rng(0)
  lower, upper = np.sort(rng.normal(size=(2, 500)), axis=0).astype('float32')
  z = lower + np.linspace(0, 1, 11)[:, None] * (upper - lower)
  for slope in (None, jnp.asarray(rng.random(500), jnp.float32)):
    line = crown.relax(bounds.Interval(lower, upper), slope)
    positive = np.maximum(z, 0)
    assert np.all(line.lower * z <= positive + 1e-6)
    assert np.all(line.upper * z + line.intercept >= positive - 1e-6)


@pytest.fixture(scope='module')
def conv_problem():
  """A residual network of convolutions, a box, and exact minima."""
  net, params = nets.residual_conv('average')
  x = jax.random.uniform(jax.random.key(4), (2, 5, 5, 1))
  box = bounds.input_box(x, 0.04)
  C = bounds.margin_matrix(jnp.array([0, 2]), 3)
  exact = [
    minimum_margins(
      net, params, bounds.Interval(box.lower[i, None], box.upper[i, None]), C[i]
    ).margins
    for i in range(2)
  ]
  return net, params, box, C, np.stack(exact)


@pytest.fixture(scope='module')
def conv_bounds(conv_problem):
  net, params, box, C, _ = conv_problem

  @jax.jit
  def every(params, box):
    return {
      name: getattr(bounds, name)(net, params, box, C).lower
      for name in ('ibp', 'crown', 'alpha_crown')
    }

  return every(params, box)


def test_convolutions_are_bounded_soundly(conv_problem, conv_bounds):
  net, params, box, C, exact = conv_problem
  for lower in conv_bounds.values():
    assert np.all(lower <= exact + 1e-5)
  assert np.all(conv_bounds['alpha_crown'] >= conv_bounds['crown'] - 1e-5)
  assert np.all(conv_bounds['crown'] > conv_bounds['ibp'])
  assert np.all(exact - conv_bounds['crown'] < 2)
  for index in range(2):
    one = bounds.Interval(*(part[index : index + 1] for part in box))
    sampled = nets.sampled_minimum(net, params, one, C[index])
    assert np.all(exact[index] <= sampled + 1e-5)


def test_chunks_change_nothing(conv_problem, conv_bounds):
  net, params, box, C, _ = conv_problem
  chunked = jax.jit(
    lambda params, box: bounds.crown(net, params, box, C, chunk=7).lower
  )(params, box)
  np.testing.assert_allclose(chunked, conv_bounds['crown'], atol=1e-5)


def test_default_chunk_keeps_memory():
  graph = capture(
    nets.dense_net,
    nets.dense_params(0, (10, 1000, 10)),
    jax.ShapeDtypeStruct((1, 10), jnp.float32),
  )
  assert crown.default_chunk(graph, 100) * 100 * 1000 <= 2**21
  assert crown.default_chunk(graph, 10**6) == 1


def test_intermediate_bounds_hold_and_are_tighter_than_intervals():
  params = nets.dense_params(3, (4, 8, 8, 3))
  box = bounds.input_box(jnp.full((1, 4), 0.5), 0.2)
  graph = capture(nets.dense_net, params, box.lower)
  tight, loose = jax.jit(
    lambda box: [
      crown.intermediate_bounds(graph, box, method=method, chunk=100)
      for method in ('crown', 'ibp')
    ]
  )(box)
  rng = np.random.default_rng(0)
  x = np.clip(rng.choice([0.3, 0.7, 0.5], (4000, 4)), *map(np.asarray, box))
  first, second = graph.relus
  z1 = x @ params[0][0] + params[0][1]
  z2 = np.maximum(z1, 0) @ params[1][0] + params[1][1]
  for z, index in ((z1, first), (z2, second)):
    assert np.all(z >= tight[index].lower - 1e-5)
    assert np.all(z <= tight[index].upper + 1e-5)
  # The first layer is exact: corners attain it.
  np.testing.assert_allclose(z1.min(0), tight[first].lower[0], atol=1e-5)
  width = [np.sum(b[second].upper - b[second].lower) for b in (tight, loose)]
  assert width[0] < 0.9 * width[1]
