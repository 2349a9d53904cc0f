"""fairlearn's post-processing of the same scores, where it is installed."""

import importlib.util

import numpy as np
import sklearn.base

_NAMES = {
  'fairlearn, equalized odds': 'equalized_odds',
  'fairlearn, demographic parity': 'demographic_parity',
}


class _Scores(sklearn.base.BaseEstimator):
  """An estimator whose prediction is its one feature: the score."""

  def fit(self, x, y=None):
    del x, y
    return self

  def __sklearn_is_fitted__(self) -> bool:
    return True

  def predict(self, x):
    return np.asarray(x, np.float64)[:, 0]


def fairlearn_decisions(
  scores: np.ndarray,
  labels: np.ndarray,
  groups: np.ndarray,
  new_scores: np.ndarray,
  new_groups: np.ndarray,
) -> dict[str, np.ndarray]:
  """Decisions of `fairlearn.postprocessing.ThresholdOptimizer`.

  Args:
    scores: `[n]` scores that it is fitted on.
    labels: `[n]` 0 or 1.
    groups: `[n]` integers.
    new_scores: `[k]` scores of those to decide about.
    new_groups: `[k]` their groups.

  Returns:
    `[k]` decisions 0 or 1 by name of the method; empty without fairlearn.
  """
  if importlib.util.find_spec('fairlearn') is None:
    return {}
  from fairlearn.postprocessing import ThresholdOptimizer  # noqa: PLC0415

  found = {}
  for name, constraint in _NAMES.items():
    optimizer = ThresholdOptimizer(
      estimator=_Scores(),
      constraints=constraint,
      prefit=True,
      predict_method='predict',
    )
    optimizer.fit(scores[:, None], labels, sensitive_features=groups)
    found[name] = optimizer.predict(
      new_scores[:, None], sensitive_features=new_groups, random_state=0
    )
  return found
