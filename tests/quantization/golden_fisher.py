"""Checks of the golden cases about loss geometry and transforms."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.quantization import compensation, fisher, transforms
from tests.quantization.closeness import assert_normwise


def case_fisher_matrix(case):
  J, b = np.asarray(case['J'], float), np.asarray(case['b'], float)
  z, rtol, atol = np.asarray(case['z'], float), case['rtol'], case['atol']

  @jax.jit
  def factors(z):
    return fisher.fisher_factors(
      lambda z: z @ J.T + b, jnp.asarray(z)[None], jax.random.key(0)
    )

  G = factors(z)
  assert G.shape == (1, *J.shape)
  assert np.isfinite(G).all()
  assert_normwise(G[0].T @ G[0], case['fisher'], rtol, atol)
  assert_normwise(jax.nn.softmax(J @ z + b), case['p'], rtol, atol)
  if case['rank'] is not None:
    assert np.linalg.matrix_rank(G[0], tol=1e-9) == case['rank']
  if case['delta'] is None:
    return
  delta = jnp.asarray(case['delta'])
  path = fisher.path_fisher(G, factors(z + delta))
  found = {
    'quad_float_point': fisher.quadratic_form(G, delta[None])[0],
    'quad_path': fisher.quadratic_form(path, delta[None])[0],
    'kl_true': fisher.kl_divergence(J @ z + b, J @ (z + delta) + b),
  }
  for name, value in found.items():
    np.testing.assert_allclose(value, case[name], rtol=rtol, err_msg=name)


def case_fisher_probe(case):
  found = fisher.probe_cotangents(
    jnp.asarray(case['p']), jnp.asarray(case['eps'], float)
  )
  assert_normwise(found, case['c'], case['rtol'])


def case_path_quadratic(case):
  G0, G1 = (
    jnp.linalg.cholesky(jnp.asarray(case[k], float)).T[None]
    for k in ('F0', 'F1')
  )
  path = fisher.path_fisher(G0, G1)
  found = fisher.quadratic_form(path, jnp.asarray(case['delta'])[None])
  np.testing.assert_allclose(found, [case['quad_path']], rtol=case['rtol'])


def case_equivalence_transform(case):
  R = transforms.block_hadamard(case['block'], case['signs'])
  X, W = np.asarray(case['X']), np.asarray(case['W'])
  X_t, W_t = transforms.apply_transform(X, W, np.asarray(case['D']), R)
  rtol = case['rtol']
  assert_normwise(R, case['R'], rtol)
  assert_normwise(X_t, case['X_t'], rtol)
  assert_normwise(W_t, case['W_t'], rtol)
  assert_normwise(X_t @ W_t, case['XW'], rtol)
  assert_normwise(X @ W, case['XW'], rtol)


def case_compensate_low_rank(case):
  X, E = np.asarray(case['X']), np.asarray(case['E'])
  omega, gamma = np.asarray(case['omega']), np.asarray(case['gamma'])
  A, B = compensation.compensate_low_rank(
    X, E, omega, gamma, case['rank'], damp=case['damp']
  )
  assert A.shape == (X.shape[1], case['rank'])
  assert_normwise(A @ B, case['C'], case['rtol'])
  value = omega @ (E - X @ (A @ B)) ** 2 @ gamma
  np.testing.assert_allclose(value, case['value'], rtol=case['rtol'])
