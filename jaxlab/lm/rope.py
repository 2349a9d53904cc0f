"""Rotary position embedding: pairs of a head's numbers turn with the position.

The halves of a head are paired, `(x_i, x_{i + H/2})`, as in the checkpoints of
the Hugging Face hub (Su et al., RoFormer, 2021).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Angles(NamedTuple):
  """Cosines and sines of the angles at some positions.

  Attributes:
    cos: `[B, T, H/2]`.
    sin: `[B, T, H/2]`.
  """

  cos: jax.Array
  sin: jax.Array


def angles(
  positions: jax.Array,
  head_dim: int,
  theta: float,
  factors: Sequence[float] = (),
) -> Angles:
  """Returns the angles, in float32 as the models were trained with.

  Args:
    positions: `[B, T]` whole numbers.
    head_dim: width H of a head.
    theta: base: frequency i is `theta^(-2i/H)`.
    factors: `H/2` divisors of the frequencies, or none.
  """
  # In NumPy: rounding of a power differs between compilers.
  exponents = np.arange(0, head_dim, 2, dtype=np.float32) / head_dim
  frequencies = 1 / np.float32(theta) ** exponents
  if factors:
    frequencies = frequencies / np.asarray(factors, np.float32)
  turned = positions[..., None].astype(jnp.float32) * jnp.asarray(frequencies)
  return Angles(jnp.cos(turned), jnp.sin(turned))


def rotate(x: jax.Array, turned: Angles) -> jax.Array:
  """Turns queries or keys.

  Args:
    x: `[B, T, heads, H]`.
    turned: the angles at the T positions.

  Returns:
    The same shape and dtype; computed in float32 at least.
  """
  wide = jnp.promote_types(x.dtype, jnp.float32)
  first, second = jnp.split(x.astype(wide), 2, axis=-1)
  cos, sin = (part[..., None, :].astype(wide) for part in turned)
  halves = (first * cos - second * sin, second * cos + first * sin)
  return jnp.concatenate(halves, axis=-1).astype(x.dtype)


def llama3_factors(
  head_dim: int,
  theta: float,
  *,
  factor: float,
  low_freq_factor: float,
  high_freq_factor: float,
  original_len: int,
) -> tuple[float, ...]:
  """Returns the divisors of the frequencies of Llama 3.1 and later.

  Waves longer than `original_len / low_freq_factor` are slowed by `factor`,
  those shorter than `original_len / high_freq_factor` stay, with a smooth
  passage between them.

  Args:
    head_dim: width H of a head.
    theta: base of the angles.
    factor: slowing of the long waves.
    low_freq_factor: number of periods in `original_len` of the longest wave
      that is not slowed in full.
    high_freq_factor: the same of the longest that is not slowed at all.
    original_len: length of context before scaling.
  """
  found = []
  for i in range(0, head_dim, 2):
    periods = original_len * theta ** (-i / head_dim) / (2 * math.pi)
    share = (periods - low_freq_factor) / (high_freq_factor - low_freq_factor)
    share = min(max(share, 0.0), 1.0)
    found.append(1 / (share + (1 - share) / factor))
  return tuple(found)
