"""What errors of a block cost, for a network that is linear behind it."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.quantization import blocks, learning, losses, network, objectives
from jaxlab.quantization.baselines import METHODS
from tests.quantization import small
from tests.quantization.closeness import assert_normwise

INDEX = 2  # behind it only the last layer is left, x W + b


@pytest.fixture(scope='module')
def given():
  net = small.dense()
  plan, owned, states = small.rounded(net, small.W2A2)
  z = network.outputs(plan, owned, net.calib)
  run = blocks.SiteRun(plan.blocks[INDEX], plan.sites[INDEX])
  data = (z[INDEX - 1], z[INDEX - 1], z[INDEX])
  last = {k: np.asarray(v, np.float64) for k, v in owned[3]['dense'].items()}
  return plan, owned, states[INDEX], run, data, last


def objective(given, loss, now=None, **changed):
  plan, owned, states, run, data, _ = given
  recipe = dataclasses.replace(METHODS['sharp'], loss=loss, ridge=0.0)
  recipe = dataclasses.replace(recipe, **changed)
  make = losses.objective_fn(
    plan, owned, INDEX, run, states, data, recipe, jax.random.key(0)
  )
  return make(now)


def softmax(x):
  e = np.exp(x - x.max(axis=1, keepdims=True))
  return e / e.sum(axis=1, keepdims=True)


def fisher_of(z, last):
  """`[n, C, C]` Fisher matrices at z."""
  p = softmax(np.asarray(z, np.float64) @ last['kernel'] + last['bias'])
  middle = np.einsum('ni,ij->nij', p, np.eye(p.shape[1]))
  middle -= np.einsum('ni,nj->nij', p, p)
  return np.einsum('ik,nkl,jl->nij', last['kernel'], middle, last['kernel'])


def test_gradient_of_the_own_label(given):
  plan, owned, *_, (_, _, z), last = given
  p = softmax(np.asarray(z, np.float64) @ last['kernel'] + last['bias'])
  label = np.eye(p.shape[1])[p.argmax(axis=1)]
  expected = (p - label) @ last['kernel'].T
  found = losses.pseudo_label_gradient(plan, INDEX, owned, z)
  assert_normwise(found, expected, 1e-5)
  cost = objective(given, 'brecq')
  assert_normwise(cost.diag, expected**2 / np.mean(expected**2), 1e-4)


def test_gradient_of_the_divergence(given):
  plan, owned, *_, (_, _, z), last = given
  error = small.inputs(*z.shape, seed=8) / 4
  p, q = (
    softmax(np.asarray(x, np.float64) @ last['kernel'] + last['bias'])
    for x in (z, z + error)
  )
  found = losses.kl_gradient(plan, INDEX, owned, z, error)
  assert_normwise(found, (q - p) @ last['kernel'].T, 1e-4)


def test_the_sample_form_is_the_fisher_matrix(given):
  z, last = given[4][2], given[5]
  fisher = fisher_of(z, last)
  scale = z.shape[1] / np.mean(np.trace(fisher, axis1=1, axis2=2))
  error = small.inputs(*z.shape, seed=9)
  e = np.asarray(error, np.float64)
  expected = scale * np.mean(np.einsum('ni,nij,nj->n', e, fisher, e))
  found = objectives.value(objective(given, 'sample'), error)
  np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_the_path_takes_two_thirds_of_the_float_point(given):
  z, last = given[4][2], given[5]
  now = z + small.inputs(*z.shape, seed=10)
  fisher = (2 * fisher_of(z, last) + fisher_of(now, last)) / 3
  scale = z.shape[1] / np.mean(np.trace(fisher, axis1=1, axis2=2))
  error = small.inputs(*z.shape, seed=9)
  e = np.asarray(error, np.float64)
  expected = scale * np.mean(np.einsum('ni,nij,nj->n', e, fisher, e))
  found = objectives.value(objective(given, 'sample', now), error)
  np.testing.assert_allclose(found, expected, rtol=1e-4)
  still = objectives.value(objective(given, 'sample', now, path=False), error)
  first = objectives.value(objective(given, 'sample'), error)
  assert float(still) == float(first) != float(found)


def test_the_diagonal_form_is_the_diagonal(given):
  z, last = given[4][2], given[5]
  diag = np.diagonal(fisher_of(z, last), axis1=1, axis2=2)
  found = objective(given, 'diag').diag
  assert_normwise(found, diag / diag.mean(), 1e-4)


def test_the_channel_form_has_more_than_one_direction(given):
  found = objective(given, 'channel')
  values = np.linalg.svd(np.asarray(found.channel), compute_uv=False)
  assert np.sum(values > 1e-3 * values[0]) == 3  # classes less one


def test_aphq_weights_are_mean_gradients(given):
  plan, owned, states, run, data, _ = given
  x, _, z = data
  error = run(owned[INDEX], states, x) - z
  slope = np.abs(losses.kl_gradient(plan, INDEX, owned, z, error))
  expected = slope.mean(axis=0) / slope.mean()
  found = objective(given, 'aphq').diag
  assert_normwise(found, np.broadcast_to(expected, z.shape), 1e-3)


def test_rows_of_fima_take_errors_to_gradients(given):
  z = given[4][2]
  d, g = small.inputs(*z.shape, seed=1), small.inputs(*z.shape, seed=2)
  g = g + 2 * d  # mostly along the error
  found = losses._fima(d, g, z, 0.0)
  assert found.rows.shape == (1, losses.FIMA_RANK, z.shape[1])
  size = len(z) // losses.FIMA_RANK
  scale = None
  for row, i in zip(found.rows[0], range(losses.FIMA_RANK), strict=True):
    own = slice(i * size, (i + 1) * size)
    error, slope = (np.asarray(x[own]).mean(axis=0) for x in (d, g))
    if error @ slope <= 0:
      np.testing.assert_array_equal(row, np.zeros_like(row))
      continue
    taken = np.asarray(row) * (np.asarray(row) @ error)
    ratio = taken / slope
    assert np.ptp(ratio) < 1e-3 * np.abs(ratio).max()
    scale = ratio.mean() if scale is None else scale
    np.testing.assert_allclose(ratio.mean(), scale, rtol=1e-3)


class Work(NamedTuple):
  """What a selection reads of a quantization on its way."""

  plan: Any
  params: Any
  recipe: Any = METHODS['sharp_select']


def test_few_inputs_leave_the_default_loss(given):
  plan, owned, states, run, data, _ = given
  found = learning.selected(Work(plan, owned), INDEX, run, states, data)
  assert found.loss == 'channel'


def test_the_loss_of_least_divergence_is_selected(given, monkeypatch):
  plan, owned, states, run, data, _ = given
  many = tuple(jnp.concatenate([x, x + 0.1]) for x in data)
  asked = []

  def reconstruct(work, index, run, states, seen, option, steps):
    assert len(seen[2]) == 64 and steps == work.recipe.steps // 4
    asked.append((option.loss, option.ridge))
    off = {('mse', 0.3): np.nan, ('sample', 1.0): 0.0}.get(asked[-1], 0.5)
    state = states['dense']
    return {'dense': state._replace(bias=state.bias + off)}, None

  monkeypatch.setattr(learning, 'reconstruct', reconstruct)
  found = learning.selected(Work(plan, owned), INDEX, run, states, many)
  assert (found.loss, found.ridge) == ('sample', 1.0)
  assert len(set(asked)) == 9 and asked[0][0] == 'mse'
