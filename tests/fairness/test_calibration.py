"""Calibrators against scikit-learn, betacal, scipy and values by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import sklearn.calibration
import sklearn.frozen
import sklearn.isotonic
import sklearn.linear_model

from jaxlab.errors import UserError
from jaxlab.fairness import grouping
from jaxlab.fairness.calibration import (
  CalibratorState,
  apply_calibrator,
  fit_calibrator,
)
from jaxlab.fairness.calibrators import METHODS

ROWS = 200  # a group; other tests stay at or below 256 for the same program


@pytest.fixture(autouse=True)
def x64():
  with jax.enable_x64(True):
    yield


def people(seed=0, num_groups=2, rows=ROWS):
  """Rows of groups whose scores are off, each in its own way."""
  rng = np.random.default_rng(seed)
  groups = np.repeat(np.arange(num_groups), rows)
  scores = rng.beta(2, 3, groups.size)
  odds = (0.5 + groups) * scipy.special.logit(scores) + 0.4 - groups
  labels = (rng.random(groups.size) < scipy.special.expit(odds)).astype(int)
  weights = rng.uniform(0.2, 3, groups.size)
  order = rng.permutation(groups.size)
  return tuple(each[order] for each in (scores, labels, groups, weights))


def fit_and_apply(method, scores, labels, groups, query, at, **options):
  state = fit_calibrator(method, scores, labels, groups, **options)
  return np.asarray(apply_calibrator(state, query, at))


def one_group(method, scores, labels, query, weights=None, **options):
  # Twice the same group: the program of two groups is there already.
  rows = [np.tile(each, 2) for each in (scores, labels)]
  groups = np.repeat([0, 1], len(scores))
  if weights is not None:
    options['weights'] = np.tile(weights, 2)
  at = np.zeros(np.shape(query), int)
  return fit_and_apply(method, *rows, groups, query, at, **options)


def test_isotonic_ties_sum_their_weights():
  x, y = [0, 1, 1, 2, 3], [0, 0, 1, 0, 1]
  found = one_group('isotonic', x, y, x)
  np.testing.assert_allclose(found, [0, 1 / 3, 1 / 3, 1 / 3, 1], atol=1e-15)


@pytest.mark.parametrize('decimals', [1, 2, 9])
def test_isotonic_is_that_of_scikit_learn(decimals):
  scores, labels, groups, weights = people(decimals)
  scores = np.round(20 * scores - 7, decimals)  # any real numbers, with ties
  weights[::7] = 0
  query = np.linspace(-10, 20, 301)
  state = fit_calibrator('isotonic', scores, labels, groups, weights)
  for group in range(2):
    rows = (groups == group) & (weights > 0)
    peer = sklearn.isotonic.IsotonicRegression(out_of_bounds='clip')
    peer.fit(scores[rows], labels[rows], weights[rows])
    found = apply_calibrator(state, query, np.full(query.shape, group))
    np.testing.assert_allclose(found, peer.predict(query), atol=1e-12)


@pytest.mark.slow
def test_isotonic_of_many_rows():
  """Long enough for arrays to be shortened, and cases of many passes."""
  n = 1500
  rng = np.random.default_rng(2)
  x = np.arange(n) / n
  y = np.stack([1 - x, x, x, rng.random(n) < x])
  w = np.stack([np.ones(n)] * 3 + [rng.integers(0, 3, n)])
  y[2, -1], w[2, -1] = 0, 1e4  # one more block is pooled in each pass
  fit = jax.jit(jax.vmap(METHODS['isotonic'].fit, (None, 0, 0)))
  knots = fit(jnp.asarray(x), jnp.asarray(y, float), jnp.asarray(w, float))
  for row in range(4):
    peer = sklearn.isotonic.IsotonicRegression(out_of_bounds='clip')
    seen = w[row] > 0
    peer.fit(x[seen], y[row][seen], w[row][seen])
    right = peer.predict(knots.x[row])
    np.testing.assert_allclose(knots.values[row], right, atol=1e-12)


def test_platt_has_the_coefficients_of_scikit_learn():
  scores, labels, groups, weights = people(3)
  raw = 4 * scores - 1
  state = fit_calibrator('platt', raw, labels, groups, weights)
  for group in range(2):
    rows = groups == group
    a, b = sklearn.calibration._sigmoid_calibration(
      raw[rows], labels[rows], weights[rows]
    )
    np.testing.assert_allclose(state.params.coef[group], [-a], atol=1e-5)
    np.testing.assert_allclose(state.params.bias[group], -b, atol=1e-5)


@pytest.mark.parametrize(
  ('method', 'theirs'), [('platt', 'sigmoid'), ('isotonic', 'isotonic')]
)
def test_calibrated_classifier(method, theirs):
  scores, labels, _, _ = people(4, num_groups=1)
  x = scipy.special.logit(scores)[:, None]
  model = sklearn.linear_model.LogisticRegression().fit(x[::2], labels[::2])
  peer = sklearn.calibration.CalibratedClassifierCV(
    sklearn.frozen.FrozenEstimator(model), method=theirs
  ).fit(x, labels)
  raw = model.decision_function(x)
  found = one_group(method, raw, labels, raw)
  np.testing.assert_allclose(found, peer.predict_proba(x)[:, 1], atol=1e-5)


def loss_of(theta, features, labels, weights):
  z = features @ theta
  return weights @ (np.logaddexp(0, z) - labels * z) / weights.sum()


def beta_features(scores):
  log, log1m = np.log(scores), -np.log1p(-scores)
  return np.stack([log, log1m, np.ones_like(log)], axis=1)


def test_temperature_minimises_the_log_loss():
  scores, labels, groups, weights = people(5)
  state = fit_calibrator('temperature', scores, labels, groups, weights)
  for group in range(2):
    rows = groups == group
    features = scipy.special.logit(scores[rows])[:, None]
    peer = scipy.optimize.minimize_scalar(
      lambda b, f=features, r=rows: loss_of(
        np.array([b]), f, labels[r], weights[r]
      ),
      bounds=(0, 20),
      options={'xatol': 1e-10},
    )
    np.testing.assert_allclose(state.params.coef[group, 0], peer.x, atol=1e-6)
    assert state.params.bias[group] == 0


def test_temperature_does_not_turn_scores_round():
  scores, labels, _, _ = people(6, num_groups=1)
  found = one_group('temperature', scores, 1 - labels, scores)
  np.testing.assert_allclose(found, 0.5, atol=1e-12)


@pytest.mark.parametrize('case', ['both', 'first', 'second', 'neither'])
def test_beta_is_the_constrained_optimum(case):
  scores, labels, _, weights = people(7, num_groups=1)
  true = {
    'both': [2.0, 2.0, 0.0],
    'first': [1.5, -0.9, 1.0],
    'second': [-0.9, 1.5, -1.0],
    'neither': [-1.0, -1.0, 0.1],
  }[case]
  features = beta_features(scores)
  chance = np.random.default_rng(8).random(scores.size)
  labels = (chance < scipy.special.expit(features @ true)).astype(int)
  rows = [np.tile(each, 2) for each in (scores, labels)]
  state = fit_calibrator(
    'beta', *rows, np.repeat([0, 1], ROWS), np.tile(weights, 2)
  )
  found = np.append(state.params.coef[1], state.params.bias[1])
  peer = scipy.optimize.minimize(
    loss_of,
    [0.5, 0.5, 0.0],
    (features, labels, weights),
    method='L-BFGS-B',
    bounds=[(0, None), (0, None), (None, None)],
    options={'ftol': 1e-15, 'gtol': 1e-10},
  )
  assert (found[:2] >= 0).all()
  assert (found[:2] > 0).tolist() == {
    'both': [True, True],
    'first': [True, False],
    'second': [False, True],
    'neither': [False, False],
  }[case]
  ours = loss_of(found, features, labels, weights)
  assert ours <= peer.fun + 1e-12
  np.testing.assert_allclose(found, peer.x, atol=1e-4)


@pytest.mark.parametrize('seed', [9, 10])
@pytest.mark.filterwarnings('ignore')
def test_beta_agrees_with_betacal(seed):
  betacal = pytest.importorskip('betacal')
  scores, labels, _, _ = people(seed, num_groups=1)
  peer = betacal.BetaCalibration(parameters='abm').fit(scores, labels)
  query = np.linspace(0, 1, 101)
  found = one_group('beta', scores, labels, query)
  # betacal stops its own search early.
  np.testing.assert_allclose(found, peer.predict(query), atol=2e-3)


@pytest.mark.parametrize(
  ('method', 'strategy'), [('histogram', 'uniform'), ('quantile', 'quantile')]
)
def test_bins_are_those_of_the_calibration_curve(method, strategy):
  scores, labels, _, _ = people(11, num_groups=1)
  rate, mean = sklearn.calibration.calibration_curve(
    labels, scores, n_bins=5, strategy=strategy
  )
  found = one_group(method, scores, labels, scores, num_bins=5)
  assert len(rate) == 5
  for value, average in zip(rate, mean, strict=True):
    inside = np.isclose(found, value, atol=1e-12)
    np.testing.assert_allclose(scores[inside].mean(), average, atol=1e-12)


def test_histogram_by_hand():
  found = one_group(
    'histogram',
    [0.1, 0.25, 0.3, 0.9],
    [0, 1, 0, 1],
    [0.0, 0.25, 0.26, 0.6, 1.0],
    num_bins=4,
    weights=[1, 3, 5, 1],
  )
  # Bins (0, .25], (.25, .5], (.5, .75] without rows, (.75, 1].
  np.testing.assert_allclose(found, [0.75, 0.75, 0, 0.625, 1], atol=1e-15)


def test_quantile_bins_have_equal_weight():
  x = np.arange(12.0)
  y = [0, 1, 0, 0, 1, 1, 0, 1, 1, 1, 1, 1]
  w = [3, 3, 1, 1, 1, 1, 1, 1, 0, 2, 2, 2]
  found = one_group('quantile', x, y, x, num_bins=3, weights=w)
  right = [0.5] * 2 + [4 / 6 - 1 / 6] * 6 + [1] * 4
  np.testing.assert_allclose(found, right, atol=1e-15)


@pytest.mark.parametrize('method', METHODS)
def test_weights_count_rows(method):
  scores, labels, groups, _ = people(12, rows=180)
  times = np.random.default_rng(1).integers(0, 3, scores.size)
  repeated = [np.repeat(each, times) for each in (scores, labels, groups)]
  weighted = fit_calibrator(method, scores, labels, groups, times)
  plain = fit_calibrator(method, *repeated)
  for at in (groups, 1 - groups):
    np.testing.assert_allclose(
      apply_calibrator(weighted, scores, at),
      apply_calibrator(plain, scores, at),
      atol=1e-7,
    )


@pytest.mark.parametrize('method', METHODS)
def test_groups_do_not_touch_each_other(method):
  scores, labels, groups, weights = people(13)
  both = fit_calibrator(method, scores, labels, groups, weights)
  rows = groups == 1
  alone = one_group(
    method, scores[rows], labels[rows], scores[rows], weights=weights[rows]
  )
  found = apply_calibrator(both, scores[rows], groups[rows])
  np.testing.assert_allclose(found, alone, atol=1e-9)
  np.testing.assert_allclose(both.out_of_fold[rows], alone, atol=1e-9)
  assert ((alone >= 0) & (alone <= 1)).all()


@pytest.mark.parametrize('method', ['isotonic', 'beta'])
def test_float32_is_close(method):
  scores, labels, groups, weights = people(14)
  wide = fit_calibrator(method, scores, labels, groups, weights)
  with jax.enable_x64(False):
    narrow = fit_calibrator(method, scores, labels, groups, weights)
    found = apply_calibrator(narrow, scores, groups)
  assert found.dtype == narrow.out_of_fold.dtype == jnp.float32
  right = apply_calibrator(wide, scores, groups)
  assert right.dtype == jnp.float64
  np.testing.assert_allclose(found, right, atol=2e-4)


def test_state_is_a_tree():
  scores, labels, groups, _ = people(15)
  state = fit_calibrator('isotonic', scores, labels, groups)
  right = apply_calibrator(state, scores, groups)
  found = jax.jit(apply_calibrator)(state, scores, groups)
  np.testing.assert_allclose(found, right, atol=1e-15)
  square = apply_calibrator(
    state, scores.reshape(20, -1), groups.reshape(20, -1)
  )
  np.testing.assert_array_equal(square.ravel(), right)
  unseen = apply_calibrator(state, [0.5, 0.5, 0.5], [-1, 0, 2])
  assert np.isnan(unseen).tolist() == [True, False, True]


def test_out_of_fold_scores_do_not_know_their_label():
  labels = np.array([0, 0, 0, 0, 0, 1, 1, 1])
  scores, groups = np.linspace(0, 1, 8), np.zeros(8, int)
  state = fit_calibrator(
    'quantile', scores, labels, groups, None, 2, jax.random.key(0), num_bins=1
  )
  # With one bin a row gets the share of label 1 among the other fold.
  found = np.asarray(state.out_of_fold)
  assert sorted(set(found.round(12))) == [0.25, 0.5]
  for value, other in ((0.25, 0.5), (0.5, 0.25)):
    assert labels[np.isclose(found, value)].mean() == other
  np.testing.assert_allclose(state.params.values, [[3 / 8]])


def test_folds_depend_on_the_key():
  scores, labels, groups, _ = people(16)

  def folded(seed):
    return fit_calibrator(
      'isotonic', scores, labels, groups, folds=4, key=jax.random.key(seed)
    )

  first, again, other = folded(1), folded(1), folded(2)
  np.testing.assert_array_equal(first.out_of_fold, again.out_of_fold)
  assert (first.out_of_fold != other.out_of_fold).any()
  np.testing.assert_array_equal(first.params.values, other.params.values)
  # A fit that has seen the labels fits them better than one that has not.
  inside = apply_calibrator(first, scores, groups)
  error = np.mean((np.asarray(first.out_of_fold) - labels) ** 2)
  assert error > np.mean((np.asarray(inside) - labels) ** 2) + 1e-3
  np.testing.assert_allclose(
    np.bincount(groups, first.out_of_fold),
    np.bincount(groups, labels),
    rtol=0.1,
  )


def test_calibrated_scores_make_groups():
  scores, labels, groups, weights = people(17)
  state = fit_calibrator('isotonic', scores, labels, groups, weights)
  calibrated = apply_calibrator(state, scores, groups)
  gs = grouping.make_groups(calibrated, groups, weights)
  # Isotonic fits keep the base rate, and have few distinct values.
  rate = np.bincount(groups, weights * labels) / np.bincount(groups, weights)
  base = jnp.sum(gs.scores * gs.mass, axis=1)
  np.testing.assert_allclose(base, rate, atol=1e-12)
  assert (gs.n_atoms < ROWS / 4).all()


@pytest.mark.parametrize('method', ['platt', 'isotonic', 'quantile'])
def test_nan_stays_nan(method):
  scores, labels, groups, _ = people(18)
  state = fit_calibrator(method, scores, labels, groups)
  found = apply_calibrator(state, [0.4, np.nan, 0.6], [0, 0, 7])
  np.testing.assert_array_equal(np.isnan(found), [False, True, True])


@pytest.mark.parametrize(
  ('scores', 'groups', 'named'),
  [
    ([0.5, 0.5], [0], r'groups has shape \(1,\) but scores has \(2,\)'),
    ([0.5], [0.5], 'groups must be integers .* got 0.5 in row 0'),
    ([0.5], ['a'], "groups must be numbers, got 'a'"),
    (['a'], [0], "scores must be numbers, got 'a'"),
  ],
)
def test_bad_rows_are_named(scores, groups, named):
  state = CalibratorState(None, jnp.zeros(1), 'platt')
  with pytest.raises(UserError, match=named):
    apply_calibrator(state, scores, groups)


GOOD = {
  'method': 'platt',
  'scores': [0.1, 0.4, 0.6, 0.3, 0.7, 0.2],
  'labels': [0, 0, 1, 1, 1, 0],
  'groups': [0, 0, 0, 1, 1, 1],
}


@pytest.mark.parametrize(
  ('changes', 'named'),
  [
    ({'method': 'spline'}, "'spline' is not one of histogram, quantile"),
    ({'labels': [0, 0, 1, 1, 1, 1]}, 'group 1 has only label 1: cannot cal'),
    ({'labels': [0, 0, 0, 1, 1, 0]}, 'group 0 has only label 0: cannot cal'),
    ({'labels': [0, 0, 2, 1, 1, 0]}, 'labels must be 0 or 1, got 2 in row 2'),
    ({'labels': [0, 1, 1]}, r'labels has shape \(3,\) but scores has \(6,\)'),
    ({'scores': [0.1, np.nan, 1, 2, 3, 4]}, 'finite, got nan in row 1'),
    (
      {'method': 'beta', 'scores': [0.1, 0.4, 1.6, 0.3, 0.7, 0.2]},
      r"\[0, 1\] for 'beta'.*1.6 in row 2",
    ),
    ({'scores': [], 'labels': [], 'groups': []}, 'at least one number'),
    ({'groups': [0, 0, 0, 2, 2, 2]}, 'group 1 has no rows'),
    ({'groups': [0, 0, 0, -1, 1, 1]}, '-1 in row 3'),
    ({'groups': [0, 0, 0, 1.5, 1, 1]}, '1.5 in row 3'),
    ({'groups': [0, 0, 0, 10**9, 1, 1]}, 'group 2 has no rows'),
    ({'groups': list('aaabbb')}, "groups must be numbers, got 'a'"),
    ({'weights': [1, 1, -2, 1, 1, 1]}, 'weights.*-2 in row 2'),
    ({'weights': [1, 1, 1, 0, 0, 0]}, 'group 1 has no rows'),
    ({'weights': [1, 1, 0, 1, 1, 1]}, 'group 0 has only label 0'),
    ({'folds': 1}, 'folds=1'),
    ({'groups': [0, 0, 0, 2**40, 1, 1]}, 'group 2 has no rows'),
    ({'folds': 2}, 'folds=2 .*group|group 0 has a single row of label 1'),
    ({'num_bins': 0}, 'num_bins.*got 0'),
    ({'num_bins': 2.5}, 'num_bins must be an integer, got 2.5'),
    ({'folds': 2.5}, 'folds must be an integer, got 2.5'),
  ],
)
def test_bad_input(changes, named):
  with pytest.raises(UserError, match=named) as caught:
    fit_calibrator(**(GOOD | changes))
  assert '\n' not in str(caught.value)


def test_folds_need_a_key():
  scores, labels, groups, _ = people(18)
  with pytest.raises(UserError, match='folds=3 needs a key'):
    fit_calibrator('platt', scores, labels, groups, folds=3)
