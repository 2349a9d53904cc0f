"""Codebooks against enumeration, scikit-learn and published levels."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.cluster import KMeans

from jaxlab.errors import UserError
from jaxlab.quantization import codebooks


@pytest.fixture
def rng():
  return np.random.default_rng(1)


def _error(x, levels, weights=None):
  weights = np.ones(len(x)) if weights is None else weights
  return weights @ np.min((x[:, None] - np.asarray(levels)) ** 2, axis=1)


def test_kmeans_is_the_best_partition(rng):
  with jax.enable_x64(True):
    rows, mass = rng.normal(size=(4, 9)), rng.uniform(0.1, 3, (4, 9))
    fit = jax.vmap(lambda x, w: codebooks.kmeans_codebook(x, 3, w))
    for x, w, levels in zip(rows, mass, fit(rows, mass), strict=True):
      order = np.argsort(x)
      best = min(
        sum(
          np.average((part - np.average(part, weights=p)) ** 2, weights=p)
          * p.sum()
          for part, p in zip(
            np.split(x[order], cuts), np.split(w[order], cuts), strict=True
          )
        )
        for cuts in itertools.combinations(range(1, 9), 2)
      )
      np.testing.assert_allclose(_error(x, levels, w), best, rtol=1e-9)
      assert (np.diff(levels) > 0).all()


def test_kmeans_is_not_beaten_by_lloyd(rng):
  n_levels, x = 8, rng.standard_t(3, 400).astype(np.float32)
  rival = KMeans(n_levels, n_init=10, random_state=0).fit(x[:, None])
  levels = codebooks.kmeans_codebook(x, n_levels)
  assert _error(x, levels) <= rival.inertia_ * (1 + 1e-4)
  binned = codebooks.kmeans_binned(x, n_levels, bins=200)
  assert _error(x, binned) <= 1.02 * _error(x, levels)


def test_few_numbers_and_weights_of_zero():
  x = np.float32([2, -1, 2, -1])
  np.testing.assert_array_equal(
    np.unique(codebooks.kmeans_codebook(x, 4)), [-1, 2]
  )
  constant = codebooks.kmeans_codebook(np.full(4, 0.3, np.float32), 4)
  np.testing.assert_allclose(constant, 0.3, rtol=1e-6)
  seen = codebooks.kmeans_codebook(
    np.float32([9, 1, 2, -7]), 4, np.float32([0, 1, 1, 0])
  )
  np.testing.assert_allclose(np.unique(seen), [1, 2])
  nothing = codebooks.kmeans_codebook(x, 4, np.zeros(4, np.float32))
  assert np.isfinite(nothing).all()


def test_published_levels():
  # APoT, figure 1: 4 bits without sign; the 3-bit case of its code.
  sums = [
    a + b for a in (0, 1, 1 / 4, 1 / 16) for b in (0, 1 / 2, 1 / 8, 1 / 32)
  ]
  np.testing.assert_allclose(
    codebooks.apot_levels(4, signed=False), np.sort(sums) / 1.5, rtol=1e-6
  )
  three = [a + b for a in (0, 1 / 2, 1 / 4, 1 / 16) for b in (0, 1 / 8)]
  three = np.sort(three) / max(three)
  np.testing.assert_allclose(
    codebooks.apot_levels(3, signed=False), three, rtol=1e-6
  )
  np.testing.assert_allclose(
    codebooks.apot_levels(4), np.sort([*-three, *three]), rtol=1e-6
  )
  np.testing.assert_array_equal(codebooks.apot_levels(2), [-1, 0, 0, 1])
  np.testing.assert_array_equal(codebooks.log2_levels(2), [-1, -0.5, 0.5, 1])
  np.testing.assert_array_equal(
    codebooks.log2_levels(2, signed=False), [0, 0.25, 0.5, 1]
  )
  np.testing.assert_allclose(
    codebooks.log_sqrt2_levels(2), [2**-1.5, 0.5, 2**-0.5, 1], rtol=1e-6
  )


@pytest.mark.parametrize('bits', range(1, 9))
def test_every_codebook_is_full_sorted_and_normalised(bits):
  for levels in (
    codebooks.apot_levels(bits),
    codebooks.apot_levels(bits, signed=False),
    codebooks.log2_levels(bits),
    codebooks.log2_levels(bits, signed=False),
    codebooks.log_sqrt2_levels(bits),
  ):
    assert levels.shape == (2**bits,)
    assert (np.diff(levels) >= 0).all()
    assert np.abs(levels).max() == 1


def test_a_scaled_codebook_is_recovered(rng):
  unit = codebooks.apot_levels(3, signed=False)
  x = np.float32(1.7) * rng.choice(unit, 100)
  stacked = jnp.stack([codebooks.apot_levels(3), unit])
  np.testing.assert_allclose(
    codebooks.fit_scaled_levels(x, stacked), 1.7 * unit, rtol=1e-5
  )
  spiked = np.append(x, np.float32(17))
  cost = np.append(np.ones(100, np.float32), 0)
  close = codebooks.fit_scaled_levels(spiked, unit, cost)
  assert _error(x, close) < 1e-9
  zeros = codebooks.fit_scaled_levels(np.zeros(4, np.float32), unit)
  np.testing.assert_array_equal(zeros, unit)


def test_the_base_is_found(rng):
  base = 2**0.5
  unit = np.array([0, *base ** -np.arange(14, -1, -1)])
  x = np.float32(0.8 * rng.choice(unit, 300))
  x[0] = 0.8
  levels = codebooks.adalog_levels(x, 4, (1.2, base, 2.0))
  np.testing.assert_allclose(levels, 0.8 * unit, rtol=1e-4)
  both = codebooks.adalog_levels(np.append(x, -x), 4)
  np.testing.assert_allclose(both, -both[::-1], rtol=1e-6)


def test_twin_ranges(rng):
  p = np.float32(rng.dirichlet(np.full(16, 0.1), 30).ravel())
  levels = np.asarray(codebooks.twin_uniform_levels(p, 4, 'softmax'))
  coarse, fine = np.arange(8) / 8, levels[2] * np.arange(8)
  np.testing.assert_allclose(levels, np.sort([*coarse, *fine]), rtol=1e-6)
  assert np.log2(levels[2] * 8) == np.rint(np.log2(levels[2] * 8))
  x = rng.normal(size=500)
  y = np.float32(jax.nn.gelu(x))
  levels = np.asarray(codebooks.twin_uniform_levels(y, 4, 'gelu'))
  np.testing.assert_allclose(levels[:8], -0.17 / 8 * np.arange(7, -1, -1))
  ratio = levels[-1] / (7 * 0.17 / 8)
  np.testing.assert_allclose(np.log2(ratio), np.rint(np.log2(ratio)), atol=1e-5)
  errors = [
    _error(y, [*levels[:8], *(0.17 / 8 * 2.0**m * np.arange(8))])
    for m in range(16)
  ]
  np.testing.assert_allclose(_error(y, levels), min(errors), rtol=1e-5)
  with pytest.raises(UserError, match="kind = 'relu' is unknown"):
    codebooks.twin_uniform_levels(y, 4, 'relu')
  with pytest.raises(UserError, match='2 bits or more'):
    codebooks.twin_uniform_levels(y, 1, 'gelu')
