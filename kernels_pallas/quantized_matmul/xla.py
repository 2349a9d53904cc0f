"""The quantized product in plain XLA, for CPUs above all.

No formulation is best for all shapes: a product of int8 codes is far ahead for
many rows; for few rows it is not everywhere, and there a product of the same
integers in float32 is taken, which is as exact while all sums stay below 2^24.
"""

import jax
import jax.numpy as jnp

from kernels_pallas.quantized_matmul.activations import (
  Extras,
  Finish,
  Rows,
  finish,
)
from kernels_pallas.quantized_matmul.integer import columns, correct, row_sums
from kernels_pallas.quantized_matmul.packing import (
  PackedTensor,
  dequantize,
  unpack,
  zero_points,
)
from kernels_pallas.quantized_matmul.reference import accumulator

FEW_ROWS = 8
"""Up to this many rows float products of integers are taken."""

_EXACT = 2**24


def matmul(
  rows: Rows, w: PackedTensor, extras: Extras, how: Finish
) -> jax.Array:
  """The product `[M, N]`, then `finish`.

  Args:
    rows: `[M, K]` activations.
    w: the weights; not a codebook where activations are codes.
    extras: what is added.
    how: activation and type.

  Returns:
    `[M, N]`.
  """
  y = _of_floats(rows, w) if rows.scale is None else _of_codes(rows, w)
  return finish(y, extras, how)


def transposed(cotangent: jax.Array, w: PackedTensor) -> jax.Array:
  """`[M, N]` times the transposed values of the weights, `[M, K]`."""
  values = dequantize(w, cotangent.dtype)
  return jnp.dot(cotangent, values.T, precision='highest')


def _of_floats(rows: Rows, w: PackedTensor) -> jax.Array:
  dtype = accumulator(rows)
  x = rows.x.astype(dtype)
  if w.groups != 1 or w.levels is not None:
    return jnp.dot(x, dequantize(w, dtype), precision='highest')
  zeros = zero_points(w.zero, w.bits, w.scale.shape)
  steps = unpack(w).astype(dtype) - zeros.astype(dtype)
  return jnp.dot(x, steps, precision='highest') * w.scale.astype(dtype)


def _of_codes(rows: Rows, w: PackedTensor) -> jax.Array:
  m = rows.x.shape[0]
  codes = w.data[0][: w.k] if w.bits == 8 else unpack(w).astype(jnp.int8)
  grouped = (
    rows.x.reshape(m, w.groups, w.group_size).swapaxes(0, 1),
    codes.reshape(w.groups, w.group_size, w.n),
    row_sums(rows, w).T[..., None],
    *(array[:, None] for array in columns(w)),
  )
  largest = 2 ** (7 + (7 if w.bits == 8 else w.bits))
  floats = m <= FEW_ROWS and w.group_size * largest <= _EXACT

  def add_group(y, group):
    x, codes, row_sum, scale, zero, colsum = group
    product = _integer_dot(x, codes, floats)
    exact = correct(product, rows.zero, row_sum, zero, colsum)
    return y + rows.scale * scale * exact.astype(y.dtype), None

  y = jnp.zeros((m, w.n), accumulator(rows))
  if w.groups == 1:
    return add_group(y, [array[0] for array in grouped])[0]
  return jax.lax.scan(add_group, y, grouped)[0]


def _integer_dot(x: jax.Array, codes: jax.Array, floats: bool) -> jax.Array:
  if floats:
    pair = x.astype(jnp.float32), codes.astype(jnp.float32)
    return jnp.dot(*pair, precision='highest').astype(jnp.int32)
  return jnp.dot(x, codes, preferred_element_type=jnp.int32)
