"""The bound on paths: never violated, and the number that it should be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import estimate, theory
from jaxlab.errors import UserError
from tests.adaptive_testing import drawn

_PROBLEMS, _N, _STEPS = 200, 9, 40


@pytest.fixture(scope='module')
def problems():
  """Random banks, answers, subsets and starts, in float64."""
  rng = np.random.default_rng(5)
  a = np.exp(0.5 * rng.normal(size=(_PROBLEMS, _N)))
  b = rng.normal(size=(_PROBLEMS, _N))
  y = rng.integers(0, 2, (_PROBLEMS, _N)).astype(float)
  subset = rng.random((_PROBLEMS, _N)) < rng.random((_PROBLEMS, 1))
  subset[np.arange(_PROBLEMS), rng.integers(0, _N, _PROBLEMS)] = True
  return a, b, y, subset, 2 * rng.normal(size=_PROBLEMS)


def _bound(a, b, y, subset, theta0, **kwargs):
  zero, one = jnp.zeros(_N, a.dtype), jnp.ones(_N, a.dtype)
  bank = theory.ItemBank(a, b, zero, one)
  return theory.path_bound(bank, y, subset, theta0, num_steps=_STEPS, **kwargs)


def test_never_violated(problems):
  with jax.enable_x64(True):
    found = jax.jit(jax.vmap(_bound))(*map(jnp.asarray, problems))
    found = jax.tree.map(np.asarray, found)
  assert np.all(found.distance <= found.bound + 1e-9)
  # The two sides are numbers of the same kind, not a bound that always holds.
  assert np.median(found.bound / np.maximum(found.distance, 1e-12)) < 100
  assert np.median(found.distance) > 0.1


def test_both_sides_are_their_definitions(problems):
  a, b, y, subset, theta0 = (x[0] for x in problems)
  rate = 0.3
  with jax.enable_x64(True):
    bound = jax.jit(lambda *problem: _bound(*problem, rate=rate))
    found = bound(*(jnp.asarray(x[0]) for x in problems))
    found = jax.tree.map(np.asarray, found)

  def slope(theta, members):
    p = 1 / (1 + np.exp(-a * (theta - b)))
    return np.mean(((p - y) * a)[members]) + theta / _N

  everything = np.ones(_N, bool)
  own = full = theta0
  gaps = []
  for _ in range(_STEPS):
    gaps.append(abs(slope(full, subset) - slope(full, everything)))
    own -= rate * slope(own, subset)
    full -= rate * slope(full, everything)
  np.testing.assert_allclose(found.distance, abs(own - full), rtol=1e-9)
  np.testing.assert_allclose(found.mismatch, max(gaps), rtol=1e-9)
  shrunk = 1 - (1 - rate / _N) ** _STEPS
  np.testing.assert_allclose(found.bound, max(gaps) * _N * shrunk, rtol=1e-9)
  np.testing.assert_allclose(found.smoothness, a.max() ** 2 / 4 + 1 / _N)
  assert rate < 1 / found.smoothness


def test_all_items_have_no_distance_and_lead_to_the_estimate():
  bank = drawn.bank(_N, 'mirt')

  @jax.jit
  def both(bank, y):
    found = theory.path_bound(
      bank, y, jnp.ones_like(y), jnp.ones((4, 2), y.dtype), num_steps=2000
    )
    return found, estimate.map_newton(bank, y)

  with jax.enable_x64(True):
    y = jnp.asarray(np.random.default_rng(2).integers(0, 2, (4, _N)), float)
    bank = jax.tree.map(lambda x: x.astype(y.dtype), bank)
    found, wanted = jax.tree.map(np.asarray, both(bank, y))
  np.testing.assert_array_equal(found.distance, 0)
  np.testing.assert_array_equal(found.bound, 0)
  np.testing.assert_allclose(found.path[-1], wanted, atol=1e-8)


def test_guessing_is_not_convex():
  bank = drawn.bank(5, '3pl')
  with pytest.raises(UserError, match='c = 0'):
    theory.path_bound(bank, jnp.ones(5), jnp.ones(5), 0.0)
