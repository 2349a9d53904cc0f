"""Networks: convolutions, batch normalization and initialization."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import signal

from jaxlab.certified import bounds, initialization, networks
from jaxlab.certified.networks import Layer, Network
from jaxlab.errors import UserError

NETWORK = Network(
  (
    Layer('conv', 3, norm=True),
    Layer('conv', 4, 4, 2, norm=True),
    Layer('dense', 5, norm=True),
    Layer('dense', 3, relu=False),
  ),
  (6, 6, 2),
  mean=(0.4, 0.5),
  std=(0.2, 0.3),
)


@functools.partial(jax.jit, static_argnums=0)
def apply(network, params, x):
  return network.apply(params, x)


@functools.partial(jax.jit, static_argnums=0)
def with_clean_statistics(network, params, x):
  return networks.with_clean_statistics(network, params, x)


@pytest.fixture(scope='module')
def normed():
  """A network with batch normalization, its parameters, and examples."""
  rng = np.random.default_rng(0)
  shapes = jax.eval_shape(NETWORK.init, jax.random.key(0))
  # Gains and biases that are not those of the start.
  params = jax.tree.map(
    lambda leaf: rng.normal(1, 0.5, leaf.shape).astype(np.float32), shapes
  )
  x = rng.uniform(size=(16, 6, 6, 2)).astype(np.float32)
  return NETWORK, params, x


@pytest.mark.parametrize('convolution', ['patches', 'lax'])
@pytest.mark.parametrize(('side', 'stride'), [(3, 1), (3, 2), (4, 2)])
def test_convolution_is_a_correlation(convolution, side, stride):
  network = Network(
    (Layer('conv', 3, side, stride, relu=False),),
    (7, 6, 2),
    convolution=convolution,
  )
  params = network.init(jax.random.key(0))
  x = np.random.default_rng(0).uniform(size=(2, 7, 6, 2)).astype(np.float32)
  found = apply(network, params, jnp.asarray(x))
  kernel = np.asarray(params['conv_0']['kernel'])
  pad = (side - 1) // 2
  padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
  for example in range(2):
    for out in range(3):
      want = sum(
        signal.correlate2d(
          padded[example, ..., c], kernel[..., c, out], 'valid'
        )
        for c in range(2)
      )[::stride, ::stride]
      np.testing.assert_allclose(found[example, ..., out], want, atol=1e-5)


def test_folded_network_gives_the_same(normed):
  network, params, x = normed
  full = with_clean_statistics(network, params, x[:8])
  folded, flat = networks.fold(network, full)
  assert not folded.has_norm
  assert network.has_norm
  # On other examples than those of the statistics.
  want, found = apply(network, full, x[8:]), apply(folded, flat, x[8:])
  np.testing.assert_allclose(found, want, atol=1e-5 * np.abs(want).max())


def test_both_convolutions_are_the_same_network(normed):
  network, params, x = normed
  full = with_clean_statistics(network, params, x)
  other = dataclasses.replace(network, convolution='lax')
  want = apply(network, full, x)
  np.testing.assert_allclose(
    apply(other, full, x), want, atol=1e-5 * np.abs(want).max()
  )


def test_statistics_are_those_of_the_clean_examples(normed):
  network, params, x = normed
  found = with_clean_statistics(network, params, x)['conv_0']
  first = dataclasses.replace(
    network, layers=(dataclasses.replace(network.layers[0], norm=False),)
  )
  z = {**params['conv_0'], 'bias': np.zeros(3, np.float32)}
  layers = (dataclasses.replace(first.layers[0], relu=False),)
  first = dataclasses.replace(first, layers=layers)
  values = apply(first, {'conv_0': z}, x)
  values = np.asarray(values, np.float64)
  np.testing.assert_allclose(found['mean'], values.mean((0, 1, 2)), atol=1e-5)
  np.testing.assert_allclose(found['var'], values.var((0, 1, 2)), rtol=1e-4)
  # A perturbed pass uses the same ones: it differs from a pass of its own.
  noisy = jnp.clip(x + 0.2, 0, 1)
  clean = with_clean_statistics(network, params, x)
  own = with_clean_statistics(network, params, noisy)
  apart = apply(network, clean, noisy) - apply(network, own, noisy)
  assert np.abs(apart).max() > 1e-2


def test_interval_bounds_hold_what_the_network_gives(normed):
  network, params, x = normed
  full = with_clean_statistics(network, params, x)
  box = bounds.input_box(x[:2], 0.02)
  ibp = jax.jit(functools.partial(bounds.ibp, network.apply))
  found = ibp(full, box, jnp.eye(3))
  for seed in range(5):
    share = jax.random.uniform(jax.random.key(seed), box.lower.shape)
    point = box.lower + share * (box.upper - box.lower)
    logits = apply(network, full, point)
    assert np.all(logits >= found.lower - 1e-4)
    assert np.all(logits <= found.upper + 1e-4)


def test_seven_layers_have_the_size_of_the_literature():
  network = networks.cnn7()
  shapes = jax.eval_shape(network.init, jax.random.key(0))
  kernels = 9 * (3 * 64 + 64 * 64 + 64 * 128 + 2 * 128 * 128)
  dense = 128 * 16 * 16 * 512 + 512 * 10
  vectors = 2 * (64 + 64 + 3 * 128 + 512) + 10
  count = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))
  assert count == kernels + dense + vectors
  assert network == networks.cnn7()
  assert hash(network) == hash(networks.cnn7())
  small = jax.eval_shape(networks.small_cnn().init, jax.random.key(0))
  assert small['dense_2']['kernel'].shape == (7 * 7 * 32, 100)


def test_ibp_weights_keep_the_mean_radius():
  weights = initialization.ibp_normal(jax.random.key(0), (400, 300), 400)
  # A layer takes a mean radius of r to r times the sum of |w|; ReLU halves it.
  np.testing.assert_allclose(np.abs(weights).sum(0).mean() / 2, 1, rtol=0.01)
  he = initialization.he_normal(jax.random.key(0), (400, 300), 400)
  np.testing.assert_allclose(np.var(he), 2 / 400, rtol=0.02)


def test_bad_input(normed):
  network, params, x = normed
  with pytest.raises(UserError, match='conv_0 has no batch statistics'):
    network.apply(params, x)
  with pytest.raises(UserError, match='winograd'):
    networks.small_cnn(convolution='winograd')
  with pytest.raises(UserError, match='xavier'):
    networks.mlp(initializer='xavier').init(jax.random.key(0))
  with pytest.raises(UserError, match='widths'):
    networks.mlp((3,))
  with pytest.raises(UserError, match='std'):
    networks.mlp(std=(0.0,))
  with pytest.raises(UserError, match='conv'):
    Network((Layer('conv', 3),), (5,)).init(jax.random.key(0))
