"""What a site computes, against loops over places in NumPy."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.quantization import operators
from jaxlab.quantization.types import Activation, Linear, Site, Transform
from tests.quantization import small
from tests.quantization.closeness import assert_normwise

SITES = {
  'dense': Site('', 'dense', 12, 5),
  'conv': Site('', 'conv', 6, 4, (3, 2), (2, 1), ((1, 2), (0, 1)), (1, 2)),
  'grouped': Site('', 'conv', 4, 6, (3,), (1,), ((2, 0),), (1,), 2),
}
SHAPES = {'dense': (3, 4, 12), 'conv': (2, 6, 5, 6), 'grouped': (2, 7, 4)}
OFF = jnp.zeros((), bool)


def reference(site, x, weights, bias):
  """The site's output in float64, place by place."""
  x, weights = np.asarray(x, np.float64), np.asarray(weights, np.float64)
  if site.kind == 'dense':
    return x @ weights + np.asarray(bias, np.float64)
  x = np.pad(x, ((0, 0), *site.padding, (0, 0)))
  each, columns = site.channels // site.groups, site.columns // site.groups
  spans = [(w - 1) * d for w, d in zip(site.window, site.dilation, strict=True)]
  places = [
    (n - span - 1) // s + 1
    for n, span, s in zip(x.shape[1:-1], spans, site.strides, strict=True)
  ]
  y = np.zeros((len(x), *places, site.columns))
  for place in itertools.product(*map(range, places)):
    cut = x
    for axis, (at, s, d, span) in enumerate(
      zip(place, site.strides, site.dilation, spans, strict=True)
    ):
      index = np.arange(at * s, at * s + span + 1, d)
      cut = np.take(cut, index, axis=axis + 1)
    for g in range(site.groups):
      own = slice(g * columns, (g + 1) * columns)
      part = cut[..., g * each : (g + 1) * each].reshape(len(x), -1)
      y[(slice(None), *place, own)] = part @ weights[:, own]
  return y + np.asarray(bias, np.float64)


def transforms_of(site, rng):
  """All combinations of shift, scale, rotation and r, stacked."""
  plain = operators.identity(site)
  dense = site.kind == 'dense'
  found = []
  for shift, scale, rotate, token in itertools.product([False, True], repeat=4):
    found.append(
      Transform(
        rng.normal(size=site.channels) if shift else plain.shift,
        rng.uniform(0.3, 3, site.channels) if scale else plain.scale,
        rng.choice([-1.0, 1.0], site.channels),
        np.asarray(rotate),
        np.asarray(token and dense),
      )
    )
  stacked = jax.tree.map(lambda *x: np.stack(x), *found)
  return jax.tree.map(
    lambda x: x if x.dtype == bool else jnp.asarray(x, jnp.float32), stacked
  )


@pytest.mark.parametrize('name', SITES)
def test_transforms_do_not_change_the_product(name):
  site, x = SITES[name], small.inputs(*SHAPES[name], seed=1)
  rng = np.random.default_rng(2)
  weights = small.inputs(site.rows, site.columns, seed=3)
  bias = small.inputs(site.columns, seed=4)
  zeros = jnp.zeros((site.rows, site.columns))
  act = Activation(jnp.ones(()), jnp.zeros(()), None, OFF, OFF)

  @jax.jit
  @jax.vmap
  def run(transform):
    turned = operators.transformed_weights(site, transform, weights)
    state = Linear(
      transform=transform,
      act=act,
      code=zeros.astype(jnp.uint8),
      low=turned,
      high=turned,
      soft=zeros,
      log_gain=jnp.zeros(site.columns),
      bias=operators.shifted_bias(site, transform, weights, bias),
      scale=jnp.ones(site.columns),
      zero=jnp.zeros(site.columns),
    )
    return operators.quantized(site, state, x), turned

  y, turned = run(transforms_of(site, rng))
  expected = reference(site, x, weights, bias)
  for found in y:
    assert_normwise(found, expected, 1e-5)
  assert_normwise(operators.plain(site, weights, bias, x), expected, 1e-5)
  changed = [not np.allclose(w, weights) for w in turned]
  rotates = site.groups == 1
  assert changed == [
    scale or (rotate and rotates)
    for _, scale, rotate, _ in itertools.product([False, True], repeat=4)
  ]


def test_patches_are_what_the_weights_see():
  site, x = SITES['conv'], small.inputs(*SHAPES['conv'], seed=1)
  weights = small.inputs(site.rows, site.columns, seed=3)
  places = operators.num_places(site, x.shape)
  index = jnp.asarray([0, 5, 2 * int(np.prod(places)) - 1])
  rows = operators.patches(site, x, index).reshape(3, -1)
  y = reference(site, x, weights, np.zeros(site.columns))
  expected = y.reshape(-1, site.columns)[np.asarray(index)]
  assert_normwise(rows @ weights, expected, 1e-5)


def test_channel_of_row_counts_by_group():
  found = np.asarray(operators.channel_of_row(SITES['grouped']))
  assert found.shape == (6, 6)
  np.testing.assert_array_equal(found[:, 0], [0, 1, 0, 1, 0, 1])
  np.testing.assert_array_equal(found[:, 5], [2, 3, 2, 3, 2, 3])


@pytest.mark.parametrize('bits', [1, 2, 3])
def test_codes_take_no_more_than_their_bits(bits):
  x = small.inputs(500)
  act = small.act_of(x, bits)
  found = np.asarray(operators.coded(act, x, bits))
  grid = np.asarray(act.offset) + np.asarray(act.scale) * np.arange(2**bits)
  nearest = grid[np.argmin(np.abs(np.asarray(x)[:, None] - grid), axis=1)]
  assert_normwise(found, nearest, 1e-6)
  levels = jnp.asarray(np.sort(np.random.default_rng(0).normal(size=2**bits)))
  book = act._replace(levels=levels, uniform=OFF)
  values = np.asarray(operators.coded(book, x, bits))
  assert set(values.tolist()) == set(np.asarray(levels, x.dtype).tolist())
  off = operators.coded(act._replace(on=OFF), x, bits)
  np.testing.assert_array_equal(off, x)


def test_soft_weights_lie_between_and_harden_to_codes():
  site = dataclasses.replace(SITES['dense'], w_bits=2, a_bits=2)
  weights = small.inputs(site.rows, site.columns)
  state = small.state_of(
    site, weights, np.zeros(5, np.float32), small.inputs(4, 12)
  )
  soft = operators.weights_of(state, soft=True)
  scale = np.asarray(state.scale)
  inside = np.clip(weights, -2 * scale, scale)
  assert_normwise(soft, inside, 1e-5)
  codes = np.asarray(operators.codes_of(state))
  assert codes.dtype == np.uint8 and codes.max() <= 3
  value = scale * (codes - np.asarray(state.zero))
  assert_normwise(operators.weights_of(state), value, 1e-6)
  gain = state._replace(log_gain=jnp.log(jnp.arange(1.0, 6.0)))
  assert_normwise(operators.weights_of(gain), value * np.arange(1, 6), 1e-6)


def test_compensation_sees_the_codes():
  site = dataclasses.replace(SITES['conv'], w_bits=3, a_bits=2)
  x = small.inputs(*SHAPES['conv'], seed=1)
  state = small.state_of(
    site,
    small.inputs(site.rows, site.columns),
    np.zeros(site.columns, np.float32),
    x,
  )
  first, second = small.inputs(site.rows, 1), small.inputs(1, site.columns)
  added = state._replace(first=first, second=second)
  codes = operators.coded(state.act, operators.pad(site, x), site.a_bits)
  bare = dataclasses.replace(site, padding=((0, 0), (0, 0)))
  expected = reference(bare, codes, first @ second, np.zeros(site.columns))
  gap = operators.quantized(site, added, x) - operators.quantized(
    site, state, x
  )
  assert_normwise(gap, expected, 1e-5)


def test_a_token_of_zeros_has_a_finite_gradient():
  site = Site('', 'dense', 4, 3, w_bits=2, a_bits=2)
  transform = operators.identity(site)

  def total(x):
    moved, size = operators.transformed(site, transform, x)
    return jnp.sum(moved * size)

  grads = jax.grad(total)(jnp.zeros((2, 4)))
  np.testing.assert_allclose(grads, np.ones((2, 4)))
