"""Weights of 2, 3, 4 or 8 bits in bytes: the layout, and the way in and out.

K is cut into blocks of `pack_block` rows. Inside a block lie planes: byte row i
holds rows i, i + L, i + 2L, ... of the block, the p-th one at bit b p, with
L = pack_block b / 8. So a plane of bytes unpacks to a contiguous slice of K.
Codes of 3 bits are two arrays, of their low 2 bits and of their high bit;
codes of 8 bits are stored as int8 with 128 subtracted.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

BITS = (2, 3, 4, 8)
UNIT = {2: 32, 3: 32, 4: 16, 8: 8}
"""`pack_block` is a multiple of this."""

_DEFAULT_BLOCK = 256


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=['data', 'scale', 'zero', 'colsum', 'levels'],
  meta_fields=[
    'bits',
    'k',
    'n',
    'group_size',
    'pack_block',
    'layout',
    'symmetric',
  ],
)
@dataclasses.dataclass(frozen=True)
class PackedTensor:
  """A quantized `[K, N]` matrix, scale * (code - zero), in groups along K.

  Attributes:
    data: bytes `[K' bits / 8, N]`, K' being K filled up to whole blocks; for 3
      bits the low 2 bits and the high bit.
    scale: `[G, N]` float.
    zero: `[G, N]` uint8 codes of 0; None where all are 2^(bits-1).
    colsum: `[G, N]` int32 sums of codes.
    levels: `[G, N, 2^bits]` values in place of code - zero, for a codebook.
    bits: of a code.
    k: K, rows.
    n: N, columns.
    group_size: rows of a group, K / G.
    pack_block: rows of a block.
    layout: version of the format of `data`.
    symmetric: whether `zero` is None.
  """

  data: tuple[jax.Array, ...]
  scale: jax.Array
  zero: jax.Array | None
  colsum: jax.Array
  levels: jax.Array | None
  bits: int
  k: int
  n: int
  group_size: int
  pack_block: int
  layout: int = 1
  symmetric: bool = True

  @property
  def groups(self) -> int:
    """G, groups along K."""
    return self.k // self.group_size if self.k else 0

  @property
  def rows(self) -> int:
    """K', rows with those that fill up the last block."""
    return -(-self.k // self.pack_block) * self.pack_block


def pack(
  codes: ArrayLike,
  *,
  bits: int,
  scale: ArrayLike,
  zero: ArrayLike | None = None,
  group_size: int | None = None,
  pack_block: int | None = None,
  levels: ArrayLike | None = None,
) -> PackedTensor:
  """Packs codes into bytes.

  Args:
    codes: `[K, N]` integers from 0 to 2^bits - 1.
    bits: 2, 3, 4 or 8.
    scale: `[G, N]` positive numbers. A scale of 0 is taken as 1 where all codes
      of its group and column are the zero point.
    zero: `[G, N]` codes that stand for 0; None for 2^(bits-1).
    group_size: rows that share a scale; None for all K.
    pack_block: rows of a block; None for 256, or where groups do not fit that,
      for what fits.
    levels: `[G, N, 2^bits]` values of the codes, for a codebook; `zero` is
      then not used.

  Returns:
    The packed weights. What is wrong with values is found only where they are
    known, outside `jit`.

  Raises:
    ValueError: what does not fit, by the name of the argument.
  """
  if bits not in BITS:
    raise ValueError(f'bits = {bits!r}: choose one of 2, 3, 4, 8.')
  codes = _checked_codes(codes, bits)
  k, n = codes.shape
  group_size = _checked_group_size(group_size, k)
  groups = k // group_size if k else 0
  block = _checked_block(pack_block, bits, group_size, groups)
  zero = _checked_zero(zero, bits, (groups, n))
  zeros = zero_points(zero, bits, (groups, n))
  scale = _checked_scale(scale, codes, zeros, group_size)
  if levels is not None:
    levels = jnp.asarray(levels)
    _same_shape('levels', levels, (groups, n, 2**bits))
  data, colsum = _packed(codes, zeros, bits, block)
  return PackedTensor(
    data=data,
    scale=scale,
    zero=zero,
    colsum=colsum,
    levels=levels,
    bits=bits,
    k=k,
    n=n,
    group_size=group_size,
    pack_block=block,
    symmetric=zero is None,
  )


def quantize(
  weights: ArrayLike,
  *,
  bits: int,
  group_size: int | None = None,
  scale_rule: str = 'full',
  pack_block: int | None = None,
) -> PackedTensor:
  """Rounds weights to the nearest codes, symmetrically around 0.

  Args:
    weights: `[K, N]` float.
    bits: 2, 3, 4 or 8.
    group_size: rows that share a scale; None for all K.
    scale_rule: the largest magnitude of a group over the scale: 'full' for
      2^(bits-1) - 1, so that it is met, 'half' for 2^(bits-1) - 1/2, so that
      half a step above it is cut off.
    pack_block: as in `pack`.

  Returns:
    The packed weights; a column of zeros has the scale 1.

  Raises:
    ValueError: as `pack`, or an unknown `scale_rule`.
  """
  if scale_rule not in ('full', 'half'):
    raise ValueError(f"scale_rule = {scale_rule!r}: choose 'full' or 'half'.")
  if bits not in BITS:
    raise ValueError(f'bits = {bits!r}: choose one of 2, 3, 4, 8.')
  weights = jnp.asarray(weights)
  if weights.ndim != 2:
    raise ValueError(f'weights have the shape {weights.shape}, not (K, N).')
  k, n = weights.shape
  size = _checked_group_size(group_size, k)
  grouped = weights.reshape(k // size if k else 0, size, n)
  half = 2 ** (bits - 1)
  steps = half - (1 if scale_rule == 'full' else 0.5)
  scale = jnp.max(jnp.abs(grouped), axis=1, initial=0) / steps
  scale = jnp.where(scale > 0, scale, 1)
  steps_of = jnp.round(grouped / scale[:, None])
  codes = jnp.clip(steps_of, -half, half - 1).astype(jnp.int32) + half
  return pack(
    codes.reshape(k, n),
    bits=bits,
    scale=scale,
    group_size=group_size,
    pack_block=pack_block,
  )


@jax.jit
def unpack(w: PackedTensor) -> jax.Array:
  """`[K, N]` uint8 codes."""
  if w.bits == 8:
    (data,) = w.data
    codes = jax.lax.bitcast_convert_type(data, jnp.uint8) ^ jnp.uint8(128)
  elif w.bits == 3:
    low, high = w.data
    codes = _from_planes(low, 2, w.pack_block)
    codes |= _from_planes(high, 1, w.pack_block) << 2
  else:
    codes = _from_planes(w.data[0], w.bits, w.pack_block)
  return codes[: w.k]


@functools.partial(jax.jit, static_argnames='dtype')
def dequantize(w: PackedTensor, dtype: DTypeLike = jnp.float32) -> jax.Array:
  """`[K, N]` values in a float type."""
  codes = unpack(w).reshape(w.groups, w.group_size, w.n)
  if w.levels is None:
    zeros = zero_points(w.zero, w.bits, w.scale.shape)
    steps = codes.astype(dtype) - zeros[:, None].astype(dtype)
  else:
    steps = look_up(w.levels.astype(dtype), codes)
  return (steps * w.scale[:, None].astype(dtype)).reshape(w.k, w.n)


def look_up(levels: jax.Array, codes: jax.Array) -> jax.Array:
  """Values `[G, g, N]` of codes in `[G, N, 2^bits]` levels."""
  index = jnp.swapaxes(codes, 1, 2).astype(jnp.int32)
  return jnp.swapaxes(jnp.take_along_axis(levels, index, axis=2), 1, 2)


def nbytes(w: PackedTensor) -> int:
  """Bytes of codes, scales, zero points and levels.

  `colsum`, 4 bytes for each group and column, can be had from the codes and is
  not counted.
  """
  stored = jax.tree.leaves((w.data, w.scale, w.zero, w.levels))
  return sum(array.nbytes for array in stored)


def zero_points(
  zero: jax.Array | None, bits: int, shape: tuple[int, ...]
) -> jax.Array:
  """`[G, N]` uint8 zero points, also where they are not stored."""
  return jnp.full(shape, 2 ** (bits - 1), jnp.uint8) if zero is None else zero


@functools.partial(jax.jit, static_argnames=('bits', 'block'))
def _packed(
  codes: jax.Array, zeros: jax.Array, bits: int, block: int
) -> tuple[tuple[jax.Array, ...], jax.Array]:
  """Bytes, and sums of the codes of each group."""
  (k, n), groups = codes.shape, zeros.shape[0]
  last = zeros[-1:] if groups else jnp.zeros((1, n), jnp.uint8)
  fill = jnp.broadcast_to(last, (-k % block, n))
  data = _to_bytes(jnp.concatenate([codes, fill]), bits, block)
  grouped = codes.reshape(groups, k // groups if groups else 0, n)
  return data, jnp.sum(grouped, axis=1, dtype=jnp.int32)


def _to_bytes(codes: jax.Array, bits: int, block: int) -> tuple[jax.Array, ...]:
  if bits == 8:
    return (jax.lax.bitcast_convert_type(codes ^ jnp.uint8(128), jnp.int8),)
  if bits == 3:
    low, high = codes & jnp.uint8(3), codes >> jnp.uint8(2)
    return _to_planes(low, 2, block), _to_planes(high, 1, block)
  return (_to_planes(codes, bits, block),)


def _to_planes(codes: jax.Array, bits: int, block: int) -> jax.Array:
  planes = codes.reshape(-1, 8 // bits, block * bits // 8, codes.shape[1])
  shifts = jnp.arange(0, 8, bits, dtype=jnp.uint8)[:, None, None]
  found = jnp.bitwise_or.reduce(planes << shifts, axis=1)
  return found.reshape(-1, codes.shape[1])


def _from_planes(data: jax.Array, bits: int, block: int) -> jax.Array:
  planes = data.reshape(-1, 1, block * bits // 8, data.shape[1])
  shifts = jnp.arange(0, 8, bits, dtype=jnp.uint8)[:, None, None]
  codes = (planes >> shifts) & jnp.uint8(2**bits - 1)
  return codes.reshape(-1, data.shape[1])


def _known(*arrays: ArrayLike) -> bool:
  return not any(isinstance(array, jax.core.Tracer) for array in arrays)


def _same_shape(name: str, array: Any, shape: tuple[int, ...]) -> None:
  if array.shape != shape:
    raise ValueError(
      f'{name} has the shape {array.shape}; it is to be {shape}.'
    )


def _checked_codes(codes: ArrayLike, bits: int) -> jax.Array:
  given = codes if isinstance(codes, jax.Array) else np.asarray(codes)
  if given.ndim != 2:
    raise ValueError(f'codes have the shape {given.shape}, not (K, N).')
  if not jnp.issubdtype(given.dtype, jnp.integer):
    raise ValueError(f'codes are {given.dtype}; give integers.')
  if given.size and _known(given):
    low, high = int(given.min()), int(given.max())
    if low < 0 or high >= 2**bits:
      raise ValueError(
        f'codes are from {low} to {high}; {bits} bits hold 0 to {2**bits - 1}.'
      )
  return jnp.asarray(given.astype(np.uint8))


def _checked_group_size(group_size: int | None, k: int) -> int:
  if group_size is None:
    return k
  if group_size < 1 or k % group_size:
    raise ValueError(f'group_size = {group_size} does not divide K = {k}.')
  return group_size


def _checked_block(
  block: int | None, bits: int, group_size: int, groups: int
) -> int:
  unit = UNIT[bits]

  def fits(size):
    whole = groups < 2 or size % group_size == 0 or group_size % size == 0
    return size > 0 and size % unit == 0 and whole

  if block is None:
    whole = math.lcm(unit, group_size)
    return _DEFAULT_BLOCK if fits(_DEFAULT_BLOCK) else whole
  if not fits(block):
    raise ValueError(
      f'pack_block = {block}: for {bits} bits give a multiple of {unit}'
      + (f' that divides {group_size} or is a multiple of it.' * (groups > 1))
    )
  return block


def _checked_zero(
  zero: ArrayLike | None, bits: int, shape: tuple[int, int]
) -> jax.Array | None:
  if zero is None:
    return None
  given = zero if isinstance(zero, jax.Array) else np.asarray(zero)
  _same_shape('zero', given, shape)
  if not jnp.issubdtype(given.dtype, jnp.integer):
    raise ValueError(f'zero is {given.dtype}; give integers.')
  if given.size and _known(given):
    low, high = int(given.min()), int(given.max())
    if low < 0 or high >= 2**bits:
      raise ValueError(
        f'zero is from {low} to {high}; {bits} bits hold 0 to {2**bits - 1}.'
      )
  return jnp.asarray(given.astype(np.uint8))


def _checked_scale(
  scale: ArrayLike, codes: jax.Array, zeros: jax.Array, group_size: int
) -> jax.Array:
  """The scales, with 1 in place of 0 where there is nothing to scale."""
  given = jnp.asarray(scale)
  _same_shape('scale', given, zeros.shape)
  if not jnp.issubdtype(given.dtype, jnp.floating):
    given = given.astype(jnp.float32)
  if not given.size or not _known(given, codes, zeros):
    return given
  if not bool(jnp.all(jnp.isfinite(given) & (given >= 0))):
    raise ValueError('scale holds numbers that are not finite or not positive.')
  if bool(jnp.all(given)):
    return given
  grouped = codes.reshape(-1, group_size, codes.shape[1])
  empty = jnp.all(grouped == zeros[:, None], axis=1)
  if bool(jnp.any((given == 0) & ~empty)):
    raise ValueError(
      'scale is 0 in a group and column whose codes are not all the zero point.'
    )
  return jnp.where(given == 0, 1, given)
