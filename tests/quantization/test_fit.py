"""Grids and codes of a site, against sums in float64."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.quantization import fit, operators, rounding
from jaxlab.quantization.types import Site
from tests.quantization import small
from tests.quantization.closeness import assert_normwise

SITE = Site('', 'dense', 8, 4, w_bits=2, a_bits=2)
PLAIN = operators.identity(SITE)


def _mean_1(x):
  return x / x.mean()


def seen_of(**changed):
  """Correlated inputs of unequal channels, and weights of places."""
  rng = np.random.default_rng(0)
  rows = rng.normal(size=(256, 8)) @ rng.normal(size=(8, 8))
  rows += 4 * rng.normal(size=(256, 1))
  rows *= np.geomspace(0.2, 3, 8)
  seen = {
    'rows': rows[:, None],
    'omega': _mean_1(rng.gamma(1.0, size=256)),
    'gamma': np.array([0.2, 0.5, 1.3, 2.0]),
    'weights': rng.normal(size=(8, 4)),
    'bias': rng.normal(size=4),
  } | changed
  return fit.Seen(**{k: jnp.asarray(v, jnp.float32) for k, v in seen.items()})


@functools.cache
def fitted(**options):
  return fit.fit_linear(SITE, fit.Rule(**options), seen_of(), PLAIN)


def gram_of(seen):
  rows = np.asarray(seen.rows[:, 0], np.float64)
  return rows.T @ (rows * np.asarray(seen.omega)[:, None]) / len(rows)


def hessian_cost(state, seen):
  gap = np.asarray(operators.weights_of(state), np.float64)
  gap -= np.asarray(seen.weights)
  return np.sum(gap * (gram_of(seen) @ gap), axis=0)


def test_the_hessian_changes_the_grid():
  plain, weighted = fitted(weights='mse'), fitted(weights='hessian')
  assert not np.allclose(plain.scale, weighted.scale, rtol=1e-3)
  seen = seen_of()
  before, after = hessian_cost(plain, seen), hessian_cost(weighted, seen)
  assert np.all(after <= before * (1 + 1e-5)) and after.sum() < before.sum()
  squares = [
    np.sum((operators.weights_of(s) - seen.weights) ** 2, axis=0)
    for s in (plain, weighted)
  ]
  assert np.all(squares[0] <= squares[1] * (1 + 1e-5))


def test_the_range_is_met_by_minmax():
  state, seen = fitted(weights='minmax', acts='minmax'), seen_of()
  value = np.asarray(operators.weights_of(state))
  gap = np.abs(value - np.asarray(seen.weights))
  # Zero points are whole: ends move by half a step, then rounding by another.
  assert np.all(gap <= np.asarray(state.scale) * (1 + 1e-5))
  ends = state.act.offset + state.act.scale * jnp.asarray([0, 3])
  low, high = np.min(seen.rows), np.max(seen.rows)
  step = float(state.act.scale)
  assert abs(ends[0] - low) <= step and abs(ends[1] - high) <= step


def test_weights_go_to_their_nearest_levels():
  state, seen = fitted(weights='mse'), seen_of()
  codes = rounding.rtn_round(seen.weights, state.scale, state.zero, 2)
  np.testing.assert_array_equal(operators.codes_of(state), codes)


def test_mean_rectification_takes_the_mean_error_away():
  seen = seen_of()

  def mean_error(state):
    y = operators.quantized(SITE, state, seen.rows[:, 0])
    exact = np.asarray(seen.rows[:, 0]) @ np.asarray(seen.weights)
    gap = np.asarray(y) - exact - np.asarray(seen.bias)
    return np.mean(np.asarray(seen.omega)[:, None] * gap, axis=0)

  rectified = mean_error(fitted(mean_rectify=True))
  plain = mean_error(fitted(mean_rectify=False))
  assert np.max(np.abs(rectified)) <= 1e-5
  assert np.max(np.abs(plain)) > 1e-2


def test_gptq_codes_are_those_of_the_rounding():
  state, seen = fitted(rounding='gptq'), seen_of()
  expected = rounding.gptq_round(
    seen.weights,
    jnp.asarray(gram_of(seen), jnp.float32),
    state.scale,
    state.zero,
    2,
  )
  found = operators.codes_of(state)
  assert np.mean(np.asarray(found) == np.asarray(expected)) == 1
  assert np.any(found != operators.codes_of(fitted()))


def test_half_integer_zeros_are_allowed_where_they_serve():
  state = fitted(half_integer=True)
  doubled = 2 * np.asarray(state.zero)
  np.testing.assert_array_equal(doubled, np.round(doubled))
  seen = seen_of()
  squares = [
    np.sum((operators.weights_of(s) - seen.weights) ** 2, axis=0)
    for s in (state, fitted())
  ]
  assert np.all(squares[0] <= squares[1] * (1 + 1e-5))


def test_kmeans_beats_a_uniform_grid():
  book, grid, seen = fitted(weights='kmeans'), fitted(), seen_of()
  squares = [
    np.sum((operators.weights_of(s) - seen.weights) ** 2, axis=0)
    for s in (book, grid)
  ]
  assert np.all(squares[0] <= squares[1] * (1 + 1e-5))
  levels, values = np.asarray(book.levels), operators.weights_of(book)
  for column, own in zip(np.asarray(values).T, levels, strict=True):
    gap = np.min(np.abs(column[:, None] - own), axis=1)
    assert np.max(gap) <= 1e-6


@pytest.mark.parametrize('options', [{}, {'rounding': 'gptq'}])
def test_degenerate_weights_and_inputs_stay_finite(options):
  seen = seen_of()
  rows, weights = np.array(seen.rows), np.array(seen.weights)
  rows[:, :, 3] = 0  # a dead input
  weights[:, 1] = 0  # a channel of zeros
  state = fit.fit_linear(
    SITE,
    fit.Rule(**options),
    seen._replace(rows=jnp.asarray(rows), weights=jnp.asarray(weights)),
    PLAIN,
  )
  assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(state))
  np.testing.assert_array_equal(operators.weights_of(state)[:, 1], np.zeros(8))
  assert float(state.scale[1]) > 0
  nearest = rounding.rtn_round(weights, state.scale, state.zero, 2)
  np.testing.assert_array_equal(operators.codes_of(state)[3], nearest[3])


@pytest.mark.parametrize('value', [0.0, -1.5, 3.0])
def test_constant_activations_have_a_step(value):
  seen = seen_of(rows=np.full((256, 1, 8), value))
  state = fit.fit_linear(SITE, fit.Rule(), seen, PLAIN)
  assert all(bool(jnp.all(jnp.isfinite(x))) for x in jax.tree.leaves(state))
  assert float(state.act.scale) > 0
  coded = operators.coded(state.act, jnp.full((4,), value), 2)
  assert_normwise(coded, np.full(4, value), 1e-5, 1e-6)


def test_operands_that_are_never_negative_start_at_zero():
  x = jax.nn.softmax(2 * small.inputs(32, 8)).reshape(-1)
  site = Site('', 'operand', 8, signed=False, a_bits=2)
  uniform = fit.fit_operand(site, fit.Rule(), x)
  assert bool(uniform.act.uniform)
  book = fit.fit_operand(site, fit.Rule(unsigned='log2'), x)
  assert not bool(book.act.uniform)
  ratio = np.asarray(book.act.levels[2:] / book.act.levels[1:-1])
  assert_normwise(ratio, np.full(2, 2.0), 1e-5)


def test_settled_keeps_the_codes():
  state = fitted()
  ended = state._replace(soft=fit.settled(state.soft))
  np.testing.assert_array_equal(
    operators.codes_of(ended), operators.codes_of(state)
  )
  soft = operators.weights_of(ended, soft=True)
  assert_normwise(soft, operators.weights_of(ended), 1e-6)
