"""GGUF files: tensors mapped into memory, written whole or not at all."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jaxlab.lm import gguf_blocks, gguf_header, weight_files
from jaxlab.lm.gguf_blocks import GGUFError, dequantize
from jaxlab.lm.gguf_quantize import (
  WRITTEN,
  quantize,
  quantize_q4_1,
  quantize_q8_0,
)

__all__ = [
  'WRITTEN',
  'GGUFError',
  'GGUFFile',
  'GGUFTensor',
  'dequantize',
  'quantize',
  'quantize_q4_1',
  'quantize_q8_0',
  'read_gguf',
  'write_gguf',
]


@dataclasses.dataclass(frozen=True, eq=False)
class GGUFTensor:
  """A tensor of a file; its bytes are read when they are looked at.

  Attributes:
    name: the tensor's name.
    qtype: name of its type, such as 'Q4_1'.
    shape: in NumPy's order, `[out, in]` of a linear layer.
    raw: uint8 `[bytes]`, its blocks, a read-only view of the mapped file.
  """

  name: str
  qtype: str
  shape: tuple[int, ...]
  raw: np.ndarray

  def array(self, dtype: Any = np.float32) -> np.ndarray:
    """Returns the weights as an array of their own.

    Args:
      dtype: of the result. Weights in blocks are computed in float32; plain
        ones are converted at once, so that float64 and integers keep all
        digits in a dtype that has them.
    """
    if self.qtype in gguf_blocks.PLAIN_DTYPES:
      stored = self.raw.view(gguf_blocks.PLAIN_DTYPES[self.qtype])
      with np.errstate(over='ignore', invalid='ignore'):
        return stored.reshape(self.shape).astype(dtype)
    values = dequantize(self.raw, self.qtype, self.shape)
    return values.astype(dtype, copy=False)


@dataclasses.dataclass(frozen=True, eq=False)
class GGUFFile:
  """A file whose header was read.

  Attributes:
    path: where it lies.
    version: of the format, 2 or 3.
    metadata: key -> bool, int, float, str, NumPy array, list of strings, or
      list of arrays; text that is not UTF-8 has replacement characters.
    tensors: name -> tensor, in the order of the file.
  """

  path: pathlib.Path
  version: int
  metadata: dict[str, Any]
  tensors: Mapping[str, GGUFTensor]


def read_gguf(path: str | os.PathLike) -> GGUFFile:
  """Reads the header of a GGUF file and maps its tensors into memory.

  Args:
    path: a little-endian file of version 2 or 3.

  Returns:
    Its metadata and its tensors, none of which is read yet.

  Raises:
    GGUFError: if the file is absent, damaged, or holds types not read here.
  """
  path = pathlib.Path(path)
  data = weight_files.mapped(path, GGUFError)
  try:
    header = gguf_header.parse(data)
  except GGUFError as error:
    raise GGUFError(f'{path}: {error}') from error
  content = np.frombuffer(data, np.uint8)
  tensors = {}
  for info in header.tensors:
    start = header.data_start + info.offset
    raw = content[start : start + info.nbytes]
    tensors[info.name] = GGUFTensor(info.name, info.qtype, info.shape, raw)
  return GGUFFile(path, header.version, header.metadata, tensors)


def write_gguf(
  path: str | os.PathLike,
  metadata: Mapping[str, Any],
  tensors: Mapping[str, Any],
  qtypes: Mapping[str, str] | Callable[[str], str] | None = None,
) -> None:
  """Writes a GGUF file of version 3, whole or not at all.

  Args:
    path: the file; missing folders above it are made.
    metadata: key -> value; `gguf_header.encode` says how it is stored.
      `general.alignment` (32 where absent) aligns the tensors.
    tensors: name -> array, `[out, in]` for a linear layer, or a `GGUFTensor`,
      whose bytes are copied as they are.
    qtypes: name -> type of the arrays, one of `WRITTEN`, F32 where it is
      silent.

  Raises:
    GGUFError: if a tensor or a value has no such form.
    UserError: if the file cannot be written.
  """
  chosen = _chosen_types(tensors, qtypes)
  alignment = gguf_header.checked_alignment(metadata)
  infos, offset = [], 0
  for name, tensor in tensors.items():
    shape = tuple(np.shape(tensor))
    if isinstance(tensor, GGUFTensor):
      shape = tensor.shape
    try:
      nbytes = math.prod(gguf_blocks.byte_shape(chosen[name], shape))
    except GGUFError as error:
      raise GGUFError(f'tensor {name!r}: {error}') from error
    infos.append(
      gguf_header.TensorInfo(name, chosen[name], shape, offset, nbytes)
    )
    offset += nbytes + -nbytes % alignment
  header = gguf_header.encode(metadata, infos)
  with (
    weight_files.replacing(path) as temporary,
    temporary.open('wb') as stream,
  ):
    stream.write(header)
    for info, tensor in zip(infos, tensors.values(), strict=True):
      stream.write(_blocks(info, tensor).data)
      stream.write(bytes(-info.nbytes % alignment))


def _chosen_types(
  tensors: Mapping[str, Any],
  qtypes: Mapping[str, str] | Callable[[str], str] | None,
) -> dict[str, str]:
  """Returns the type of every tensor."""
  if isinstance(qtypes, Mapping):
    unknown = sorted(set(qtypes) - set(tensors))
    if unknown:
      raise GGUFError(f'qtypes names tensors that are absent: {unknown[:10]}.')
  chosen = {}
  for name, tensor in tensors.items():
    if isinstance(tensor, GGUFTensor):
      chosen[name] = tensor.qtype
      continue
    if qtypes is None:
      chosen[name] = 'F32'
    elif isinstance(qtypes, Mapping):
      chosen[name] = qtypes.get(name, 'F32')
    else:
      chosen[name] = qtypes(name)
    if chosen[name] not in WRITTEN:
      raise GGUFError(
        f'tensor {name!r}: weights are not written as {chosen[name]!r}; choose'
        f' one of {", ".join(WRITTEN)}.'
      )
  return chosen


def _blocks(info: gguf_header.TensorInfo, tensor: Any) -> np.ndarray:
  """Returns the bytes of a tensor in its type."""
  if isinstance(tensor, GGUFTensor):
    return tensor.raw
  try:
    return quantize(tensor, info.qtype).reshape(-1)
  except GGUFError as error:
    raise GGUFError(f'tensor {info.name!r}: {error}') from error
