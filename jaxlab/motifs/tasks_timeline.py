"""Periods of a trial in milliseconds, as steps of a time axis."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.errors import UserError

Duration = float | tuple[float, float]


def period_steps(period_ms: float, dt_ms: float) -> int:
  """Steps of a period, `floor(period / dt + 0.5)`.

  Args:
    period_ms: length of the period.
    dt_ms: length of a step.

  Returns:
    The number of steps.

  Raises:
    UserError: if `period_ms` is negative or `dt_ms` not positive.
  """
  if not dt_ms > 0:
    raise UserError(f'dt_ms must be positive, got {dt_ms}')
  if not (period_ms >= 0 and math.isfinite(period_ms)):
    raise UserError(f'a period must be 0 ms or longer, got {period_ms}')
  return math.floor(period_ms / dt_ms + 0.5)


class Timeline(NamedTuple):
  """Periods that follow one another; static.

  Attributes:
    names: the periods in order; the last one is the response.
    low: shortest length of each, ms.
    high: longest length of each, ms.
    dt_ms: length of a step.
    num_steps: T, steps of the time axis.
  """

  names: tuple[str, ...]
  low: tuple[float, ...]
  high: tuple[float, ...]
  dt_ms: float
  num_steps: int


def make_timeline(
  defaults: Mapping[str, Duration],
  periods_ms: Mapping[str, Duration] | None,
  dt_ms: float,
  max_steps: int | None,
) -> Timeline:
  """Default periods, some of them replaced, on a time axis.

  Args:
    defaults: length of each period in order, ms: a number, or the two ends of
      the interval from which a trial draws.
    periods_ms: those that are to be replaced.
    dt_ms: length of a step.
    max_steps: steps of the time axis; None is what the longest trial needs.

  Returns:
    The timeline.

  Raises:
    UserError: for an unknown period, an impossible length, a last period
      without a step, or a `max_steps` into which the longest trial does not
      fit.
  """
  unknown = set(periods_ms or {}) - set(defaults)
  if unknown:
    raise UserError(
      f'unknown period {sorted(unknown)[0]!r}; this task has '
      f'{", ".join(defaults)}'
    )
  ends = {}
  for name, value in {**defaults, **(periods_ms or {})}.items():
    low, high = value if isinstance(value, tuple | list) else (value, value)
    if low > high:
      raise UserError(f'period {name!r} runs from {low} to {high}; swap them')
    period_steps(low, dt_ms)
    ends[name] = (low, high)
  needed = sum(period_steps(high, dt_ms) for _, high in ends.values())
  last, (shortest, _) = list(ends.items())[-1]
  if period_steps(shortest, dt_ms) == 0:
    raise UserError(
      f'period {last!r} of {shortest} ms has no step of {dt_ms} ms; make it '
      'longer or dt_ms smaller'
    )
  if max_steps is not None and max_steps < needed:
    raise UserError(
      f'a trial may need {needed} steps of {dt_ms} ms, max_steps is '
      f'{max_steps}; raise it or shorten the periods'
    )
  return Timeline(
    names=tuple(ends),
    low=tuple(low for low, _ in ends.values()),
    high=tuple(high for _, high in ends.values()),
    dt_ms=dt_ms,
    num_steps=needed if max_steps is None else max_steps,
  )


class Spans(NamedTuple):
  """Where the periods of each trial lie on the time axis.

  Attributes:
    start: `[P, B]` int32 first step of each period.
    stop: `[P, B]` int32 step after the last one.
    length_ms: `[P, B]` lengths that were drawn, ms.
  """

  start: jax.Array
  stop: jax.Array
  length_ms: jax.Array


def draw_spans(key: jax.Array, timeline: Timeline, batch: int) -> Spans:
  """Draws the length of each period of each trial.

  Lengths in milliseconds depend on the key alone, not on the length of a step.
  """
  low = jnp.asarray(timeline.low)[:, None]
  high = jnp.asarray(timeline.high)[:, None]
  share = jax.random.uniform(key, (len(timeline.names), batch))
  length = low + share * (high - low)
  steps = jnp.floor(length / timeline.dt_ms + 0.5).astype(jnp.int32)
  stop = jnp.cumsum(steps, axis=0)
  return Spans(stop - steps, stop, length)


def during(timeline: Timeline, spans: Spans, name: str) -> jax.Array:
  """`[T, B]` bool: the steps of a period."""
  at = timeline.names.index(name)
  t = jnp.arange(timeline.num_steps)[:, None]
  return (t >= spans.start[at]) & (t < spans.stop[at])


def before_response(timeline: Timeline, spans: Spans) -> jax.Array:
  """`[T, B]` bool: the steps of a trial before its response period."""
  t = jnp.arange(timeline.num_steps)[:, None]
  return t < spans.start[-1]


def in_trial(timeline: Timeline, spans: Spans) -> jax.Array:
  """`[T, B]` bool: the steps that are not padding."""
  t = jnp.arange(timeline.num_steps)[:, None]
  return t < spans.stop[-1]
