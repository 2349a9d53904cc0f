"""The kernels without their device: lowered, and compiled to PTX for GPUs."""

import contextlib
import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from kernels_pallas.dispatch import BackendUnavailable, why_missing
from kernels_pallas.lowering import compile_lowered, trace_on_tpu
from kernels_pallas.quantized_matmul.activations import Extras, Finish, Rows
from kernels_pallas.quantized_matmul.packing import pack

_TARGETS = {
  'cuda:triton': ('cuda', 'pallas_gpu'),
  'tpu': ('tpu', 'pallas_tpu'),
}


def lower_for(
  platform: str,
  *,
  bits: int,
  integer: bool,
  m: int = 64,
  k: int = 512,
  n: int = 256,
  group_size: int | None = None,
  activation: str = 'gelu_tanh',
  dtype: DTypeLike = jnp.bfloat16,
) -> str:
  """Lowers the product and its transpose for a device that need not be here.

  Args:
    platform: 'cuda:triton' or 'tpu'.
    bits: of weights.
    integer: whether activations are codes.
    m: rows of activations.
    k: rows of weights.
    n: columns of weights.
    group_size: rows of weights that share a scale; None for all.
    activation: that follows.
    dtype: of activations that are not codes.

  Returns:
    StableHLO, in which each kernel is a custom call.

  Raises:
    BackendUnavailable: if a package that the lowering needs is missing.
  """
  sizes = m, k, n, group_size
  return _lowered(platform, bits, integer, sizes, activation, dtype).as_text()


def compile_ptx(
  *,
  bits: int,
  integer: bool,
  m: int = 64,
  k: int = 512,
  n: int = 256,
  group_size: int | None = None,
  activation: str = 'gelu_tanh',
  dtype: DTypeLike = jnp.bfloat16,
) -> dict[str, str]:
  """PTX of the Pallas kernels for GPUs by name; arguments as in `lower_for`."""
  if why := why_missing('triton'):
    raise BackendUnavailable('cuda:triton', why)
  sizes = m, k, n, group_size
  lowered = _lowered('cuda:triton', bits, integer, sizes, activation, dtype)
  return compile_lowered(lowered)


def _lowered(
  platform: str,
  bits: int,
  integer: bool,
  sizes: tuple[int, int, int, int | None],
  activation: str,
  dtype: DTypeLike,
) -> Any:
  if platform not in _TARGETS:
    known = ', '.join(_TARGETS)
    raise ValueError(f'platform = {platform!r}: choose one of {known}.')
  target, name = _TARGETS[platform]
  if platform == 'cuda:triton' and (why := why_missing('absl')):
    raise BackendUnavailable(platform, why)
  kernels = importlib.import_module(f'kernels_pallas.quantized_matmul.{name}')
  m, k, n, group_size = sizes
  w = pack(
    np.zeros((k, n), np.uint8),
    bits=bits,
    scale=np.ones((k // (group_size or k), n), np.float32),
    group_size=group_size,
  )

  def shape(*axes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(axes, dtype)

  rows = Rows(shape(m, k, dtype=dtype))
  if integer:
    codes = shape(m, k, dtype=jnp.int8)
    rows = Rows(codes, shape(m, 1), shape(m, 1, dtype=jnp.int32))
  extras = Extras(shape(m, 16), shape(16, n), shape(1, n), shape(m, n))
  how = Finish(activation, jnp.dtype(dtype).name)

  def both(rows, w, extras, bar):
    return kernels.matmul(rows, w, extras, how), kernels.transposed(bar, w)

  here = trace_on_tpu() if target == 'tpu' else contextlib.nullcontext()
  with here:
    traced = jax.jit(both).trace(rows, w, extras, shape(m, n))
    return traced.lower(lowering_platforms=(target,))
