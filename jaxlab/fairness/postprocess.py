"""A scikit-learn estimator around the family's rules.

`SufficiencyPostProcessor` stands where fairlearn's `ThresholdOptimizer` does:
around a classifier, or on a column of its scores.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import (
  BaseEstimator,
  ClassifierMixin,
  MetaEstimatorMixin,
  clone,
)
from sklearn.model_selection import cross_val_predict
from sklearn.utils import check_array, check_random_state, column_or_1d
from sklearn.utils.multiclass import (
  check_classification_targets,
  type_of_target,
)
from sklearn.utils.validation import (
  _check_sample_weight,
  check_consistent_length,
  check_is_fitted,
  has_fit_parameter,
  validate_data,
)

from jaxlab.errors import UserError
from jaxlab.fairness import baselines
from jaxlab.fairness.calibration import apply_calibrator, fit_calibrator
from jaxlab.fairness.checks import check_choice, check_count
from jaxlab.fairness.decisions import decision_probabilities
from jaxlab.fairness.geometry import require_feasible
from jaxlab.fairness.grouping import make_groups
from jaxlab.fairness.sensitive import (
  check_occupied,
  encode_groups,
  lookup_groups,
)
from jaxlab.fairness.separation import min_separation
from jaxlab.fairness.sufficiency import optimal_sufficient
from jaxlab.fairness.types import GroupScores, Solution

_BASELINES = {
  'demographic_parity': baselines.statistical_parity,
  'true_positive_rate_parity': baselines.equal_opportunity,
  'equalized_odds': baselines.equalized_odds,
}
_CONSTRAINTS = ('sufficiency', *_BASELINES)
_OBJECTIVES = ('loss', 'separation')
_PREDICT_METHODS = ('predict_proba', 'decision_function', 'predict')
_SMALLEST_SIZE = 16


class SufficiencyPostProcessor(
  ClassifierMixin, MetaEstimatorMixin, BaseEstimator
):
  """Turns scores into decisions with one PPV and one FOR for all groups.

  It calibrates the scores within each group and finds the exact optimum over
  all randomized rules of (calibrated score, group). Groups are the distinct
  rows of `sensitive_features`; without them there is one group. Computes in
  float64.

  Parameters:
    estimator: the classifier to wrap; with None, X is a column of scores.
    constraints: 'sufficiency', or for comparison 'demographic_parity',
      'true_positive_rate_parity' or 'equalized_odds'.
    objective: 'loss', or under sufficiency 'separation': the least sum of TPR
      gap and FPR gap.
    prefit: whether `estimator` is fitted already; else a clone is fitted.
    predict_method: what gives the scores: 'predict_proba',
      'decision_function', 'predict', or 'auto' for the first that exists.
    calibration: a method of `fit_calibrator`, or 'none' for scores that are
      probabilities within each group already.
    folds: number of folds, so that the rule is fitted on scores (and
      calibrations) of models that did not see the row; None to reuse the rows.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.
    vacuous: as in `optimal_sufficient`.
    realize: as in `optimal_sufficient`.
    snap: whether a score that did not occur in `fit` is treated like the
      nearest one of its group; else it is an error.
    random_state: int, `RandomState` or None: draws the decisions of randomized
      rules, and the folds.

  Attributes:
    classes_: `[2]` labels; the second is the positive one.
    groups_: the groups, in the order of the arrays below.
    group_scores_: `GroupScores` of the calibrated scores.
    solution_: `Solution`: the rule and its rates.
    calibrator_: `CalibratorState`; None without calibration.
    estimator_: the fitted classifier; None for scores.
  """

  def __init__(
    self,
    estimator: Any = None,
    *,
    constraints: str = 'sufficiency',
    objective: str = 'loss',
    prefit: bool = False,
    predict_method: str = 'auto',
    calibration: str = 'isotonic',
    folds: int | None = None,
    cost_fp: float = 1.0,
    cost_fn: float = 1.0,
    vacuous: str = 'closure',
    realize: str = 'mixture',
    snap: bool = True,
    random_state: Any = None,
  ):
    self.estimator = estimator
    self.constraints = constraints
    self.objective = objective
    self.prefit = prefit
    self.predict_method = predict_method
    self.calibration = calibration
    self.folds = folds
    self.cost_fp = cost_fp
    self.cost_fn = cost_fn
    self.vacuous = vacuous
    self.realize = realize
    self.snap = snap
    self.random_state = random_state

  def fit(
    self,
    X: Any,
    y: Any,
    sensitive_features: Any = None,
    sample_weight: Any = None,
  ) -> 'SufficiencyPostProcessor':
    """Fits the classifier, the calibrators and the rule.

    Args:
      X: `[n, d]` features, or `[n]` or `[n, 1]` scores.
      y: `[n]` labels of two classes.
      sensitive_features: `[n]` or `[n, f]` group of each row.
      sample_weight: `[n]` weights of the rows.

    Raises:
      InfeasibleError: if no rule is sufficient.
      UserError: naming the argument, group or label that is wrong.
    """
    self._check_options()
    if sample_weight is not None:
      sample_weight = _check_sample_weight(
        sample_weight, X, dtype=np.float64, ensure_non_negative=True
      )
    positive = self._fit_labels(X, y, sample_weight)
    groups, codes = encode_groups(sensitive_features, len(positive))
    check_occupied(groups, codes, sample_weight)
    scores = self._fit_scores(X, y, sample_weight)
    self.groups_ = groups
    with jax.enable_x64(True):
      calibrated = self._fit_calibration(scores, positive, codes, sample_weight)
      gs = _padded_groups(calibrated, codes, sample_weight, len(groups))
      solution = self._solve(gs)
      require_feasible(solution, gs, self._names())
    self.group_scores_: GroupScores = jax.tree.map(np.asarray, gs)
    self.solution_: Solution = jax.tree.map(np.asarray, solution)
    return self

  def predict_proba(self, X: Any, sensitive_features: Any = None) -> np.ndarray:
    """The probability of each DECISION, `[n, 2]`; not that of the label.

    Args:
      X: as in `fit`.
      sensitive_features: groups that `fit` has seen.

    Raises:
      UserError: for an unknown group, or score (without `snap`).
    """
    check_is_fitted(self, 'solution_')
    scores = self._scores(X)
    n = len(scores)
    codes = lookup_groups(sensitive_features, n, self.groups_)
    # Repeats rows up to one of few sizes.
    scores, codes = (np.resize(x, _few_sizes(n)) for x in (scores, codes))
    with jax.enable_x64(True):
      if self.calibrator_ is not None:
        scores = np.asarray(apply_calibrator(self.calibrator_, scores, codes))
      gs, solution = jax.tree.map(
        jnp.asarray, (self.group_scores_, self.solution_)
      )
      chance = np.asarray(
        decision_probabilities(
          solution, gs, scores, codes, snap=self.snap, names=self._names()
        )
      )[:n]
    return np.stack([1 - chance, chance], axis=1)

  def predict(
    self, X: Any, sensitive_features: Any = None, random_state: Any = None
  ) -> np.ndarray:
    """Draws the decisions, `[n]` labels of `classes_`.

    Args:
      X: as in `fit`.
      sensitive_features: groups that `fit` has seen.
      random_state: instead of the estimator's own; a JAX key will do too.
    """
    chance = self.predict_proba(X, sensitive_features)[:, 1]
    if random_state is None:
      random_state = self.random_state
    if isinstance(random_state, jax.Array):
      uniform = np.asarray(jax.random.uniform(random_state, chance.shape))
    else:
      uniform = check_random_state(random_state).uniform(size=chance.shape)
    return self.classes_[(uniform < chance).astype(int)]

  def __sklearn_tags__(self):
    tags = super().__sklearn_tags__()
    tags.classifier_tags.multi_class = False
    tags.non_deterministic = self.random_state is None
    if self.estimator is None:
      tags.input_tags.one_d_array = True
    else:
      inner = getattr(self.estimator, '__sklearn_tags__', None)
      if inner is not None:
        tags.input_tags = inner().input_tags
    return tags

  def _names(self) -> list[str]:
    return [f'group {name!r}' for name in self.groups_]

  def _check_options(self) -> None:
    choices = {
      'constraints': _CONSTRAINTS,
      'objective': _OBJECTIVES,
      'predict_method': ('auto', *_PREDICT_METHODS),
    }
    for name, allowed in choices.items():
      value = getattr(self, name)
      if value == 'accuracy_score':
        raise UserError(
          "objective 'accuracy_score' is objective='loss' with cost_fp=1 and "
          'cost_fn=1; other costs weight the errors'
        )
      check_choice(name, value, allowed)
    if self.objective == 'separation' and self.constraints != 'sufficiency':
      raise UserError(
        f"objective='separation' needs constraints='sufficiency', got "
        f'{self.constraints!r}'
      )
    if self.folds is not None:
      check_count('folds', self.folds, 2)
    if self.prefit and self.estimator is None:
      raise UserError('prefit=True needs a fitted estimator, got None')

  def _fit_labels(self, X: Any, y: Any, sample_weight: Any) -> np.ndarray:
    """Learns the classes; `[n]` 1 for the positive one, else 0."""
    if y is None:
      raise UserError(
        'requires y to be passed, but the target y is None; give labels'
      )
    if self.estimator is None:
      validate_data(self, _score_column(X)[:, None], reset=True)
    else:
      validate_data(self, X, reset=True, skip_check_array=True)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    if not len(y):
      raise UserError('X and y have no rows; give some')
    check_classification_targets(y)
    if type_of_target(y) != 'binary':
      raise UserError(
        'Only binary classification is supported. The type of the target is '
        f'{type_of_target(y)}.'
      )
    self.classes_, positive = np.unique(y, return_inverse=True)
    seen = positive if sample_weight is None else positive[sample_weight > 0]
    if len(np.unique(seen)) < 2:
      raise UserError(
        'y has rows of only one class, '
        f'{_listed(self.classes_[np.unique(seen)])}; a rule needs both'
      )
    return positive

  def _fit_scores(self, X: Any, y: Any, sample_weight: Any) -> np.ndarray:
    """Fits the classifier; the scores that the rule is fitted on."""
    self.estimator_ = None
    if self.estimator is None:
      return self._scores(X)
    if self.prefit:
      check_is_fitted(self.estimator)
      self.estimator_ = self.estimator
      return self._scores(X)
    params = {}
    if sample_weight is not None and has_fit_parameter(
      self.estimator, 'sample_weight'
    ):
      params['sample_weight'] = sample_weight
    y = column_or_1d(y)
    self.estimator_ = clone(self.estimator).fit(X, y, **params)
    if self.folds is None:
      return self._scores(X)
    found = cross_val_predict(
      clone(self.estimator),
      X,
      y,
      cv=self.folds,
      method=self._method(),
      params=params or None,
    )
    return _positive_column(found, self.classes_[1])

  def _fit_calibration(
    self, scores: np.ndarray, positive: np.ndarray, codes: np.ndarray, weight
  ) -> np.ndarray:
    self.calibrator_ = None
    if self.calibration == 'none':
      return scores
    for code, name in enumerate(self.groups_):
      counted = codes == code
      if weight is not None:
        counted &= weight > 0
      labels = np.unique(positive[counted])
      if len(labels) < 2:
        raise UserError(
          f'group {name!r} has only label {_listed(self.classes_[labels])}: '
          "cannot calibrate; merge it with another or use calibration='none'"
        )
    seed = check_random_state(self.random_state).randint(2**31)
    state = fit_calibrator(
      self.calibration,
      scores,
      positive,
      codes,
      weight,
      folds=self.folds or 0,
      key=jax.random.key(seed),
    )
    self.calibrator_ = jax.tree.map(np.asarray, state)
    return np.asarray(state.out_of_fold)

  def _solve(self, gs: GroupScores) -> Solution:
    costs: dict[str, Any] = {'cost_fp': self.cost_fp, 'cost_fn': self.cost_fn}
    if self.constraints in _BASELINES:
      return _BASELINES[self.constraints](gs, **costs)
    solve = optimal_sufficient if self.objective == 'loss' else min_separation
    return solve(gs, vacuous=self.vacuous, realize=self.realize, **costs)

  def _method(self) -> str:
    if self.predict_method != 'auto':
      return self.predict_method
    return next(m for m in _PREDICT_METHODS if hasattr(self.estimator_, m))

  def _scores(self, X: Any) -> np.ndarray:
    """`[n]` raw scores."""
    if self.estimator is None:
      scores = _score_column(X)
      validate_data(self, scores[:, None], reset=False)
      return scores
    output = getattr(self.estimator_, self._method())(X)
    scores = _positive_column(output, self.classes_[1])
    validate_data(self, X, reset=False, skip_check_array=True)
    return scores


def _listed(labels: np.ndarray) -> str:
  return ', '.join(map(str, labels.tolist()))


def _score_column(X: Any) -> np.ndarray:
  """`[n]` scores of `[n]` or `[n, 1]`."""
  X = check_array(X, ensure_2d=False, dtype=np.float64)
  if X.ndim == 2 and X.shape[1] == 1:
    return X[:, 0]
  if X.ndim != 1:
    raise UserError(
      f'X must be one column of scores, got shape {X.shape}; give an estimator '
      'to score features'
    )
  return X


def _positive_column(output: Any, positive: Any) -> np.ndarray:
  """`[n]` scores in what a classifier returns: columns, scores or labels."""
  output = np.asarray(output)
  if output.dtype.kind not in 'biuf':
    output = output == positive
  output = output.astype(np.float64)
  return output[:, 1] if output.ndim == 2 else output


def _padded_groups(
  scores: np.ndarray, codes: np.ndarray, weight: Any, num_groups: int
) -> GroupScores:
  most = max(len(np.unique(scores[codes == k])) for k in range(num_groups))
  return make_groups(
    scores, codes, weight, num_groups, max_atoms=_few_sizes(most)
  )


def _few_sizes(n: int) -> int:
  """A power of two, at least n: few sizes need few compilations."""
  return max(_SMALLEST_SIZE, 1 << max(n - 1, 0).bit_length())
