"""The quantized product in plain XLA, for CPUs above all.

Columns are taken some at a time: their codes are unpacked into a cache and not
into memory, which is most of the time that a product of few rows takes.
"""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from kernels_pallas.quantized_matmul import bfloat16
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

_COLUMNS = 128
"""Of a tile, at least; measured for 512 to 4096 rows of weights."""

_MOST_FLOATS = 2**18
"""Of a tile of this width; a longer one is half as wide."""

_MOST_ROWS = 2048
"""Of weights in a product of floats; the products of more are added up."""

_CACHED = 2**22
"""Bytes that fit a cache, with what goes with them."""

_LANES = 16
_LEAST_ROWS = 4
_LEAST_SPLIT = 16


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
  least = _COLUMNS
  if rows.scale is None:
    x = _factors(rows, w)
    if w.k * _COLUMNS > _MOST_FLOATS and x.dtype != jnp.bfloat16:
      least //= 2
    product = functools.partial(_of_floats, x, len(rows.x))
  else:
    product = functools.partial(_of_codes, rows, row_sums(rows, w))
    if w.bits == 8 and w.k * w.n <= _CACHED:  # Nothing to unpack.
      least = w.n
  return finish(_by_columns(product, rows, w, least), extras, how)


def transposed(cotangent: jax.Array, w: PackedTensor) -> jax.Array:
  """`[M, N]` times the transposed values of the weights, `[M, K]`."""
  values = dequantize(w, cotangent.dtype)
  return jnp.dot(cotangent, values.T, precision='highest')


def _by_columns(
  product: Callable[[PackedTensor], jax.Array],
  rows: Rows,
  w: PackedTensor,
  least: int,
) -> jax.Array:
  """`[M, N]` products, tile by tile; the last tiles may overlap.

  Args:
    product: of a tile of weights.
    rows: activations.
    w: the weights.
    least: columns of a tile.
  """
  count = w.n // least
  if count < 2:
    return product(w)
  width = -(-w.n // (count * _LANES)) * _LANES

  def add_tile(j, y):
    start = jnp.minimum(j * width, w.n - width)

    def cut(array):
      return lax.dynamic_slice_in_dim(array, start, width, axis=1)

    tile = dataclasses.replace(jax.tree.map(cut, w), n=width)
    return lax.dynamic_update_slice_in_dim(y, product(tile), start, axis=1)

  y = jnp.zeros((len(rows.x), w.n), accumulator(rows))
  return lax.fori_loop(0, -(-w.n // width), add_tile, y)


def _factors(rows: Rows, w: PackedTensor) -> jax.Array:
  """What weights are multiplied with: the rows, or their bfloat16 parts."""
  steps_only = w.groups == 1 and w.levels is None
  enough = len(rows.x) >= _LEAST_SPLIT and rows.x.dtype.itemsize <= 4
  if steps_only and enough and bfloat16.is_fast():
    return bfloat16.split(rows.x)
  return rows.x.astype(accumulator(rows))


def _of_floats(x: jax.Array, m: int, w: PackedTensor) -> jax.Array:
  if w.groups != 1 or w.levels is not None:
    return jnp.dot(x, dequantize(w, x.dtype), precision='highest')
  zeros = zero_points(w.zero, w.bits, w.scale.shape)
  exact = jnp.int16 if x.dtype == jnp.bfloat16 else x.dtype
  steps = unpack(w).astype(exact) - zeros.astype(exact)
  steps = steps.astype(x.dtype)
  wide = jnp.promote_types(x.dtype, jnp.float32)
  parts = [
    jnp.dot(
      x[:, start : start + _MOST_ROWS],
      steps[start : start + _MOST_ROWS],
      precision='highest',
      preferred_element_type=wide,
    )
    for start in range(0, w.k, _MOST_ROWS)
  ]
  y = functools.reduce(jnp.add, parts)
  return bfloat16.joined(y, m) * w.scale.astype(wide)


def _of_codes(rows: Rows, sums: jax.Array, w: PackedTensor) -> jax.Array:
  m, dtype = len(sums), accumulator(rows)
  codes = w.data[0][: w.k] if w.bits == 8 else unpack(w).astype(jnp.int8)
  # Of fewer rows one long product takes longer.
  missing = max(0, _LEAST_ROWS - m) if w.groups == 1 else 0
  x = jnp.pad(rows.x, ((0, missing), (0, 0)))
  grouped = (
    x.reshape(len(x), w.groups, w.group_size).swapaxes(0, 1),
    codes.reshape(w.groups, w.group_size, w.n),
    sums.T[..., None],
    *(array[:, None] for array in columns(w)),
  )

  def add_group(y, group):
    x, codes, row_sum, scale, zero, colsum = group
    product = jnp.dot(x, codes, preferred_element_type=jnp.int32)[:m]
    exact = correct(product, rows.zero, row_sum, zero, colsum)
    return y + rows.scale * scale * exact.astype(dtype), None

  y = jnp.zeros((m, w.n), dtype)
  if w.groups == 1:
    return add_group(y, [array[0] for array in grouped])[0]
  return lax.scan(add_group, y, grouped)[0]
