"""Derivatives of the product, and how mapped axes go into it.

The gradient by activations goes to `carrier`, the values that the product
takes them for: in codes there is no room for one. What leads from x to these
values (`fake_quantize`) is plain JAX, and is dropped where no gradient is
asked for.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kernels_pallas.quantized_matmul.activations import (
  ACTIVATIONS,
  Extras,
  Finish,
  Rows,
)
from kernels_pallas.quantized_matmul.packing import (
  PackedTensor,
  unpack,
  zero_points,
)


class Kernels(NamedTuple):
  """The two products of one implementation (static, hashable).

  Attributes:
    matmul: `(rows, w, extras, how) -> [M, N]`.
    transposed: `([M, N], w) -> [M, K]`.
  """

  matmul: Callable[..., jax.Array]
  transposed: Callable[..., jax.Array]


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def product(
  carrier: jax.Array,
  rows: Rows,
  w: PackedTensor,
  extras: Extras,
  how: Finish,
  kernels: Kernels,
) -> jax.Array:
  """The finished product, differentiable in all floats but those of `rows`.

  Args:
    carrier: `[M, K]` values of `rows`, which take the gradient.
    rows: activations.
    w: the weights.
    extras: what is added.
    how: activation and type.
    kernels: that do it.

  Returns:
    `[M, N]`.
  """
  del carrier
  return _matmul(rows, w, extras, how, kernels)


def _forward(carrier, rows, w, extras, how, kernels):
  saved = carrier, rows, w, extras
  if how.out_quant is not None or how.activation == 'none':
    return _matmul(rows, w, extras, how, kernels), (saved, None)
  # Activations are differentiated at what goes into them.
  wide = jnp.promote_types(how.dtype, jnp.float32).name
  z = _matmul(rows, w, extras, Finish('none', wide), kernels)
  return ACTIVATIONS[how.activation](z).astype(how.dtype), (saved, z)


def _backward(how, kernels, residuals, bar):
  (carrier, rows, w, extras), z = residuals
  if how.out_quant is not None:
    return _zeros((carrier, rows, w, extras))
  bar = bar.astype(jnp.promote_types(bar.dtype, jnp.float32))
  if z is not None:
    (bar,) = jax.vjp(ACTIVATIONS[how.activation], z)[1](bar.astype(z.dtype))
  x_bar = _transposed(bar, w, kernels).astype(carrier.dtype)
  return x_bar, _zeros(rows), _weights_bar(carrier, bar, w), _added(extras, bar)


product.defvjp(_forward, _backward)


def _added(extras: Extras, bar: jax.Array) -> Extras:
  """Cotangents of what was added."""
  dot = functools.partial(jnp.dot, precision='highest')
  found = Extras(bias=jnp.sum(bar, axis=0, keepdims=True), residual=bar)
  if extras.projected is not None and extras.second is not None:
    second, projected = (a.astype(bar.dtype) for a in reversed(extras[:2]))
    found = found._replace(
      projected=dot(bar, second.T), second=dot(projected.T, bar)
    )
  return Extras(
    *(
      None if given is None else array.astype(given.dtype)
      for array, given in zip(found, extras, strict=True)
    )
  )


def _weights_bar(x: jax.Array, bar: jax.Array, w: PackedTensor) -> PackedTensor:
  """Cotangent of the weights: of scales and levels, none of codes."""
  outer = jnp.dot(x.astype(bar.dtype).T, bar, precision='highest')
  outer = outer.reshape(w.groups, w.group_size, w.n)
  codes = unpack(w).reshape(outer.shape)
  found = _zeros(w)
  if w.levels is None:
    zeros = zero_points(w.zero, w.bits, w.scale.shape)[:, None]
    steps = codes.astype(bar.dtype) - zeros.astype(bar.dtype)
    scale_bar = jnp.sum(outer * steps, axis=1)
  else:
    by_code = jnp.stack(
      [jnp.sum(jnp.where(codes == c, outer, 0), 1) for c in range(2**w.bits)],
      axis=-1,
    )
    scale_bar = jnp.sum(by_code * w.levels, axis=-1)
    levels_bar = (by_code * w.scale[..., None]).astype(w.levels.dtype)
    found = dataclasses.replace(found, levels=levels_bar)
  return dataclasses.replace(found, scale=scale_bar.astype(w.scale.dtype))


def _zeros(tree: Any) -> Any:
  """Cotangents of what has none."""

  def zero(array):
    if jnp.issubdtype(array.dtype, jnp.floating):
      return jnp.zeros_like(array)
    return np.zeros(array.shape, jax.dtypes.float0)

  return jax.tree.map(zero, tree)


def _matmul(rows, w, extras, how, kernels):
  """The product; mapped rows are so many more rows."""

  def compute(rows, w, second, bias, projected, residual):
    extras = Extras(projected, second, bias, residual)
    return kernels.matmul(rows, w, extras, how)

  fold = _folding(compute, (0, 4, 5))
  return fold(
    rows, w, extras.second, extras.bias, extras.projected, extras.residual
  )


def _transposed(bar, w, kernels):
  return _folding(kernels.transposed, (0,))(bar, w)


def _folding(compute: Callable, by_row: tuple[int, ...]) -> Callable:
  """`compute`, whose mapped axis becomes rows where only rows are mapped.

  Where weights are mapped, as those of experts are, the axis is one of the
  kernel's grid.
  """
  folded = jax.custom_batching.custom_vmap(compute)

  @folded.def_vmap
  def rule(axis_size, batched, *args):
    shared = [b for i, b in enumerate(batched) if i not in by_row]
    if any(jax.tree.leaves(shared)):
      axes = jax.tree.map(lambda b: 0 if b else None, tuple(batched))
      mapped = jax.vmap(folded.fun, in_axes=axes, axis_size=axis_size)
      return mapped(*args), True

    def join(array, is_batched):
      if not is_batched:
        array = jnp.broadcast_to(array, (axis_size, *array.shape))
      return array.reshape(-1, *array.shape[2:])

    joined = [
      jax.tree.map(join, a, b) if i in by_row else a
      for i, (a, b) in enumerate(zip(args, batched, strict=True))
    ]
    out = folded(*joined)
    return out.reshape(axis_size, -1, *out.shape[1:]), True

  return folded
