"""The quantized product on a GPU, in Pallas on Triton.

A program holds a tile of the result and walks over K: it reads bytes, takes the
codes out plane by plane, multiplies them with the slice of activations that
belongs to the plane, and scales the sums where a group ends. What follows the
product is done before the tile is stored. Rows, columns and pieces of K that a
tile has too many are masked, so that nothing is copied to fill tiles.

Few rows make few tiles. Then K is split among programs too, whose sums are
added up afterwards, always in the same order.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl

from kernels_pallas.lowering import plt
from kernels_pallas.quantized_matmul.activations import (
  ACTIVATIONS,
  Extras,
  Finish,
  Rows,
  finish,
  gelu_erf_by_exp,
)
from kernels_pallas.quantized_matmul.gpu_loads import (
  Tile,
  cells,
  lanes_of,
  load,
  load_codes,
  load_extras,
  load_rows,
  tile_of,
)
from kernels_pallas.quantized_matmul.gpu_tile import (
  MOST_PIECE,
  split_count,
  tile_size,
  warps,
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
  make_plan,
)
from kernels_pallas.quantized_matmul.reference import accumulator

_ACTIVATIONS = ACTIVATIONS | {'gelu_erf': gelu_erf_by_exp}


class _Inputs(NamedTuple):
  """Refs, or arrays, that a kernel reads."""

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
    block: rows and columns of a tile, powers of two from 16 up.
    interpret: run the kernel's text on the host.

  Returns:
    `[M, N]`.
  """
  m, n = rows.x.shape[0], w.n
  bm, bn = block or tile_size(m)
  plan = make_plan(w, most=MOST_PIECE)
  sums = None if rows.scale is None else row_sums(rows, w)
  inputs = _Inputs(rows, sums, w.data, columns(w), extras)
  splits = split_count(m, pl.cdiv(n, bn), _units(plan, w))
  if splits > 1:
    return _split(inputs, w, how, plan, (bm, bn), splits, interpret)
  rank = 0 if extras.second is None else extras.second.shape[0]
  arrays, tree = jax.tree.flatten(inputs)

  def kernel(*refs):
    *inputs, out = refs
    given = jax.tree.unflatten(tree, inputs)
    tile = tile_of(bm, bn, m, n)
    outer = 0, plan.steps // plan.per_group
    y = _scaled_product(given, tile, plan, w, accumulator(rows), outer)
    added = load_extras(given.extras, tile, rank)
    y = finish(y, added, how, _dot, _ACTIVATIONS)
    rows_of, cols_of = cells(tile.rows, tile.cols)
    mask = (rows_of < m) & (cols_of < n)
    plt.store(out.at[rows_of, cols_of], y, mask=mask)

  return pl.pallas_call(
    kernel,
    grid=(pl.cdiv(m, bm), pl.cdiv(n, bn)),
    out_shape=jax.ShapeDtypeStruct((m, n), how.dtype),
    compiler_params=_compiler(bm * bn),
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
    `[M, K]`.
  """
  m, n = cotangent.shape
  bm, bn = block or tile_size(m)
  plan = make_plan(w, most=MOST_PIECE)
  inputs = cotangent, w.data, columns(w)
  arrays, tree = jax.tree.flatten(inputs)
  dtype = cotangent.dtype

  def kernel(*refs):
    (bar, data, cols_in), out = jax.tree.unflatten(tree, refs[:-1]), refs[-1]
    rows_of = pl.program_id(0) * bm + jnp.arange(bm, dtype=jnp.int32)
    step = pl.program_id(1)
    for piece in plan.pieces:
      size, within = lanes_of(piece)
      k = step * plan.rows + piece.row + jnp.arange(size, dtype=jnp.int32)

      def add(j, y, piece=piece, within=within, k=k):
        cols = j * bn + jnp.arange(bn, dtype=jnp.int32)
        tile = Tile(rows_of, cols, m, n)
        codes = load_codes(data, step, plan, piece, tile, {})
        group = jnp.minimum(k // w.group_size, w.groups - 1)
        scale = load(cols_in.scale, group, cols, w.groups, n)
        zero = load(cols_in.zero, group, cols, w.groups, n)
        values = (codes - zero).astype(dtype) * scale.astype(dtype)
        values = jnp.where(within[:, None] & (cols < n)[None, :], values, 0)
        return y + _dot(load(bar, rows_of, cols, m, n), values.T)

      y = jnp.zeros((bm, size), dtype)
      y = lax.fori_loop(jnp.int32(0), jnp.int32(pl.cdiv(n, bn)), add, y)
      at = cells(rows_of, k)
      mask = (at[0] < m) & (at[1] < w.k) & within[None, :]
      plt.store(out.at[at], y, mask=mask)

  return pl.pallas_call(
    kernel,
    grid=(pl.cdiv(m, bm), plan.steps),
    out_shape=jax.ShapeDtypeStruct((m, w.k), dtype),
    compiler_params=_compiler(bm * bn),
    interpret=interpret,
    name='quantized_matmul_transposed',
  )(*arrays)


def _split(
  inputs: _Inputs,
  w: PackedTensor,
  how: Finish,
  plan: Plan,
  block: tuple[int, int],
  splits: int,
  interpret: bool,
) -> jax.Array:
  """The product of few rows: sums of parts of K, then what follows."""
  rows, (bm, bn) = inputs.rows, block
  m, dtype = rows.x.shape[0], accumulator(rows)
  integer = rows.scale is not None
  kind = jnp.int32 if integer and w.groups == 1 else dtype
  arrays, tree = jax.tree.flatten(inputs._replace(extras=Extras()))
  units = _units(plan, w)
  each = pl.cdiv(units, splits)

  def kernel(*refs):
    *given, out = refs
    given = jax.tree.unflatten(tree, given)
    tile = tile_of(bm, bn, m, w.n)
    first = pl.program_id(2) * each
    part = first, jnp.minimum(first + each, units)
    if w.groups == 1:
      zero = load(
        given.columns.zero, jnp.zeros(1, jnp.int32), tile.cols, 1, w.n
      )
      step = _step(given, tile, plan, w, plan.pieces, zero, dtype)
      y = lax.fori_loop(*part, step, jnp.zeros((bm, bn), kind))
    else:
      y = _scaled_product(given, tile, plan, w, dtype, part)
    at = cells(tile.rows, tile.cols)
    mask = (at[0] < m) & (at[1] < w.n)
    plt.store(out.at[pl.program_id(2), *at], y, mask=mask)

  parts = pl.pallas_call(
    kernel,
    grid=(pl.cdiv(m, bm), pl.cdiv(w.n, bn), splits),
    out_shape=jax.ShapeDtypeStruct((splits, m, w.n), kind),
    compiler_params=_compiler(bm * bn),
    interpret=interpret,
    name='quantized_matmul',
  )(*arrays)
  y = functools.reduce(jnp.add, [*parts])
  if w.groups == 1:
    scale, zero, colsum = inputs.columns
    if integer:
      y = correct(y, rows.zero, inputs.row_sum, zero, colsum)
      scale = rows.scale * scale
    y = y.astype(dtype) * scale.astype(dtype)
  return finish(y, inputs.extras, how, _dot)


def _units(plan: Plan, w: PackedTensor) -> int:
  """Parts of K that may go to different programs."""
  return plan.steps if w.groups == 1 else plan.steps // plan.per_group


def _step(
  refs: _Inputs,
  tile: Tile,
  plan: Plan,
  w: PackedTensor,
  pieces: Sequence[Piece],
  zero: jax.Array,
  dtype: Any,
) -> Callable:
  """`(step, total) -> total` with the products of some pieces added."""

  def add(step, total):
    bytes_read: dict = {}
    for piece in pieces:
      codes = load_codes(refs.data, step, plan, piece, tile, bytes_read)
      x = load_rows(refs.rows.x, step, plan, piece, tile, w.k)
      if refs.row_sum is not None:
        total += _dot(x, codes.astype(jnp.int8), jnp.int32)
      else:
        total += _dot(x, (codes - zero).astype(x.dtype), dtype)
    return total

  return add


def _scaled_product(
  refs: _Inputs,
  tile: Tile,
  plan: Plan,
  w: PackedTensor,
  dtype: Any,
  outer: tuple[Any, Any],
) -> jax.Array:
  """`[bm, bn]` sum over groups of scaled products, in increasing order.

  Args:
    refs: what is read.
    tile: of the result.
    plan: how K is walked through.
    w: the weights.
    dtype: of the sum.
    outer: first and last part of K, in steps or, if longer, in groups.
  """
  integer = refs.row_sum is not None
  shape = tile.rows.shape[0], tile.cols.shape[0]
  kind = jnp.int32 if integer else dtype
  by_group: list[list[Piece]] = [[] for _ in range(plan.groups)]
  for piece in plan.pieces:
    by_group[piece.group].append(piece)

  def add_group(outer, y):
    for local, pieces in enumerate(by_group):
      group = (outer * plan.groups + local)[None]
      of_group = functools.partial(
        load, rows=group, cols=tile.cols, m=w.groups, n=tile.n
      )
      zero = of_group(refs.columns.zero)
      step = _step(refs, tile, plan, w, pieces, zero, dtype)
      total = jnp.zeros(shape, kind)
      if plan.per_group == 1:
        total = step(outer, total)
      else:
        first = outer * plan.per_group
        total = lax.fori_loop(first, first + plan.per_group, step, total)
      scale = of_group(refs.columns.scale).astype(dtype)
      if integer:
        colsum = of_group(refs.columns.colsum)
        total, by_row = _corrected(refs, tile, group, total, zero, colsum)
        scale = by_row.astype(dtype) * scale
      y += total.astype(dtype) * scale
    return y

  first, last = map(jnp.int32, outer)
  return lax.fori_loop(first, last, add_group, jnp.zeros(shape, dtype))


def _corrected(refs, tile, group, total, zero, colsum):
  """Sums of codes without their zero points, and the scales of rows."""
  one = jnp.zeros(1, jnp.int32)
  row_zero = load(refs.rows.zero, tile.rows, one, tile.m, 1)
  row_sum = load(refs.row_sum, tile.rows, group, tile.m, refs.row_sum.shape[1])
  exact = correct(total, row_zero, row_sum, zero, colsum)
  return exact, load(refs.rows.scale, tile.rows, one, tile.m, 1)


def _dot(a: jax.Array, b: jax.Array, dtype: Any = None) -> jax.Array:
  """Product in full precision: float32 is not rounded to TF32."""
  precision = lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
  return jnp.dot(
    a, b, precision=precision, preferred_element_type=dtype or a.dtype
  )


def _compiler(size: int) -> Any:
  return plt.CompilerParams(num_warps=warps(size), num_stages=3)
