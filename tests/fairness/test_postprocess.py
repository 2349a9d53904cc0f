"""The estimator against scikit-learn's contract and its own promises."""

import pickle

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from jaxlab.errors import UserError
from jaxlab.fairness.metrics import group_metrics
from jaxlab.fairness.postprocess import SufficiencyPostProcessor
from jaxlab.fairness.types import InfeasibleError


def people(n=3000, seed=0):
  """Features, labels 'no' / 'yes' and groups 'a' / 'b' of unlike base rates."""
  rng = np.random.default_rng(seed)
  group = np.where(rng.random(n) < 0.4, 'b', 'a')
  X = rng.normal(size=(n, 3)) + 0.6 * (group == 'a')[:, None]
  chance = 1 / (1 + np.exp(-(X @ [1.5, 1.0, 0.0] - 0.4)))
  y = np.where(rng.random(n) < chance, 'yes', 'no')
  return X, y, group


def scores_of_two_groups():
  """Rows whose calibrated scores are (.8, .25) and (.85, .4, .1)."""
  counts = {
    'x': [(0.8, 100, 80), (0.25, 100, 25)],
    'y': [(0.85, 60, 51), (0.4, 80, 32), (0.1, 60, 6)],
  }
  scores, y, groups = [], [], []
  for name, levels in counts.items():
    for score, n, positive in levels:
      scores += [score] * n
      y += [1] * positive + [0] * (n - positive)
      groups += [name] * n
  return np.array(scores), np.array(y), np.array(groups)


@pytest.mark.slow
def test_scikit_learn_contract():
  outcomes = check_estimator(
    SufficiencyPostProcessor(GaussianNB(), calibration='none', random_state=0),
    on_skip=None,
    on_fail=None,
  )
  failed = [o['check_name'] for o in outcomes if o['status'] == 'failed']
  assert not failed
  assert sum(o['status'] == 'passed' for o in outcomes) > 50


@pytest.mark.parametrize('calibration', ['none', 'isotonic'])
def test_optimum_of_known_scores(calibration):
  scores, y, groups = scores_of_two_groups()
  model = SufficiencyPostProcessor(calibration=calibration)
  model.fit(scores, y, groups)
  # PPV .8, FOR 14/53, loss .2377112676 by the geometry of the two groups.
  assert model.groups_ == ['x', 'y']
  assert model.solution_.ppv == pytest.approx(0.8, abs=1e-9)
  assert model.solution_.for_ == pytest.approx(14 / 53, abs=1e-9)
  assert model.solution_.loss == pytest.approx(0.2377112676056338, abs=1e-9)
  chance = model.predict_proba(scores[:, None], groups)
  np.testing.assert_allclose(chance.sum(axis=1), 1)
  with jax.enable_x64(True):
    rates = group_metrics(y, chance[:, 1], (groups == 'y').astype(int), 2)
  np.testing.assert_allclose(rates.ppv, 0.8, atol=1e-9)
  np.testing.assert_allclose(rates.for_, 14 / 53, atol=1e-9)


def test_decisions_follow_their_probability_and_seed():
  scores, y, groups = scores_of_two_groups()
  model = SufficiencyPostProcessor().fit(scores, y, groups)
  chance = model.predict_proba(scores, groups)[:, 1]
  drawn = np.mean(
    [model.predict(scores, groups, random_state=k) for k in range(300)], axis=0
  )
  assert np.abs(drawn - chance).max() < 5 * np.sqrt(0.25 / 300)
  assert (drawn[chance == 1] == 1).all() and (drawn[chance == 0] == 0).all()
  for seed in (3, jax.random.key(3)):
    first, second = (model.predict(scores, groups, seed) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_wrapped_classifier_closes_the_gaps():
  X, y, groups = people()
  base = make_pipeline(StandardScaler(), LogisticRegression())
  model = SufficiencyPostProcessor(base, random_state=0)
  model.fit(X, y, sensitive_features=groups)
  assert set(model.predict(X, sensitive_features=groups)) == {'no', 'yes'}
  chance = model.predict_proba(X, sensitive_features=groups)[:, 1]
  code = (groups == 'b').astype(int)
  ours = group_metrics(y == 'yes', chance, code, 2)
  plain = group_metrics(
    y == 'yes', (base.fit(X, y).predict(X) == 'yes').astype(float), code, 2
  )
  # Exactly closed on the rows it was fitted on.
  assert max(np.ptp(ours.ppv), np.ptp(ours.for_)) < 1e-4
  assert max(np.ptp(plain.ppv), np.ptp(plain.for_)) > 0.02


def test_prefit_folds_and_separation():
  X, y, groups = people()
  fitted = LogisticRegression().fit(X, y)
  model = SufficiencyPostProcessor(fitted, prefit=True).fit(X, y, groups)
  assert model.estimator_ is fitted
  closest = SufficiencyPostProcessor(
    fitted, prefit=True, objective='separation'
  ).fit(X, y, groups)
  gaps = [m.solution_.tpr_gap + m.solution_.fpr_gap for m in (closest, model)]
  assert gaps[0] <= gaps[1] + 1e-12
  assert closest.solution_.loss >= model.solution_.loss - 1e-12
  labels = SufficiencyPostProcessor(
    fitted, prefit=True, predict_method='predict'
  ).fit(X, y, groups)
  assert list(labels.group_scores_.n_atoms) == [2, 2]
  assert labels.solution_.loss >= model.solution_.loss - 1e-12
  crossed = SufficiencyPostProcessor(
    LogisticRegression(), folds=3, calibration='quantile', random_state=0
  ).fit(X, y, groups)
  assert not np.isclose(crossed.solution_.loss, model.solution_.loss, atol=1e-6)


@pytest.mark.slow
def test_copies_and_search():
  scores, y, groups = scores_of_two_groups()
  model = SufficiencyPostProcessor(random_state=0).fit(scores, y, groups)
  again = pickle.loads(pickle.dumps(model))
  np.testing.assert_array_equal(
    again.predict(scores, groups), model.predict(scores, groups)
  )
  assert clone(model).get_params() == model.get_params()
  with pytest.raises(NotFittedError):
    clone(model).predict(scores, groups)
  X, y, _ = people(200)
  search = GridSearchCV(
    SufficiencyPostProcessor(GaussianNB()), {'cost_fp': [1, 3]}, cv=2
  ).fit(X, y)
  assert search.best_params_['cost_fp'] in (1, 3)


def test_crossed_attributes_are_groups():
  scores, y, groups = scores_of_two_groups()
  both = np.stack([groups, np.where(groups == 'x', 'old', 'young')], axis=1)
  model = SufficiencyPostProcessor().fit(scores, y, sensitive_features=both)
  assert model.groups_ == [('x', 'old'), ('y', 'young')]


@pytest.mark.slow
def test_takes_the_place_of_threshold_optimizer():
  postprocessing = pytest.importorskip('fairlearn.postprocessing')
  X, y, groups = people()
  y = (y == 'yes').astype(int)
  base = LogisticRegression().fit(X, y)
  arguments = {
    'estimator': base,
    'constraints': 'equalized_odds',
    'prefit': True,
    'predict_method': 'predict_proba',
  }
  accuracy = []
  for model in (
    postprocessing.ThresholdOptimizer(objective='accuracy_score', **arguments),
    SufficiencyPostProcessor(**arguments),
  ):
    model.fit(X, y, sensitive_features=groups)
    decisions = model.predict(X, sensitive_features=groups, random_state=0)
    accuracy.append(np.mean(decisions == y))
  assert accuracy[1] > accuracy[0] - 0.01


MISTAKES = {
  'objective': ({'objective': 'profit'}, {}, "objective .* got 'profit'"),
  'constraints': ({'constraints': 'x'}, {}, "constraints .* got 'x'"),
  'both': (
    {'objective': 'separation', 'constraints': 'equalized_odds'},
    {},
    'separation',
  ),
  'folds': ({'folds': 1}, {}, 'folds .* got 1'),
  'half a fold': ({'folds': 2.5}, {}, 'folds must be an integer, got 2.5'),
  'accuracy': (
    {'objective': 'accuracy_score'},
    {},
    "objective='loss' with cost_fp",
  ),
  'none': (
    {},
    {'sensitive_features': ['x'] * 399 + [None]},
    'None in row 399',
  ),
  'weight': (
    {},
    {
      'sample_weight': [1] * 399 + [0],
      'sensitive_features': ['a'] * 399 + ['c'],
    },
    "group 'c' has no rows of positive weight",
  ),
  'prefit': ({'prefit': True}, {}, 'prefit'),
  'columns': ({}, {'X': np.zeros((400, 2))}, 'one column of scores'),
  'groups': ({}, {'sensitive_features': ['x']}, '400 rows'),
  'nan': ({}, {'sensitive_features': [np.nan] * 400}, 'nan in row 0'),
  'classes': ({}, {'y': np.ones(400)}, 'only one class, 1.0'),
  'label': (
    {},
    {'sensitive_features': [1] * 80 + [0] * 320},
    'group 1 has only label 1',
  ),
}


@pytest.mark.parametrize('name', list(MISTAKES))
def test_mistakes_are_named(name):
  params, change, message = MISTAKES[name]
  scores, y, groups = scores_of_two_groups()
  rows = {'X': scores, 'y': y, 'sensitive_features': groups} | change
  with pytest.raises(UserError, match=message):
    SufficiencyPostProcessor(**params).fit(**rows)


def test_unknown_groups_and_scores_are_named():
  scores, y, groups = scores_of_two_groups()
  model = SufficiencyPostProcessor(calibration='none', snap=False)
  model.fit(scores, y, groups)
  with pytest.raises(UserError, match="group 'z'"):
    model.predict([0.8], ['z'])
  with pytest.raises(UserError, match='missing'):
    model.predict([0.8])
  with pytest.raises(UserError, match=r"score 0\.5 .* 'x'; use snap"):
    model.predict([0.5], ['x'])
  model.set_params(snap=True)
  near = model.predict_proba([0.79, 0.8], ['x', 'x'])
  np.testing.assert_array_equal(near[0], near[1])


def test_infeasible_names_the_limits():
  scores = np.repeat([0.9, 0.8, 0.3, 0.1], 10)
  y = (np.arange(40) % 10 < 10 * scores).astype(int)
  with pytest.raises(InfeasibleError, match=r"0\.85.*group 'high'.*0\.3"):
    SufficiencyPostProcessor(calibration='none').fit(
      scores, y, np.repeat(['high', 'low'], 20)
    )
