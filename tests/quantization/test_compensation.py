"""Reduced-rank regression against least squares and gradient optimality."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.quantization import blocks, learning, network, rectification
from jaxlab.quantization.baselines import METHODS
from jaxlab.quantization.compensation import compensate_low_rank
from jaxlab.quantization.work import Work
from tests.quantization import small

M, K, N = 30, 5, 4
RNG = np.random.default_rng(0)
X, E = RNG.normal(size=(M, K)), RNG.normal(size=(M, N))
OMEGA, GAMMA = RNG.uniform(0.2, 2, M), RNG.uniform(0.2, 2, N)


@pytest.fixture
def rng():
  return np.random.default_rng(1)


def _loss(A, B, ridge=0.0):
  C = A @ B
  fit = OMEGA @ (E - X @ C) ** 2 @ GAMMA / M
  return fit + ridge * np.sum(C**2 @ GAMMA)


def test_full_rank_is_weighted_least_squares():
  with jax.enable_x64(True):
    A, B = compensate_low_rank(X, E, OMEGA, GAMMA, N, damp=0.0)
  A, B, root = np.asarray(A), np.asarray(B), np.sqrt(OMEGA)[:, None]
  expected = np.linalg.lstsq(root * X, root * E, rcond=None)[0]
  np.testing.assert_allclose(A @ B, expected, atol=1e-10)


@pytest.mark.parametrize('damp', [0.0, 0.1])
def test_no_alternation_improves_it(damp, rng):
  """Alternating least squares from many starts ends no lower."""
  rank = 2
  with jax.enable_x64(True):
    A, B = map(
      np.asarray, compensate_low_rank(X, E, OMEGA, GAMMA, rank, damp=damp)
    )
  moments = (X * OMEGA[:, None]).T @ X / M
  ridge = damp * np.trace(moments) / K
  cross = (X * OMEGA[:, None]).T @ E / M
  damped = moments + ridge * np.eye(K)
  reached = _loss(A, B, ridge)
  ends = []
  for _ in range(10):
    left = rng.normal(size=(K, rank))
    for _ in range(200):
      right = np.linalg.solve(left.T @ damped @ left, left.T @ cross)
      pull = (right * GAMMA) @ right.T
      left = np.linalg.solve(damped, cross) @ (right * GAMMA).T
      left = left @ np.linalg.inv(pull)
    ends.append(_loss(left, right, ridge))
  np.testing.assert_allclose(reached, min(ends), rtol=1e-7)
  assert reached < _loss(A[:, :1], B[:1], ridge)


def test_weightless_columns_and_dead_inputs():
  x = np.float32(X)
  x[:, 1] = 0
  gamma = np.float32(GAMMA)
  gamma[2] = 0
  A, B = compensate_low_rank(x, np.float32(E), OMEGA, gamma, 2)
  assert np.isfinite(A).all() and np.isfinite(B).all()
  assert not B[:, 2].any()
  np.testing.assert_allclose(A[1], 0, atol=1e-5)
  A, B = compensate_low_rank(0 * x, np.float32(E), OMEGA, gamma, 2)
  assert not (A @ B).any()


@pytest.mark.parametrize('rank', [0, 5])
def test_wrong_ranks_are_named(rank):
  with pytest.raises(UserError, match=f'comp_rank = {rank} must be 1 to 4'):
    compensate_low_rank(X, E, OMEGA, GAMMA, rank)


def test_weights_are_the_energies_of_the_fisher_matrix():
  net = small.dense()
  recipe = dataclasses.replace(METHODS['rtn_mse'], comp_rank=8)
  plan, owned = network.make_plan(
    net.blocks, net.params, net.calib[:2], small.W2A2
  )
  floats = network.outputs(plan, owned, net.calib)
  key = jax.random.key(2)
  work = Work(plan, owned, recipe, net.calib, floats, None, key)
  states, _ = rectification.rectified(work)
  found, _ = learning.learned(work, states, None)
  at = 1  # the first block of low bits
  run = blocks.SiteRun(plan.blocks[at], plan.sites[at])
  (site,) = plan.sites[at]
  first = blocks.SiteRun(plan.blocks[0], plan.sites[0])
  x_q = first(owned[0], states[0], net.calib)
  x, error, size = blocks.site_error(
    run,
    owned[at],
    states[at],
    (x_q, floats[0], floats[at]),
    site,
    work.key_of(8, at, 0),
  )
  energies = network.energies(
    plan, owned, net.calib, work.key_of(8), probes=recipe.probes
  )
  omega = np.asarray(energies[at]['dense'][0], np.float64)
  weight = omega * np.asarray(size, np.float64) ** 2
  x, error = np.asarray(x, np.float64), np.asarray(error, np.float64)
  moments = (x * weight[:, None]).T @ x
  ridge = 0.01 * np.trace(moments) / len(moments)
  expected = np.linalg.solve(
    moments + ridge * np.eye(len(moments)), (x * weight[:, None]).T @ error
  )
  state = found[at]['dense']
  added = np.asarray(state.first, np.float64) @ np.asarray(state.second)
  # A column that cannot change the output is left alone.
  seen = np.asarray(energies[at]['dense'][1]) > 0
  np.testing.assert_allclose(added, expected * seen, rtol=1e-2, atol=1e-4)
  assert seen.sum() >= 6 and omega.std() > 0.1
