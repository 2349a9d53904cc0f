"""Quadratic forms, against explicit matrices in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.quantization import objectives, sketch

N, PLACES, C, R = 6, 3, 4, 2


@pytest.fixture(autouse=True)
def double():
  with jax.enable_x64(True):
    yield


def draw(*shape, seed=0):
  return np.random.default_rng(seed).normal(size=shape)


ERROR, FACTORS = draw(N, PLACES, C, seed=1), draw(N, R, PLACES, C, seed=2)
FLAT = ERROR.reshape(N, -1)


def of_sample():
  rows = FACTORS.reshape(N, R, -1)
  fisher = np.einsum('nri,nrj->nij', rows, rows)
  scale = PLACES * C / np.mean(np.trace(fisher, axis1=1, axis2=2))
  forms = np.einsum('ni,nij,nj->n', FLAT, fisher, FLAT)
  expected = np.mean(scale * forms + 0.3 * np.sum(FLAT**2, axis=1))
  return objectives.per_example(jnp.asarray(FACTORS), 0.3), expected


def of_channel():
  found = sketch.channel_factor(jnp.asarray(FACTORS), C)
  rows, delta = np.asarray(found.rows), np.asarray(found.delta)
  matrix = rows.T @ rows + np.diag(delta)
  scale = C / np.trace(matrix)
  at = np.einsum('npi,ij,npj->np', ERROR, scale * matrix, ERROR)
  expected = np.sum(np.asarray(found.weight) * at) / N
  expected += 0.3 * np.sum(ERROR**2) / N
  return objectives.shared_by_channel(jnp.asarray(FACTORS), 0.3), expected


def of_diagonal():
  energy = draw(N, PLACES, C, seed=3) ** 2
  expected = np.sum((energy / energy.mean() + 0.1) * ERROR**2) / N
  return objectives.diagonal(jnp.asarray(energy), 0.1), expected


def of_low_rank():
  rows, diag = draw(R, PLACES, C, seed=4), draw(PLACES, C, seed=5) ** 2
  matrix = np.diag(diag.reshape(-1))
  matrix += rows.reshape(R, -1).T @ rows.reshape(R, -1)
  matrix *= len(matrix) / np.trace(matrix)
  expected = np.mean(np.einsum('ni,ij,nj->n', FLAT, matrix, FLAT))
  found = objectives.low_rank_and_diagonal(
    jnp.asarray(rows), jnp.asarray(diag), jnp.asarray(ERROR)
  )
  return found, expected


def of_square():
  return objectives.squared_error(jnp.asarray(ERROR)), np.sum(ERROR**2) / N


@pytest.mark.parametrize(
  'make', [of_sample, of_channel, of_diagonal, of_low_rank, of_square]
)
def test_value_is_the_quadratic_form(make):
  objective, expected = make()
  error = jnp.asarray(ERROR)
  found = objectives.value(objective, error)
  np.testing.assert_allclose(found, expected, rtol=1e-10)
  # The mean over examples is the mean over single ones, so `pick` fits.
  each = [
    objectives.value(objectives.pick(objective, i[None]), error[i][None])
    for i in jnp.arange(N)
  ]
  np.testing.assert_allclose(np.mean(each), expected, rtol=1e-10)
  twice = objectives.value(objective, 2 * error)
  np.testing.assert_allclose(twice, 4 * expected, rtol=1e-10)


def test_pick_takes_examples_in_any_order():
  objective, _ = of_sample()
  index = jnp.asarray([4, 0, 4])
  found = objectives.pick(objective, index)
  np.testing.assert_array_equal(found.rows, objective.rows[index])
  np.testing.assert_array_equal(found.weight, objective.weight[index])
  shared, _ = of_low_rank()
  assert objectives.pick(shared, index).rows.shape == (1, R, PLACES, C)


def test_factors_of_zero_leave_the_ridge():
  objective = objectives.per_example(jnp.zeros((N, R, PLACES, C)), 0.5)
  found = objectives.value(objective, jnp.asarray(ERROR))
  np.testing.assert_allclose(found, 0.5 * np.sum(ERROR**2) / N, rtol=1e-10)
