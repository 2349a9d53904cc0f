"""Sizes of the tiles of the kernels for GPUs."""

LEAST_PIECE = 32
"""Rows that a product of int8 on tensor cores asks for."""

MOST_PIECE = 64
"""Rows of weights that are unpacked at a time."""


def tile_size(m: int) -> tuple[int, int]:
  """Rows and columns of a tile of `[M, N]`."""
  if m <= 16:
    return 16, 64
  return (32, 128) if m <= 32 else (64, 128)


def warps(cells: int) -> int:
  """Of a program whose tile has so many cells."""
  return 8 if cells > 4096 else 4


_FEW_ROWS = 8
_PROGRAMS = 256
_MOST_SPLITS = 8


def split_count(m: int, tiles: int, units: int) -> int:
  """Programs that share K: 1 for many rows, else enough to fill a GPU.

  Args:
    m: rows.
    tiles: of columns.
    units: parts that K can be split into.
  """
  if m > _FEW_ROWS:
    return 1
  return max(1, min(units, _MOST_SPLITS, _PROGRAMS // tiles))
