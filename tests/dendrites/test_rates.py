"""Rate functions against SciPy, above all at their removable singularities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import exprel

from jaxlab.dendrites.channels import hh, rates
from tests.dendrites import curves

NEAR = np.concatenate(
  [
    [0.0],
    *[sign * np.logspace(-12, 2, 400) for sign in (-1, 1)],
    [-0.4, 0.4, np.nextafter(0.4, 0), np.nextafter(0.4, 1)],
  ]
)


@pytest.fixture
def x64():
  with jax.enable_x64(True):
    yield


def linoid_slope(u):
  """d/du of u / (exp(u) - 1), by its Bernoulli series near 0."""
  series = -1 / 2 + u / 6 - u**3 / 180 + u**5 / 5040 - u**7 / 151200
  with np.errstate(invalid='ignore', divide='ignore', over='ignore'):
    plain = (np.expm1(u) - u * np.exp(u)) / np.expm1(u) ** 2
  return np.where(abs(u) < 0.1, series, plain)


@pytest.mark.parametrize('y', [10.0, -4.0])
def test_vtrap_is_exact_in_value_and_slope(x64, y):
  x = jnp.asarray(NEAR * y)
  found, slopes = jax.vmap(jax.value_and_grad(lambda x: rates.vtrap(x, y)))(x)
  np.testing.assert_allclose(found, y / exprel(NEAR), rtol=1e-15 * 4)
  np.testing.assert_allclose(slopes, linoid_slope(NEAR), rtol=3e-14)
  assert rates.vtrap(0.0, y) == y
  curvature = jax.grad(jax.grad(lambda x: rates.vtrap(x, y)))(0.0)
  np.testing.assert_allclose(curvature, 1 / (6 * y), rtol=1e-12)


def test_vtrap_in_float32():
  x = NEAR.astype(np.float32)
  value, slope = jax.vmap(jax.value_and_grad(lambda x: rates.vtrap(x, 1.0)))(
    jnp.asarray(x)
  )
  assert value.dtype == slope.dtype == np.float32
  exact = x.astype(float)
  ulp = np.finfo(np.float32).eps
  large = exact < 80  # float32 has no smaller numbers
  np.testing.assert_allclose(
    value[large], 1 / exprel(exact[large]), rtol=4 * ulp
  )
  np.testing.assert_allclose(
    slope[large], linoid_slope(exact[large]), rtol=30 * ulp, atol=1e-17
  )


def test_exponential_step_is_the_solution(x64):
  inf, tau = np.array([0.9, 0.1, 0.5]), np.array([0.05, 3.0, 1400.0])
  exact = solve_ivp(
    lambda t, s: (inf - s) / tau,
    (0, 0.7),
    np.full(3, 0.3),
    rtol=1e-12,
    atol=1e-13,
    method='DOP853',
  ).y[:, -1]
  found = rates.exponential_step(jnp.full(3, 0.3), inf, tau, 0.7)
  np.testing.assert_allclose(found, exact, rtol=1e-10)


def test_exponential_step_of_extreme_time_constants():
  s = jnp.float32(0.0)
  assert rates.exponential_step(s, 1.0, 0.0, 0.025) == 1
  slope = jax.grad(lambda s: rates.exponential_step(s, 1.0, 0.0, 0.025))(s)
  assert slope == 0
  slow = rates.exponential_step(s, 1.0, 5e5, 0.025)
  np.testing.assert_allclose(slow, 5e-8, rtol=1e-6)


def test_hh_rates_are_the_plain_ones(x64):
  v = np.concatenate(
    [curves.GRID, -40 + NEAR[:801] / 10, -55 + NEAR[:801] / 10]
  )
  v = v[abs(v) < 150]
  plain = curves.hh(v, None)
  for gate, (alpha, beta) in hh.rates(jnp.asarray(v)).items():
    inf, tau = plain[gate]
    np.testing.assert_allclose(alpha, inf / tau, rtol=1e-12)
    np.testing.assert_allclose(beta, (1 - inf) / tau, rtol=1e-11)


def test_hh_rates_in_float32():
  v = np.linspace(-100, 60, 1601, dtype=np.float32)
  plain = curves.hh(v.astype(float), None)
  for gate, (alpha, beta) in hh.rates(jnp.asarray(v)).items():
    assert alpha.dtype == beta.dtype == np.float32
    inf, tau = plain[gate]
    np.testing.assert_allclose(alpha, inf / tau, rtol=4e-6)
    np.testing.assert_allclose(beta, (1 - inf) / tau, rtol=4e-6)


@pytest.mark.parametrize('v', [-40.0, -55.0, -40 + 1e-9, -35.9, -36.1])
def test_hh_rates_have_their_slope(x64, v):
  def total(v):
    return sum(map(sum, hh.rates(v).values()))

  step = 1e-3
  points = [total(v + i * step) for i in (-2, -1, 1, 2)]
  expected = (points[0] - 8 * points[1] + 8 * points[2] - points[3]) / (
    12 * step
  )
  np.testing.assert_allclose(jax.grad(total)(v), expected, rtol=1e-9)


def test_q10():
  assert rates.q10(6.3, 6.3, 3.0) == 1
  assert rates.q10(26.3, 6.3, 3.0) == pytest.approx(9)
  assert isinstance(rates.q10(16.3, 6.3, 3.0), float)
