"""The quantized product on a GPU, in Triton through jax-triton.

The kernels of `pallas_gpu`, whose text explains them, for a compiler that does
not pass through Pallas. Importing this module needs Triton; calling the kernels
needs jax-triton, and so a JAX with a GPU part.
"""

import functools
import importlib
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kernels_pallas.dispatch import (
  BackendUnavailable,
  default_platform,
  why_missing,
)
from kernels_pallas.lowering import COMPUTE_CAPABILITY
from kernels_pallas.quantized_matmul import triton_kernels
from kernels_pallas.quantized_matmul.activations import Extras, Finish, Rows
from kernels_pallas.quantized_matmul.gpu_tile import (
  LEAST_PIECE,
  MOST_PIECE,
  tile_size,
  warps,
)
from kernels_pallas.quantized_matmul.integer import columns, row_sums
from kernels_pallas.quantized_matmul.packing import PackedTensor
from kernels_pallas.quantized_matmul.plan import PLANES

_LEAST_RANK = 16


class Plan(NamedTuple):
  """A kernel with all that a launch needs.

  Attributes:
    kernel: the Triton function.
    arrays: its inputs.
    out: shape of its output, which follows the inputs.
    constants: its static arguments.
    grid: programs.
    warps: warps of a program.
  """

  kernel: Any
  arrays: tuple
  out: jax.ShapeDtypeStruct
  constants: dict[str, Any]
  grid: tuple[int, int]
  warps: int


def matmul(
  rows: Rows,
  w: PackedTensor,
  extras: Extras,
  how: Finish,
  *,
  block: tuple[int, int] | None = None,
) -> jax.Array:
  """The product `[M, N]`, finished.

  Args:
    rows: `[M, K]` activations.
    w: the weights.
    extras: what is added.
    how: activation and type.
    block: rows and columns of a tile, powers of two from 16 up.

  Returns:
    `[M, N]`.

  Raises:
    BackendUnavailable: if jax-triton does not import.
  """
  return _run(matmul_plan(rows, w, extras, how, block))


def transposed(
  cotangent: jax.Array,
  w: PackedTensor,
  *,
  block: tuple[int, int] | None = None,
) -> jax.Array:
  """`[M, N]` times the transposed values of the weights, `[M, K]`.

  Args:
    cotangent: `[M, N]` float.
    w: the weights.
    block: as in `matmul`.

  Returns:
    `[M, K]`.

  Raises:
    BackendUnavailable: if jax-triton does not import.
  """
  return _run(transposed_plan(cotangent, w, block))


def matmul_plan(
  rows: Rows,
  w: PackedTensor,
  extras: Extras,
  how: Finish,
  block: tuple[int, int] | None = None,
) -> Plan:
  """The launch of `matmul`; arguments as there."""
  m, integer = rows.x.shape[0], rows.scale is not None
  bm, bn = block or tile_size(m)
  rank = 0 if extras.second is None else extras.second.shape[0]
  scale, zero, colsum = columns(w)
  low, high = _bytes(w)
  sums = row_sums(rows, w) if integer else None
  of_rows = rows.x, rows.scale, rows.zero, sums
  given = (*of_rows, low, high, scale, zero, colsum, *extras)
  span = w.pack_block // PLANES[w.bits]
  codes = how.out_quant
  constants = _sizes(m, w) | {
    'piece': math.gcd(span, w.group_size),
    'bm': bm,
    'bn': bn,
    'rank': rank,
    'has_bias': extras.bias is not None,
    'has_residual': extras.residual is not None,
    'lanes_of_rank': max(_LEAST_RANK, _power_of_two(rank)),
    'integer': integer,
    'activation': how.activation,
    'out_scale': codes and float(codes.scale),
    'out_zero': codes and float(codes.zero),
    'out_bits': codes and codes.bits,
  }
  out = jax.ShapeDtypeStruct((m, w.n), jnp.dtype(how.dtype))
  grid = -(-m // bm), -(-w.n // bn)
  return _plan(triton_kernels.matmul, given, out, constants, grid)


def transposed_plan(
  cotangent: jax.Array, w: PackedTensor, block: tuple[int, int] | None = None
) -> Plan:
  """The launch of `transposed`; arguments as there."""
  m = cotangent.shape[0]
  bm, bn = block or tile_size(m)
  scale, zero, _ = columns(w)
  given = cotangent, *_bytes(w), scale, zero
  constants = _sizes(m, w) | {'bm': bm, 'bn': bn}
  out = jax.ShapeDtypeStruct((m, w.k), cotangent.dtype)
  planes = PLANES[w.bits]
  tiles = -(-w.pack_block // planes // constants['tile'])
  grid = -(-m // bm), w.rows // w.pack_block * planes * tiles
  return _plan(triton_kernels.transposed, given, out, constants, grid)


def source(plan: Plan) -> Any:
  """What Triton's own compiler takes, which needs no arrays and no GPU."""
  kinds = {
    'bfloat16': '*bf16',
    'float16': '*fp16',
    'float32': '*fp32',
    'int32': '*i32',
    'int8': '*i8',
    'uint8': '*u8',
  }
  names = plan.kernel.arg_names
  pointers = [kinds[a.dtype.name] for a in (*plan.arrays, plan.out)]
  signature = dict.fromkeys(names, 'constexpr')
  signature |= dict(zip(names, pointers, strict=False))
  # As jax-triton does: arrays of JAX lie on multiples of 16 bytes.
  aligned = {(k,): [['tt.divisibility', 16]] for k in range(len(pointers))}
  compiler = importlib.import_module('triton.compiler')
  return compiler.ASTSource(plan.kernel, signature, plan.constants, aligned)


def _bytes(w: PackedTensor) -> tuple[Any, Any]:
  return w.data[0], w.data[1] if w.bits == 3 else None


def _sizes(m: int, w: PackedTensor) -> dict[str, Any]:
  planes = PLANES[w.bits]
  span = _power_of_two(w.pack_block // planes)
  return {
    'm': m,
    'k': w.k,
    'n': w.n,
    'bits': w.bits,
    'groups': w.groups,
    'group_size': w.group_size,
    'block': w.pack_block,
    'per': planes,
    'tile': min(MOST_PIECE, max(LEAST_PIECE, span)),
  }


def _power_of_two(size: int) -> int:
  """The least one that is no smaller."""
  return 1 << max(size - 1, 0).bit_length()


def _plan(
  kernel: Any,
  given: tuple,
  out: jax.ShapeDtypeStruct,
  constants: dict[str, Any],
  grid: tuple[int, int],
) -> Plan:
  """Puts the first array in the place of those that there are not."""
  arrays = tuple(given[0] if array is None else array for array in given)
  cells = constants['bm'] * constants['bn']
  return Plan(kernel, arrays, out, constants, grid, warps(cells))


def _run(plan: Plan) -> jax.Array:
  if why := why_missing('jax_triton'):
    raise BackendUnavailable('triton', why)
  call: Callable = importlib.import_module('jax_triton').triton_call
  here = default_platform() == 'gpu'
  launch = functools.partial(
    call,
    kernel=plan.kernel,
    out_shape=plan.out,
    grid=plan.grid,
    num_warps=plan.warps,
    num_stages=3,
    compute_capability=None if here else COMPUTE_CAPABILITY,
    **plan.constants,
  )
  # jax-triton maps no axes: mapped weights are launched one after the other.
  return jax.custom_batching.sequential_vmap(launch)(*plan.arrays)
