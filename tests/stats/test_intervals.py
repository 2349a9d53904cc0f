"""t, Welch and binomial intervals against scipy and statsmodels."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from absl.testing import parameterized
from statsmodels.stats.proportion import (
  confint_proportions_2indep,
  proportion_confint,
)

from jaxlab import stats

RNG = np.random.default_rng(0)
X = RNG.normal(3, 2, (4, 12))
Y = X + RNG.normal(0.5, 1, (4, 12))


class QuantileTest(chex.TestCase):
  @chex.variants(with_jit=True)
  @parameterized.parameters((True, 1e-9), (False, 1e-5))
  def test_student_t(self, x64, rtol):
    df = np.array([1, 2, 3, 7.5, 30, 400, 1e5])[:, None]
    level = np.array([0.01, 0.5, 0.95, 0.99])
    with jax.enable_x64(x64):
      got = self.variant(stats.student_t_critical_value)(level, df)
      assert got.dtype == (jnp.float64 if x64 else jnp.float32)
    np.testing.assert_allclose(
      got, scipy.stats.t.ppf(0.5 + level / 2, df), rtol=rtol
    )

  def test_without_degrees_of_freedom(self):
    assert np.isnan(stats.student_t_critical_value(0.95, 0))

  @chex.variants(with_jit=True)
  def test_beta(self):
    p = np.array([0.001, 0.3, 0.975])[:, None]
    a = np.array([0.5, 1, 2, 40, 3000])
    b = np.array([0.5, 3, 90000, 17, 5000])
    with jax.enable_x64(True):
      got = self.variant(stats.beta_quantile)(p, a, b)
    np.testing.assert_allclose(got, scipy.stats.beta.ppf(p, a, b), rtol=1e-9)


class MeanTest(chex.TestCase):
  @chex.variants(with_jit=True)
  @parameterized.parameters((True, 1e-9), (False, 2e-5))
  def test_mean_interval_is_scipys(self, x64, rtol):
    with jax.enable_x64(x64):
      got = self.variant(lambda x: stats.mean_interval(x, level=0.9))(X)
      transposed = stats.mean_interval(X.T, axis=0, level=0.9)
    wanted = scipy.stats.t.interval(
      0.9, 11, X.mean(1), scipy.stats.sem(X, axis=1)
    )
    np.testing.assert_allclose(got, wanted, rtol=rtol)
    np.testing.assert_allclose(transposed, wanted, rtol=rtol)

  @chex.variants(with_jit=True, without_jit=True)
  def test_difference_intervals_are_scipys(self):
    with jax.enable_x64(True):
      paired = self.variant(stats.paired_difference_interval)(X, Y)
      welch = self.variant(stats.difference_interval)(X, Y[:, :7])
    wanted = scipy.stats.ttest_rel(X, Y, axis=1).confidence_interval()
    np.testing.assert_allclose(paired, wanted, rtol=1e-9)
    wanted = scipy.stats.ttest_ind(
      X, Y[:, :7], axis=1, equal_var=False
    ).confidence_interval()
    np.testing.assert_allclose(welch, wanted, rtol=1e-9)

  def test_level_may_be_mapped(self):
    level = jnp.array([0.5, 0.9])
    got = jax.vmap(lambda level: stats.mean_interval(X[0], level=level))(level)
    for i in range(2):
      np.testing.assert_allclose(
        [got.low[i], got.high[i]],
        stats.mean_interval(X[0], level=float(level[i])),
        rtol=1e-5,
      )

  def test_covers_at_its_level(self):
    samples = jax.random.exponential(jax.random.key(0), (4000, 200))
    low, high = stats.mean_interval(samples, level=0.9)
    coverage = np.mean((low <= 1) & (high >= 1))
    assert abs(coverage - 0.9) < 0.02

  def test_too_little_data(self):
    assert np.isnan(stats.mean_interval(np.ones((2, 1)))).all()
    assert np.isnan(stats.difference_interval(X[0], X[0, :1])).all()
    np.testing.assert_array_equal(
      stats.difference_interval(np.ones(3), np.zeros(4)), [1, 1]
    )
    with pytest.raises(ValueError, match='no observations'):
      stats.mean_interval(np.ones((2, 0)))

  @parameterized.parameters(0.0, 1.0, 95, -0.5, float('nan'))
  def test_bad_level(self, level):
    for call in (
      lambda: stats.mean_interval(X, level=level),
      lambda: stats.difference_interval(X, Y, level=level),
      lambda: stats.wilson_interval(1, 2, level),
      lambda: stats.clopper_pearson_interval(1, 2, level),
      lambda: stats.ratio_of_proportions_interval(1, 2, 1, 2, level),
      lambda: stats.bootstrap_interval(jax.random.key(0), X, level=level),
    ):
      with pytest.raises(ValueError, match='between 0 and 1'):
        call()

  def test_pairs_of_unequal_shape(self):
    with pytest.raises(ValueError, match='equal shapes'):
      stats.paired_difference_interval(np.ones(3), np.ones(4))


COUNTS = np.array([0, 1, 2, 10, 19, 20, 0, 1, 50, 999, 1000])
TRIALS = np.array([20] * 6 + [1000] * 5)


class ProportionTest(chex.TestCase):
  @chex.variants(with_jit=True)
  @parameterized.parameters(
    ('wilson', True, 1e-9),
    ('wilson', False, 2e-5),
    ('beta', True, 1e-9),
    ('beta', False, 1e-4),
  )
  def test_is_statsmodels(self, method, x64, rtol):
    ours = {
      'wilson': stats.wilson_interval,
      'beta': stats.clopper_pearson_interval,
    }[method]
    with jax.enable_x64(x64):
      got = self.variant(lambda k, n: ours(k, n, 0.9))(COUNTS, TRIALS)
    wanted = proportion_confint(COUNTS, TRIALS, 0.1, method)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-12)

  @parameterized.parameters('wilson', 'exact')
  def test_is_scipys(self, method):
    ours = {
      'wilson': stats.wilson_interval,
      'exact': stats.clopper_pearson_interval,
    }[method]
    wanted = scipy.stats.binomtest(7, 31).proportion_ci(method=method)
    np.testing.assert_allclose(ours(7, 31), wanted, rtol=1e-5)

  def test_exact_interval_covers_every_rate(self):
    k = np.arange(16)
    low, high = stats.clopper_pearson_interval(k, 15)
    for rate in np.linspace(0.01, 0.99, 99):
      inside = (low <= rate) & (rate <= high)
      assert scipy.stats.binom.pmf(k, 15, rate)[inside].sum() >= 0.95 - 1e-5

  def test_many_trials_in_float32(self):
    k, n = np.array([1, 2, 300, 50_000]), 100_000
    got = np.stack(stats.clopper_pearson_interval(k, n))
    wanted = np.stack(proportion_confint(k, n, method='beta'))
    assert (np.abs(got - wanted) < 0.01 * (wanted[1] - wanted[0])).all()

  def test_no_trials(self):
    assert np.isnan(stats.wilson_interval(0, 0)).all()
    assert np.isnan(stats.clopper_pearson_interval(0, 0)).all()
    assert np.isnan(stats.ratio_of_proportions_interval(0, 0, 1, 2)).all()


class RatioTest(chex.TestCase):
  @chex.variants(with_jit=True)
  @parameterized.parameters((True, 1e-5), (False, 2e-3))
  def test_is_statsmodels_score_interval(self, x64, rtol):
    cases = np.array([[7, 20, 3, 25], [1, 30, 29, 30], [120, 400, 90, 500]])
    with jax.enable_x64(x64):
      got = self.variant(stats.ratio_of_proportions_interval)(*cases.T)
    wanted = [
      confint_proportions_2indep(
        *case, method='score', compare='ratio', correction=False
      )
      for case in cases
    ]
    np.testing.assert_allclose(np.transpose(got), wanted, rtol=rtol)

  def test_published_example(self):
    # Koopman (1984), table 1: 36 of 40 against 16 of 80.
    got = stats.ratio_of_proportions_interval(36, 40, 16, 80)
    np.testing.assert_allclose(got, [2.94, 7.15], atol=0.01)

  def test_exchanging_the_groups_inverts_the_interval(self):
    k, m, j, n = np.array([[5, 9, 2, 40], [30, 31, 30, 31], [3, 7, 7, 7]]).T
    low, high = stats.ratio_of_proportions_interval(k, m, j, n)
    swapped = stats.ratio_of_proportions_interval(j, n, k, m)
    np.testing.assert_allclose(1 / low, swapped.high, rtol=1e-4)
    np.testing.assert_allclose(1 / high, swapped.low, rtol=1e-4)
    assert ((low < k * n / (j * m)) & (k * n / (j * m) < high)).all()

  def test_zero_counts(self):
    low, high = stats.ratio_of_proportions_interval(
      np.array([0, 4, 0]), 10, np.array([4, 0, 0]), 12
    )
    np.testing.assert_array_equal(low[::2], [0, 0])
    np.testing.assert_array_equal(high[1:], [np.inf, np.inf])
    assert 0 < high[0] < np.inf
    assert low[1] > 0

  def test_covers_near_its_level(self):
    a = np.arange(26)[:, None]
    b = np.arange(41)[None]
    low, high = stats.ratio_of_proportions_interval(a, 25, b, 40, 0.9)
    weight = scipy.stats.binom.pmf(a, 25, 0.2) * scipy.stats.binom.pmf(
      b, 40, 0.3
    )
    coverage = weight[(low <= 2 / 3) & (high >= 2 / 3)].sum()
    assert abs(coverage - 0.9) < 0.02
