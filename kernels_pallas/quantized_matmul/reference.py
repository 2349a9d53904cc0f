"""What a quantized product is: short enough to be seen to be right."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from kernels_pallas.quantized_matmul.activations import (
  Extras,
  Finish,
  Rows,
  finish,
)
from kernels_pallas.quantized_matmul.packing import (
  PackedTensor,
  dequantize,
  unpack,
  zero_points,
)


@jax.jit
def integer_accumulators(
  x_codes: jax.Array, w: PackedTensor, zx: ArrayLike
) -> jax.Array:
  """Sums over each group of (qx - zx) (qw - zw).

  Args:
    x_codes: `[M, K]` integer codes.
    w: the weights.
    zx: code of 0, a scalar or `[M]`.

  Returns:
    `[G, M, N]` int32.
  """
  x = x_codes.astype(jnp.int32) - jnp.asarray(zx, jnp.int32).reshape(-1, 1)
  x = x.reshape(x.shape[0], w.groups, w.group_size)
  codes = unpack(w).reshape(w.groups, w.group_size, w.n).astype(jnp.int32)
  zeros = zero_points(w.zero, w.bits, w.scale.shape).astype(jnp.int32)
  return jnp.einsum(
    'mgk,gkn->gmn',
    x,
    codes - zeros[:, None],
    preferred_element_type=jnp.int32,
  )


def matmul(
  rows: Rows, w: PackedTensor, extras: Extras, how: Finish
) -> jax.Array:
  """The product `[M, N]`, group by group, then `finish`.

  Args:
    rows: `[M, K]` activations.
    w: the weights; not a codebook where activations are codes.
    extras: what is added.
    how: activation and type.

  Returns:
    `[M, N]`.
  """
  if rows.scale is None:
    return finish(codebook_matmul_ref(rows.x, w), extras, how)
  sums = integer_accumulators(rows.x, w, rows.zero)
  y = jnp.zeros(sums.shape[1:], accumulator(rows))
  for group in range(w.groups):
    y += rows.scale * w.scale[group] * sums[group].astype(y.dtype)
  return finish(y, extras, how)


def codebook_matmul_ref(x: jax.Array, w: PackedTensor) -> jax.Array:
  """X times the values of the codes, at the highest precision.

  Args:
    x: `[M, K]` float.
    w: the weights, a codebook or not.

  Returns:
    `[M, N]`, float64 for float64 x, else float32.
  """
  dtype = accumulator(Rows(x))
  values = dequantize(w, dtype)
  return jnp.dot(x.astype(dtype), values, precision='highest')


def accumulator(rows: Rows) -> jnp.dtype:
  """Type in which groups are summed."""
  given = rows.x.dtype if rows.scale is None else rows.scale.dtype
  return jnp.promote_types(given, jnp.float32)
