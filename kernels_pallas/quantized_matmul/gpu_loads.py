"""What the Pallas kernels for GPUs read, masked where there is nothing."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from kernels_pallas.lowering import plt
from kernels_pallas.quantized_matmul.activations import Extras
from kernels_pallas.quantized_matmul.gpu_tile import LEAST_PIECE
from kernels_pallas.quantized_matmul.plan import Piece, decode


class Tile(NamedTuple):
  """The part of the result that a program computes."""

  rows: jax.Array
  cols: jax.Array
  m: int
  n: int


def tile_of(bm: int, bn: int, m: int, n: int) -> Tile:
  """The tile of this program."""
  return Tile(
    pl.program_id(0) * bm + jnp.arange(bm, dtype=jnp.int32),
    pl.program_id(1) * bn + jnp.arange(bn, dtype=jnp.int32),
    m,
    n,
  )


def load_codes(data, step, plan, piece, tile, bytes_read) -> jax.Array:
  """`[T, bn]` int32 stored codes of a piece; bytes are read once a step."""
  size, within = lanes_of(piece)
  found = []
  for part in piece.parts:
    key = part.array, part.row, piece.size
    if key not in bytes_read:
      ref = data[part.array]
      rows = step * (ref.shape[0] // plan.steps) + part.row
      at = cells(rows + jnp.arange(size, dtype=jnp.int32), tile.cols)
      mask = within[:, None] & (at[1] < tile.n)
      bytes_read[key] = plt.load(ref.at[at], mask=mask, other=0)
    found.append(bytes_read[key])
  return decode(found, piece)


def load_rows(x, step, plan, piece, tile, k) -> jax.Array:
  """`[bm, T]` activations that a piece is multiplied with."""
  size, within = lanes_of(piece)
  cols = step * plan.rows + piece.row + jnp.arange(size, dtype=jnp.int32)
  at = cells(tile.rows, cols)
  mask = (at[0] < tile.m) & (at[1] < k) & within[None, :]
  return plt.load(x.at[at], mask=mask, other=0)


def load_extras(extras: Extras, tile: Tile, rank: int) -> Extras:
  """What is added to a tile; the rank is filled up with 0."""
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
      name: None if ref is None else load(ref, *at[name])
      for name, ref in extras._asdict().items()
    }
  )


def load(ref, rows, cols, m: int, n: int) -> jax.Array:
  """`[R, C]` of a matrix, 0 outside."""
  at = cells(rows, cols)
  return plt.load(ref.at[at], mask=(at[0] < m) & (at[1] < n), other=0)


def lanes_of(piece: Piece) -> tuple[int, jax.Array]:
  """Rows of the tile of a piece, and which of them it has."""
  size = max(LEAST_PIECE, pl.next_power_of_2(piece.size))
  return size, jnp.arange(size, dtype=jnp.int32) < piece.size


def cells(rows: jax.Array, cols: jax.Array) -> tuple[jax.Array, jax.Array]:
  """`[R, C]` rows and columns of the cells of a tile."""
  shape = rows.shape[0], cols.shape[0]
  return (
    jnp.broadcast_to(rows[:, None], shape),
    jnp.broadcast_to(cols[None, :], shape),
  )
