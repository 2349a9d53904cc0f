"""What a site computes: in float, with fake quantization, and its patches."""

import dataclasses
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jax import lax

from jaxlab.quantization import quantizers, rounding, transforms
from jaxlab.quantization.types import Activation, Linear, Site, Transform

TINY = 1e-6


def pad(site: Site, x: jax.Array) -> jax.Array:
  """Adds a convolution's zeros, so that they are coded like data."""
  if site.kind != 'conv' or not any(map(any, site.padding)):
    return x
  return jnp.pad(x, ((0, 0), *site.padding, (0, 0)))


def product(site: Site, x: jax.Array, weights: jax.Array) -> jax.Array:
  """Product with a padded input.

  Args:
    site: a linear site.
    x: `[..., C]`; `[B, *space, C]` for a convolution.
    weights: `[K, N]`, rows in the order (window, channel).

  Returns:
    `[..., N]`.
  """
  if site.kind == 'dense':
    return x @ weights
  if site.groups == 1 and jax.default_backend() == 'cpu':
    return _windows(site, x) @ weights
  kernel = weights.reshape(
    *site.window, site.channels // site.groups, site.columns
  )
  axes = 'HWD'[: len(site.window)]
  return lax.conv_general_dilated(
    x,
    kernel,
    site.strides,
    'VALID',
    rhs_dilation=site.dilation,
    dimension_numbers=(f'N{axes}C', f'{axes}IO', f'N{axes}C'),
    feature_group_count=site.groups,
  )


def _windows(site: Site, x: jax.Array) -> jax.Array:
  """`[B, *places, K]` what each place of a padded input sees.

  On a CPU a product with them is several times as fast as XLA's convolution,
  most of all backwards, for the sizes of small networks.
  """
  places = num_places(dataclasses.replace(site, padding=()), x.shape)
  parts = []
  for at in itertools.product(*map(range, site.window)):
    cut = [
      slice(a * d, a * d + (n - 1) * s + 1, s)
      for a, d, n, s in zip(
        at, site.dilation, places, site.strides, strict=True
      )
    ]
    parts.append(x[(slice(None), *cut)])
  return jnp.concatenate(parts, axis=-1)


def channel_of_row(site: Site) -> jax.Array:
  """`[K, N]` input channel that each weight multiplies."""
  each = site.channels // site.groups
  row = jnp.tile(jnp.arange(each), site.taps)
  group = jnp.arange(site.columns) // (site.columns // site.groups)
  return row[:, None] + each * group


def identity(site: Site, dtype=np.float32) -> Transform:
  """The transform that changes nothing, as NumPy arrays."""
  ones: Any = np.ones(site.channels, dtype)
  off: Any = np.zeros((), bool)
  return Transform(0 * ones, ones, ones, off, off)


def rotate(x: jax.Array, signs: jax.Array) -> jax.Array:
  """R x for the last axis: signs, then Hadamard in the largest blocks."""
  channels = x.shape[-1]
  block = transforms.largest_block(channels)
  mixing = scipy.linalg.hadamard(block) / math.sqrt(block)
  parts = (x * signs).reshape(*x.shape[:-1], channels // block, block)
  return (parts @ jnp.asarray(mixing, x.dtype)).reshape(x.shape)


def token_size(x: jax.Array) -> jax.Array:
  """`[..., 1]` root mean square over channels, not below 1e-6."""
  # Bounded before the root, whose gradient at 0 is infinite.
  square = jnp.mean(x**2, axis=-1, keepdims=True)
  return jnp.sqrt(jnp.maximum(square, TINY**2))


def transformed(
  site: Site, transform: Transform, x: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """The input that is coded, `[..., C]`, and r, `[..., 1]`."""
  moved = (x - transform.shift) / transform.scale
  if site.groups == 1:
    moved = lax.cond(
      transform.rotate, lambda x: rotate(x, transform.signs), lambda x: x, moved
    )
  if site.kind != 'dense':
    return moved, jnp.ones((), x.dtype)
  size = jnp.where(transform.per_token, token_size(moved), 1)
  return moved / size, size


def transformed_weights(
  site: Site, transform: Transform, weights: jax.Array
) -> jax.Array:
  """R D W, `[K, N]`."""
  scaled = weights * transform.scale[channel_of_row(site)]
  if site.groups > 1:
    return scaled

  def turn(w):
    parts = w.reshape(site.taps, site.channels, site.columns)
    parts = rotate(parts.swapaxes(1, 2), transform.signs)
    return parts.swapaxes(1, 2).reshape(w.shape)

  return lax.cond(transform.rotate, turn, lambda w: w, scaled)


def shifted_bias(
  site: Site, transform: Transform, weights: jax.Array, bias: jax.Array
) -> jax.Array:
  """`[N]` bias + c W: what the shift of the input took away."""
  return bias + jnp.sum(transform.shift[channel_of_row(site)] * weights, axis=0)


def coded(act: Activation, x: jax.Array, bits: int, size: int = 0) -> jax.Array:
  """Rounds x to its levels, with the gradients of LSQ for steps and levels.

  Args:
    act: the codes.
    x: any shape.
    bits: of a code.
    size: numbers of x per example; those that share a step scale its
      gradient. 0 takes all of x.
  """
  steps = 2**bits - 1
  each = (size or x.size) // act.scale.size
  grad_scale = 1 / math.sqrt(max(1, each) * steps)

  def uniform(x):
    return quantizers.lsq_fake_quant(x, act.scale, act.offset, bits, grad_scale)

  def quantized(x):
    levels = act.levels
    if levels is None:
      return uniform(x)
    return lax.cond(
      act.uniform,
      uniform,
      lambda x: quantizers.levels_fake_quant(x, levels),
      x,
    )

  return lax.cond(act.on, quantized, lambda x: x, x)


def weights_of(state: Linear, *, soft: bool = False) -> jax.Array:
  """`[K, N]` values of the weights, gain included."""
  if soft:
    share = rounding.rectified_sigmoid(state.soft)
  else:
    share = (state.soft >= 0).astype(state.low.dtype)
  value = state.low + share * (state.high - state.low)
  return value * jnp.exp(state.log_gain)


def codes_of(state: Linear) -> jax.Array:
  """`[K, N]` uint8 codes after learning."""
  up = (state.soft >= 0) & (state.high > state.low)
  return state.code + up.astype(state.code.dtype)


def quantized(
  site: Site, state: Linear, x: jax.Array, *, soft: bool = False
) -> jax.Array:
  """What a linear site gives for x with rounded weights and activations."""
  moved, size = transformed(site, state.transform, pad(site, x))
  per_example = moved.size // max(1, moved.shape[0])
  codes = coded(state.act, moved, site.a_bits, per_example)
  y = product(site, codes, weights_of(state, soft=soft))
  if state.first is not None and state.second is not None:
    narrow = dataclasses.replace(site, columns=state.first.shape[1])
    y += product(narrow, codes, state.first) @ state.second
  return size * y + state.bias


def plain(
  site: Site, weights: jax.Array, bias: jax.Array, x: jax.Array
) -> jax.Array:
  """What a linear site gives in float."""
  return product(site, pad(site, x), weights) + bias


def num_places(site: Site, shape: tuple[int, ...]) -> tuple[int, ...]:
  """Extent of the output of an input `[B, *, C]`, without batch and columns."""
  if site.kind != 'conv':
    return shape[1:-1]
  found = []
  padding = site.padding or ((0, 0),) * len(site.window)
  for size, window, stride, (a, b), step in zip(
    shape[1:-1],
    site.window,
    site.strides,
    padding,
    site.dilation,
    strict=True,
  ):
    found.append((size + a + b - (window - 1) * step - 1) // stride + 1)
  return tuple(found)


def at_places(act: Activation, index: jax.Array) -> Activation:
  """The codes of `patches` of `[M]` places, where positions have steps."""
  if not act.scale.ndim:
    return act
  position = index % len(act.scale)
  return act._replace(
    scale=act.scale[position, None], offset=act.offset[position, None]
  )


def patches(site: Site, x: jax.Array, index: jax.Array) -> jax.Array:
  """Inputs of some output places.

  Args:
    site: a linear site with `groups` 1.
    x: `[B, *space, C]`, not padded.
    index: `[M]` flat numbers of places, (example, place) row by row.

  Returns:
    `[M, taps, C]`.
  """
  if site.kind == 'dense':
    return x.reshape(-1, 1, site.channels)[index]
  places = num_places(site, x.shape)
  picture, *at = jnp.unravel_index(index, (x.shape[0], *places))
  spans = [
    (w - 1) * d + 1 for w, d in zip(site.window, site.dilation, strict=True)
  ]
  padded = pad(site, x)

  def cut(picture, *at):
    start = [a * s for a, s in zip(at, site.strides, strict=True)]
    found = lax.dynamic_slice(
      padded, (picture, *start, 0), (1, *spans, site.channels)
    )[0]
    every = tuple(slice(None, None, d) for d in site.dilation)
    return found[every].reshape(site.taps, site.channels)

  return jax.vmap(cut)(picture, *at)
