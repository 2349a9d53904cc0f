"""The quantized product on a TPU, in Pallas on Mosaic.

The last axis of the grid walks over K and keeps sums in VMEM. Activations are
laid out beforehand as `[K / t, M, t]`, t being the rows of a piece of weights:
so pieces are found by a leading index, and lanes are not cut. Bytes are widened
to int32 before they are shifted, since narrow vectors cannot be.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from kernels_pallas.lowering import pltpu
from kernels_pallas.quantized_matmul.activations import (
  Extras,
  Finish,
  Rows,
  finish,
)
from kernels_pallas.quantized_matmul.integer import (
  Columns,
  columns,
  correct,
  row_sums,
)
from kernels_pallas.quantized_matmul.packing import PackedTensor
from kernels_pallas.quantized_matmul.plan import (
  Piece,
  Plan,
  decode,
  make_plan,
)

_SUBLANES = 32
"""Rows of bytes in a tile of memory."""


class _Inputs(NamedTuple):
  """Refs, arrays, or the blocks of both."""

  rows: Rows
  row_sum: Any
  data: tuple
  columns: Columns
  extras: Extras


def matmul(
  rows: Rows,
  w: PackedTensor,
  extras: Extras,
  how: Finish,
  *,
  block: tuple[int, int] | None = None,
  interpret: bool = False,
) -> jax.Array:
  """The product `[M, N]`, finished.

  Args:
    rows: `[M, K]` activations.
    w: the weights.
    extras: what is added.
    how: activation and type.
    block: rows and columns of a tile.
    interpret: run the kernel's text on the host.

  Returns:
    `[M, N]`.
  """
  m, n = rows.x.shape[0], w.n
  bm, bn = block or _tile_size(m, n)
  plan = make_plan(w, _blocks(w))
  integer = rows.scale is not None
  inputs = _Inputs(
    rows._replace(x=_by_piece(rows.x, w, plan)),
    _by_step(row_sums(rows, w).T, plan).swapaxes(1, 2) if integer else None,
    w.data,
    jax.tree.map(lambda a: _by_step(a, plan), columns(w)),
    extras,
  )
  arrays, tree = jax.tree.flatten(inputs)
  specs = _specs(inputs, plan, bm, bn)

  def kernel(*refs):
    *inputs, out, total, y = refs
    given = jax.tree.unflatten(tree, inputs)
    _add_step(given, plan, total, y)

    @pl.when(pl.program_id(2) == plan.steps - 1)
    def _():
      added = jax.tree.map(lambda ref: ref[...], given.extras)
      out[...] = finish(y[...], added, how, _dot)

  return pl.pallas_call(
    kernel,
    grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), plan.steps),
    in_specs=jax.tree.leaves(specs),
    out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
    out_shape=jax.ShapeDtypeStruct((m, n), how.dtype),
    scratch_shapes=[
      pltpu.VMEM((bm, bn), jnp.int32 if integer else jnp.float32),
      pltpu.VMEM((bm, bn), jnp.float32),
    ],
    compiler_params=_compiler(),
    interpret=interpret,
    name='quantized_matmul',
  )(*arrays)


def transposed(
  cotangent: jax.Array,
  w: PackedTensor,
  *,
  block: tuple[int, int] | None = None,
  interpret: bool = False,
) -> jax.Array:
  """`[M, N]` times the transposed values of the weights, `[M, K]`.

  Args:
    cotangent: `[M, N]` float.
    w: the weights.
    block: as in `matmul`.
    interpret: as in `matmul`.

  Returns:
    `[M, K]` float32.
  """
  m, n = cotangent.shape
  bm, bn = block or _tile_size(m, n)
  plan = make_plan(w, _blocks(w))
  size = plan.pieces[0].size

  def kernel(bar_ref, scale_ref, zero_ref, *refs):
    *data, out = refs
    j = pl.program_id(2)
    column = j * bn + lax.broadcasted_iota(jnp.int32, (1, bn), 1)
    bar = jnp.where(column < n, bar_ref[...], 0)
    wide = [ref[...].astype(jnp.int32) for ref in data]

    @pl.when(j == 0)
    def _():
      out[...] = jnp.zeros(out.shape, out.dtype)

    for index, piece in enumerate(plan.pieces):
      group = slice(piece.group, piece.group + 1)
      steps = _codes(wide, piece) - zero_ref[0, group, :]
      values = steps.astype(jnp.float32) * scale_ref[0, group, :]
      values = jnp.where(column < n, values, 0)
      out[index] += lax.dot_general(
        bar,
        values,
        (((1,), (1,)), ((), ())),
        precision=lax.Precision.HIGHEST,
        preferred_element_type=jnp.float32,
      )

  by_group = pl.BlockSpec(
    (1, plan.groups, bn), lambda i, k, j: (k // plan.per_group, 0, j)
  )
  scale, zero, _ = jax.tree.map(lambda a: _by_step(a, plan), columns(w))
  found = pl.pallas_call(
    kernel,
    grid=(pl.cdiv(m, bm), plan.steps, pl.cdiv(n, bn)),
    in_specs=[
      pl.BlockSpec((bm, bn), lambda i, k, j: (i, j)),
      by_group,
      by_group,
      *(
        pl.BlockSpec((a.shape[0] // plan.steps, bn), lambda i, k, j: (k, j))
        for a in w.data
      ),
    ],
    out_specs=pl.BlockSpec(
      (len(plan.pieces), bm, size), lambda i, k, j: (k, i, 0)
    ),
    out_shape=jax.ShapeDtypeStruct((w.rows // size, m, size), jnp.float32),
    compiler_params=_compiler(),
    interpret=interpret,
    name='quantized_matmul_transposed',
  )(cotangent.astype(jnp.float32), scale, zero, *w.data)
  return found.swapaxes(0, 1).reshape(m, w.rows)[:, : w.k]


def _add_step(given: _Inputs, plan: Plan, total: Any, y: Any) -> None:
  """Adds the products of a step to `total`, and whole groups to `y`."""
  k = pl.program_id(2)
  within = k % plan.per_group
  integer = given.row_sum is not None
  wide = [ref[...].astype(jnp.int32) for ref in given.data]

  @pl.when(k == 0)
  def _():
    y[...] = jnp.zeros(y.shape, y.dtype)

  for group in range(plan.groups):
    one = slice(group, group + 1)

    @pl.when(within == 0)
    def _():
      total[...] = jnp.zeros(total.shape, total.dtype)

    zero = given.columns.zero[0, one, :]
    for index, piece in enumerate(plan.pieces):
      if piece.group != group:
        continue
      x, codes = given.rows.x[index], _codes(wide, piece)
      if integer:
        total[...] += _dot(x, codes.astype(jnp.int8), jnp.int32)
      else:
        steps = (codes - zero).astype(jnp.float32).astype(x.dtype)
        total[...] += _dot(x, steps, jnp.float32)

    @pl.when(within == plan.per_group - 1)
    def _(one=one, zero=zero):
      found, scale = total[...], given.columns.scale[0, one, :]
      if integer:
        row_sum = given.row_sum[0, :, one]
        colsum = given.columns.colsum[0, one, :]
        row_zero = given.rows.zero[...]
        found = correct(found, row_zero, row_sum, zero, colsum)
        scale = given.rows.scale[...] * scale
      y[...] += found.astype(y.dtype) * scale


def _codes(wide: list[jax.Array], piece: Piece) -> jax.Array:
  cut = [wide[p.array][p.row : p.row + piece.size] for p in piece.parts]
  return decode(cut, piece)


def _blocks(w: PackedTensor) -> int:
  """Pack blocks of a step: as few as fill tiles of memory, or all."""
  total = w.rows // w.pack_block
  for blocks in range(1, total):
    rows = blocks * w.pack_block
    size = w.group_size
    whole = w.groups == 1 or size % rows == 0 or rows % size == 0
    tiled = all(a.shape[0] * blocks % (total * _SUBLANES) == 0 for a in w.data)
    if total % blocks == 0 and whole and tiled:
      return blocks
  return total


def _by_piece(x: jax.Array, w: PackedTensor, plan: Plan) -> jax.Array:
  """`[K' / t, M, t]`: the activations of each piece."""
  size = plan.pieces[0].size
  filled = jnp.pad(x, ((0, 0), (0, w.rows - w.k)))
  return filled.reshape(x.shape[0], -1, size).swapaxes(0, 1)


def _by_step(array: jax.Array, plan: Plan) -> jax.Array:
  """`[G', groups, N]`: the groups of each step; of none at the end, 0."""
  outer = plan.steps // plan.per_group
  missing = outer * plan.groups - array.shape[0]
  filled = jnp.pad(array, ((0, missing), (0, 0)))
  return filled.reshape(outer, plan.groups, array.shape[1])


def _specs(inputs: _Inputs, plan: Plan, bm: int, bn: int) -> _Inputs:
  """Block specifications of the inputs for the grid (M, N, K)."""

  def spec(array: Any, shape: tuple[int, ...], index: Callable) -> Any:
    return None if array is None else pl.BlockSpec(shape, index)

  by_row = spec(inputs.rows.scale, (bm, 1), lambda i, j, k: (i, 0))
  by_group = pl.BlockSpec(
    (1, plan.groups, bn), lambda i, j, k: (k // plan.per_group, 0, j)
  )
  added = inputs.extras
  rank = 0 if added.second is None else added.second.shape[0]
  shape = len(plan.pieces), bm, plan.pieces[0].size
  x = pl.BlockSpec(shape, lambda i, j, k: (k, i, 0))
  return _Inputs(
    Rows(x, by_row, by_row),
    spec(
      inputs.row_sum,
      (1, bm, plan.groups),
      lambda i, j, k: (k // plan.per_group, i, 0),
    ),
    tuple(
      pl.BlockSpec((a.shape[0] // plan.steps, bn), lambda i, j, k: (k, j))
      for a in inputs.data
    ),
    Columns(by_group, by_group, by_group),
    Extras(
      spec(added.projected, (bm, rank), lambda i, j, k: (i, 0)),
      spec(added.second, (rank, bn), lambda i, j, k: (0, j)),
      spec(added.bias, (1, bn), lambda i, j, k: (0, j)),
      spec(added.residual, (bm, bn), lambda i, j, k: (i, j)),
    ),
  )


def _dot(a: jax.Array, b: jax.Array, dtype: Any = jnp.float32) -> jax.Array:
  """Product in full precision."""
  precision = lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
  return jnp.dot(a, b, precision=precision, preferred_element_type=dtype)


def _tile_size(m: int, n: int) -> tuple[int, int]:
  """Whole tiles of memory, up to 128 rows and 512 columns."""
  return min(128, pl.cdiv(m, 32) * 32), min(512, pl.cdiv(n, 128) * 128)


def _compiler() -> Any:
  order = ('parallel', 'parallel', 'arbitrary')
  return pltpu.CompilerParams(dimension_semantics=order)
