"""Numbers that tell whether arrays are still those that were written."""

import functools
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np


def of_all(named: Mapping[str, jax.Array]) -> dict[str, int]:
  """Returns a number of every array, the same on every mesh."""
  names = sorted(named)
  numbers = _compute([named[name] for name in names])
  return dict(zip(names, np.asarray(numbers).tolist(), strict=True))


@jax.jit
def _compute(arrays: list[jax.Array]) -> jax.Array:
  return jnp.stack([_of(x) for x in arrays])


def _of(x: jax.Array) -> jax.Array:
  """Sums mixed words that depend on a value's bits and place."""
  if jnp.issubdtype(x.dtype, jnp.complexfloating):
    x = jnp.stack([x.real, x.imag], -1)
  if x.dtype == jnp.bool_ or not jnp.issubdtype(x.dtype, jnp.inexact):
    words = x.astype(jnp.uint32)
  else:
    size = jnp.dtype(x.dtype).itemsize
    bits = jnp.dtype(f'uint{8 * min(size, 4)}')
    words = jax.lax.bitcast_convert_type(x, bits).astype(jnp.uint32)
  # Integer sums do not depend on their order, hence on the mesh.
  places = [
    jax.lax.broadcasted_iota(jnp.uint32, words.shape, axis)
    * jnp.uint32(0x9E3779B1 + 2 * axis)
    for axis in range(words.ndim)
  ]
  words = functools.reduce(jnp.add, places, words)
  words = (words ^ (words >> 16)) * jnp.uint32(0x85EBCA6B)
  words = (words ^ (words >> 13)) * jnp.uint32(0xC2B2AE35)
  return jnp.sum(words ^ (words >> 16), dtype=jnp.uint32)
