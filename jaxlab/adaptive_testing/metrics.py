"""Measures of adaptive tests: errors, savings, exposure, predictions."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab import stats
from jaxlab.adaptive_testing import models
from jaxlab.adaptive_testing.types import Bank
from jaxlab.errors import UserError


class Saving(NamedTuple):
  """Questions that a rule saves against another one.

  Attributes:
    fraction: `[..., L]` of the questions of the other rule, for each length;
      negative where the rule needs more.
    censored: `[..., L]` bool, whether the rule never became as good; the
      fraction is then too high: it takes the rule's longest test.
  """

  fraction: jax.Array
  censored: jax.Array


class Prediction(NamedTuple):
  """How well abilities predict answers that were held out.

  Attributes:
    accuracy: `[]` share of right predictions, all answers together.
    auc: `[]` area under the ROC curve, all answers together.
  """

  accuracy: jax.Array
  auc: jax.Array


def squared_errors(theta: ArrayLike, target: ArrayLike) -> jax.Array:
  """Squared distances to the target, `[T, E]`.

  Args:
    theta: `[T, E]` or `[T, E, D]` estimates.
    target: `[E]` or `[E, D]`.
  """
  square = (jnp.asarray(theta) - jnp.asarray(target)) ** 2
  return square if square.ndim == 2 else jnp.sum(square, axis=-1)


def mse_curve(theta: ArrayLike, target: ArrayLike) -> jax.Array:
  """Mean squared error after 1, ..., T items, `[T]`; see `squared_errors`."""
  return jnp.mean(squared_errors(theta, target), axis=1)


def questions_saved(
  curve_ref: ArrayLike, curve_new: ArrayLike, lengths: tuple[int, ...]
) -> Saving:
  """Fraction of questions that a rule needs less for the same error.

  The new curve is interpolated linearly. It is best to run the new rule for a
  quarter longer than the longest of `lengths`, to see how much it loses.

  Args:
    curve_ref: `[..., T]` errors of the other rule after 1, ..., T items.
    curve_new: `[..., T']` errors of the rule.
    lengths: numbers of items at which to compare, from 1 to T.

  Returns:
    The savings.

  Raises:
    UserError: lengths outside of the other rule's curve.
  """
  old, new = jnp.asarray(curve_ref), jnp.asarray(curve_new)
  if not lengths or min(lengths) < 1 or max(lengths) > old.shape[-1]:
    raise UserError(
      f'lengths {lengths} must be from 1 to {old.shape[-1]}, the reference.'
    )
  at = np.asarray(lengths)
  wanted = old[..., at - 1]
  reached = new[..., None, :] <= wanted[..., None]
  censored = ~jnp.any(reached, axis=-1)
  last = new.shape[-1] - 1
  first = jnp.where(censored, last, jnp.argmax(reached, axis=-1))
  before = jnp.take_along_axis(new, jnp.maximum(first - 1, 0), axis=-1)
  after = jnp.take_along_axis(new, first, axis=-1)
  fall = before - after
  back = (wanted - after) / jnp.where(fall > 0, fall, 1)
  exact = ~censored & (first > 0) & (fall > 0)
  needed = first + 1 - jnp.where(exact, back, 0)
  return Saving(1 - needed / at, censored)


@functools.lru_cache
def _mean_saving(lengths: tuple[int, ...]):
  """Statistic of a bootstrap: one function for each set of lengths."""

  def saving(errors_ref, errors_new):
    found = questions_saved(errors_ref.mean(0), errors_new.mean(0), lengths)
    each = found.fraction
    return jnp.concatenate([each, each.mean(keepdims=True)])

  return saving


def saving_interval(
  key: jax.Array,
  errors_ref: ArrayLike,
  errors_new: ArrayLike,
  lengths: tuple[int, ...],
  *,
  level: ArrayLike = 0.95,
  num_resamples: int = 2000,
) -> stats.Interval:
  """Paired bootstrap over examinees of the questions saved.

  It leaves out that a rule trained again would be another rule.

  Args:
    key: PRNG key.
    errors_ref: `[T, E]` squared errors of the other rule.
    errors_new: `[T', E]` of the rule, for the same examinees.
    lengths: numbers of items at which to compare.
    level: confidence level.
    num_resamples: number of resamples.

  Returns:
    `[L + 1]` interval of the fraction for each length, and last of their mean.
  """
  return stats.paired_bootstrap_interval(
    key,
    jnp.asarray(errors_ref).T,
    jnp.asarray(errors_new).T,
    _mean_saving(tuple(lengths)),
    level,
    num_resamples,
  )


def resampled_curves(
  key: jax.Array, errors: ArrayLike, *, num_resamples: int = 1000
) -> jax.Array:
  """Mean errors of several rules in bootstrap samples of the examinees.

  A sample has the same examinees for all rules, so that whatever is computed
  from the curves, such as what one rule saves against the best of others, is
  compared in pairs.

  Args:
    key: PRNG key.
    errors: `[R, T, E]` squared errors of R rules.
    num_resamples: B.

  Returns:
    `[B, R, T]` means.
  """
  errors = jnp.asarray(errors)
  num_examinees = errors.shape[-1]
  flat = errors.reshape(-1, num_examinees)

  def one(key):
    drawn = jax.random.randint(key, (num_examinees,), 0, num_examinees)
    count = jnp.zeros(num_examinees, flat.dtype).at[drawn].add(1)
    return flat @ count / num_examinees

  means = jax.lax.map(one, jax.random.split(key, num_resamples))
  return means.reshape(num_resamples, *errors.shape[:-1])


def _relative_change(errors_ref: jax.Array, errors_new: jax.Array) -> jax.Array:
  return errors_new.mean(0) / errors_ref.mean(0) - 1


def error_change_interval(
  key: jax.Array,
  errors_ref: ArrayLike,
  errors_new: ArrayLike,
  *,
  level: ArrayLike = 0.95,
  num_resamples: int = 2000,
) -> stats.Interval:
  """Paired bootstrap of the relative change of the mean squared error.

  Args:
    key: PRNG key.
    errors_ref: `[T, E]` squared errors of the other rule.
    errors_new: `[T, E]` of the rule, for the same examinees.
    level: confidence level.
    num_resamples: number of resamples.

  Returns:
    `[T]` interval of `MSE_new / MSE_ref - 1`.
  """
  return stats.paired_bootstrap_interval(
    key,
    jnp.asarray(errors_ref).T,
    jnp.asarray(errors_new).T,
    _relative_change,
    level,
    num_resamples,
  )


def exposure_rates(asked: ArrayLike) -> jax.Array:
  """`[n]` share of the `[E, n]` examinees that saw each item."""
  return jnp.mean(jnp.asarray(asked, float), axis=0)


def overlap_rate(asked: ArrayLike) -> jax.Array:
  """Mean share of common items in the tests of two examinees.

  Chen, Ankenmann & Spray, Journal of Educational Measurement, 2003: the pairs
  that share an item are counted item by item.

  Args:
    asked: `[E, n]`, for at least two examinees.

  Returns:
    `[]` common items of a pair over the mean length of tests.
  """
  asked = jnp.asarray(asked, float)
  count = jnp.sum(asked, axis=0)
  num_examinees = asked.shape[0]
  pairs = num_examinees * (num_examinees - 1) / 2
  common = jnp.sum(count * (count - 1) / 2) / pairs
  return common / (jnp.sum(count) / num_examinees)


def predict_held_out(
  bank: Bank, theta: ArrayLike, y: ArrayLike, mask: ArrayLike
) -> Prediction:
  """Accuracy and AUC of predicting answers to items that were not asked.

  Args:
    bank: of n items.
    theta: `[E, *latent]` abilities.
    y: `[E, n]` answers.
    mask: `[E, n]`, not 0 for the answers to predict.

  Returns:
    Measures over all those answers; the AUC is NaN if all are alike.
  """
  p = models.prob(bank, theta)
  held = jnp.asarray(mask) != 0
  right = held & (jnp.asarray(y) == 1)
  wrong = held & ~right
  hit = jnp.where(right, p >= 0.5, p < 0.5) & held
  return Prediction(
    jnp.sum(hit) / jnp.sum(held),
    _area(p.ravel(), right.ravel(), wrong.ravel()),
  )


def _area(score: jax.Array, right: jax.Array, wrong: jax.Array) -> jax.Array:
  """Mann and Whitney's statistic with mid-ranks; ignores what is neither."""
  rank = stats.rankdata(jnp.where(right | wrong, score, jnp.inf))
  num_right, num_wrong = jnp.sum(right, dtype=rank.dtype), jnp.sum(wrong)
  total = jnp.sum(jnp.where(right, rank, 0))
  total -= num_right * (num_right + 1) / 2
  return total / (num_right * num_wrong)
