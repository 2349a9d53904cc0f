"""The captured graph computes what the network computes, or says why not."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified.graph import capture, evaluate
from jaxlab.errors import UserError
from tests.certified import nets


def everything(params, x):
  """Each operation that a graph may hold, on `[B, 4, 4, 2]`."""
  kernel, weights = params
  a = jax.lax.conv_general_dilated(
    x, kernel, (1, 1), 'SAME', dimension_numbers=('NHWC', 'HWIO', 'NHWC')
  )
  a = jnp.maximum(a, 0.1) - jnp.minimum(0.2, 2 - a)
  a = jnp.concatenate([a, jnp.ones((len(x), 4, 4, 1)), 3 * x], axis=-1)
  a = jnp.where(jnp.arange(4)[:, None, None] % 2 == 0, a, -a / 2)
  a = jnp.pad(a, ((0, 0), (1, 0), (0, 0), (0, 0)), constant_values=0.5)
  a = jnp.clip(a[:, ::-1, 1:], -1, 1).transpose(0, 2, 1, 3)
  a = jnp.maximum(a, jnp.flip(a, axis=2)) + jnp.abs(a)
  a = nn.max_pool(a, (2, 2), (2, 2), padding='SAME') + jnp.minimum(
    a[:, :2, :3], a[:, 1:, 2:]
  )
  a = jnp.cumsum(a, axis=1)[..., jnp.array([2, 0, 0])]
  pooled = nn.avg_pool(a, (2, 2))
  a = a.mean(axis=(1, 2)) + a.max(axis=(1, 2)) + pooled.sum(axis=(1, 2))
  return jax.checkpoint(lambda a: jax.nn.relu(a) @ weights)(a)


@pytest.fixture(scope='module')
def everything_params():
  keys = jax.random.split(jax.random.key(3))
  return (
    jax.random.normal(keys[0], (3, 3, 2, 2)),
    jax.random.normal(keys[1], (3, 4)),
  )


def all_values(net, params, x):
  """The graph, and `[B, 1, ...]` values of all its nodes."""
  graph = capture(net, params, x)
  values = jax.vmap(lambda example: evaluate(graph, example[None]))
  return graph, jax.jit(values)(x)


def test_graph_computes_the_network(everything_params):
  x = jax.random.normal(jax.random.key(0), (3, 4, 4, 2))
  graph, values = all_values(everything, everything_params, x)
  np.testing.assert_allclose(
    values[graph.output][:, 0],
    jax.jit(everything)(everything_params, x),
    atol=1e-5,
  )


@pytest.mark.parametrize('pool', ['max', 'average'])
def test_graph_of_a_module(pool):
  net, params = nets.residual_conv(pool)
  x = jax.random.uniform(jax.random.key(0), (2, 5, 5, 1))
  graph, values = all_values(net, params, x)
  np.testing.assert_allclose(
    values[graph.output][:, 0], jax.jit(net)(params, x), atol=1e-5
  )
  assert all(
    value.shape[1:] == node.shape
    for value, node in zip(values, graph.nodes, strict=True)
  )


def test_maximum_is_marked_and_correct(everything_params):
  x = jax.random.normal(jax.random.key(0), (3, 4, 4, 2))
  graph, values = all_values(everything, everything_params, x)
  marked = [i for i, node in enumerate(graph.nodes) if node.maximum]
  assert len(marked) > 8
  for index in marked:
    a, b = graph.nodes[index].maximum
    np.testing.assert_allclose(
      values[index], np.maximum(values[a], values[b]), atol=1e-5
    )


def test_exact_until_two_maps_mix():
  def net(params, x):
    x = 2 * x - 1
    mixed = -(x @ params)
    return (mixed @ params) + 1

  graph = capture(net, jnp.eye(3), jnp.zeros((1, 3)))
  products = [
    index
    for index, node in enumerate(graph.nodes)
    if node.terms and not node.terms[0].monomial
  ]
  first, second = products
  assert all(graph.exact[:second]) and first < second
  assert not any(graph.exact[second:])


def test_what_the_output_does_not_need_is_left_out():
  def net(params, x):
    jax.nn.relu(x * params)
    return x + 1

  graph = capture(net, 2.0, jnp.zeros((1, 3)))
  assert len(graph.nodes) == 2 and not graph.relus


class Sigmoid(nn.Module):
  """A network with an operation that has no bounds here."""

  @nn.compact
  def __call__(self, x):
    return nn.sigmoid(nn.Dense(3, name='head')(x))


class Inner(nn.Module):
  """The same one level below."""

  @nn.compact
  def __call__(self, x):
    return nn.Dense(2)(Sigmoid(name='gate')(x))


@pytest.mark.parametrize(
  ('net', 'words'),
  [
    (lambda p, x: jax.nn.softmax(x), ['exp']),
    (lambda p, x: x * x, ['mul']),
    (lambda p, x: x**2, ['integer_pow']),
    (lambda p, x: 1 / x, ['div']),
    (lambda p, x: jnp.where(x > 0, x, 0.1 * x), ['gt']),
  ],
)
def test_unsupported_operations_are_named(net, words):
  with pytest.raises(UserError) as error:
    capture(net, None, jnp.ones((1, 3)))
  for word in words:
    assert repr(word) in str(error.value)


def test_the_layer_is_named():
  module = Inner()
  params = module.init(jax.random.key(0), jnp.zeros((1, 4)))
  with pytest.raises(UserError, match=r"'logistic'.*'Inner/gate'"):
    capture(module.apply, params, jnp.zeros((1, 4)))


def test_wrong_outputs():
  with pytest.raises(UserError, match=r'\(1, 2, 3\)'):
    capture(lambda p, x: x, None, jnp.zeros((1, 2, 3)))
  with pytest.raises(UserError, match='do not depend'):
    capture(lambda p, x: jnp.ones((1, 2)), None, jnp.zeros((1, 2)))
