"""Diagnostics of calibration by hand, and bootstrap intervals of rates."""

import warnings

import jax
import numpy as np
import pytest
from statsmodels.stats import proportion

from jaxlab.errors import UserError
from jaxlab.fairness import grouping, reliability

SCORES = np.array([0.1, 0.2, 0.2, 0.8, 0.9, 0.3, 0.3, 0.7])
LABELS = np.array([0, 1, 0, 1, 1, 0, 1, 0])
GROUPS = np.array([0, 0, 0, 0, 0, 1, 1, 1])


@pytest.fixture(autouse=True)
def x64():
  with jax.enable_x64(True):
    yield


def test_table_by_hand():
  table = reliability.reliability_table(SCORES, LABELS, GROUPS, 2, num_bins=2)
  np.testing.assert_array_equal(table.weight, [[3, 2], [2, 1]])
  np.testing.assert_array_equal(table.trials, table.weight)
  np.testing.assert_allclose(table.rate, [[1 / 3, 1], [1 / 2, 0]])
  np.testing.assert_allclose(table.score, [[0.5 / 3, 0.85], [0.3, 0.7]])
  low, high = proportion.proportion_confint(1, 3, method='wilson')
  np.testing.assert_allclose([table.low[0, 0], table.high[0, 0]], [low, high])
  # |1/3 - .5/3| 3/5 + |1 - .85| 2/5, and |.5 - .3| 2/3 + .7 / 3.
  error = reliability.expected_calibration_error(table)
  np.testing.assert_allclose(error, [0.16, 1.1 / 3])
  large = reliability.calibration_in_the_large(table)
  np.testing.assert_allclose(large, [3 / 5 - 2.2 / 5, 1 / 3 - 1.3 / 3])


def test_weights_and_empty_cells():
  weights = np.array([1, 1, 1, 1, 1, 2, 2, 0.0])
  table = reliability.reliability_table(
    SCORES, LABELS, GROUPS, 3, weights, num_bins=2
  )
  np.testing.assert_array_equal(table.weight, [[3, 2], [4, 0], [0, 0]])
  assert table.trials[1, 0] == 2  # equal weights of 2 are two rows
  assert np.isnan(table.rate[1:, 1]).all()
  error = reliability.expected_calibration_error(table)
  np.testing.assert_allclose(error[:2], [0.16, 0.2])
  assert np.isnan(error[2])


def test_observed_rates_go_to_the_nearest_score():
  gs = grouping.make_groups([0.2, 0.6, 0.9, 0.5], [0, 0, 0, 1])
  found = reliability.observed_rates(
    gs,
    [0.1, 0.39, 0.41, 0.76, 1.0, 0.2, 0.5, 0.9],
    [0, 1, 1, 1, 0, 1, 0, 0],
    [0, 0, 0, 0, 0, 1, 1, 1],
  )
  np.testing.assert_array_equal(found.weight, [[2, 1, 2], [3, 0, 0]])
  np.testing.assert_allclose(found.rate[0], [1 / 2, 1, 1 / 2])
  np.testing.assert_allclose(found.rate[1, 0], 1 / 3)


def test_check_warns_of_the_largest_deviation():
  gs = grouping.make_groups([0.2, 0.6, 0.5, 0.1], [0, 0, 1, 1])
  rates = np.array([[0.6, 0.25], [0.5, 0.4]])
  with pytest.warns(UserWarning, match=r'group 1 .*0\.1 is 0\.4, off by 0\.3'):
    largest = reliability.check_calibration(gs, rates, 0.05)
  assert largest == pytest.approx(0.3)
  with warnings.catch_warnings(action='error'):
    assert reliability.check_calibration(gs, rates, 0.31) == largest
    few = np.full((2, 2), 5.0)
    assert reliability.check_calibration(gs, rates, 0.05, trials=few) == 0
    nothing = np.full((2, 2), np.nan)
    assert reliability.check_calibration(gs, nothing) == 0
  with pytest.warns(UserWarning, match='off by 0.3'):
    reliability.check_calibration(gs, rates, trials=200 * few)


def test_check_wants_rates_of_scores_not_of_rows():
  gs = grouping.make_groups([0.2, 0.6, 0.5, 0.1], [0, 0, 1, 1])
  with pytest.raises(UserError, match=r'y has shape \(5,\).*observed_rates'):
    reliability.check_calibration(gs, [0, 1, 1, 0, 1])


def test_check_of_calibrated_and_of_shifted_scores():
  rng = np.random.default_rng(0)
  levels = np.linspace(0.05, 0.95, 10)
  scores, groups = rng.choice(levels, 4000), rng.integers(0, 2, 4000)
  gs = grouping.make_groups(scores, groups)

  def check(chance):
    labels = rng.random(4000) < chance
    seen = reliability.observed_rates(gs, scores, labels, groups)
    return reliability.check_calibration(gs, seen.rate, trials=seen.trials)

  with warnings.catch_warnings(action='error'):
    check(scores)
  with pytest.warns(UserWarning, match='group 1'):
    check(np.where(groups == 1, scores**2, scores))


def test_robustness_of_rates():
  rng = np.random.default_rng(1)
  n = 600
  groups = np.arange(n) % 2
  r = rng.random(n) < 0.5
  y = rng.random(n) < np.where(r, 0.8 - 0.2 * groups, 0.2)
  found = reliability.rate_robustness(
    jax.random.key(0),
    y,
    r.astype(float),
    groups,
    2,
    np.ones(n),
    num_resamples=500,
  )
  ppv = [y[r & (groups == g)].mean() for g in range(2)]
  rate = [y[~r & (groups == g)].mean() for g in range(2)]
  np.testing.assert_allclose(found.ppv, ppv)
  np.testing.assert_allclose(found.for_, rate)
  assert found.ppv_gap == pytest.approx(ppv[0] - ppv[1])
  for g in range(2):
    # A percentile interval is about the normal one here.
    error = 1.96 * np.sqrt(ppv[g] * (1 - ppv[g]) / (r & (groups == g)).sum())
    low, high = found.ppv_interval.low[g], found.ppv_interval.high[g]
    np.testing.assert_allclose((high - low) / 2, error, rtol=0.2)
    assert low < ppv[g] < high
  assert found.ppv_gap_interval.low > 0.05
  assert found.for_gap_interval.low >= 0


def test_robustness_takes_probabilities_and_weights():
  y = np.tile([True, False, True, False], 150)
  r = np.tile([0.5, 0.5, 1.0, 0.0], 150)
  found = reliability.rate_robustness(
    jax.random.key(0),
    y,
    r,
    np.tile([0, 0, 1, 1], 150),
    2,
    np.tile([3.0, 1, 1, 1], 150),
    num_resamples=500,
  )
  np.testing.assert_allclose(found.ppv, [0.75, 1])
  np.testing.assert_allclose(found.for_, [0.75, 0])
  np.testing.assert_allclose([found.ppv_gap, found.for_gap], [0.25, 0.75])
