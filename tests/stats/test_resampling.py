"""Bootstrap and permutation tests against scipy and enumeration."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from absl.testing import parameterized

from jaxlab import stats

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
X = RNG.gamma(2, 1, 25).astype(np.float32)
Y = (X + RNG.normal(0, 1, 25)).astype(np.float32)


def spread(x):
  return jnp.std(x, axis=0)


class BootstrapTest(chex.TestCase):
  @chex.variants(with_jit=True)
  @parameterized.parameters('percentile', 'basic', 'bca')
  def test_interval_is_scipys_of_the_same_resamples(self, method):
    with jax.enable_x64(True):
      x = jnp.asarray(X, float)
      distribution = stats.bootstrap_distribution(
        KEY, x, spread, num_resamples=500
      )
      got = self.variant(
        lambda x: stats.bootstrap_interval(
          KEY, x, spread, 0.9, 500, method=method
        )
      )(x)
    drawn = scipy.stats.bootstrap((X,), np.std, n_resamples=2, method='basic')
    drawn.bootstrap_distribution = np.asarray(distribution)
    wanted = scipy.stats.bootstrap(
      (np.asarray(X, float),),
      np.std,
      n_resamples=0,
      confidence_level=0.9,
      method=method,
      bootstrap_result=drawn,
    ).confidence_interval
    np.testing.assert_allclose(got, wanted, rtol=1e-9)

  def test_distribution_of_the_mean(self):
    means = stats.bootstrap_distribution(KEY, X, num_resamples=4000)
    error = X.std() / np.sqrt(25)
    assert abs(means.mean() - X.mean()) < 4 * error / np.sqrt(4000)
    np.testing.assert_allclose(means.std(), error, rtol=0.05)

  def test_chunks_and_number_of_resamples_change_no_resample(self):
    sample = (X, Y)

    def both(sample):
      return jnp.stack([sample[0].max(), sample[1].min()])

    wanted = stats.bootstrap_distribution(KEY, sample, both, num_resamples=40)
    for max_bytes in (1, 7 * 300):
      got = stats.bootstrap_distribution(
        KEY, sample, both, num_resamples=33, max_bytes=max_bytes
      )
      np.testing.assert_array_equal(got, wanted[:33])

  def test_each_entry_has_its_own_interval(self):
    both = stats.bootstrap_interval(
      KEY, np.stack([X, Y], 1), spread, num_resamples=200, method='bca'
    )
    for i, x in enumerate((X, Y)):
      alone = stats.bootstrap_interval(
        KEY, x, spread, num_resamples=200, method='bca'
      )
      np.testing.assert_allclose([both.low[i], both.high[i]], alone, rtol=1e-5)

  def test_covers_near_its_level_under_vmap(self):
    samples = jax.random.normal(jax.random.key(1), (400, 40))
    keys = jax.random.split(KEY, 400)
    low, high = jax.vmap(
      lambda key, x: stats.bootstrap_interval(key, x, num_resamples=300)
    )(keys, samples)
    assert 0.9 < np.mean((low <= 0) & (high >= 0)) < 0.98

  def test_pairs_stay_together(self):
    got = stats.paired_bootstrap_interval(KEY, X + 2, X, num_resamples=100)
    np.testing.assert_allclose(got, [2, 2], rtol=1e-5)
    low, high = stats.paired_bootstrap_interval(
      KEY, X, Y, stats.pearson, num_resamples=500
    )
    assert low < stats.pearson(X, Y) < high

  def test_degenerate_samples(self):
    for method, wanted in (('percentile', 3), ('basic', 3), ('bca', np.nan)):
      got = stats.bootstrap_interval(
        KEY, np.array([3.0]), num_resamples=5, method=method
      )
      np.testing.assert_array_equal(got, [wanted, wanted])
    constant = stats.bootstrap_interval(
      KEY, np.full(4, 2.0), num_resamples=5, method='bca'
    )
    np.testing.assert_array_equal(constant, [2, 2])

  def test_bad_arguments(self):
    for kwargs, message in (
      ({'x': np.zeros(0)}, 'non-empty axis 0'),
      ({'x': (X, X[:3])}, 'common, non-empty'),
      ({'x': X, 'method': 'BCa'}, "got 'BCa'"),
      ({'x': X, 'num_resamples': 0}, 'num_resamples must be positive'),
      ({'x': X, 'max_bytes': 0}, 'max_bytes must be positive'),
    ):
      with pytest.raises(ValueError, match=message):
        stats.bootstrap_interval(KEY, **kwargs)


class PermutationTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.parameters(True, False)
  def test_is_close_to_all_permutations(self, paired):
    a, b = X[:6], Y[:6] - 0.4

    def tests(a, b):
      return {
        alternative: stats.permutation_test(
          KEY,
          a,
          b,
          paired=paired,
          alternative=alternative,
          num_permutations=4000,
        )
        for alternative in ('two-sided', 'less', 'greater')
      }

    for alternative, got in self.variant(tests)(a, b).items():
      wanted = scipy.stats.permutation_test(
        (a, b),
        lambda a, b, axis: a.mean(axis) - b.mean(axis),
        permutation_type='samples' if paired else 'independent',
        alternative=alternative,
        n_resamples=np.inf,
        vectorized=True,
      )
      np.testing.assert_allclose(got.statistic, wanted.statistic, rtol=1e-5)
      assert abs(got.p_value - wanted.pvalue) < 4 * np.sqrt(0.25 / 4000)

  def test_extreme_value_counts_itself(self):
    a, b = np.arange(20.0), np.arange(20.0) + 100
    got = stats.permutation_test(
      KEY, a, b, alternative='less', num_permutations=99
    )
    np.testing.assert_allclose(got.p_value, 1 / 100)

  def test_ties_count_for_both_sides(self):
    same = np.full(5, 0.1)
    got = stats.permutation_test(KEY, same, same, num_permutations=9)
    assert got.p_value == 1

  def test_level_under_the_hypothesis(self):
    a, b = jax.random.normal(jax.random.key(2), (2, 500, 8))
    keys = jax.random.split(KEY, 500)
    p = jax.vmap(
      lambda key, a, b: stats.permutation_test(
        key, a, b, num_permutations=99, paired=True
      )
    )(keys, a, b).p_value
    assert abs(np.mean(p <= 0.2) - 0.2) < 4 * np.sqrt(0.16 / 500)

  def test_chunks_change_nothing(self):
    wanted = stats.permutation_test(KEY, X, Y[:9], num_permutations=50)
    got = stats.permutation_test(
      KEY, X, Y[:9], num_permutations=50, max_bytes=2000
    )
    np.testing.assert_allclose(got, wanted, rtol=1e-6)

  def test_bad_arguments(self):
    for args, kwargs, message in (
      ((X, X[:0]), {}, 'non-empty axis 0'),
      ((X, X[:4]), {'paired': True}, 'equal shapes'),
      ((X, X), {'alternative': 'two_sided'}, "got 'two_sided'"),
      ((X, X), {'num_permutations': 0}, 'num_permutations must be positive'),
    ):
      with pytest.raises(ValueError, match=message):
        stats.permutation_test(KEY, *args, **kwargs)
