"""Estimates in the middle of tests, beside those from all answers at once."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import (
  estimate,
  models,
  simulate,
  state,
  types,
)
from jaxlab.adaptive_testing.selectors import mfi
from tests.adaptive_testing import reference
from tests.adaptive_testing.small import (
  KEY,
  OPEN,
  SLOPES,
  A,
  B,
  C,
  E,
  T,
  Y,
  answer,
  ask,
  play,
  posterior_by_hand,
)

all_at_once = jax.jit(estimate.estimate_ability, static_argnames='method')


def test_mean_of_the_posterior_as_estimate(bank):
  found = play(bank, estimator='eap')
  weight = np.exp(posterior_by_hand(found.items))
  mean = weight @ reference.GRID
  np.testing.assert_allclose(found.theta[-1], mean, atol=1e-4)
  sd = np.sqrt(weight @ reference.GRID**2 - mean**2)
  np.testing.assert_allclose(found.se[-1], sd, rtol=1e-4)


def test_most_likely_ability_as_estimate(bank):
  found = play(bank, estimator='mle')
  fine = np.linspace(-4, 4, 4001)
  height = posterior_by_hand(found.items, fine) + fine**2 / 2
  assert abs(fine[np.argmax(height, axis=1)]).max() == 4
  highest = np.take_along_axis(
    height, np.searchsorted(fine, found.theta[-1] - 1e-3)[:, None], 1
  )
  np.testing.assert_allclose(highest[:, 0], height.max(1), atol=1e-4)


def test_gradient_descent_as_estimate(bank):
  found = play(bank, estimator='gd')
  wanted = all_at_once(bank, Y, found.asked, method='gd')
  np.testing.assert_allclose(found.theta[-1], wanted.theta, atol=1e-5)
  np.testing.assert_allclose(found.se[-1], wanted.se, rtol=1e-5)


def test_steps_by_hand_give_the_trace(bank, trace):
  cat = simulate.initial_state(bank, E, OPEN, test_length=T)
  for turn in range(T):
    item, some = ask(mfi(), (), bank, cat, KEY)
    assert np.all(some)
    cat = answer(bank, cat, item, Y[np.arange(E), item], 'map')
    np.testing.assert_array_equal(item, trace.items[turn])
    np.testing.assert_allclose(cat.theta, trace.theta[turn], atol=1e-5)
  assert int(cat.step) == T
  np.testing.assert_array_equal(cat.responses, np.where(trace.asked, Y, 0))
  answers = np.take_along_axis(Y, np.asarray(trace.items.T), 1)
  whole = jax.jit(state.recorded_state)(bank, trace.items.T, answers, OPEN)
  chex.assert_trees_all_close(cat, whole, atol=2e-5)
  np.testing.assert_allclose(
    cat.log_post, posterior_by_hand(trace.items), atol=2e-4
  )
  info = [
    1 + reference.information(A, B, C, float(cat.theta[e]))[items].sum()
    for e, items in enumerate(np.asarray(trace.items).T)
  ]
  np.testing.assert_allclose(cat.info, info, rtol=1e-4)
  # No item: the examinee stays as it was.
  after = answer(bank, cat, np.where(np.arange(E) == 4, -1, 0), Y[:, 0], 'map')
  for name in ('asked', 'theta', 'info', 'log_post', 'responses'):
    rows = (getattr(state, name)[4] for state in (after, cat))
    chex.assert_trees_all_close(*rows, atol=1e-6)


@pytest.fixture(scope='module')
def flat():
  return types.item_bank(SLOPES, np.random.default_rng(4).normal(size=10))


def test_several_dimensions(flat):
  y = np.random.default_rng(0).integers(0, 2, (6, 10))
  found = play(flat, responses=y, available=None, test_length=4)
  assert found.theta.shape == found.se.shape == (4, 6, 2)
  wanted = all_at_once(flat, y, found.asked, method='map')
  np.testing.assert_allclose(found.theta[-1], wanted.theta, atol=1e-3)
  np.testing.assert_allclose(found.se[-1], wanted.se, rtol=5e-3)
  # The first item has the largest determinant at the mean of the prior.
  each = np.asarray(models.item_information(flat, jnp.zeros(2)))
  first = np.argmax(np.linalg.det(np.eye(2) + each))
  assert np.all(np.asarray(found.items[0]) == first)


def test_posterior_means_in_several_dimensions(flat):
  items, answers = np.array([[3, 7, 5, -1]]), np.array([[1, 0, 1, 0]])
  record = jax.jit(state.recorded_state, static_argnums=4)
  cat = record(flat, items, answers, None, 'eap')
  se = jax.jit(state.standard_error, static_argnums=2)(flat, cat, 'eap')
  axis = np.linspace(-6, 6, 241)
  grid = np.stack(np.meshgrid(axis, axis, indexing='ij'), -1).reshape(-1, 2)
  z = grid @ SLOPES[items[0, :3]].T + np.asarray(flat.b)[items[0, :3]]
  weight = np.exp(
    -np.log1p(np.exp(-z * [1, -1, 1])).sum(1) - (grid**2).sum(1) / 2
  )
  weight /= weight.sum()
  mean = weight @ grid
  np.testing.assert_allclose(cat.theta[0], mean, atol=1e-3)
  np.testing.assert_allclose(
    se[0], np.sqrt(weight @ (grid - mean) ** 2), rtol=1e-3
  )


@pytest.mark.slow
def test_neural_banks():
  keys = jax.random.split(jax.random.key(1), 4)
  neural = types.NeuralBank(
    difficulty=jax.random.normal(keys[0], (8, 2)),
    discrimination=jax.random.normal(keys[1], (8,)),
    layers=(
      (jax.random.normal(keys[2], (2, 4)), jnp.zeros(4)),
      (jax.random.normal(keys[3], (4, 1)), jnp.zeros(1)),
    ),
    q_matrix=jnp.asarray([[1.0, 0], [0, 1], [1, 1], [1, 0]] * 2),
  )
  y = np.random.default_rng(0).integers(0, 2, (5, 8))
  found = play(neural, mfi(), y, None, test_length=3)
  assert found.asked.sum() == 15
  wanted = jax.jit(estimate.map_newton)(neural, y, found.asked)
  np.testing.assert_allclose(found.theta[-1], wanted, atol=2e-2)
