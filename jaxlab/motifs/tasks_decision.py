"""Trials with a fixation cue, stimuli and one choice; NeuroGym's parameters.

Input channel 0 is the fixation cue: 1 before the response, 0 in it. Stimulus
channels are 0 outside their period. The target is 0 before the response and
the choice in it. Choices and stimuli are drawn before there is a time axis.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.motifs.tasks_timeline import (
  Duration,
  Timeline,
  before_response,
  draw_spans,
  during,
  in_trial,
)
from jaxlab.motifs.tasks_types import Trials


class Draw(NamedTuple):
  """The content of a batch of trials.

  Attributes:
    choice: `[B]` int32, 1..C.
    stimuli: for each period with stimuli, `[B, S]` values.
  """

  choice: jax.Array
  stimuli: dict[str, jax.Array]


class Design(NamedTuple):
  """A task with one choice.

  Attributes:
    num_choices: C.
    noisy: for each of the S stimulus channels, whether it has noise.
    noise: default standard deviation of the noise, in 1 / sqrt(ms).
    periods: default periods in order, ms.
    draw: function of a key and the number of trials.
  """

  num_choices: int
  noisy: tuple[bool, ...]
  noise: float
  periods: Mapping[str, Duration]
  draw: Callable[[jax.Array, int], Draw]


def decision_sampler(
  design: Design, timeline: Timeline, noise: float
) -> Callable[[jax.Array, int], Trials]:
  """The sampler of a design on a timeline.

  Args:
    design: the task.
    timeline: its periods.
    noise: standard deviation of the stimulus noise times sqrt(ms): a step has
      `noise / sqrt(dt_ms)`.

  Returns:
    Function of a key and the number of trials to `Trials`.
  """

  def sample(key, batch):
    content_key, span_key, noise_key = jax.random.split(key, 3)
    choice, stimuli = design.draw(content_key, batch)
    spans = draw_spans(span_key, timeline, batch)
    shape = (timeline.num_steps, batch, len(design.noisy))
    draw = jax.random.normal(noise_key, shape) * jnp.asarray(design.noisy)
    draw = draw * (noise / timeline.dt_ms**0.5)
    channels = jnp.zeros(shape)
    for name, values in stimuli.items():
      shown = during(timeline, spans, name)[..., None]
      channels += jnp.where(shown, values + draw, 0)
    trial = in_trial(timeline, spans)
    waits = before_response(timeline, spans)
    cue = waits[..., None].astype(channels.dtype)
    return Trials(
      inputs=jnp.concatenate([cue, channels], axis=-1),
      targets=jnp.where(trial & ~waits, choice, 0).astype(jnp.int32),
      mask=trial.astype(channels.dtype),
    )

  return sample


def ring(num: int) -> np.ndarray:
  """`[num]` angles around a circle."""
  return np.linspace(0, 2 * np.pi, num, endpoint=False)


def evidence(choice: jax.Array, coherence: jax.Array, num: int) -> jax.Array:
  """Channels `[B, num]` around 1/2 that favour a choice 1..num."""
  theta = jnp.asarray(ring(num))
  tuning = jnp.cos(theta - theta[choice - 1][:, None])
  return tuning * coherence[:, None] / 200 + 0.5


def _choices(key: jax.Array, batch: int, num: int) -> jax.Array:
  return jax.random.randint(key, (batch,), 1, num + 1)


def _one_of(key: jax.Array, batch: int, values: tuple[float, ...]) -> jax.Array:
  return jax.random.choice(key, jnp.asarray(values), (batch,))


def perceptual_decision(
  *,
  num_choices: int = 2,
  coherences: tuple[float, ...] = (0.0, 6.4, 12.8, 25.6, 51.2),
) -> Design:
  """Which of noisy channels is strongest; Britten et al. (1992)."""

  def draw(key, batch):
    choice_key, coherence_key = jax.random.split(key)
    choice = _choices(choice_key, batch, num_choices)
    coherence = _one_of(coherence_key, batch, coherences)
    return Draw(choice, {'stimulus': evidence(choice, coherence, num_choices)})

  return Design(
    num_choices,
    (True,) * num_choices,
    1.0,
    {'fixation': 100, 'stimulus': 2000, 'delay': 0, 'response': 100},
    draw,
  )


def _two_modalities(key, batch, num_choices, coherences):
  """The choice of each of two modalities and the rule 0 or 1, with evidence."""
  keys = jax.random.split(key, 5)
  choices = [_choices(k, batch, num_choices) for k in keys[:2]]
  shown = [
    evidence(choice, _one_of(k, batch, coherences), num_choices)
    for choice, k in zip(choices, keys[2:4], strict=True)
  ]
  rule = jax.random.randint(keys[4], (batch,), 0, 2)
  return choices, shown, rule


def context_dependent_integration(
  *,
  num_choices: int = 2,
  coherences: tuple[float, ...] = (5.0, 15.0, 50.0),
) -> Design:
  """Which is strongest in the modality that a cue names; Mante et al. (2013).

  The two cue channels are shown with the stimulus.
  """

  def draw(key, batch):
    choices, shown, rule = _two_modalities(key, batch, num_choices, coherences)
    cue = jax.nn.one_hot(rule, 2)
    return Draw(
      jnp.where(rule == 0, choices[0], choices[1]),
      {'stimulus': jnp.concatenate([*shown, cue], axis=-1)},
    )

  return Design(
    num_choices,
    (True,) * (2 * num_choices) + (False, False),
    1.0,
    {'fixation': 300, 'stimulus': 750, 'delay': (300, 900), 'response': 100},
    draw,
  )


def rule_reversal(
  *,
  num_choices: int = 2,
  coherences: tuple[float, ...] = (5.0, 15.0, 50.0),
) -> Design:
  """As with a context cue that turns over inside the trial.

  In the period `reversal` the same stimulus is shown with the other cue, and
  the choice is that of the rule which came last.
  """

  def draw(key, batch):
    choices, shown, rule = _two_modalities(key, batch, num_choices, coherences)
    cue = jax.nn.one_hot(rule, 2)
    return Draw(
      jnp.where(rule == 1, choices[0], choices[1]),
      {
        'stimulus': jnp.concatenate([*shown, cue], axis=-1),
        'reversal': jnp.concatenate([*shown, 1 - cue], axis=-1),
      },
    )

  return Design(
    num_choices,
    (True,) * (2 * num_choices) + (False, False),
    1.0,
    {
      'fixation': 300,
      'stimulus': 750,
      'reversal': 750,
      'delay': 300,
      'response': 100,
    },
    draw,
  )


def delayed_match_to_sample(*, num_channels: int = 2) -> Design:
  """Is the test the sample (1) or its opposite (2); Miller et al. (1996)."""

  def draw(key, batch):
    choice_key, sample_key = jax.random.split(key)
    choice = _choices(choice_key, batch, 2)
    theta = jnp.asarray(ring(num_channels))
    angle = jax.random.choice(sample_key, theta, (batch,))[:, None]
    opposite = angle + jnp.pi * (choice == 2)[:, None]
    return Draw(
      choice,
      {
        'stimulus': jnp.cos(theta - angle) * 0.5 + 0.5,
        'test': jnp.cos(theta - opposite) * 0.5 + 0.5,
      },
    )

  return Design(
    2,
    (True,) * num_channels,
    1.0,
    {
      'fixation': 300,
      'stimulus': 500,
      'delay': 1000,
      'test': 500,
      'response': 900,
    },
    draw,
  )


def go_no_go() -> Design:
  """Choice 1 after a go stimulus, 2 (withhold) after a no-go stimulus."""

  def draw(key, batch):
    choice = _choices(key, batch, 2)
    return Draw(choice, {'stimulus': jax.nn.one_hot(choice - 1, 2)})

  return Design(
    2,
    (False, False),
    0.0,
    {'fixation': 0, 'stimulus': 500, 'delay': 500, 'response': 500},
    draw,
  )


def delayed_anti_response(*, num_choices: int = 32) -> Design:
  """The direction opposite to a stimulus; Munoz and Everling (2004)."""

  def draw(key, batch):
    choice = _choices(key, batch, num_choices)
    theta = jnp.asarray(ring(num_choices))
    shown = jnp.cos(theta - (theta[choice - 1][:, None] + jnp.pi))
    return Draw(choice, {'stimulus': shown})

  return Design(
    num_choices,
    (False,) * num_choices,
    0.0,
    {'fixation': 500, 'stimulus': 500, 'delay': 500, 'response': 500},
    draw,
  )


def parametric_working_memory(
  *,
  pairs: tuple[tuple[float, float], ...] = (
    (18, 10),
    (22, 14),
    (26, 18),
    (30, 22),
    (34, 26),
  ),
) -> Design:
  """Is the first (1) or the second (2) value larger; Barak et al. (2010)."""
  values = np.asarray(pairs, float)
  scaled = 0.5 + 0.5 * (values - values.min()) / np.ptp(values)

  def draw(key, batch):
    choice_key, pair_key = jax.random.split(key)
    choice = _choices(choice_key, batch, 2)
    pair = jnp.asarray(scaled)[
      jax.random.randint(pair_key, (batch,), 0, len(pairs))
    ]
    pair = jnp.where((choice == 1)[:, None], pair, pair[:, ::-1])
    return Draw(choice, {'stimulus': pair[:, :1], 'test': pair[:, 1:]})

  return Design(
    2,
    (True,),
    1.0,
    {
      'fixation': 500,
      'stimulus': 500,
      'delay': 1000,
      'test': 500,
      'response': 100,
    },
    draw,
  )


def multisensory_integration(
  *,
  num_choices: int = 2,
  coherences: tuple[float, ...] = (5.0, 15.0, 50.0),
) -> Design:
  """Which is strongest, where two modalities share the evidence."""

  def draw(key, batch):
    keys = jax.random.split(key, 3)
    choice = _choices(keys[0], batch, num_choices)
    coherence = _one_of(keys[1], batch, coherences)
    share = jax.random.uniform(keys[2], (batch,))
    shown = [
      evidence(choice, coherence * part, num_choices)
      for part in (share, 1 - share)
    ]
    return Draw(choice, {'stimulus': jnp.concatenate(shown, axis=-1)})

  return Design(
    num_choices,
    (True,) * (2 * num_choices),
    1.0,
    {'fixation': 300, 'stimulus': 750, 'delay': 0, 'response': 100},
    draw,
  )


DESIGNS: dict[str, Callable[..., Design]] = {
  'perceptual_decision': perceptual_decision,
  'context_dependent_integration': context_dependent_integration,
  'rule_reversal': rule_reversal,
  'delayed_match_to_sample': delayed_match_to_sample,
  'go_no_go': go_no_go,
  'delayed_anti_response': delayed_anti_response,
  'parametric_working_memory': parametric_working_memory,
  'multisensory_integration': multisensory_integration,
}
