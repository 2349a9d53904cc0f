"""Tree solve on a GPU, in Triton through jax-triton.

The kernels of `pallas_gpu`, whose text explains them, for a compiler that does
not pass through Pallas. Importing this module needs Triton; calling the kernels
needs jax-triton, and so a JAX with a GPU part.
"""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from kernels_pallas.dispatch import (
  BackendUnavailable,
  default_platform,
  why_missing,
)
from kernels_pallas.lowering import COMPUTE_CAPABILITY
from kernels_pallas.tree_solver import triton_kernels
from kernels_pallas.tree_solver.gpu_tile import block_sizes
from kernels_pallas.tree_solver.schedule import TreeSchedule
from kernels_pallas.tree_solver.types import Pivots


def solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  interpret: bool = False,
) -> jax.Array:
  """Solves A x = rhs.

  Args:
    diag: `[n, B]`.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)]; not read at a root.
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; not read at a root.
    rhs: `[n, B]`.
    schedule: steps; its width must be a power of two.
    interpret: not possible here; there for the sake of one signature.

  Returns:
    `[n, B]` solution.

  Raises:
    BackendUnavailable: if jax-triton does not import.
  """
  plan = _solve_plan(diag, lower, upper, rhs, schedule, save=False)
  return _run(plan, interpret)[0]


def factor_solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  interpret: bool = False,
) -> tuple[jax.Array, Pivots]:
  """`solve` that keeps the pivots; arguments as there."""
  plan = _solve_plan(diag, lower, upper, rhs, schedule, save=True)
  x, inverse, factor = _run(plan, interpret)
  return x, Pivots(factor, inverse)


def resolve(
  pivots: Pivots,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  transpose: bool = False,
  interpret: bool = False,
) -> jax.Array:
  """Solves A x = rhs, or A^T x = rhs, with the pivots of A.

  Args:
    pivots: from `factor_solve`.
    lower: as there, and so `upper`, `schedule` and `interpret`.
    upper: see there.
    rhs: `[n, B]`.
    schedule: see there.
    transpose: whether to solve with A^T.
    interpret: see there.

  Returns:
    `[n, B]` solution.
  """
  plan = _resolve_plan(pivots, lower, upper, rhs, schedule, transpose)
  return _run(plan, interpret)[0]


def backward(
  pivots: Pivots,
  lower: jax.Array,
  upper: jax.Array,
  x: jax.Array,
  cotangent: jax.Array,
  schedule: TreeSchedule,
  *,
  interpret: bool = False,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
  """Cotangents of all that went into a solve, in one launch.

  Args:
    pivots: from `factor_solve`.
    lower: as there, and so `upper`, `schedule` and `interpret`.
    upper: see there.
    x: `[n, B]` solution.
    cotangent: `[n, B]` cotangent of x.
    schedule: see there.
    interpret: see there.

  Returns:
    Cotangents of diag, lower, upper and rhs; those of `[n, 1]` off-diagonals
    are summed over the batch.
  """
  plan = _backward_plan(pivots, lower, upper, x, cotangent, schedule)
  found = _run(plan, interpret)
  adjoint, diag_bar = found[:2]
  lower_bar, upper_bar = (
    jnp.sum(bar, axis=1, keepdims=True) if band.shape[1] == 1 else bar
    for bar, band in zip(found[2:], (lower, upper), strict=True)
  )
  return diag_bar, lower_bar, upper_bar, adjoint


def sources(
  schedule: TreeSchedule, B: int, dtype: DTypeLike
) -> list[tuple[str, Any, int]]:
  """Name, source and warps of each kernel, for Triton's own compiler."""
  full: Any = jax.ShapeDtypeStruct((schedule.n, B), jnp.dtype(dtype))
  band = jax.ShapeDtypeStruct((schedule.n, 1), jnp.dtype(dtype))
  pivots = Pivots(full, full)
  plans = {
    'solve': _solve_plan(full, band, band, full, schedule, save=False),
    'factor_solve': _solve_plan(full, band, band, full, schedule, save=True),
    'resolve': _resolve_plan(pivots, band, band, full, schedule, False),
    'resolve_transposed': _resolve_plan(
      pivots, band, band, full, schedule, True
    ),
    'backward': _backward_plan(pivots, band, band, full, full, schedule),
  }
  return [(name, _source(plan), plan.warps) for name, plan in plans.items()]


class _Plan(NamedTuple):
  """A kernel with all that a launch needs.

  Attributes:
    kernel: the Triton function.
    arrays: its inputs.
    outs: shapes of its outputs, which follow the inputs.
    constants: its static arguments.
    blocks: number of programs.
    warps: warps of a program.
  """

  kernel: Any
  arrays: tuple
  outs: list[jax.ShapeDtypeStruct]
  constants: dict[str, Any]
  blocks: int
  warps: int


def _solve_plan(diag, lower, upper, rhs, schedule, save):
  flags = {
    'lower_shared': lower.shape[1] == 1,
    'upper_shared': upper.shape[1] == 1,
  }
  if not save:
    flags['factor'] = None
  arrays = (diag, lower, upper, rhs)
  return _plan(
    triton_kernels.solve, schedule, arrays, [rhs] * (3 if save else 2), flags
  )


def _resolve_plan(pivots, lower, upper, rhs, schedule, transpose):
  side, back = (lower, pivots.factor) if transpose else (upper, lower)
  flags = {
    'side_shared': side.shape[1] == 1,
    'back_shared': back.shape[1] == 1,
    'scale': not transpose,
  }
  arrays = (pivots.inverse, side, back, rhs)
  return _plan(triton_kernels.resolve, schedule, arrays, [rhs], flags)


def _backward_plan(pivots, lower, upper, x, cotangent, schedule):
  flags = {
    'lower_shared': lower.shape[1] == 1,
    'upper_shared': upper.shape[1] == 1,
  }
  arrays = (pivots.inverse, pivots.factor, lower, x, cotangent)
  outs = [x, x, lower, upper]
  return _plan(triton_kernels.backward, schedule, arrays, outs, flags)


def _plan(
  kernel: Any,
  schedule: TreeSchedule,
  arrays: Sequence,
  outs: Sequence,
  flags: dict[str, Any],
) -> _Plan:
  """Block sizes, and a column for each program in place of `[n, 1]`."""
  batch = arrays[-1].shape[1]
  tables = schedule.gpu_tables
  steps, width = tables.nodes.shape
  block, blocks, warps = block_sizes(schedule.n, width, batch)
  sizes = {'n': schedule.n, 'batch': batch, 'steps': steps}
  sizes |= {'width': width, 'block': block, 'blocks': blocks}
  names = kernel.arg_names
  return _Plan(
    kernel,
    (*tables, *arrays),
    [
      jax.ShapeDtypeStruct(
        (schedule.n, blocks if out.shape[1] == 1 else batch), out.dtype
      )
      for out in outs
    ],
    {name: v for name, v in (sizes | flags).items() if name in names},
    blocks,
    warps,
  )


def _run(plan: _Plan, interpret: bool) -> list[jax.Array]:
  if interpret:
    why = "Triton kernels run on a GPU; take implementation='interpret'"
    raise BackendUnavailable('triton', why)
  if why := why_missing('jax_triton'):
    raise BackendUnavailable('triton', why)
  call: Callable = importlib.import_module('jax_triton').triton_call
  here = default_platform() == 'gpu'
  return call(
    *map(jnp.asarray, plan.arrays),
    kernel=plan.kernel,
    out_shape=plan.outs,
    grid=(plan.blocks,),
    num_warps=plan.warps,
    num_stages=1,
    compute_capability=None if here else COMPUTE_CAPABILITY,
    **plan.constants,
  )


def _source(plan: _Plan) -> Any:
  kinds = {'int32': '*i32', 'float32': '*fp32', 'float64': '*fp64'}
  pointers = [kinds[a.dtype.name] for a in (*plan.arrays, *plan.outs)]
  signature = dict.fromkeys(plan.kernel.arg_names, 'constexpr')
  signature |= dict(zip(plan.kernel.arg_names, pointers, strict=False))
  # As jax-triton does: arrays of JAX lie on multiples of 16 bytes.
  aligned = {(k,): [['tt.divisibility', 16]] for k in range(len(pointers))}
  compiler = importlib.import_module('triton.compiler')
  return compiler.ASTSource(plan.kernel, signature, plan.constants, aligned)
