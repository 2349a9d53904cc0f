"""Steps of activations by position of a token."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import errors
from jaxlab.quantization import export, fit, operators, ptq
from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.types import Site
from tests.quantization import small

SITE = Site('', 'dense', 8, 4, w_bits=2, a_bits=2)
POSITIONS = 5


@functools.cache
def tokens():
  """`[B, T, C]` inputs whose positions differ in size and place."""
  rng = np.random.default_rng(0)
  x = rng.normal(size=(64, POSITIONS, 8))
  x = x * np.geomspace(0.1, 10, POSITIONS)[:, None]
  x = x + np.arange(POSITIONS)[:, None]
  weights, bias = rng.normal(size=(8, 4)), rng.normal(size=4)
  return tuple(jnp.asarray(a, jnp.float32) for a in (x, weights, bias))


@functools.cache
def fitted(rule):
  """One step for all positions, and one for each."""
  x, weights, bias = tokens()
  seen = fit.Seen(
    x.reshape(-1, 1, 8),
    jnp.ones(64 * POSITIONS),
    jnp.array([0.2, 0.5, 1.3, 2.0]),
    weights,
    bias,
  )
  plain = fit.fit_linear(SITE, rule, seen, operators.identity(SITE))
  return plain, fit.by_position(SITE, rule, seen, plain, x)


def by_hand(state, x):
  """Nearest levels in float64, whatever the shape of the steps."""
  scale = np.asarray(state.act.scale, np.float64)
  offset = np.asarray(state.act.offset, np.float64)
  codes = np.clip(np.round((np.asarray(x) - offset) / scale), 0, 3)
  return scale * codes + offset


def test_extremes_of_each_position():
  state = fitted(fit.Rule('minmax', 'minmax'))[1]
  x = np.asarray(tokens()[0])
  low = np.minimum(x.min(axis=(0, 2)), 0)  # a grid holds 0
  high = np.maximum(x.max(axis=(0, 2)), 0)
  found = np.asarray(state.act.scale)[:, 0]
  assert found.shape == (POSITIONS,)
  np.testing.assert_allclose(found, (high - low) / 3, rtol=0.35)
  assert np.all(np.diff(found) > 0)


@pytest.mark.parametrize('acts', ['minmax', 'mse', 'weighted'])
def test_error_of_each_position(acts):
  one, each = fitted(fit.Rule('mse', acts, act_offset=True))
  x = tokens()[0]
  before, after = (
    np.mean((by_hand(state, x) - np.asarray(x)) ** 2, axis=(0, 2))
    for state in (one, each)
  )
  # A step for all serves the largest: the smallest positions win.
  assert after[0] < before[0] / 3 and after.sum() <= before.sum() * 1.001


def test_codes_and_the_mean_error():
  rule = fit.Rule('mse', 'mse', mean_rectify=True)
  state = fitted(rule)[1]
  x, weights, bias = tokens()
  y = operators.quantized(SITE, state, x)
  by_codes = by_hand(state, x) @ np.asarray(operators.weights_of(state))
  np.testing.assert_allclose(y, by_codes + state.bias, rtol=1e-4, atol=1e-4)
  exact = np.asarray(x, np.float64) @ np.asarray(weights) + np.asarray(bias)
  np.testing.assert_allclose(np.mean(exact - y, axis=(0, 1)), 0, atol=1e-4)


def test_codes_at_places():
  state = fitted(fit.Rule())[1]
  x = tokens()[0]
  index = jnp.array([0, 7, 13, 64 * POSITIONS - 1])
  rows = operators.patches(SITE, x, index)
  found = operators.coded(operators.at_places(state.act, index), rows, 2)
  whole = operators.coded(state.act, x, 2).reshape(-1, 8)
  np.testing.assert_array_equal(found[:, 0], whole[index])


def test_gradients_of_steps_are_those_of_lsq():
  x = tokens()[0][:2]
  act = fitted(fit.Rule())[1].act

  def total(act):
    return jnp.sum(operators.coded(act, x, 2, size=x[0].size))

  grads = jax.grad(total, allow_int=True)(act)
  scale = np.asarray(act.scale, np.float64)
  u = (np.asarray(x, np.float64) - np.asarray(act.offset)) / scale
  inside = (u >= 0) & (u <= 3)
  by_scale = np.where(inside, np.round(u) - u, np.clip(np.round(u), 0, 3))
  # Eight numbers of an example share a step.
  expected = by_scale.sum(axis=(0, 2)) / np.sqrt(8 * 3)
  np.testing.assert_allclose(grads.scale[:, 0], expected, rtol=1e-3, atol=1e-4)
  outside = (~inside).sum(axis=(0, 2)) / np.sqrt(8 * 3)
  np.testing.assert_allclose(grads.offset[:, 0], outside, rtol=1e-5)


@pytest.mark.parametrize('name', ['vit', 'mamba'])
def test_whole_networks(name):
  net = small.NETS[name]()
  recipe = dataclasses.replace(METHODS['static_tokens'], steps=small.STEPS)
  model, report = ptq.quantize_model(
    net.blocks, net.params, net.calib, small.W2A2, recipe
  )
  steps = [
    state.scale.shape
    for group in model.sites
    for state in group.values()
    if isinstance(state, export.PackedLinear)
  ]
  length = max(shape[0] for shape in steps if shape)
  assert set(steps) == {(), (length, 1)} and steps.count((length, 1)) >= 2
  fake = export.apply(model, net.calib)
  np.testing.assert_array_equal(fake, export.apply(model, net.calib, 'integer'))
  assert bool(jnp.all(jnp.isfinite(fake)))
  # Known before anything runs: no token is measured.
  tried = [n for site in report.sites.values() for n in site.losses]
  assert tried and not any('per token' in n for n in tried)


def test_only_uniform_steps():
  with pytest.raises(
    errors.UserError, match=r"token_scale = 'static' .*kmeans"
  ):
    dataclasses.replace(METHODS['kmeans'], token_scale='static')
  with pytest.raises(
    errors.UserError, match=r'token_scale = .*dynamic, static'
  ):
    dataclasses.replace(METHODS['sharp'], token_scale='fixed')
