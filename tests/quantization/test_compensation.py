"""Reduced-rank regression against least squares and gradient optimality."""

import jax
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.quantization.compensation import compensate_low_rank

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
