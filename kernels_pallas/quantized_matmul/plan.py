"""How a kernel walks through packed weights: steps, and pieces of a step."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from kernels_pallas.quantized_matmul.packing import PackedTensor

PLANES = {2: 4, 3: 8, 4: 2, 8: 1}
"""Planes of a pack block by bits; for 3, those of high bits."""


class Part(NamedTuple):
  """Bits of the codes of a piece.

  Attributes:
    array: index in `PackedTensor.data`.
    row: first row of bytes, from the start of the step.
    shift: position of the bits in a byte.
    mask: of the bits, once shifted.
    left: position of the bits in a code.
  """

  array: int
  row: int
  shift: int
  mask: int
  left: int


class Piece(NamedTuple):
  """Rows of weights that one plane holds and that share a group.

  Attributes:
    group: from the first of the step.
    row: first row of K, from the start of the step.
    size: rows.
    parts: where the codes are.
  """

  group: int
  row: int
  size: int
  parts: tuple[Part, ...]


class Plan(NamedTuple):
  """A walk over K.

  Attributes:
    steps: steps of all groups.
    per_group: steps of a group, where groups are no smaller than steps.
    groups: groups of a step, where steps are no smaller than groups.
    rows: rows of a step.
    pieces: of a step, sorted by group.
  """

  steps: int
  per_group: int
  groups: int
  rows: int
  pieces: tuple[Piece, ...]


def make_plan(w: PackedTensor, blocks: int = 1, most: int | None = None):
  """Cuts K into steps of some pack blocks, and these into pieces.

  Args:
    w: the weights.
    blocks: pack blocks of a step; their rows divide a group, or are a multiple
      of one, or are all.
    most: rows of a piece at most.

  Returns:
    The plan.
  """
  rows = blocks * w.pack_block
  steps = w.rows // rows
  size = w.group_size
  if w.groups == 1:
    per_group, groups = steps, 1
  elif size % rows == 0:
    per_group, groups = size // rows, 1
  else:
    per_group, groups = 1, -(-rows // size)
  length = w.pack_block // PLANES[w.bits]
  uniform = length if groups == 1 else math.gcd(length, size)
  pieces = []
  # Of a single step, what lies beyond K is left out.
  end = min(rows, w.k) if steps == 1 else rows
  for start in range(0, end, uniform):
    block, inside = divmod(start, w.pack_block)
    plane, offset = divmod(inside, length)
    for cut in range(0, uniform, most or uniform):
      parts = _parts(w, block, plane, offset + cut)
      group = start // size if groups > 1 else 0
      count = min(most or uniform, uniform - cut)
      pieces.append(Piece(group, start + cut, count, parts))
  return Plan(steps, per_group, groups, rows, tuple(pieces))


def decode(parts: list[jax.Array], piece: Piece) -> jax.Array:
  """Stored codes as int32, from the bytes of the parts of a piece."""
  wide = [array.astype(jnp.int32) for array in parts]
  found: Any = 0
  for array, part in zip(wide, piece.parts, strict=True):
    bits = array if part.mask > 255 else (array >> part.shift) & part.mask
    found = found | (bits << part.left if part.left else bits)
  return found


def _parts(
  w: PackedTensor, block: int, plane: int, offset: int
) -> tuple[Part, ...]:
  if w.bits == 8:
    return (Part(0, block * w.pack_block + offset, 0, 511, 0),)
  if w.bits != 3:
    first = block * w.pack_block * w.bits // 8
    shift, mask = plane * w.bits, 2**w.bits - 1
    return (Part(0, first + offset, shift, mask, 0),)
  # A plane of high bits is half as long as one of low bits.
  pair, half = divmod(plane, 2)
  length = w.pack_block // 8
  low = block * 2 * length + half * length + offset
  return (
    Part(0, low, 2 * pair, 3, 0),
    Part(1, block * length + offset, plane, 1, 2),
  )
