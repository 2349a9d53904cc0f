"""Measures of activity and of spectra against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from jaxlab.errors import UserError
from jaxlab.motifs import measures, spectra


def test_participation_ratio():
  x = np.random.default_rng(0).normal(size=(20_000, 5))
  x *= np.array([1.0, 1.0, 1.0, 0.0, 0.0])
  np.testing.assert_allclose(measures.participation_ratio(x), 3, rtol=0.01)
  x = x * np.array([3.0, 1.0, 0, 0, 0])
  np.testing.assert_allclose(
    measures.participation_ratio(x), 10**2 / 82, rtol=0.02
  )
  assert measures.participation_ratio(np.ones((5, 3))) == 0


def test_memory_of_a_delay_line_is_its_length():
  u = np.random.default_rng(1).normal(size=3000)
  states = np.stack([np.roll(u, lag) for lag in range(6)], axis=1)
  capacity = jax.jit(measures.memory_capacity, static_argnums=2)
  found = np.asarray(capacity(states[10:], u[10:], 12))
  np.testing.assert_allclose(found[:6], 1, atol=1e-4)
  assert found[6:].max() < 0.02
  mixed = states @ scipy.linalg.hilbert(6)
  found = capacity(mixed[10:], u[10:], 12, ridge=0.1)
  assert np.sum(found) < 3  # what is nearly invisible is forgotten
  with pytest.raises(UserError, match='too few'):
    measures.memory_capacity(states[:10], u[:10], 12)


def test_kernel_rank():
  rng = np.random.default_rng(2)
  low = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 20))
  assert measures.kernel_rank(low) == 4
  noisy = low + 1e-3 * rng.normal(size=low.shape)
  assert measures.kernel_rank(noisy) == 20
  assert measures.kernel_rank(noisy, threshold=0.01) == 4


def test_departure_from_normality():
  rng = np.random.default_rng(3)
  W = rng.normal(size=(8, 8))
  assert measures.henrici(W + W.T) < 2e-3
  assert measures.henrici(scipy.linalg.orth(W)) < 2e-3
  np.testing.assert_allclose(measures.henrici(np.triu(W, 1)), 1, rtol=1e-6)
  schur, _ = scipy.linalg.schur(W, output='complex')
  expected = np.linalg.norm(np.triu(schur, 1)) / np.linalg.norm(W)
  np.testing.assert_allclose(measures.henrici(W), expected, rtol=1e-4)
  assert measures.henrici(np.zeros((3, 3))) == 0
  np.testing.assert_allclose(
    measures.spectral_radius(W), np.abs(np.linalg.eigvals(W)).max(), rtol=1e-5
  )


def test_autocorrelation_time_of_an_autoregression():
  rng = np.random.default_rng(4)
  noise = rng.normal(size=(20_000, 8))
  x = np.zeros_like(noise)
  for t in range(1, len(x)):
    x[t] = 0.9 * x[t - 1] + noise[t]
  rho, found = jax.jit(
    lambda x: (
      measures.autocorrelation(x),
      measures.autocorrelation_time(x, 0.1),
    )
  )(x)
  np.testing.assert_allclose(rho[:10], 0.9 ** np.arange(10), atol=0.02)
  expected = 0.1 * (0.5 + 0.9 / 0.1)
  np.testing.assert_allclose(found, expected, rtol=0.1)
  still = np.zeros_like(x)
  assert jax.jit(measures.autocorrelation_time)(still) == 0


def gaussian(n, seed=0):
  return np.random.default_rng(seed).normal(size=(n, n)) / n**0.5


def test_circle_and_ellipse():
  W = gaussian(300)
  radius = np.abs(spectra.spectral_curve(W, ()))
  np.testing.assert_allclose(radius, 1, rtol=0.02)
  # Entries W + r W.T: half axes (1 + c) and (1 - c) times the norm's scale.
  r = 0.4
  V = W + r * W.T
  scale, c = (1 + r**2) ** 0.5, 2 * r / (1 + r**2)
  curve = np.asarray(spectra.elliptic_curve(V))
  np.testing.assert_allclose(curve.real.max(), scale * (1 + c), rtol=0.03)
  np.testing.assert_allclose(curve.imag.max(), scale * (1 - c), rtol=0.05)
  values = np.linalg.eigvals(V)
  assert spectra.share_inside(values, curve, slack=0.1) > 0.99
  # The ellipse is tight: the circle of the same norm leaves some out.
  circle = spectra.spectral_curve(V, ())
  assert spectra.share_inside(values, circle, slack=0.1) < 0.95
  assert spectra.share_inside(values, 0.8 * curve, slack=0.0) < 0.85


def test_hypotrochoid_of_three_cycles():
  # Disjoint rings with a positive product, over weak noise: three-fold shape.
  n = 300
  ring = np.kron(np.eye(n // 3), np.roll(np.eye(3), 1, axis=0))
  order = np.random.default_rng(5).permutation(n)
  W = gaussian(n, 6) + 0.6 * ring[np.ix_(order, order)]
  curve = np.asarray(spectra.hypotrochoid_curve(W))
  turned = curve * np.exp(2j * np.pi / 3)
  distance = np.abs(turned[:, None] - curve[None]).min(axis=1)
  assert distance.max() < 0.02
  g = np.linalg.norm(W) / n**0.5
  t3 = np.trace(W @ W @ W) / n
  np.testing.assert_allclose(curve[0], g + t3 / g**2, rtol=1e-5)


def test_curves_are_differentiable():
  def size(W):
    return jnp.sum(jnp.abs(spectra.spectral_curve(W, num_points=12)))

  slope = jax.jit(jax.grad(size))(jnp.asarray(gaussian(6)))
  assert np.all(np.isfinite(slope))
