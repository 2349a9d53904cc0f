"""The quantized product on a GPU, in Pallas on Triton.

A program holds a tile of the result and walks over K: it reads bytes, takes the
codes out plane by plane, multiplies them with the slice of activations that
belongs to the plane, and scales the sums where a group ends. What follows the
product is done before the tile is stored. Rows, columns and pieces of K that a
tile has too many are masked, so that nothing is copied to fill tiles.
"""

import functools
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
from kernels_pallas.quantized_matmul.reference import accumulator

_LEAST_PIECE = 32
"""Rows that a product of int8 on tensor cores asks for."""

_MOST_PIECE = 64

_ACTIVATIONS = ACTIVATIONS | {'gelu_erf': gelu_erf_by_exp}


class _Inputs(NamedTuple):
  """Refs, or arrays, that a kernel reads."""

  rows: Rows
  row_sum: Any
  data: tuple
  columns: Columns
  extras: Extras


class _Tile(NamedTuple):
  """The part of the result that a program computes."""

  rows: jax.Array
  cols: jax.Array
  m: int
  n: int


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
  bm, bn = block or _tile_size(m)
  plan = make_plan(w, most=_MOST_PIECE)
  sums = None if rows.scale is None else row_sums(rows, w)
  rank = 0 if extras.second is None else extras.second.shape[0]
  inputs = _Inputs(rows, sums, w.data, columns(w), extras)
  arrays, tree = jax.tree.flatten(inputs)

  def kernel(*refs):
    *inputs, out = refs
    given = jax.tree.unflatten(tree, inputs)
    tile = _Tile(
      pl.program_id(0) * bm + jnp.arange(bm, dtype=jnp.int32),
      pl.program_id(1) * bn + jnp.arange(bn, dtype=jnp.int32),
      m,
      n,
    )
    y = _scaled_product(given, tile, plan, w, accumulator(rows))
    added = _load_extras(given.extras, tile, rank)
    y = finish(y, added, how, _dot, _ACTIVATIONS)
    rows_of, cols_of = _grid(tile.rows, tile.cols)
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
  bm, bn = block or _tile_size(m)
  plan = make_plan(w, most=_MOST_PIECE)
  inputs = cotangent, w.data, columns(w)
  arrays, tree = jax.tree.flatten(inputs)
  dtype = cotangent.dtype

  def kernel(*refs):
    (bar, data, cols_in), out = jax.tree.unflatten(tree, refs[:-1]), refs[-1]
    rows_of = pl.program_id(0) * bm + jnp.arange(bm, dtype=jnp.int32)
    step = pl.program_id(1)
    for piece in plan.pieces:
      size, within = _lanes(piece)
      k = step * plan.rows + piece.row + jnp.arange(size, dtype=jnp.int32)

      def add(j, y, piece=piece, within=within, k=k):
        cols = j * bn + jnp.arange(bn, dtype=jnp.int32)
        tile = _Tile(rows_of, cols, m, n)
        codes = _load_codes(data, step, plan, piece, tile, {})
        group = jnp.minimum(k // w.group_size, w.groups - 1)
        scale = _load(cols_in.scale, group, cols, w.groups, n)
        zero = _load(cols_in.zero, group, cols, w.groups, n)
        values = (codes - zero).astype(dtype) * scale.astype(dtype)
        values = jnp.where(within[:, None] & (cols < n)[None, :], values, 0)
        return y + _dot(_load(bar, rows_of, cols, m, n), values.T)

      y = jnp.zeros((bm, size), dtype)
      y = lax.fori_loop(jnp.int32(0), jnp.int32(pl.cdiv(n, bn)), add, y)
      at = _grid(rows_of, k)
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


def _scaled_product(
  refs: _Inputs, tile: _Tile, plan: Plan, w: PackedTensor, dtype: Any
) -> jax.Array:
  """`[bm, bn]` sum over groups of scaled products, in increasing order."""
  integer = refs.row_sum is not None
  shape = tile.rows.shape[0], tile.cols.shape[0]
  kind = jnp.int32 if integer else dtype
  by_group: list[list[Piece]] = [[] for _ in range(plan.groups)]
  for piece in plan.pieces:
    by_group[piece.group].append(piece)

  def add_step(step, total, pieces, zero):
    bytes_read: dict = {}
    for piece in pieces:
      codes = _load_codes(refs.data, step, plan, piece, tile, bytes_read)
      x = _load_rows(refs.rows.x, step, plan, piece, tile, w.k)
      if integer:
        total += _dot(x, codes.astype(jnp.int8), jnp.int32)
      else:
        total += _dot(x, (codes - zero).astype(x.dtype), dtype)
    return total

  def add_group(outer, y):
    for local, pieces in enumerate(by_group):
      group = (outer * plan.groups + local)[None]
      load = functools.partial(
        _load, rows=group, cols=tile.cols, m=w.groups, n=tile.n
      )
      zero = load(refs.columns.zero)
      step = functools.partial(add_step, pieces=pieces, zero=zero)
      total = jnp.zeros(shape, kind)
      if plan.per_group == 1:
        total = step(outer, total)
      else:
        first = outer * plan.per_group
        total = lax.fori_loop(first, first + plan.per_group, step, total)
      scale = load(refs.columns.scale).astype(dtype)
      if integer:
        colsum = load(refs.columns.colsum)
        total, by_row = _corrected(refs, tile, group, total, zero, colsum)
        scale = by_row.astype(dtype) * scale
      y += total.astype(dtype) * scale
    return y

  outer = jnp.int32(plan.steps // plan.per_group)
  y = jnp.zeros(shape, dtype)
  return lax.fori_loop(jnp.int32(0), outer, add_group, y)


def _corrected(refs, tile, group, total, zero, colsum):
  """Sums of codes without their zero points, and the scales of rows."""
  one = jnp.zeros(1, jnp.int32)
  row_zero = _load(refs.rows.zero, tile.rows, one, tile.m, 1)
  row_sum = _load(refs.row_sum, tile.rows, group, tile.m, refs.row_sum.shape[1])
  exact = correct(total, row_zero, row_sum, zero, colsum)
  return exact, _load(refs.rows.scale, tile.rows, one, tile.m, 1)


def _load_codes(data, step, plan, piece, tile, bytes_read) -> jax.Array:
  """`[T, bn]` int32 stored codes of a piece; bytes are read once a step."""
  size, within = _lanes(piece)
  found = []
  for part in piece.parts:
    key = part.array, part.row, piece.size
    if key not in bytes_read:
      ref = data[part.array]
      rows = step * (ref.shape[0] // plan.steps) + part.row
      at = _grid(rows + jnp.arange(size, dtype=jnp.int32), tile.cols)
      mask = within[:, None] & (at[1] < tile.n)
      bytes_read[key] = plt.load(ref.at[at], mask=mask, other=0)
    found.append(bytes_read[key])
  return decode(found, piece)


def _load_rows(x, step, plan, piece, tile, k) -> jax.Array:
  """`[bm, T]` activations that a piece is multiplied with."""
  size, within = _lanes(piece)
  cols = step * plan.rows + piece.row + jnp.arange(size, dtype=jnp.int32)
  at = _grid(tile.rows, cols)
  mask = (at[0] < tile.m) & (at[1] < k) & within[None, :]
  return plt.load(x.at[at], mask=mask, other=0)


def _lanes(piece: Piece) -> tuple[int, jax.Array]:
  """Rows of the tile of a piece, and which of them it has."""
  size = max(_LEAST_PIECE, pl.next_power_of_2(piece.size))
  return size, jnp.arange(size, dtype=jnp.int32) < piece.size


def _load(ref, rows, cols, m: int, n: int) -> jax.Array:
  """`[R, C]` of a matrix, 0 outside."""
  at = _grid(rows, cols)
  return plt.load(ref.at[at], mask=(at[0] < m) & (at[1] < n), other=0)


def _load_extras(extras: Extras, tile: _Tile, rank: int) -> Extras:
  row, one = tile.rows, jnp.zeros(1, jnp.int32)
  lanes = jnp.arange(max(16, pl.next_power_of_2(rank)), dtype=jnp.int32)
  at = {
    'projected': (row, lanes, tile.m, rank),
    'second': (lanes, tile.cols, rank, tile.n),
    'bias': (one, tile.cols, 1, tile.n),
    'residual': (row, tile.cols, tile.m, tile.n),
  }
  return Extras(
    **{
      name: None if ref is None else _load(ref, *at[name])
      for name, ref in extras._asdict().items()
    }
  )


def _grid(rows: jax.Array, cols: jax.Array) -> tuple[jax.Array, jax.Array]:
  shape = rows.shape[0], cols.shape[0]
  return (
    jnp.broadcast_to(rows[:, None], shape),
    jnp.broadcast_to(cols[None, :], shape),
  )


def _dot(a: jax.Array, b: jax.Array, dtype: Any = None) -> jax.Array:
  """Product in full precision: float32 is not rounded to TF32."""
  precision = lax.Precision.HIGHEST if a.dtype == jnp.float32 else None
  return jnp.dot(
    a, b, precision=precision, preferred_element_type=dtype or a.dtype
  )


def _tile_size(m: int) -> tuple[int, int]:
  if m <= 16:
    return 16, 64
  return (32, 128) if m <= 32 else (64, 128)


def _compiler(cells: int) -> Any:
  return plt.CompilerParams(num_warps=8 if cells > 4096 else 4, num_stages=3)
