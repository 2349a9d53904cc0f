"""Comparisons of rules on the same examinees, with intervals."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxlab import stats
from jaxlab.adaptive_testing import metrics
from jaxlab.harness.claims import Claim

LEVEL = 0.95
_ENOUGH_FOLDS = 3  # for an interval over folds


class Measured(NamedTuple):
  """A number with two intervals.

  Attributes:
    value: of all examinees together.
    low: of a bootstrap of the examinees, which leaves out that a rule trained
      again would be another one.
    high: likewise.
    by_fold: `[F]` values of the folds, each with a training of its own.
    fold_low: of a t interval over folds, NaN for less than three.
    fold_high: likewise.
  """

  value: float
  low: float
  high: float
  by_fold: np.ndarray
  fold_low: float
  fold_high: float

  @property
  def best_interval(self) -> tuple[float, float, float]:
    """Value, low and high: over folds, or else of the bootstrap."""
    if len(self.by_fold) >= _ENOUGH_FOLDS:
      return float(self.by_fold.mean()), self.fold_low, self.fold_high
    return self.value, self.low, self.high

  def row(self, name: str) -> dict[str, Any]:
    """Columns of a table."""
    return {
      name: self.value,
      f'{name} low': self.low,
      f'{name} high': self.high,
      f'{name} low over folds': self.fold_low,
      f'{name} high over folds': self.fold_high,
    }

  def claim(
    self,
    text: str,
    paper: str,
    threshold: float,
    sense: str,
    unit: str = '',
    note: str = '',
  ) -> Claim:
    """A claim by the interval over folds, or else by that of the bootstrap."""
    numbers, folds = self.best_interval, len(self.by_fold)
    kind = (
      f'95 % t interval over {folds} folds or banks, each trained anew; folds '
      'share training examinees, which may make it narrow'
    )
    if folds < _ENOUGH_FOLDS:
      kind = '95 % bootstrap over examinees; one training a fold'
    notes = '; '.join(filter(None, (kind, note)))
    return Claim(
      *(text, paper, *numbers, threshold, sense),  # type: ignore[arg-type]
      unit=unit,
      note=notes,
    )


class Comparison:
  """Mean errors of rules after 1, ..., T items, and what follows from them."""

  def __init__(
    self,
    errors: Mapping[str, np.ndarray],
    fold: np.ndarray,
    key: jax.Array,
    *,
    resamples: int,
  ):
    """Resamples the examinees.

    Args:
      errors: rule -> `[T, E]` squared errors.
      fold: `[E]` which fold an examinee is of.
      key: PRNG key.
      resamples: number of bootstrap samples.
    """
    self.names = tuple(errors)
    stacked = np.stack([errors[name] for name in self.names])
    self._curves = stacked.mean(-1)
    self._samples = np.asarray(
      metrics.resampled_curves(key, stacked, num_resamples=resamples)
    )
    self._folds = np.stack(
      [stacked[..., fold == k].mean(-1) for k in np.unique(fold)]
    )

  def measure(
    self,
    names: Sequence[str],
    statistic: Callable[..., Any],
  ) -> list[Measured]:
    """Intervals of numbers that are computed from curves.

    Args:
      names: rules.
      statistic: a function of their curves, each `[..., T]`, to `[..., K]`.

    Returns:
      One for each of the K numbers.
    """
    at = [self.names.index(name) for name in names]

    def values(curves):
      return np.asarray(statistic(*(curves[..., i, :] for i in at)))

    whole, drawn = values(self._curves), values(self._samples)
    by_fold = values(self._folds)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    found = []
    for k in range(len(whole)):
      ends = (np.nan, np.nan)
      if len(by_fold) >= _ENOUGH_FOLDS:
        interval = stats.mean_interval(by_fold[:, k], level=LEVEL)
        ends = float(interval.low), float(interval.high)
      found.append(
        Measured(
          *(float(whole[k]), float(low[k]), float(high[k])),
          by_fold[:, k],
          *ends,
        )
      )
    return found

  def error(self, name: str) -> list[Measured]:
    """Mean squared errors after 1, ..., T items."""
    return self.measure([name], lambda curve: curve)

  def change(self, new: str, reference: str) -> list[Measured]:
    """Relative change of the error after 1, ..., T items, new less old."""
    return self.measure([new, reference], lambda x, y: x / y - 1)

  def fall(self, name: str, first: int, last: int) -> Measured:
    """Relative change of the error from `first` to `last` items."""
    return self.measure(
      [name], lambda x: (x[..., last - 1] / x[..., first - 1] - 1)[..., None]
    )[0]

  def saved(
    self, new: str, references: Sequence[str], lengths: Sequence[int]
  ) -> list[Measured]:
    """Share of questions saved at each length, and last their mean.

    Several references stand for the best of them at each length, in each sample
    of the bootstrap anew, which favours them.
    """

    def statistic(curve, *others):
      best = np.min(others, axis=0)
      saving = metrics.questions_saved(best, curve, tuple(lengths))
      found = np.asarray(saving.fraction)
      return np.concatenate([found, found.mean(-1, keepdims=True)], axis=-1)

    return self.measure([new, *references], statistic)

  def is_censored(
    self, new: str, references: Sequence[str], lengths: Sequence[int]
  ) -> bool:
    """Whether the new rule never becomes as good, at one of the lengths."""
    at = [self.names.index(name) for name in (new, *references)]
    best = np.min(self._curves[at[1:]], axis=0)
    found = metrics.questions_saved(best, self._curves[at[0]], tuple(lengths))
    return bool(np.any(found.censored))
