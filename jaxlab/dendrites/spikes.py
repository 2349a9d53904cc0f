"""Threshold crossings, their surrogate gradients, and delays."""

import functools

import jax
import jax.numpy as jnp

SURROGATES = ('superspike', 'sigmoid', 'triangle', 'none')


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def heaviside(x: jax.Array, surrogate: str, beta: float) -> jax.Array:
  """1 where x >= 0, else 0; with the gradient of a surrogate.

  Args:
    x: `[...]` distance to the threshold, mV.
    surrogate: 'superspike' 1 / (1 + beta |x|)^2 (Zenke and Ganguli 2018),
      'sigmoid' beta s (1 - s) with s = sigmoid(beta x), 'triangle'
      max(0, 1 - beta |x|), or 'none': no gradient.
    beta: sharpness, 1/mV.

  Returns:
    `[...]` 0 or 1 in the dtype of x.
  """
  del surrogate, beta
  return (x >= 0).astype(x.dtype)


@heaviside.defjvp
def _(surrogate, beta, primals, tangents):
  (x,), (dx,) = primals, tangents
  out = heaviside(x, surrogate, beta)
  if surrogate == 'superspike':
    slope = 1 / jnp.square(1 + beta * jnp.abs(x))
  elif surrogate == 'sigmoid':
    s = jax.nn.sigmoid(beta * x)
    slope = beta * s * (1 - s)
  elif surrogate == 'triangle':
    slope = jnp.maximum(0, 1 - beta * jnp.abs(x))
  elif surrogate == 'none':
    slope = jnp.zeros_like(x)
  else:
    raise ValueError(
      f'surrogate {surrogate!r} is not known; take one of '
      f'{", ".join(SURROGATES)}.'
    )
  return out, slope * dx


def crossings(
  old: jax.Array,
  new: jax.Array,
  threshold: jax.Array,
  *,
  surrogate: str = 'superspike',
  beta: float = 1.0,
) -> jax.Array:
  """1 where the voltage rises through its threshold within a step.

  Args:
    old: `[P, B]` voltage before the step, mV.
    new: `[P, B]` voltage after it.
    threshold: `[P, 1]` mV.
    surrogate: of `heaviside`, taken at the new voltage.
    beta: its sharpness, 1/mV.

  Returns:
    `[P, B]` 0 or 1.
  """
  below = jax.lax.stop_gradient(old < threshold).astype(new.dtype)
  return below * heaviside(new - threshold, surrogate, beta)


def push(buffer: jax.Array, spikes: jax.Array, step: jax.Array) -> jax.Array:
  """Writes the spikes at the end of a step into the ring buffer.

  Args:
    buffer: `[D, P, B]`.
    spikes: `[P, B]`.
    step: int32, number of the step that begins now.

  Returns:
    `[D, P, B]`.
  """
  slot = jnp.mod(step, buffer.shape[0])
  return jax.lax.dynamic_update_index_in_dim(buffer, spikes, slot, 0)


def due(
  buffer: jax.Array, source: jax.Array, delay: jax.Array, step: jax.Array
) -> jax.Array:
  """Spikes that arrive at the begin of a step.

  Args:
    buffer: `[D, P, B]`.
    source: `[U]` int source of each pair of source and delay.
    delay: `[U]` int delay in steps, 1 to D - 1.
    step: int32, number of the step that begins.

  Returns:
    `[U, B]` 0 or 1.
  """
  slot = jnp.mod(step - delay, buffer.shape[0])
  return buffer[slot, source]
