"""Schedules of training: what changes with the number of the step."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


def progress(step: ArrayLike, start: ArrayLike, length: ArrayLike) -> jax.Array:
  """Share of a ramp that is done.

  Args:
    step: number of the step; may be traced, as all arguments may.
    start: steps before the ramp.
    length: steps of the ramp; at 0 it is a jump at `start`.

  Returns:
    0 up to `start`, 1 from `start + length` on.
  """
  step, start, length = (
    jnp.asarray(x, jnp.result_type(float)) for x in (step, start, length)
  )
  ramp = (step - start) / jnp.where(length > 0, length, 1)
  jump = (step >= start).astype(ramp.dtype)
  return jnp.clip(jnp.where(length > 0, ramp, jump), 0, 1)


def smooth(
  share: ArrayLike, *, bend: ArrayLike = 0.25, power: float = 2.0
) -> jax.Array:
  """A ramp that begins as a power and goes on as a line.

  Value and slope are continuous at the bend. A radius that grows slowly while
  it is small keeps the bounds of an untrained network from exploding (Zhang et
  al., 2020, and the smoothed schedule of Xu et al., 2020, whose power is 4).

  Args:
    share: progress in [0, 1]; may be traced.
    bend: progress at which the line begins, in (0, 1].
    power: of the first part, at least 1.

  Returns:
    0 at 0, 1 at 1, increasing.
  """
  share = jnp.asarray(share, jnp.result_type(float))
  scale = 1 / (bend**power + power * bend ** (power - 1) * (1 - bend))
  curve = scale * jnp.minimum(share, bend) ** power
  line = scale * power * bend ** (power - 1) * jnp.maximum(share - bend, 0)
  return jnp.asarray(curve + line)


def between(start: ArrayLike, end: ArrayLike, share: ArrayLike) -> jax.Array:
  """A linear ramp from `start` to `end`, such as those of kappa and beta."""
  share = jnp.asarray(share)
  start = jnp.asarray(start, share.dtype)
  return start + (end - start) * share


def step_decay(
  base: ArrayLike,
  step: ArrayLike,
  milestones: Sequence[ArrayLike],
  factor: ArrayLike = 0.2,
) -> jax.Array:
  """A learning rate that falls by a factor at each milestone.

  Args:
    base: the rate at the start; may be traced.
    step: number of the step; may be traced.
    milestones: steps from which on the rate is one factor lower.
    factor: that factor.

  Returns:
    The rate.
  """
  passed = sum(jnp.asarray(step) >= milestone for milestone in milestones)
  return jnp.asarray(base * jnp.asarray(factor, float) ** passed)
