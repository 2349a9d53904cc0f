"""Lyapunov spectra against closed forms and published values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.motifs import systems
from jaxlab.motifs.lyapunov import (
  decided_sign,
  kaplan_yorke_dimension,
  lyapunov_spectrum,
  orthonormalize,
)


@pytest.fixture(autouse=True)
def double_precision():
  with jax.enable_x64(True):
    yield


def test_logistic_map_is_ln_2():
  found = lyapunov_spectrum(systems.logistic_map(4.0), [0.3123], n_steps=50_000)
  assert abs(found.exponents[0] - np.log(2)) < 0.005
  assert abs(found.exponents[0] - np.log(2)) < 5 * found.standard_error[0]
  assert decided_sign(found.exponents, found.standard_error)[0] == 1
  np.testing.assert_allclose(found.running[-1], found.exponents)


def test_linear_map_is_the_log_of_its_eigenvalues():
  A = np.array([[2.0, 1.0, 0.3], [0.0, 0.5, -1.0], [0.0, 0.0, -0.1]])
  # The state would overflow after 1024 steps.
  found = lyapunov_spectrum(
    systems.linear_map(A), [1.0, 0.5, 0.2], n_steps=2000, every=4
  )
  np.testing.assert_allclose(
    found.exponents, np.log([2.0, 0.5, 0.1]), atol=1e-6
  )


def test_henon_map():
  found = lyapunov_spectrum(
    systems.henon_map(1.4, 0.3), [0.1, 0.1], n_steps=50_000
  )
  np.testing.assert_allclose(jnp.sum(found.exponents), np.log(0.3), atol=1e-9)
  assert abs(found.exponents[0] - 0.4192) < 0.01  # Sprott (2003)
  assert abs(found.dimension - 1.258) < 0.01


def test_lorenz_1963():
  found = lyapunov_spectrum(
    systems.lorenz63(), [1.0, 1.0, 20.0], n_steps=20_000, every=5, dt=0.01
  )
  np.testing.assert_allclose(found.exponents, [0.906, 0, -14.572], atol=0.05)
  assert abs(found.dimension - 2.062) < 0.01
  signs = decided_sign(found.exponents, found.standard_error)
  assert signs[0] == 1
  assert signs[2] == -1


def test_many_flows_at_once_obey_the_sum_rule():
  rng = np.random.default_rng(0)
  tau = np.array([[1.0, 1.0, 1.0], [1.0, 0.5, 2.0]])
  W = np.tril(rng.normal(size=(2, 3, 3)), -1)  # the first one is acyclic
  W[1] = rng.normal(size=(3, 3)) * (1 - np.eye(3))

  def spectrum(W, tau):
    step = systems.motif_flow(W, tau, 0.1, 0.05)
    return lyapunov_spectrum(
      step, jnp.array([0.3, 0.2, -0.4]), n_steps=8000, every=4, dt=0.05
    )

  found = jax.vmap(spectrum)(jnp.asarray(W), jnp.asarray(tau))
  np.testing.assert_allclose(
    jnp.sum(found.exponents, -1), -np.sum(1 / tau, -1), atol=2e-5
  )
  np.testing.assert_allclose(found.exponents[0], -1, atol=0.02)


def test_kaplan_yorke_dimension():
  cases = {
    (0.5, 0.0, -1.0): 2.5,
    (-0.1, -1.0, -2.0): 0.0,
    (0.2, 0.1, -0.1): 3.0,  # no more than the exponents that are known
    (0.3, -0.1, -0.4): 2.5,
  }
  for exponents, dimension in cases.items():
    found = kaplan_yorke_dimension(jnp.array(exponents))
    np.testing.assert_allclose(found, dimension, atol=1e-12)


def test_orthonormal_frame_of_dependent_vectors():
  rows = np.random.default_rng(1).normal(size=(3, 5))
  rows[1] = rows[0] * (1 + 1e-9) + 1e-9 * rows[1]
  frame, lengths = orthonormalize(jnp.asarray(rows))
  np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-9)
  r = np.abs(np.diag(np.linalg.qr(rows.T)[1]))
  np.testing.assert_allclose(lengths, r, rtol=1e-5)


def test_signs_within_the_error_are_not_decided():
  signs = decided_sign(jnp.array([0.1, 0.1, -0.1]), jnp.array([0.01, 0.05, 0]))
  assert signs.tolist() == [1, 0, -1]


def test_impossible_requests():
  step = systems.logistic_map()
  with pytest.raises(UserError, match='between 1 and 1'):
    lyapunov_spectrum(step, [0.3], k=2)
  with pytest.raises(UserError, match='raise n_steps'):
    lyapunov_spectrum(step, [0.3], n_steps=50, every=10)
