"""Which implementations are here, and kernels without their device.

Lowers the kernels for devices that this machine lacks, and compiles those for
GPUs to PTX: as far as a test can go without one.
"""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from kernels_pallas.dispatch import (
  BackendUnavailable,
  default_platform,
  why_missing,
  why_not_on,
)
from kernels_pallas.lowering import compile_lowered
from kernels_pallas.lowering import compile_ptx as ptx_of
from kernels_pallas.tree_solver.schedule import TreeSchedule, make_schedule

_TARGETS = {
  'cuda:triton': ('cuda', 'pallas_gpu'),
  'cuda:jax_triton': ('cuda', 'triton'),
  'tpu': ('tpu', 'pallas_tpu'),
}


def backends() -> dict[str, str]:
  """Implementations of the tree solve: '' where one runs here, else why not."""
  on_gpu = why_not_on('gpu')
  return {
    'xla': '',
    'xla_steps': '',
    'xla_contract': '',
    'pallas': '' if default_platform() == 'tpu' else on_gpu,
    'triton': on_gpu or why_missing('triton', 'jax_triton'),
    'interpret': '',
    'interpret_tpu': '',
    'reference': '',
  }


def lower_for(
  platform: str, n: int, B: int, dtype: DTypeLike = jnp.float32
) -> str:
  """Lowers all kernels for a device that need not be here.

  Args:
    platform: 'cuda:triton' (Pallas), 'cuda:jax_triton' or 'tpu'.
    n: nodes of the tree, a binary one.
    B: cells.
    dtype: of the numbers; float64 asks for `jax.enable_x64`.

  Returns:
    StableHLO, in which each kernel is a custom call.

  Raises:
    BackendUnavailable: if a package that the lowering needs is missing.
  """
  return _lowered(platform, n, B, dtype).as_text()


def compile_ptx(
  platform: str, n: int, B: int, dtype: DTypeLike = jnp.float32
) -> dict[str, str]:
  """Compiles the GPU kernels to PTX, without a GPU.

  Args:
    platform: 'cuda:triton' or 'cuda:jax_triton'; the second needs Triton only.
    n: nodes of the tree, a binary one.
    B: cells.
    dtype: of the numbers.

  Returns:
    The PTX of each kernel by its name.

  Raises:
    BackendUnavailable: if Triton is missing.
  """
  if why := why_missing('triton'):
    raise BackendUnavailable(platform, why)
  if platform == 'cuda:jax_triton':
    sources = _kernels(platform).sources(_binary_tree(n), B, dtype)
    return {name: ptx_of(source, warps) for name, source, warps in sources}
  return compile_lowered(_lowered(platform, n, B, dtype))


def _kernels(platform: str) -> Any:
  if platform not in _TARGETS:
    known = ', '.join(_TARGETS)
    raise ValueError(f'platform = {platform!r}: choose one of {known}')
  name = _TARGETS[platform][1]
  return importlib.import_module(f'kernels_pallas.tree_solver.{name}')


def _binary_tree(n: int) -> TreeSchedule:
  return make_schedule([(i - 1) // 2 if i else -1 for i in range(n)], 'dhs')


def _lowered(platform: str, n: int, B: int, dtype: DTypeLike) -> Any:
  """All kernels of a platform in one lowered function."""
  needed = ['absl'] if platform == 'cuda:triton' else []
  needed += ['triton', 'jax_triton'] if platform == 'cuda:jax_triton' else []
  kernels = _kernels(platform)
  if why := why_missing(*needed):
    raise BackendUnavailable(platform, why)
  schedule = _binary_tree(n)

  def every_kernel(diag, band, rhs):
    x, pivots = kernels.factor_solve(diag, band, band, rhs, schedule)
    found = (
      kernels.solve(diag, band, band, rhs, schedule),
      kernels.resolve(pivots, band, band, rhs, schedule),
      kernels.resolve(pivots, band, band, rhs, schedule, transpose=True),
      kernels.backward(pivots, band, band, x, rhs, schedule),
    )
    if not hasattr(kernels, 'assemble_and_solve'):
      return found
    step = kernels.assemble_and_solve(
      band, diag, diag, diag, rhs, band, schedule
    )
    back = kernels.assemble_backward(pivots, band, rhs, band, x, rhs, schedule)
    return *found, step, back

  full = jax.ShapeDtypeStruct((n, B), dtype)
  band = jax.ShapeDtypeStruct((n, 1), dtype)
  traced = jax.jit(every_kernel).trace(full, band, full)
  return traced.lower(lowering_platforms=(_TARGETS[platform][0],))
