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
from kernels_pallas.lowering import compile_ptx as ptx_of
from kernels_pallas.quantized_matmul.activations import Extras, Finish, Rows
from kernels_pallas.quantized_matmul.packing import PackedTensor, pack

_TARGETS = {
  'cuda:triton': ('cuda', 'pallas_gpu'),
  'cuda:jax_triton': ('cuda', 'triton'),
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
    platform: 'cuda:triton' (Pallas), 'cuda:jax_triton' or 'tpu'.
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
  platform: str = 'cuda:triton',
  bits: int,
  integer: bool,
  m: int = 64,
  k: int = 512,
  n: int = 256,
  group_size: int | None = None,
  activation: str = 'gelu_tanh',
  dtype: DTypeLike = jnp.bfloat16,
) -> dict[str, str]:
  """PTX of the kernels for GPUs by name; arguments as in `lower_for`."""
  if why := why_missing('triton'):
    raise BackendUnavailable(platform, why)
  sizes = m, k, n, group_size
  if platform != 'cuda:jax_triton':
    lowered = _lowered(platform, bits, integer, sizes, activation, dtype)
    return compile_lowered(lowered)
  rows, w, extras, how, bar = _example(bits, integer, sizes, activation, dtype)
  kernels = _kernels(platform)
  plans = {
    'matmul': kernels.matmul_plan(rows, w, extras, how),
    'transposed': kernels.transposed_plan(bar, w),
  }
  return {
    name: ptx_of(kernels.source(plan), plan.warps)
    for name, plan in plans.items()
  }


def _kernels(platform: str) -> Any:
  if platform not in _TARGETS:
    known = ', '.join(_TARGETS)
    raise ValueError(f'platform = {platform!r}: choose one of {known}.')
  name = _TARGETS[platform][1]
  return importlib.import_module(f'kernels_pallas.quantized_matmul.{name}')


def _example(
  bits: int,
  integer: bool,
  sizes: tuple[int, int, int, int | None],
  activation: str,
  dtype: DTypeLike,
) -> tuple[Rows, PackedTensor, Extras, Finish, jax.Array]:
  """Arguments of a product with all extras, and a cotangent."""
  m, k, n, group_size = sizes
  w = pack(
    np.zeros((k, n), np.uint8),
    bits=bits,
    scale=np.ones((k // (group_size or k), n), np.float32),
    group_size=group_size,
  )
  rows = Rows(jnp.zeros((m, k), dtype))
  if integer:
    by_row = jnp.ones((m, 1)), jnp.zeros((m, 1), jnp.int32)
    rows = Rows(jnp.zeros((m, k), jnp.int8), *by_row)
  shapes = (m, 16), (16, n), (1, n), (m, n), (m, n)
  *added, bar = map(jnp.zeros, shapes)
  return rows, w, Extras(*added), Finish(activation, jnp.dtype(dtype).name), bar


def _lowered(
  platform: str,
  bits: int,
  integer: bool,
  sizes: tuple[int, int, int, int | None],
  activation: str,
  dtype: DTypeLike,
) -> Any:
  """Both kernels in one lowered function."""
  kernels = _kernels(platform)
  needed = {
    'cuda:triton': ('absl',),
    'cuda:jax_triton': ('triton', 'jax_triton'),
  }
  if why := why_missing(*needed.get(platform, ())):
    raise BackendUnavailable(platform, why)
  *given, how, bar = _example(bits, integer, sizes, activation, dtype)

  def both(rows, w, extras, bar):
    return kernels.matmul(rows, w, extras, how), kernels.transposed(bar, w)

  target = _TARGETS[platform][0]
  here = trace_on_tpu() if target == 'tpu' else contextlib.nullcontext()
  with here:
    traced = jax.jit(both).trace(*given, bar)
    return traced.lower(lowering_platforms=(target,))
