"""The integer part of a product: sums of codes, and what zero points add.

With centres c taken from codes (so that they fit int8) and from zero points,

  sum (qx - zx) (qw - zw) = P - zx C - zw (R - g zx),

where P is the product of the codes as they are stored, C the sum of a column of
qw, R that of a row of qx, over a group of g rows.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kernels_pallas.quantized_matmul.activations import Rows
from kernels_pallas.quantized_matmul.packing import PackedTensor, zero_points


class Columns(NamedTuple):
  """What the kernels read of a group and column.

  Attributes:
    scale: `[G, N]` float32.
    zero: `[G, N]` int32 zero points of the codes as they are stored.
    colsum: `[G, N]` int32 sums of the codes as they are stored.
  """

  scale: Any
  zero: Any
  colsum: Any


def stored_centre(bits: int) -> int:
  """What is subtracted from codes where they are stored."""
  return 128 if bits == 8 else 0


def columns(w: PackedTensor) -> Columns:
  """Scales, zero points and sums of stored codes."""
  centre = stored_centre(w.bits)
  zeros = zero_points(w.zero, w.bits, w.scale.shape)
  return Columns(
    w.scale.astype(jnp.float32),
    zeros.astype(jnp.int32) - centre,
    w.colsum - w.group_size * centre,
  )


def row_sums(rows: Rows, w: PackedTensor) -> jax.Array:
  """`[M, G]` int32, R - g zx."""
  m = rows.x.shape[0]
  grouped = rows.x.reshape(m, w.groups, w.group_size)
  sums = jnp.sum(grouped, axis=2, dtype=jnp.int32)
  return sums - w.group_size * rows.zero


def correct(
  product: jax.Array,
  row_zero: jax.Array,
  row_sum: jax.Array,
  zero: jax.Array,
  colsum: jax.Array,
) -> jax.Array:
  """Sum of (qx - zx) (qw - zw) from the product of what is stored.

  Intermediate sums may wrap around; the result is right where it fits int32.

  Args:
    product: `[M, N]` int32 P of a group.
    row_zero: `[M, 1]` zx.
    row_sum: `[M, 1]` R - g zx.
    zero: `[1, N]` zw.
    colsum: `[1, N]` C.

  Returns:
    `[M, N]` int32.
  """
  return product - row_zero * colsum - zero * row_sum
