"""Tasks whose answer is a moment: the network goes when an interval is over.

The fixation cue falls when the response period starts. In it the target is 0
until the interval has passed and 1 (go) from then on.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxlab.errors import UserError
from jaxlab.motifs.tasks_timeline import (
  Duration,
  Spans,
  Timeline,
  before_response,
  draw_spans,
  during,
  in_trial,
  period_steps,
)
from jaxlab.motifs.tasks_types import Trials

INTERVAL_PERIODS: dict[str, Duration] = {
  'fixation': 500,
  'stimulus': (1000, 3000),
  'delay': 0,
  'response': 3000,
}
READY_SET_GO_PERIODS: dict[str, Duration] = {
  'fixation': 100,
  'ready': 83,
  'measure': (800, 1500),
  'set': 83,
  'response': 3000,
}
Sampler = Callable[[jax.Array, int], Trials]


def interval_production(
  timeline: Timeline,
  noise: float,
  *,
  intervals: tuple[float, ...] = (800, 1500),
) -> Sampler:
  """Waits as long as the stimulus channel says; Wang et al. (2018).

  Args:
    timeline: the periods of `INTERVAL_PERIODS`.
    noise: of the stimulus channels, in 1 / sqrt(ms).
    intervals: ms; each has a channel that is on during the stimulus.

  Returns:
    The sampler.

  Raises:
    UserError: if the response is too short for the longest interval.
  """
  _check_response(timeline, max(intervals))

  def sample(key, batch):
    which_key, span_key, noise_key = jax.random.split(key, 3)
    which = jax.random.randint(which_key, (batch,), 0, len(intervals))
    spans = draw_spans(span_key, timeline, batch)
    shown = during(timeline, spans, 'stimulus')[..., None]
    noisy = jax.nn.one_hot(which, len(intervals)) + _noise(
      noise_key, timeline, batch, len(intervals), noise
    )
    return _go_after(
      timeline, spans, jnp.where(shown, noisy, 0), jnp.asarray(intervals)[which]
    )

  return sample


def ready_set_go(
  timeline: Timeline, noise: float, *, gain: float = 1.0
) -> Sampler:
  """Reproduces the time between two pulses; Remington et al. (2018).

  Args:
    timeline: the periods of `READY_SET_GO_PERIODS`.
    noise: of the two pulse channels, in 1 / sqrt(ms).
    gain: produced interval over the measured one.

  Returns:
    The sampler.

  Raises:
    UserError: if the response is too short for the longest interval.
  """
  measure = timeline.names.index('measure')
  _check_response(timeline, gain * timeline.high[measure])

  def sample(key, batch):
    span_key, noise_key = jax.random.split(key)
    spans = draw_spans(span_key, timeline, batch)
    pulses = [
      during(timeline, spans, name)[..., None] for name in ('ready', 'set')
    ]
    shown = jnp.concatenate(pulses, axis=-1)
    noisy = 1 + _noise(noise_key, timeline, batch, 2, noise)
    return _go_after(
      timeline,
      spans,
      jnp.where(shown, noisy, 0),
      gain * spans.length_ms[measure],
    )

  return sample


def _check_response(timeline: Timeline, longest_ms: float) -> None:
  steps = period_steps(timeline.low[-1], timeline.dt_ms)
  needed = period_steps(longest_ms, timeline.dt_ms) + 1
  if steps < needed:
    raise UserError(
      f'the response has {steps} steps, an interval of {longest_ms} ms needs '
      f'{needed}; make the period response longer'
    )


def _noise(key, timeline, batch, channels, noise):
  shape = (timeline.num_steps, batch, channels)
  return jax.random.normal(key, shape) * (noise / timeline.dt_ms**0.5)


def _go_after(
  timeline: Timeline, spans: Spans, channels: jax.Array, interval_ms: jax.Array
) -> Trials:
  """Trials whose target turns to 1 an interval after the response starts."""
  trial = in_trial(timeline, spans)
  cue = before_response(timeline, spans)[..., None].astype(channels.dtype)
  wait = jnp.floor(interval_ms / timeline.dt_ms + 0.5).astype(jnp.int32)
  t = jnp.arange(timeline.num_steps)[:, None]
  goes = trial & (t >= spans.start[-1] + wait)
  return Trials(
    inputs=jnp.concatenate([cue, channels], axis=-1),
    targets=goes.astype(jnp.int32),
    mask=trial.astype(channels.dtype),
  )
