"""Block formats of GGUF tensors: bytes to weights.

A row of weights, the fastest axis of a tensor, is cut into blocks of 32 or
256 weights that share their scales. The layouts are those of llama.cpp's
`ggml-common.h`; float32 products are made in its order, so that every value
agrees bit for bit.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np

from jaxlab import errors

# A chunk of weights, its codes and its bytes stay in a core's cache together.
CHUNK_WEIGHTS = 1 << 16


class GGUFError(errors.UserError):
  """A GGUF file, or bytes of one, cannot be read or written."""


class BlockType(NamedTuple):
  """How weights of one type lie in a file.

  Attributes:
    name: as llama.cpp calls it.
    number: as it stands in a file.
    weights: weights in a block.
    nbytes: bytes of a block.
  """

  name: str
  number: int
  weights: int
  nbytes: int


_TYPES = (
  BlockType('F32', 0, 1, 4),
  BlockType('F16', 1, 1, 2),
  BlockType('Q4_0', 2, 32, 18),
  BlockType('Q4_1', 3, 32, 20),
  BlockType('Q5_0', 6, 32, 22),
  BlockType('Q5_1', 7, 32, 24),
  BlockType('Q8_0', 8, 32, 34),
  BlockType('Q4_K', 12, 256, 144),
  BlockType('Q5_K', 13, 256, 176),
  BlockType('Q6_K', 14, 256, 210),
  BlockType('I8', 24, 1, 1),
  BlockType('I16', 25, 1, 2),
  BlockType('I32', 26, 1, 4),
  BlockType('I64', 27, 1, 8),
  BlockType('F64', 28, 1, 8),
  BlockType('BF16', 30, 1, 2),
)
_BY_NAME = {kind.name: kind for kind in _TYPES}
_BY_NUMBER = {kind.number: kind for kind in _TYPES}

# Types that exist and that are not read here, so that an error can name them.
_FOREIGN = {
  9: 'Q8_1',
  10: 'Q2_K',
  11: 'Q3_K',
  15: 'Q8_K',
  16: 'IQ2_XXS',
  17: 'IQ2_XS',
  18: 'IQ3_XXS',
  19: 'IQ1_S',
  20: 'IQ4_NL',
  21: 'IQ3_S',
  22: 'IQ2_S',
  23: 'IQ4_XS',
  29: 'IQ1_M',
  34: 'TQ1_0',
  35: 'TQ2_0',
  39: 'MXFP4',
  40: 'NVFP4',
  41: 'Q1_0',
}
_FOREIGN_NUMBERS = {name: number for number, name in _FOREIGN.items()}

PLAIN_DTYPES: dict[str, np.dtype] = {
  'F32': np.dtype('<f4'),
  'F16': np.dtype('<f2'),
  'BF16': np.dtype(ml_dtypes.bfloat16),
  'F64': np.dtype('<f8'),
  'I8': np.dtype('<i1'),
  'I16': np.dtype('<i2'),
  'I32': np.dtype('<i4'),
  'I64': np.dtype('<i8'),
}


def block_type(qtype: str | int) -> BlockType:
  """Finds a type by its name or its number.

  Args:
    qtype: such as 'Q4_1' or 3.

  Returns:
    Its name, number and sizes.

  Raises:
    GGUFError: if there is no such type or it is not read here.
  """
  if isinstance(qtype, str):
    found = _BY_NAME.get(qtype)
    name, number = qtype, _FOREIGN_NUMBERS.get(qtype)
  else:
    found = _BY_NUMBER.get(int(qtype))
    name, number = _FOREIGN.get(int(qtype), 'without a name'), int(qtype)
  if found is not None:
    return found
  label = name if number is None else f'{name} ({number})'
  raise GGUFError(
    f'unknown quantization type {label}; this reader knows'
    f' {", ".join(_BY_NAME)}.'
  )


def byte_shape(qtype: str | int, shape: Sequence[int]) -> tuple[int, ...]:
  """Returns the shape of a tensor's bytes: its last axis becomes bytes.

  Args:
    qtype: name or number of its type.
    shape: shape of its weights.

  Returns:
    `shape` with the bytes of a row as last axis; a scalar becomes `(bytes,)`.

  Raises:
    GGUFError: if rows are not whole blocks, or the type is unknown.
  """
  kind = block_type(qtype)
  *rows, last = [int(size) for size in shape] or [1]
  if min(rows, default=0) < 0 or last < 0:
    raise GGUFError(f'shape {tuple(shape)} has a negative axis.')
  if last % kind.weights:
    raise GGUFError(
      f'{kind.name} needs a last axis that is a multiple of {kind.weights},'
      f' got shape {tuple(shape)}; pad it or choose F16.'
    )
  return (*rows, last // kind.weights * kind.nbytes)


def dequantize(
  raw: bytes | np.ndarray, qtype: str | int, shape: Sequence[int]
) -> np.ndarray:
  """Turns the bytes of a tensor into float32 weights.

  Args:
    raw: exactly its blocks; an array is uint8 of any shape.
    qtype: name or number of its type.
    shape: shape of its weights, in NumPy's order.

  Returns:
    float32 of this shape, a copy; integers and float64 are rounded to it.

  Raises:
    GGUFError: if the bytes are not those of `shape`, or the type is unknown.
  """
  kind = block_type(qtype)
  shape = tuple(int(size) for size in shape)
  data = _flat_bytes(raw)
  need = math.prod(byte_shape(qtype, shape))
  if data.size != need:
    fault = 'truncated' if data.size < need else 'truncated or too long'
    raise GGUFError(
      f'{fault}: {kind.name} weights of shape {shape} need {need} bytes, got'
      f' {data.size}.'
    )
  # Files in the wild hold infinities; their products are theirs to answer for.
  with np.errstate(invalid='ignore', over='ignore'):
    if kind.name in PLAIN_DTYPES:
      values = data.view(PLAIN_DTYPES[kind.name]).astype(np.float32)
      return values.reshape(shape)
    out = np.empty(shape, np.float32)
    blocks = data.reshape(-1, kind.nbytes)
    weights = out.reshape(-1, kind.weights)
    step = CHUNK_WEIGHTS // kind.weights
    for start in range(0, len(blocks), step):
      part = slice(start, start + step)
      _DECODERS[kind.name](blocks[part], weights[part])
  return out


def _flat_bytes(raw: bytes | np.ndarray) -> np.ndarray:
  if isinstance(raw, np.ndarray):
    if raw.dtype != np.uint8:
      raise GGUFError(f'raw needs dtype uint8, got {raw.dtype}.')
    return raw.reshape(-1)
  return np.frombuffer(raw, np.uint8)


def _half(blocks: np.ndarray, start: int) -> np.ndarray:
  """Reads the float16 at a byte of every block as float32 `[n, 1]`."""
  pair = np.ascontiguousarray(blocks[:, start : start + 2])
  return pair.view('<f2').astype(np.float32)


def _nibbles(packed: np.ndarray) -> np.ndarray:
  """Unpacks bytes `[n, k, w]` to codes `[n, 2 k w]`: w low, then w high."""
  n, k, width = packed.shape
  codes = np.empty((n, k, 2, width), np.uint8)
  np.bitwise_and(packed, 15, out=codes[:, :, 0])
  np.right_shift(packed, 4, out=codes[:, :, 1])
  return codes.reshape(n, -1)


def _q8_0(blocks: np.ndarray, out: np.ndarray) -> None:
  np.copyto(out, blocks[:, 2:].view(np.int8))
  out *= _half(blocks, 0)


def _q4_0(blocks: np.ndarray, out: np.ndarray) -> None:
  np.copyto(out, _nibbles(blocks[:, None, 2:]))
  out -= 8
  out *= _half(blocks, 0)


def _q4_1(blocks: np.ndarray, out: np.ndarray) -> None:
  np.copyto(out, _nibbles(blocks[:, None, 4:]))
  out *= _half(blocks, 0)
  out += _half(blocks, 2)


def _five_bits(fifth: np.ndarray, packed: np.ndarray) -> np.ndarray:
  """Joins 32 fifth bits and 16 bytes of nibbles of every block."""
  high = np.unpackbits(fifth, axis=1, bitorder='little')
  return _nibbles(packed[:, None]) | (high << 4)


def _q5_0(blocks: np.ndarray, out: np.ndarray) -> None:
  np.copyto(out, _five_bits(blocks[:, 2:6], blocks[:, 6:]))
  out -= 16
  out *= _half(blocks, 0)


def _q5_1(blocks: np.ndarray, out: np.ndarray) -> None:
  np.copyto(out, _five_bits(blocks[:, 4:8], blocks[:, 8:]))
  out *= _half(blocks, 0)
  out += _half(blocks, 2)


def _scale_and_offset(
  codes: np.ndarray, blocks: np.ndarray, out: np.ndarray
) -> None:
  """Writes `(d sc) q - (dmin mn)` of the K-formats with 12 bytes of scales.

  Args:
    codes: `[n, 256]` uint8 q, sub-block after sub-block.
    blocks: `[n, bytes]`, float16 d and dmin first, then the scales.
    out: `[n, 256]` float32, written.
  """
  # Bytes 0-3 and 4-7 hold six bits of the scales and minima of sub-blocks
  # 0-3; their upper two bits complete the nibbles of 8-11 for sub-blocks 4-7.
  first, second, third = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
  scales = [first & 63, third & 15 | (first >> 6) << 4]
  minima = [second & 63, third >> 4 | (second >> 6) << 4]
  d = _half(blocks, 0) * np.concatenate(scales, axis=1)
  offset = _half(blocks, 2) * np.concatenate(minima, axis=1)
  np.copyto(out, codes)
  parts = out.reshape(-1, 8, 32)
  parts *= d[:, :, None]
  parts -= offset[:, :, None]


def _q4_k(blocks: np.ndarray, out: np.ndarray) -> None:
  packed = blocks[:, 16:].reshape(-1, 4, 32)
  _scale_and_offset(_nibbles(packed), blocks, out)


def _q5_k(blocks: np.ndarray, out: np.ndarray) -> None:
  codes = _nibbles(blocks[:, 48:].reshape(-1, 4, 32))
  bit = np.arange(8, dtype=np.uint8)[:, None]
  high = (blocks[:, None, 16:48] >> bit & 1) << 4
  codes |= high.reshape(codes.shape)
  _scale_and_offset(codes, blocks, out)


def _q6_k(blocks: np.ndarray, out: np.ndarray) -> None:
  codes = _nibbles(blocks[:, :128].reshape(-1, 2, 64))
  shift = np.array([0, 2, 4, 6], np.uint8)[:, None]
  high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shift & 3
  codes |= high.reshape(codes.shape) << 4
  np.copyto(out, codes)
  out -= 32
  scales = _half(blocks, 208) * blocks[:, 192:208].view(np.int8)
  parts = out.reshape(-1, 16, 16)
  parts *= scales[:, :, None]


_DECODERS: dict[str, Callable[[np.ndarray, np.ndarray], None]] = {
  'Q8_0': _q8_0,
  'Q4_0': _q4_0,
  'Q4_1': _q4_1,
  'Q5_0': _q5_0,
  'Q5_1': _q5_1,
  'Q4_K': _q4_k,
  'Q5_K': _q5_k,
  'Q6_K': _q6_k,
}
