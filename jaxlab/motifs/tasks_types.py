"""What a task is, how an answer is judged."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax


class Trials(NamedTuple):
  """A batch of trials; time comes first.

  Attributes:
    inputs: `[T, B, I]`.
    targets: `[T, B]` int, 0 to wait and 1..C for the choices, or `[T, B, O]`
      float for a task with values.
    mask: `[T, B]` 1 on the steps that count.
  """

  inputs: jax.Array
  targets: jax.Array
  mask: jax.Array


def task_loss(outputs: jax.Array, trials: Trials) -> jax.Array:
  """Mean cross entropy, or squared error, over the steps that count.

  Args:
    outputs: `[T, B, O]` logits, or values where targets are values.
    trials: the trials that they answer.

  Returns:
    A scalar.
  """
  if jnp.issubdtype(trials.targets.dtype, jnp.integer):
    error = optax.softmax_cross_entropy_with_integer_labels(
      outputs, trials.targets
    )
  else:
    error = jnp.mean((outputs - trials.targets) ** 2, axis=-1)
  return _weighted_mean(error, trials.mask)


def choice_accuracy(outputs: jax.Array, trials: Trials) -> jax.Array:
  """Share of the steps that ask for a choice (targets 1..C) with the right one.

  Args:
    outputs: `[T, B, 1 + C]` logits.
    trials: the trials that they answer.

  Returns:
    A scalar in [0, 1].
  """
  right = jnp.argmax(outputs, axis=-1) == trials.targets
  return _weighted_mean(right, trials.mask * (trials.targets > 0))


def timing_accuracy(
  outputs: jax.Array, trials: Trials, *, margin: float = 0.2
) -> jax.Array:
  """Share of the trials whose first go in the response comes in time.

  Args:
    outputs: `[T, B, 2]` logits of waiting and going.
    trials: trials whose input channel 0 is the fixation cue.
    margin: error that is allowed, a share of the interval; one step always is.

  Returns:
    A scalar in [0, 1]; going from the start on is not in time.
  """
  responds = (trials.mask > 0) & (trials.inputs[..., 0] == 0)
  goes = responds & (jnp.argmax(outputs, axis=-1) == 1)
  start = jnp.argmax(responds, axis=0)
  asked = jnp.argmax(trials.targets > 0, axis=0) - start
  produced = jnp.argmax(goes, axis=0) - start
  allowed = jnp.maximum(margin * asked, 1)
  in_time = jnp.abs(produced - asked) <= allowed
  return jnp.mean(in_time & jnp.any(goes, axis=0))


def explained_variance(outputs: jax.Array, trials: Trials) -> jax.Array:
  """Share of the targets' variance that the outputs explain, at least 0.

  Args:
    outputs: `[T, B, O]` values.
    trials: the trials that they answer.

  Returns:
    A scalar in [0, 1].
  """
  mask = trials.mask
  mean = jnp.sum(trials.targets * mask[..., None], axis=(0, 1)) / jnp.sum(mask)
  error = jnp.sum((outputs - trials.targets) ** 2, axis=-1)
  spread = jnp.sum((trials.targets - mean) ** 2, axis=-1)
  unexplained = jnp.sum(error * mask) / jnp.sum(spread * mask)
  return jnp.maximum(1 - unexplained, 0)


def _weighted_mean(values: jax.Array, weights: jax.Array) -> jax.Array:
  total = jnp.sum(weights)
  return jnp.sum(values * weights) / jnp.where(total > 0, total, 1)


ACCURACIES: dict[str, Callable[[jax.Array, Trials], jax.Array]] = {
  'choice': choice_accuracy,
  'moment': timing_accuracy,
  'value': explained_variance,
}


@dataclasses.dataclass(frozen=True)
class Task:
  """A task; `sample` is pure and can be jitted and vmapped over keys.

  Attributes:
    name: as given to `make`.
    num_inputs: I.
    num_outputs: O: logits of 0 and the choices 1..C, or values.
    num_steps: T.
    steps: steps of each period, of the longest trial; empty for a task without
      periods.
    kind: what is asked for, a key of `ACCURACIES`.
    sampler: function of a key and the number of trials.
  """

  name: str
  num_inputs: int
  num_outputs: int
  num_steps: int
  steps: dict[str, int]
  kind: str
  sampler: Callable[[jax.Array, int], Trials]

  def sample(self, key: jax.Array, batch: int) -> Trials:
    """Draws `batch` (static) trials."""
    return self.sampler(key, batch)

  def accuracy(self, outputs: jax.Array, trials: Trials) -> jax.Array:
    """Share of right answers, or of variance explained, in [0, 1]."""
    return ACCURACIES[self.kind](outputs, trials)
