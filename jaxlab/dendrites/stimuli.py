"""What drives cells from outside: currents, and trains of events."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError


class CurrentClamp(NamedTuple):
  """A step of current.

  Attributes:
    node: node of the only cell, or (cell, node).
    delay: onset in ms since the state was made by `init_state`.
    duration: ms.
    amplitude: nA, a scalar or `[B]`; inward positive.
  """

  node: int | tuple[int, int]
  delay: ArrayLike
  duration: ArrayLike
  amplitude: ArrayLike


class Injection(NamedTuple):
  """Any current, node by node.

  Attributes:
    nodes: R nodes of the only cell, or (cell, node) pairs.
    current: `[R, 1]` or `[R, B]` nA if constant, else `[T, R, 1]` or
      `[T, R, B]` for the T steps of the run.
  """

  nodes: Sequence[int | tuple[int, int]]
  current: jax.Array


class Events(NamedTuple):
  """Events for the synapses that `synapse(...)` placed.

  Attributes:
    arrivals: `[T, S, 1]` or `[T, S, B]` number of events that reach each of the
      S synapses at the begin of each of the T steps.
  """

  arrivals: jax.Array


def current_clamp(
  node: int | tuple[int, int],
  delay: ArrayLike,
  dur: ArrayLike,
  amp: ArrayLike,
) -> CurrentClamp:
  """A current step of `amp` nA from `delay` for `dur` ms (NEURON's IClamp).

  Args:
    node: node of the only cell, or (cell, node).
    delay: onset in ms since the state was made by `init_state`.
    dur: duration, ms.
    amp: nA, a scalar or `[B]`, one for each batch element; inward positive.

  Returns:
    The clamp.

  Raises:
    ValueError: a negative duration.
  """
  if isinstance(dur, int | float) and dur < 0:
    raise UserError(f'current_clamp: dur = {dur} ms must be >= 0.')
  return CurrentClamp(node, delay, dur, amp)


def clamp_current(clamp: CurrentClamp, time: ArrayLike) -> jax.Array:
  """`[1]` or `[B]` current in nA of a clamp at a time in ms."""
  amplitude = jnp.atleast_1d(jnp.asarray(clamp.amplitude))
  delay, now = jnp.asarray(clamp.delay), jnp.asarray(time)
  on = (now >= delay) & (now < delay + clamp.duration)
  return jnp.where(on, amplitude, 0)


def event_steps(due: ArrayLike, dt: ArrayLike) -> jax.Array:
  """Steps at whose begin events arrive: those that begin nearest to them.

  Args:
    due: times in ms.
    dt: step in ms.

  Returns:
    int32 of the shape of `due`: k with k dt - dt/2 < due <= k dt + dt/2.
  """
  # Times on the border (k + 1/2) dt are rarely exact numbers.
  return jnp.ceil(jnp.asarray(due) / dt - 0.5 - 1e-4).astype(jnp.int32)


def arrivals(
  due: Sequence[Sequence[float]],
  steps: int,
  dt: ArrayLike,
  start: ArrayLike = 0,
) -> jax.Array:
  """`[T, S, 1]` counts of events for each step, from times in ms.

  Args:
    due: times of the events of each of S synapses.
    steps: T.
    dt: step in ms.
    start: steps before the first of these; times count from before them.

  Returns:
    Counts; events before and after these steps are left out.
  """
  source = [s for s, times in enumerate(due) for _ in times]
  times = jnp.array([t for times in due for t in times], jnp.result_type(float))
  table = jnp.zeros((steps, len(due), 1), jnp.result_type(float))
  if not source:
    return table
  step = event_steps(times, dt) - start
  step = jnp.where(step < 0, steps, step)
  return table.at[step, jnp.array(source), 0].add(1, mode='drop')


def check_due(due: Sequence[Sequence[float]], last: int, dt: float) -> None:
  """Refuses events that no step would deliver.

  Args:
    due: times of the events of each synapse, ms.
    last: number of the last step's successor, from the start of all.
    dt: step in ms.

  Raises:
    ValueError: an event before time 0 or after the begin of the last step.
  """
  for s, times in enumerate(due):
    for t in times:
      if math.isnan(t) or not 0 <= math.ceil(t / dt - 0.5 - 1e-4) < last:
        raise UserError(
          f'synapse {s}: event at {t} ms is outside the run of {last * dt:g} '
          'ms; lengthen the run or drop the event.'
        )


def poisson_arrivals(
  key: jax.Array, rate: jax.Array, steps: int, dt: ArrayLike
) -> jax.Array:
  """Poisson trains of events.

  Args:
    key: PRNG key.
    rate: `[S, B]` events per second.
    steps: T.
    dt: step in ms.

  Returns:
    `[T, S, B]` counts.
  """
  expected = jnp.broadcast_to(rate * dt * 1e-3, (steps, *rate.shape))
  return jax.random.poisson(key, expected).astype(rate.dtype)
