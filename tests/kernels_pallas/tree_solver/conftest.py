"""Random systems that several modules solve."""

from typing import NamedTuple

import jax
import numpy as np
import pytest

from kernels_pallas.tree_solver import reference


class System(NamedTuple):
  """A system, a cotangent of its solution, and what is to come out."""

  parent: np.ndarray
  diag: np.ndarray
  lower: np.ndarray
  upper: np.ndarray
  rhs: np.ndarray
  cotangent: np.ndarray
  x: np.ndarray
  gradients: tuple[np.ndarray, ...]

  @property
  def matrix(self):
    return self.diag, self.lower, self.upper


@pytest.fixture(params=['float32', 'float64'])
def dtype(request):
  """Both precisions, the second one with x64 on."""
  with jax.enable_x64(request.param == 'float64'):
    yield np.dtype(request.param)


@pytest.fixture(scope='session')
def make_system():
  """`make(n, B, dtype, shared)`: a dominant system on a forest of two trees.

  What stands at the roots of `lower` and `upper` is nan: nobody may read it.
  """

  def make(n, B, dtype=np.float32, shared=False, parent=None):
    rng = np.random.default_rng(n + B)
    if parent is None:
      parent = np.array(
        [-1, *(rng.integers(max(0, i - 6), i) for i in range(1, n))]
      )
      parent[n // 2] = -1
    inner = parent >= 0
    lower, upper = rng.uniform(-1, 1, (2, n, 1 if shared else B))
    diag = rng.uniform(0.5, 1, (n, B)) + np.abs(lower)
    np.add.at(
      diag, parent[inner], np.broadcast_to(np.abs(upper), (n, B))[inner]
    )
    lower[~inner] = upper[~inner] = np.nan
    rhs, cotangent = rng.normal(size=(2, n, B))
    given = [a.astype(dtype) for a in (diag, lower, upper, rhs, cotangent)]
    *system, bar = given
    gradients = reference.tree_gradients(*system, parent, bar)
    if shared:
      gradients = tuple(
        g.sum(axis=1, keepdims=True) if k in (1, 2) else g
        for k, g in enumerate(gradients)
      )
    x = reference.tree_solve(*system, parent)
    return System(parent, *given, x, gradients)

  return make


@pytest.fixture(scope='session')
def assert_near():
  """Normwise: 1e-12 for float64, 5e-6 for float32."""

  def check(found, expected):
    found = np.asarray(found)
    assert found.shape == expected.shape
    limit = 1e-12 if found.dtype == np.float64 else 5e-6
    assert np.abs(found - expected).max() <= limit * np.abs(expected).max()

  return check
