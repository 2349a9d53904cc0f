"""fairlearn's ThresholdOptimizer beside the exact optima of the same criteria.

It searches a grid of rates; the optima here are exact, so that theirs can be at
most as accurate.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import sklearn.base

from benchmarks import timing
from benchmarks.timing import Row, Side
from jaxlab.fairness import Solution, make_groups
from jaxlab.fairness.baselines import equalized_odds, statistical_parity
from jaxlab.fairness.calibration import fit_calibrator

try:
  import fairlearn
  from fairlearn.postprocessing import ThresholdOptimizer
except ModuleNotFoundError:
  fairlearn = None

_CURE = 'pip install fairlearn'
_ABSENT = 'fairlearn: not installed'
_GOAL = timing.faster(50)
_GRID = 1000
_CALLS = 10  # of ours in a turn


class People(NamedTuple):
  """People with calibrated scores.

  Attributes:
    scores: `[n]` float.
    groups: `[n]` int.
    labels: `[n]` int, 0 or 1.
  """

  scores: np.ndarray
  groups: np.ndarray
  labels: np.ndarray


def fits(people: People, repeats: int, *, calibrated: bool) -> Iterator[Row]:
  """Rows of two criteria: from the people to the rule, on both sides.

  Args:
    people: whom to decide on.
    repeats: number of turns.
    calibrated: whether scores are calibrated on these labels; if not, ours
      calibrates them first, which is no part of fairlearn's work.
  """
  jobs: list[tuple[str, Callable[..., Solution], str]] = [
    ('Equalized odds', equalized_odds, 'equalized_odds'),
    ('Statistical parity', statistical_parity, 'demographic_parity'),
  ]
  distinct = len(np.unique(people.scores))
  for name, optimum, constraints in jobs:
    work = f'{name}, n={len(people.labels):_}, {distinct:_} distinct scores: '
    work += f'{"" if calibrated else "calibration, "}grouping and optimum'
    goal = _GOAL if calibrated else None
    if fairlearn is None:
      yield timing.unmeasured(work, _ABSENT, 'ms', goal=goal, note=_CURE)
      continue
    ours = functools.partial(
      _exact, people, jax.jit(optimum), calibrated=calibrated
    )
    theirs = functools.partial(_fit, people, constraints)
    yield timing.compare(
      work,
      Side(ours, _CALLS),
      Side(theirs, 1, f'fairlearn {fairlearn.__version__}'),
      functools.partial(_as_accurate, people),
      goal=goal,
      repeats=repeats,
    )


def _exact(
  people: People,
  optimum: Callable[..., Solution],
  seed: int,
  *,
  calibrated: bool,
) -> Solution:
  """Does the whole work `_CALLS` times, for one call is short."""
  del seed
  for _ in range(_CALLS):
    scores, groups, labels = people
    if not calibrated:
      state = fit_calibrator('isotonic', scores, labels, groups)
      scores = np.asarray(state.out_of_fold)  # of no folds: on these rows
    found = jax.block_until_ready(optimum(make_groups(scores, groups)))
  return found


def other_criterion(work: str, ours: Side, people: People, repeats: int) -> Row:
  """A row that compares the time of a fit with that of other work.

  Args:
    work: what is timed.
    ours: equal PPV and FOR, which fairlearn does not have.
    people: what is fitted there, to equal TPR and FPR.
    repeats: number of turns.
  """
  if fairlearn is None:
    return timing.unmeasured(work, _ABSENT, 'us', goal=_GOAL, note=_CURE)
  return timing.compare(
    work,
    ours,
    Side(
      functools.partial(_fit, people, 'equalized_odds'),
      *(1, f'fairlearn {fairlearn.__version__}'),
    ),
    lambda *_: (
      'another criterion, equal PPV and FOR here, equal TPR and FPR there, so '
      'that only times are compared'
    ),
    unit='us',
    goal=_GOAL,
    repeats=repeats,
  )


def _fit(people: People, constraints: str, seed: int) -> Any:
  del seed
  optimizer = ThresholdOptimizer(
    estimator=_Scores(),
    constraints=constraints,
    objective='accuracy_score',
    grid_size=_GRID,
    prefit=True,
    predict_method='predict',
  )
  return optimizer.fit(
    people.scores[:, None], people.labels, sensitive_features=people.groups
  )


class _Scores(sklearn.base.BaseEstimator):
  """A fitted estimator that predicts its only feature."""

  def __sklearn_is_fitted__(self):
    return True

  def fit(self, X, y):
    del X, y
    return self

  def predict(self, X):
    return np.asarray(X)[:, 0]


def _as_accurate(people: People, found: Solution, optimizer: Any) -> str:
  """Ours is at least as accurate on the people, and by no more than 2e-3."""
  # No public method gives the expected accuracy of a randomized rule.
  chance = optimizer._pmf_predict(
    people.scores[:, None], sensitive_features=people.groups
  )
  theirs = np.mean(chance[np.arange(len(people.labels)), people.labels])
  ours = 1 - float(found.loss)
  text = f'accuracy {ours:.6f} and {theirs:.6f}'
  if not -1e-12 <= ours - theirs <= 2e-3:
    raise timing.DisagreementError(text)
  return text
