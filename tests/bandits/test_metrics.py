"""Regret, error probabilities and exact theory against closed forms."""

import fractions
import itertools
import math

import chex
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from absl.testing import parameterized

from jaxlab.bandits import metrics


class MetricsTest(chex.TestCase):
  @chex.all_variants(with_pmap=False)
  def test_simple_regret(self):
    true_means = jnp.array([[0.5, 0.7], [0.1, 0.9]])
    regret = self.variant(metrics.simple_regret)(true_means, 0.9)
    np.testing.assert_allclose(regret, [[0.4, 0.2], [0.8, 0.0]], atol=1e-6)
    own = self.variant(metrics.simple_regret)(true_means, jnp.array([0.7, 0.9]))
    np.testing.assert_allclose(own, [[0.2, 0.0], [0.8, 0.0]], atol=1e-6)

  @chex.all_variants(with_pmap=False)
  def test_error_probability(self):
    error = self.variant(metrics.error_probability)
    true_means = jnp.array([[1.0, 0.5], [0.75, 0.5], [0.5, 1.0], [0.25, 1.0]])
    # An arm exactly eps below the best is eps-best.
    eps = jnp.array([0.0, 0.25, 0.5, 1.0])
    expected = [[0.75, 0.5], [0.5, 0.5], [0.25, 0], [0, 0]]
    np.testing.assert_array_equal(error(true_means, 1.0, eps), expected)
    np.testing.assert_array_equal(error(true_means, 1.0, 0.25), expected[1])
    best = jnp.array([1.0, 0.75, 0.5, 1.25])
    np.testing.assert_array_equal(error(true_means[:, 0], best, eps)[:1], 0.25)

  @chex.all_variants(with_pmap=False)
  def test_quantiles(self):
    regrets = np.random.default_rng(0).random((31, 2)).astype(np.float32)
    found = self.variant(metrics.quantiles)(regrets, jnp.array([0.1, 0.5]))
    expected = np.quantile(regrets, [0.1, 0.5], axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-6)

  @parameterized.parameters(0.9, 0.99)
  def test_paired_difference(self, level):
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 40, 3))
    a += 0.2
    found = metrics.paired_difference_ci(a, b, level)
    test = scipy.stats.ttest_rel(a, b)
    expected = test.confidence_interval(level)
    np.testing.assert_allclose(found.mean, (a - b).mean(0), rtol=1e-4)
    np.testing.assert_allclose(found.low, expected.low, rtol=1e-3)
    np.testing.assert_allclose(found.high, expected.high, rtol=1e-3)


def test_rank_table_ties_overlapping_intervals():
  # Two values around a centre c: the 95 % t interval is c +- 12.706 * spread.
  def around(centre, spread):
    return np.array([centre - spread, centre + spread])

  table = metrics.rank_table(
    {
      'worst': around(9.0, 0.01),
      'clear winner': around(1.0, 0.01),
      'second': around(2.0, 0.01),
      'blurred': around(2.2, 0.05),
      'between': around(2.5, 0.01),
    }
  )
  ranks = {name: row.rank for name, row in table.items()}
  # 'blurred' spans 1.56 .. 2.84: it ties with 'second' and 'between', which
  # do not tie with each other.
  assert list(ranks.items()) == [
    ('clear winner', 1),
    ('second', 2),
    ('blurred', 2),
    ('between', 3),
    ('worst', 5),
  ]
  low, high = table['blurred'].regret[1:]
  assert (low, high) == pytest.approx((2.2 - 0.6353, 2.2 + 0.6353), abs=1e-3)


@pytest.mark.parametrize(
  ('total', 'good', 'drawn'),
  [
    (1000, 10, 100),
    (300, 120, 90),
    (50, 0, 9),
    (50, 9, 0),
    (7, 3, 4),
    (7, 4, 4),
  ],
)
def test_noninclusion_is_hypergeometric(total, good, drawn):
  exact = fractions.Fraction(
    math.comb(total - good, drawn), math.comb(total, drawn)
  )
  found = metrics.noninclusion_probability(total, good, drawn)
  assert found == pytest.approx(float(exact), rel=1e-13)
  swapped = metrics.noninclusion_probability(total, drawn, good)
  assert swapped == found


def test_noninclusion_of_a_large_pool():
  total, good, drawn = 10**6, 40, 50_000
  exact = math.prod(
    fractions.Fraction(total - drawn - i, total - i) for i in range(good)
  )
  found = metrics.noninclusion_probability(total, good, drawn)
  assert found == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize(
  ('numbers', 'name'),
  [
    ((10, 3, 11), 'c0 .* 11'),
    ((10, 12, 1), 'N_eps .* 12'),
    ((0, 0, 0), 'N .* 0'),
  ],
)
def test_noninclusion_names_what_is_out_of_range(numbers, name):
  with pytest.raises(ValueError, match=name):
    metrics.noninclusion_probability(*numbers)


@pytest.mark.parametrize('num', [1, 2, 5, 6, 7, 20])
def test_uniform_deterministic_regret_is_a_mean_over_subsets(num):
  mu = np.random.default_rng(3).normal(size=7)
  subsets = itertools.combinations(mu, min(num, 7))
  expected = mu.max() - np.mean([max(subset) for subset in subsets])
  found = metrics.uniform_deterministic_regret(mu, num)
  assert found == pytest.approx(expected, abs=1e-14)


def test_uniform_deterministic_regret_needs_a_pull():
  with pytest.raises(ValueError, match=r'num .* 0'):
    metrics.uniform_deterministic_regret([0.5], 0)
