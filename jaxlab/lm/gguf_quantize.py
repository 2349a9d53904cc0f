"""Weights rounded to the block formats of GGUF.

The rounding is that of llama.cpp's reference quantizers, bit for bit.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxlab.lm import gguf_blocks

# The types that arrays are written in; a `GGUFTensor` keeps any.
WRITTEN = ('F32', 'F16', 'BF16', 'Q8_0', 'Q4_1')


def quantize_q8_0(x: Any) -> np.ndarray:
  """Rounds weights to 8 bits with one scale per 32 weights.

  Args:
    x: `[..., n]` numbers, n a multiple of 32.

  Returns:
    uint8 `[..., n / 32 * 34]`.

  Raises:
    GGUFError: if n is not whole blocks, or a scale is not finite in float16.
  """
  return quantize(x, 'Q8_0')


def quantize_q4_1(x: Any) -> np.ndarray:
  """Rounds weights to 4 bits with scale and minimum per 32 weights.

  Args:
    x: `[..., n]` numbers, n a multiple of 32.

  Returns:
    uint8 `[..., n / 32 * 20]`.

  Raises:
    GGUFError: if n is not whole blocks, or a scale is not finite in float16.
  """
  return quantize(x, 'Q4_1')


def quantize(x: Any, qtype: str | int) -> np.ndarray:
  """Turns weights into the bytes of a tensor.

  Args:
    x: `[..., n]` numbers.
    qtype: F32, F16, BF16, Q8_0 or Q4_1; n must be a multiple of 32 for the
      last two.

  Returns:
    uint8 `[..., bytes of a row]`, which `dequantize` reads.

  Raises:
    GGUFError: if rows are not whole blocks, a scale is not finite in
      float16, or weights of this type are not written here.
  """
  name = qtype
  if not isinstance(qtype, str):
    name = gguf_blocks.block_type(qtype).name
  if name not in WRITTEN:
    raise gguf_blocks.GGUFError(
      f'weights are not written as {name}; choose one of {", ".join(WRITTEN)}.'
    )
  kind = gguf_blocks.block_type(name)
  x = np.asarray(x, dtype=np.float32, order='C')
  shape = gguf_blocks.byte_shape(qtype, x.shape)
  if kind.name in gguf_blocks.PLAIN_DTYPES:
    with np.errstate(over='ignore'):
      plain = x.astype(gguf_blocks.PLAIN_DTYPES[kind.name])
    return plain.reshape(-1).view(np.uint8).reshape(shape)
  out = np.empty(shape, np.uint8)
  weights = x.reshape(-1, kind.weights)
  blocks = out.reshape(-1, kind.nbytes)
  step = gguf_blocks.CHUNK_WEIGHTS // kind.weights
  for start in range(0, len(weights), step):
    part = slice(start, start + step)
    _ENCODERS[kind.name](weights[part], blocks[part])
  return out


def _put_half(blocks: np.ndarray, start: int, values: np.ndarray) -> None:
  with np.errstate(over='ignore'):
    halves = values.astype('<f2')
  if not np.isfinite(halves).all():
    raise gguf_blocks.GGUFError(
      'weights are NaN, infinite or too large for blocks with float16 scales;'
      ' choose F32.'
    )
  blocks[:, start : start + 2] = halves.view(np.uint8)


def _inverse(scale: np.ndarray) -> np.ndarray:
  """Returns 1 / scale, and 0 where the block is constant or next to it."""
  with np.errstate(divide='ignore', over='ignore'):
    inverse = 1 / scale
  return np.where(np.isfinite(inverse), inverse, np.float32(0))


def _encode_q8_0(x: np.ndarray, blocks: np.ndarray) -> None:
  d = np.abs(x).max(axis=1, keepdims=True) / 127
  _put_half(blocks, 0, d)
  scaled = x * _inverse(d)
  size = np.abs(scaled)
  whole = np.floor(size)
  # Halves go away from zero; adding 0.5 first would round 0.49999997 up.
  whole += size - whole >= 0.5
  blocks[:, 2:] = np.copysign(whole, scaled).astype(np.int8).view(np.uint8)


def _encode_q4_1(x: np.ndarray, blocks: np.ndarray) -> None:
  low = x.min(axis=1, keepdims=True)
  with np.errstate(over='ignore', invalid='ignore'):
    d = (x.max(axis=1, keepdims=True) - low) / 15
  _put_half(blocks, 0, d)
  _put_half(blocks, 2, low)
  codes = np.clip((x - low) * _inverse(d) + np.float32(0.5), 0, 15)
  codes = codes.astype(np.uint8)
  blocks[:, 4:] = codes[:, :16] | codes[:, 16:] << 4


_ENCODERS: dict[str, Callable[[np.ndarray, np.ndarray], None]] = {
  'Q8_0': _encode_q8_0,
  'Q4_1': _encode_q4_1,
}
