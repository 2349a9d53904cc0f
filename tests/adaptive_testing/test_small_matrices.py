"""Inverses, solutions and roots beside LAPACK's, and many at once."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import small_matrices


def _positive(size, count=20):
  draw = np.random.default_rng(size).normal(size=(count, size, size + 2))
  return (draw @ draw.swapaxes(1, 2) + 0.1 * np.eye(size)).astype(np.float32)


@pytest.mark.parametrize('size', [1, 2, 5, 17])
def test_results_are_those_of_numpy(size):
  matrix = _positive(size)
  vector = np.random.default_rng(0).normal(size=(20, size)).astype(np.float32)
  exact = np.linalg.inv(matrix.astype(float))
  found = jax.jit(small_matrices.inverse)(matrix)
  scale = np.abs(exact).max(axis=(1, 2), keepdims=True)
  np.testing.assert_allclose(found / scale, exact / scale, atol=1e-3)
  solved = jax.jit(small_matrices.solve)(matrix, vector)
  wanted = (exact @ vector[..., None])[..., 0]
  size = np.abs(wanted).max(axis=1, keepdims=True)
  np.testing.assert_allclose(solved / size, wanted / size, atol=1e-3)
  root = jax.jit(small_matrices.cholesky)(matrix)
  wanted = np.linalg.cholesky(matrix.astype(float))
  np.testing.assert_allclose(root, wanted, rtol=1e-3, atol=1e-3)


def test_no_root_is_nan():
  matrix = jnp.array([[1.0, 2.0], [2.0, 1.0]])
  assert np.isnan(np.asarray(small_matrices.cholesky(matrix))).any()


def test_derivative_of_the_inverse():
  matrix = jnp.asarray(_positive(3)[0])
  change = jnp.asarray(_positive(3)[1])
  _, found = jax.jvp(small_matrices.inverse, (matrix,), (change,))
  inverse = np.linalg.inv(matrix)
  wanted = -inverse @ np.asarray(change) @ inverse
  np.testing.assert_allclose(found, wanted, rtol=1e-2, atol=1e-2)


_MANY = """
import os
import subprocess
import sys

import jax
import numpy as np
from jaxlab.adaptive_testing import run_cat, selector, synthetic
bank = synthetic.random_bank(jax.random.key(0), 80, model='MIRT')
trace = run_cat(
  selector('maat'), None, bank, true_theta=np.zeros((1000, 2)), test_length=3,
  key=jax.random.key(1),
)
assert trace.items.shape == (3, 1000)
"""


@pytest.mark.slow
def test_many_examinees_of_two_abilities_come_to_an_end():
  """Batched LAPACK calls of this size have blocked each other."""
  subprocess.run(
    [sys.executable, '-c', _MANY],
    env={**os.environ, 'JAX_NUM_CPU_DEVICES': '2'},
    check=True,
    timeout=120,
  )
