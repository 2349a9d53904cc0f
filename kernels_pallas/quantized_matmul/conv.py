"""Convolutions with packed weights, as products with patches of the image."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from kernels_pallas.quantized_matmul.activations import (
  ACTIVATIONS,
  ActQuant,
  fake_quantize,
)
from kernels_pallas.quantized_matmul.api import quantized_matmul
from kernels_pallas.quantized_matmul.packing import PackedTensor, dequantize


def quantized_conv(
  x: jax.Array,
  w: PackedTensor,
  *,
  kernel_size: tuple[int, int],
  strides: tuple[int, int] = (1, 1),
  padding: str | Sequence[tuple[int, int]] = 'SAME',
  depthwise: bool = False,
  **options: Any,
) -> jax.Array:
  """Convolution of images with packed weights.

  Rows of w are in the order (height, width, channel) of a kernel `[h, w, C, N]`
  that is reshaped to `[h w C, N]`.

  Args:
    x: `[B, H, W, C]` images, or their codes, as in `quantized_matmul`.
    w: `[h w C, N]` packed weights; `[h w, C]` for `depthwise`.
    kernel_size: (h, w).
    strides: of the output, down and across.
    padding: 'SAME', 'VALID', or what is added ((top, bottom), (left, right));
      it stands for 0.
    depthwise: each channel by itself; one multiplication for each weight, so
      the weights are unpacked, and there are `activation`, `bias` and
      `act_quant` ('static', or 'dynamic' for each pixel) only.
    **options: of `quantized_matmul`; a residual is `[B, H', W', N]`.

  Returns:
    `[B, H', W', N]`.

  Raises:
    ValueError: as `quantized_matmul`, or shapes and padding that do not fit.
  """
  x = jnp.asarray(x)
  if x.ndim != 4:
    raise ValueError(f'x has the shape {x.shape}, not (B, H, W, C).')
  channels = 1 if depthwise else x.shape[3]
  rows = kernel_size[0] * kernel_size[1] * channels
  if rows != w.k or (depthwise and w.n != x.shape[3]):
    raise ValueError(
      f'kernel_size = {kernel_size} and x {x.shape} ask for {rows} rows of w, '
      f'which is {(w.k, w.n)}.'
    )
  act = options.get('act_quant')
  if depthwise:
    return _depthwise(x, w, kernel_size, strides, padding, **options)
  patches = _patches(x, kernel_size, strides, padding, _code_of_zero(x, act))
  return quantized_matmul(patches.reshape(*patches.shape[:3], -1), w, **options)


def _patches(x, kernel_size, strides, padding, fill) -> jax.Array:
  """`[B, H', W', h w, C]` what each place of the output sees."""
  spans = [*zip(x.shape[1:3], kernel_size, strides, strict=True)]
  if isinstance(padding, str):
    padding = lax.padtype_to_pads(x.shape[1:3], kernel_size, strides, padding)
  if len(padding) != 2:
    raise ValueError(f'padding = {padding!r}: give a pair for each axis.')
  config = [(0, 0, 0), *((*pair, 0) for pair in padding), (0, 0, 0)]
  filled = lax.pad(x, jnp.asarray(fill, x.dtype), config)
  counts = [
    (size + sum(pair) - kernel) // stride + 1
    for (size, kernel, stride), pair in zip(spans, padding, strict=True)
  ]
  ends = [(c - 1) * s + 1 for c, s in zip(counts, strides, strict=True)]
  seen = [
    filled[:, i : i + ends[0] : strides[0], j : j + ends[1] : strides[1]]
    for i in range(kernel_size[0])
    for j in range(kernel_size[1])
  ]
  return jnp.stack(seen, axis=3)


def _code_of_zero(x: jax.Array, act: ActQuant | None) -> Any:
  """What stands for 0 in x; one code for all rows."""
  if act is None or jnp.issubdtype(x.dtype, jnp.floating):
    return 0
  if jnp.ndim(act.zero):
    raise ValueError('act_quant has several zero points; a padding needs one.')
  return act.zero - (2 ** (act.bits - 1) if x.dtype == jnp.int8 else 0)


def _depthwise(
  x,
  w,
  kernel_size,
  strides,
  padding,
  *,
  act_quant=None,
  bias=None,
  activation='none',
):
  if act_quant is not None:
    x = fake_quantize(x, act_quant).reshape(x.shape)
  if activation not in ACTIVATIONS:
    known = ', '.join(ACTIVATIONS)
    raise ValueError(f'activation = {activation!r}: choose one of {known}.')
  wide = jnp.promote_types(x.dtype, jnp.float32)
  patches = _patches(x, kernel_size, strides, padding, 0).astype(wide)
  y = jnp.einsum(
    'bhwkc,kc->bhwc', patches, dequantize(w, wide), precision='highest'
  )
  if bias is not None:
    y += bias
  return ACTIVATIONS[activation](y).astype(x.dtype)
