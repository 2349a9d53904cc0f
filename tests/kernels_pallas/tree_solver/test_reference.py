"""The NumPy solve against dense and banded solvers."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from kernels_pallas.tree_solver import reference


def problem(n, B, seed=0, chain=False):
  """A random dominant system on a forest of two trees, or on a chain."""
  rng = np.random.default_rng(seed)
  parent = np.array([-1, *(rng.integers(0, i) for i in range(1, n))])
  parent[n // 2] = -1
  if chain:
    parent = np.arange(-1, n - 1)
  lower, upper = rng.uniform(-1, 1, (2, n, B))
  diag = rng.uniform(0.5, 1, (n, B)) + np.abs(lower)
  np.add.at(diag, parent[parent >= 0], np.abs(upper[parent >= 0]))
  return parent, diag, lower, upper, rng.normal(size=(n, B))


def test_equals_dense_and_sparse_solvers():
  parent, diag, lower, upper, rhs = problem(60, 3)
  x = reference.tree_solve(diag, lower, upper, rhs, parent)
  for cell in range(3):
    bands = diag[:, cell], lower[:, cell], upper[:, cell]
    A = reference.dense(*bands, parent)
    np.testing.assert_allclose(
      x[:, cell], np.linalg.solve(A, rhs[:, cell]), rtol=1e-12, atol=1e-13
    )
    sparse = scipy.sparse.csc_array(A)
    np.testing.assert_allclose(
      x[:, cell],
      scipy.sparse.linalg.spsolve(sparse, rhs[:, cell]),
      rtol=1e-12,
      atol=1e-13,
    )


def test_a_chain_is_a_banded_system():
  parent, diag, lower, upper, rhs = problem(40, 1, chain=True)
  bands = np.zeros((3, 40))
  bands[0, 1:], bands[1], bands[2, :-1] = upper[1:, 0], diag[:, 0], lower[1:, 0]
  np.testing.assert_allclose(
    reference.tree_solve(diag, lower, upper, rhs, parent),
    scipy.linalg.solve_banded((1, 1), bands, rhs),
    rtol=1e-12,
    atol=1e-13,
  )


def test_gradients_by_central_differences():
  parent, *bands = problem(9, 2)
  cotangent = np.random.default_rng(1).normal(size=(9, 2))
  gradients = reference.tree_gradients(*bands, parent, cotangent)
  step = 1e-6
  for which, gradient in enumerate(gradients):
    for node in range(9):
      loss = []
      for sign in (1, -1):
        moved = [band.copy() for band in bands]
        moved[which][node, 1] += sign * step
        loss.append(np.sum(cotangent * reference.tree_solve(*moved, parent)))
      slope = (loss[0] - loss[1]) / (2 * step)
      assert gradient[node, 1] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_columns_are_shared_and_inputs_kept():
  parent, diag, lower, upper, rhs = problem(12, 3)
  kept = rhs.copy()
  shared = reference.tree_solve(
    diag, lower[:, 0], upper[:, :1], rhs.astype(np.float32), parent
  )
  full = [np.repeat(band[:, :1], 3, axis=1) for band in (lower, upper)]
  whole = reference.tree_solve(diag, *full, rhs, parent)
  np.testing.assert_allclose(shared, whole, atol=1e-6)
  assert shared.dtype == np.float64
  np.testing.assert_array_equal(rhs, kept)
