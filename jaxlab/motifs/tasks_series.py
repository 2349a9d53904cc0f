"""Tasks on sequences that are given or computed: forecasts and digits."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import systems
from jaxlab.motifs.models import as_float
from jaxlab.motifs.tasks_timeline import (
  Duration,
  Timeline,
  draw_spans,
  in_trial,
)
from jaxlab.motifs.tasks_types import Trials

SERIES_PERIODS: dict[str, Duration] = {'stimulus': 4000}
Sampler = Callable[[jax.Array, int], Trials]

# Mean and standard deviation of the series, and of x, y, z, on the attractors.
_MACKEY_GLASS_MEAN, _MACKEY_GLASS_SCALE = 0.93, 0.226
_LORENZ_MEAN = (0.0, 0.0, 23.55)
_LORENZ_SCALE = (7.92, 9.01, 8.62)


def mackey_glass_series(
  key: jax.Array, batch: int, num_steps: int, *, delay: float = 17.0
) -> jax.Array:
  """Mackey and Glass (1977): `x' = 0.2 y / (1 + y^10) - 0.1 x`, `y` delayed.

  Args:
    key: PRNG key of the initial histories.
    batch: B, static.
    num_steps: samples of each series, static.
    delay: delay of y in units of time; chaotic from about 16.8.

  Returns:
    `[num_steps, B]`, a unit of time apart, from time 300 on.
  """
  per_unit = 10
  size = round(delay * per_unit)
  history = jax.random.uniform(key, (size, batch), minval=0.6, maxval=1.4)

  def substep(i, carry):
    x, history, at = carry
    past = history[at]
    history = history.at[at].set(x)
    x = x + (0.2 * past / (1 + past**10) - 0.1 * x) / per_unit
    return x, history, (at + 1) % size

  def unit(carry, _):
    carry = jax.lax.fori_loop(0, per_unit, substep, carry)
    return carry, carry[0]

  start = (history[-1], history, jnp.zeros((), jnp.int32))
  _, series = jax.lax.scan(unit, start, length=300 + num_steps)
  return series[300:]


def lorenz_series(
  key: jax.Array, batch: int, num_steps: int, *, spacing: float = 0.02
) -> jax.Array:
  """Standardized x, y, z of the Lorenz system.

  Args:
    key: PRNG key of the initial states.
    batch: B, static.
    num_steps: samples of each series, static.
    spacing: time between samples.

  Returns:
    `[num_steps, B, 3]`, from time 10 on.
  """
  mean, scale = jnp.asarray(_LORENZ_MEAN), jnp.asarray(_LORENZ_SCALE)
  x = mean + scale * jax.random.normal(key, (batch, 3))
  step = jax.vmap(systems.lorenz63(dt=spacing / 2))

  def sample(x, _):
    x = step(step(x))
    return x, x

  burn_in = round(10 / spacing)
  _, series = jax.lax.scan(sample, x, length=burn_in + num_steps)
  return (series[burn_in:] - mean) / scale


def forecast(
  timeline: Timeline, noise: float, *, system: str, horizon: int = 5
) -> Sampler:
  """The value of a chaotic series some steps ahead.

  Args:
    timeline: the period of `SERIES_PERIODS`; a step is a sample.
    noise: of the inputs, in 1 / sqrt(ms).
    system: 'mackey_glass' or 'lorenz'.
    horizon: steps ahead.

  Returns:
    The sampler.

  Raises:
    UserError: if `horizon` is not positive.
  """
  if horizon < 1:
    raise UserError(f'horizon must be at least 1 step, got {horizon}')

  def sample(key, batch):
    series_key, span_key, noise_key = jax.random.split(key, 3)
    length = timeline.num_steps + horizon
    if system == 'lorenz':
      series = lorenz_series(series_key, batch, length)
    else:
      series = mackey_glass_series(series_key, batch, length)[..., None]
      series = (series - _MACKEY_GLASS_MEAN) / _MACKEY_GLASS_SCALE
    trial = in_trial(timeline, draw_spans(span_key, timeline, batch))
    now = series[:-horizon]
    scale = noise / timeline.dt_ms**0.5
    now = now + jax.random.normal(noise_key, now.shape) * scale
    return Trials(
      inputs=jnp.where(trial[..., None], now, 0),
      targets=series[horizon:],
      mask=trial.astype(series.dtype),
    )

  return sample


def check_digits(images: ArrayLike | None, labels: ArrayLike | None) -> None:
  """Refuses images and labels that do not belong together.

  Raises:
    UserError: if one is missing, or the shapes are not `[n, h, w]` and `[n]`.
  """
  if images is None or labels is None:
    raise UserError(
      'sequential_digits needs images= [n, h, w] and labels= [n], for example '
      'of sklearn.datasets.load_digits()'
    )
  shape, label_shape = jnp.shape(images), jnp.shape(labels)
  if len(shape) != 3 or label_shape != shape[:1]:
    raise UserError(
      f'images must be [n, h, w] and labels [n], got {shape} and {label_shape}'
    )


def sequential_digits(
  images: ArrayLike,
  labels: ArrayLike,
  noise: float,
  dt_ms: float,
  *,
  order: str,
) -> Sampler:
  """Images row by row, or pixel by pixel; the answer counts in the last step.

  Args:
    images: `[n, h, w]` in [0, 1].
    labels: `[n]` int from 0; the choice is 1 + label.
    noise: of the inputs, in 1 / sqrt(ms).
    dt_ms: length of a step.
    order: 'row' (h steps of w inputs) or 'pixel' (h w steps of one input).

  Returns:
    The sampler.
  """
  x, y = as_float(images), jnp.asarray(labels, jnp.int32)
  if order == 'pixel':
    x = x.reshape(x.shape[0], -1, 1)
  num_steps = x.shape[1]

  def sample(key, batch):
    row_key, noise_key = jax.random.split(key)
    rows = jax.random.randint(row_key, (batch,), 0, x.shape[0])
    inputs = jnp.swapaxes(x[rows], 0, 1)
    draw = jax.random.normal(noise_key, inputs.shape, inputs.dtype)
    last = (jnp.arange(num_steps) == num_steps - 1)[:, None]
    return Trials(
      inputs=inputs + draw * (noise / dt_ms**0.5),
      targets=jnp.where(last, 1 + y[rows], 0),
      mask=jnp.broadcast_to(last, (num_steps, batch)).astype(inputs.dtype),
    )

  return sample
