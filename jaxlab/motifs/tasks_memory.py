"""Tasks that ask what was seen before: copy, adding, flip-flop."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxlab.errors import UserError
from jaxlab.motifs.tasks_timeline import (
  Duration,
  Timeline,
  before_response,
  draw_spans,
  during,
  in_trial,
  period_steps,
)
from jaxlab.motifs.tasks_types import Trials

COPY_PERIODS: dict[str, Duration] = {
  'fixation': 0,
  'stimulus': 200,
  'delay': 400,
  'response': 200,
}
ADDING_PERIODS: dict[str, Duration] = {'stimulus': 1000}
FLIP_FLOP_PERIODS: dict[str, Duration] = {'stimulus': 2000}
Sampler = Callable[[jax.Array, int], Trials]


def copy_memory(
  timeline: Timeline, noise: float, *, num_symbols: int = 8
) -> Sampler:
  """Repeats a sequence of symbols after a delay; Arjovsky et al. (2016).

  Channel 0 is the fixation cue, one channel a symbol follows. One symbol is
  shown in each step of the stimulus, and asked for in each of the response.

  Args:
    timeline: the periods of `COPY_PERIODS`.
    noise: of the symbol channels during the stimulus, in 1 / sqrt(ms).
    num_symbols: C.

  Returns:
    The sampler.

  Raises:
    UserError: if stimulus and response differ in steps or vary.
  """
  shown_at, asked_at = (
    timeline.names.index(n) for n in ('stimulus', 'response')
  )
  lengths = {
    period_steps(ends[at], timeline.dt_ms)
    for at in (shown_at, asked_at)
    for ends in (timeline.low, timeline.high)
  }
  if len(lengths) != 1:
    raise UserError(
      f'stimulus and response must have one number of steps, got '
      f'{sorted(lengths)}; give both the same length in ms'
    )
  (length,) = lengths

  def sample(key, batch):
    symbol_key, span_key, noise_key = jax.random.split(key, 3)
    symbols = jax.random.randint(
      symbol_key, (length, batch), 1, num_symbols + 1
    )
    spans = draw_spans(span_key, timeline, batch)
    t = jnp.arange(timeline.num_steps)[:, None]

    def symbol_since(start):
      at = jnp.clip(t - start, 0, length - 1)
      return jnp.take_along_axis(symbols, at, axis=0)

    one_hot = jax.nn.one_hot(
      symbol_since(spans.start[shown_at]) - 1, num_symbols
    )
    shape = (timeline.num_steps, batch, num_symbols)
    one_hot += _noise(noise_key, shape, timeline, noise)
    shown = during(timeline, spans, 'stimulus')[..., None]
    asked = during(timeline, spans, 'response')
    cue = before_response(timeline, spans)[..., None].astype(one_hot.dtype)
    targets = jnp.where(asked, symbol_since(spans.start[asked_at]), 0)
    return Trials(
      inputs=jnp.concatenate([cue, jnp.where(shown, one_hot, 0)], axis=-1),
      targets=targets.astype(jnp.int32),
      mask=in_trial(timeline, spans).astype(one_hot.dtype),
    )

  return sample


def adding(timeline: Timeline, noise: float) -> Sampler:
  """The sum of two marked values; Hochreiter and Schmidhuber (1997).

  Channel 0 holds uniform values, channel 1 marks one of them in each half. The
  target is the sum, and only the last step counts.

  Args:
    timeline: the period of `ADDING_PERIODS`.
    noise: of both channels, in 1 / sqrt(ms).

  Returns:
    The sampler.

  Raises:
    UserError: if a trial may have fewer than two steps.
  """
  if period_steps(timeline.low[0], timeline.dt_ms) < 2:
    raise UserError('the adding problem needs two steps; lengthen the stimulus')

  def sample(key, batch):
    value_key, mark_key, span_key, noise_key = jax.random.split(key, 4)
    spans = draw_spans(span_key, timeline, batch)
    stop = spans.stop[-1]
    shape = (timeline.num_steps, batch)
    values = jax.random.uniform(value_key, shape)
    share = jax.random.uniform(mark_key, (2, batch))
    half = stop // 2
    first = jnp.floor(share[0] * half).astype(jnp.int32)
    second = half + jnp.floor(share[1] * (stop - half)).astype(jnp.int32)
    t = jnp.arange(timeline.num_steps)[:, None]
    marks = ((t == first) | (t == second)).astype(values.dtype)
    trial = in_trial(timeline, spans)
    inputs = jnp.stack([values, marks], axis=-1)
    inputs += _noise(noise_key, inputs.shape, timeline, noise)
    total = jnp.sum(values * marks, axis=0)
    return Trials(
      inputs=jnp.where(trial[..., None], inputs, 0),
      targets=jnp.broadcast_to(total, shape)[..., None],
      mask=(t == stop - 1).astype(values.dtype),
    )

  return sample


def flip_flop(
  timeline: Timeline,
  noise: float,
  *,
  num_bits: int = 3,
  pulse_rate: float = 5.0,
) -> Sampler:
  """Each output holds the sign of its channel's last pulse; Sussillo, Barak.

  Before its first pulse an output is 0.

  Args:
    timeline: the period of `FLIP_FLOP_PERIODS`.
    noise: of all channels, in 1 / sqrt(ms).
    num_bits: channels.
    pulse_rate: pulses of a channel in a second.

  Returns:
    The sampler.
  """
  chance = min(pulse_rate * timeline.dt_ms / 1000, 1.0)

  def sample(key, batch):
    when_key, sign_key, span_key, noise_key = jax.random.split(key, 4)
    shape = (timeline.num_steps, batch, num_bits)
    pulse = jax.random.bernoulli(when_key, chance, shape)
    sign = jax.random.rademacher(sign_key, shape, jnp.result_type(float))
    pulses = jnp.where(pulse, sign, 0)
    t = jnp.arange(timeline.num_steps)[:, None, None]
    last = jax.lax.cummax(jnp.where(pulse, t, -1), axis=0)
    held = jnp.take_along_axis(pulses, jnp.maximum(last, 0), axis=0)
    trial = in_trial(timeline, draw_spans(span_key, timeline, batch))
    inputs = pulses + _noise(noise_key, shape, timeline, noise)
    return Trials(
      inputs=jnp.where(trial[..., None], inputs, 0),
      targets=jnp.where(last >= 0, held, 0),
      mask=trial.astype(pulses.dtype),
    )

  return sample


def _noise(key, shape, timeline, noise):
  return jax.random.normal(key, shape) * (noise / timeline.dt_ms**0.5)
