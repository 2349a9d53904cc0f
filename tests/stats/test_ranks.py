"""Ranks, correlations, corrections and fronts against scipy and brute force."""

import itertools

import chex
import jax
import numpy as np
import pytest
import scipy.stats
from absl.testing import parameterized
from statsmodels.stats.multitest import multipletests

from jaxlab import stats

RNG = np.random.default_rng(0)
TIED = RNG.integers(0, 6, (3, 40)).astype(np.float32)
OTHER = (TIED + RNG.integers(0, 9, (3, 40))).astype(np.float32)


class CorrelationTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_ranks_are_scipys(self):
    np.testing.assert_array_equal(
      self.variant(stats.rankdata)(TIED), scipy.stats.rankdata(TIED, axis=1)
    )

  @chex.variants(with_jit=True)
  @parameterized.product(
    name=['pearson', 'spearman', 'kendall'], x64=[True, False]
  )
  def test_coefficients_are_scipys(self, name, x64):
    peer = {
      'pearson': scipy.stats.pearsonr,
      'spearman': scipy.stats.spearmanr,
      'kendall': scipy.stats.kendalltau,
    }[name]
    x, y = TIED.astype(float), OTHER.astype(float)
    wanted = [peer(*pair).statistic for pair in zip(x, y, strict=True)]
    with jax.enable_x64(x64):
      got = self.variant(getattr(stats, name))(x, y)
    np.testing.assert_allclose(got, wanted, rtol=1e-12 if x64 else 1e-5)

  def test_kendall_in_chunks(self):
    np.testing.assert_array_equal(
      stats.kendall(TIED, OTHER, max_bytes=7 * 12 * TIED.size),
      stats.kendall(TIED, OTHER),
    )

  def test_infinite_scores_have_ranks(self):
    x = np.array([-np.inf, 2.0, np.inf, 1.0])
    y = np.array([0.0, 5.0, 6.0, 7.0])
    wanted = scipy.stats.kendalltau([0, 2, 3, 1], y).statistic
    np.testing.assert_allclose(stats.kendall(x, y), wanted, rtol=1e-6)

  @parameterized.parameters('pearson', 'spearman', 'kendall')
  def test_undefined(self, name):
    coefficient = getattr(stats, name)
    x = np.arange(3.0)
    assert np.isnan(coefficient(x, np.full(3, 0.1)))
    assert np.isnan(coefficient(x, np.array([1, np.nan, 2])))
    assert np.isnan(coefficient(np.ones(1), np.ones(1)))
    with pytest.raises(ValueError, match='one common length'):
      coefficient(x, np.ones(4))


class CorrectionTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.parameters(('holm', 'holm'), ('benjamini_hochberg', 'fdr_bh'))
  def test_is_statsmodels(self, name, method):
    p = RNG.beta(0.3, 2, (4, 15))
    p[:, 3] = p[:, 7]
    got = self.variant(getattr(stats, name))(p)
    wanted = [multipletests(row, method=method)[1] for row in p]
    np.testing.assert_allclose(got, wanted, rtol=1e-5)

  @chex.variants(with_jit=True, without_jit=True)
  def test_chi_square_is_scipys(self):
    counts = RNG.integers(5, 30, (3, 8))
    got = self.variant(stats.chi_square_uniform)(counts)
    wanted = scipy.stats.chisquare(counts, axis=1)
    np.testing.assert_allclose(got.statistic, wanted.statistic, rtol=1e-5)
    np.testing.assert_allclose(got.p_value, wanted.pvalue, rtol=1e-4)

  def test_chi_square_without_counts(self):
    assert np.isnan(stats.chi_square_uniform(np.zeros(3))).all()
    with pytest.raises(ValueError, match='two categories'):
      stats.chi_square_uniform(np.ones(1))


def dominates(p, q, signs):
  p, q = p * signs, q * signs
  return (p >= q).all() and (p > q).any()


class ParetoTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.parameters(True, False, ((True, False, True),))
  def test_front_by_enumeration(self, maximize):
    points = RNG.integers(0, 5, (2, 30, 3)).astype(np.float32)
    signs = np.where(maximize, 1, -1)
    wanted = [
      [not any(dominates(q, p, signs) for q in batch) for p in batch]
      for batch in points
    ]
    got = self.variant(
      lambda points: stats.pareto_mask(points, maximize, max_bytes=7 * 360)
    )(points)
    np.testing.assert_array_equal(got, wanted)

  def test_equal_points_and_nan(self):
    points = np.array([[1, 1], [1, 1], [0, 1], [np.nan, 5]])
    np.testing.assert_array_equal(
      stats.pareto_mask(points), [True, True, False, False]
    )

  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.product(maximize=[True, False, (True, False)])
  def test_area_by_counting_cells(self, maximize):
    points = RNG.integers(-1, 7, (3, 6, 2)).astype(np.float32)
    signs = np.where(maximize, 1, -1)
    corner = np.broadcast_to(np.where(maximize, 0, 6), 2)
    got = self.variant(
      lambda points: stats.hypervolume_2d(points, corner, maximize)
    )(points)
    for batch, area in zip(points, got, strict=True):
      sides = (batch - corner) * np.broadcast_to(signs, 2)
      cells = sum(
        any(side[0] > x and side[1] > y for side in sides)
        for x, y in itertools.product(range(8), repeat=2)
      )
      assert area == cells

  def test_bad_shapes(self):
    with pytest.raises(ValueError, match=r'\[..., n, m\]'):
      stats.pareto_mask(np.ones(3))
    with pytest.raises(ValueError, match=r'\[..., n, 2\]'):
      stats.hypervolume_2d(np.ones((4, 3)), np.zeros(3))
