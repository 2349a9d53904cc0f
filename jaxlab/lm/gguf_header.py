"""The header of a GGUF file: version, metadata and the table of tensors.

All numbers are little endian. A header is: magic, u32 version, u64 number of
tensors, u64 number of metadata entries; the entries, each a key, a u32 type
and a value; the tensors, each a name, u32 number of axes, u64 sizes with the
fastest axis first, u32 type, u64 offset from the start of the data. A string
is a u64 length and UTF-8. Data starts at the next multiple of
`general.alignment`. Source: ggml's `docs/gguf.md`.
"""

import math
import mmap
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlab.lm import gguf_blocks
from jaxlab.lm.gguf_blocks import GGUFError

MAGIC = b'GGUF'
VERSION = 3
ALIGNMENT_KEY = 'general.alignment'
_ALIGNMENT = 32
_VERSIONS = (2, 3)
_MAX_AXES = 4
_MAX_DEPTH = 4
# A damaged count can name no more than these objects, whatever the file's
# size; the largest vocabularies with their merges hold a third of them.
_MAX_STRINGS = 1 << 21
_MAX_ARRAYS = 1 << 16
# Text that is not UTF-8 takes six times its bytes while it is decoded.
_MAX_ITEM_BYTES = 1 << 20
_MAX_TEXT_BYTES = 1 << 23

_BOOL, _STRING, _ARRAY = 7, 8, 9
_DTYPES: dict[int, np.dtype] = {
  0: np.dtype('<u1'),
  1: np.dtype('<i1'),
  2: np.dtype('<u2'),
  3: np.dtype('<i2'),
  4: np.dtype('<u4'),
  5: np.dtype('<i4'),
  6: np.dtype('<f4'),
  _BOOL: np.dtype(np.bool_),
  10: np.dtype('<u8'),
  11: np.dtype('<i8'),
  12: np.dtype('<f8'),
}
_NUMBERS = {dtype: number for number, dtype in _DTYPES.items()}
_U32, _U64 = _DTYPES[4], _DTYPES[10]
_LENGTH = struct.Struct('<Q')


class TensorInfo(NamedTuple):
  """A row of the table of tensors.

  Attributes:
    name: the tensor's name.
    qtype: name of its type.
    shape: in NumPy's order, slowest axis first.
    offset: bytes from the start of the data.
    nbytes: bytes of its blocks.
  """

  name: str
  qtype: str
  shape: tuple[int, ...]
  offset: int
  nbytes: int


class Header(NamedTuple):
  """What stands before the data.

  Attributes:
    version: 2 or 3.
    metadata: key -> Python scalar, NumPy array, list of strings or, where
      arrays are nested, list of such.
    tensors: in the order of the file.
    data_start: bytes from the start of the file.
  """

  version: int
  metadata: dict[str, Any]
  tensors: list[TensorInfo]
  data_start: int


def parse(data: mmap.mmap | bytes) -> Header:
  """Reads the header of a file.

  Args:
    data: the whole file, mapped.

  Returns:
    Its header; every tensor lies within the file.

  Raises:
    GGUFError: if it is not a whole GGUF file of a version read here.
  """
  if data[:4] != MAGIC:
    raise GGUFError(
      f'not a GGUF file: bad magic {data[:4]!r}; give one made for llama.cpp.'
    )
  scan = _Scan(data, offset=4)
  version = _version(scan.integer(_U32, 'version'))
  tensor_count = scan.integer(_U64, 'number of tensors')
  entry_count = scan.integer(_U64, 'number of metadata entries')
  # Smallest entry: empty key, type, one byte; smallest tensor: no axes.
  scan.expect(entry_count * 13 + tensor_count * 24, 'metadata and tensors')
  metadata: dict[str, Any] = {}
  for _ in range(entry_count):
    key = scan.string('metadata key')
    if key in metadata:
      raise GGUFError(f'metadata key {_quoted(key)} stands there twice.')
    what = f'key {_quoted(key)}'
    metadata[key] = scan.value(scan.integer(_U32, what), what)
  tensors: dict[str, TensorInfo] = {}
  alignment = checked_alignment(metadata)
  for _ in range(tensor_count):
    info = _tensor(scan, alignment)
    if info.name in tensors:
      raise GGUFError(f'tensor {_quoted(info.name)} stands there twice.')
    tensors[info.name] = info
  data_start = -(-scan.offset // alignment) * alignment
  for info in tensors.values():
    start = data_start + info.offset
    if start + info.nbytes > len(data):
      raise _truncated(
        f'tensor {_quoted(info.name)}', info.nbytes, start, len(data)
      )
  # Arrays are views of the file up to here: a damaged count costs nothing.
  metadata = {key: _native(value) for key, value in metadata.items()}
  return Header(version, metadata, list(tensors.values()), data_start)


def checked_alignment(metadata: Mapping[str, Any]) -> int:
  """Returns the alignment of the data in bytes.

  Args:
    metadata: of the file; `general.alignment` is 32 where it is absent.

  Raises:
    GGUFError: if it is not a power of two.
  """
  value = metadata.get(ALIGNMENT_KEY, _ALIGNMENT)
  whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
  if not whole or value <= 0 or value & (value - 1):
    raise GGUFError(
      f'{ALIGNMENT_KEY} must be a power of two, got {_quoted(value)}.'
    )
  return int(value)


class _Scan:
  """A place in the bytes of a header; nothing is read past their end."""

  def __init__(self, data: mmap.mmap | bytes, offset: int):
    self.data = data
    self.size = len(data)
    self.offset = offset
    self.strings_left = _MAX_STRINGS
    self.arrays_left = _MAX_ARRAYS

  def expect(self, nbytes: int, what: str) -> None:
    """Raises an error unless so many bytes are left."""
    if nbytes > self.size - self.offset:
      raise _truncated(what, nbytes, self.offset, self.size)

  def numbers(self, dtype: np.dtype, count: int, what: str) -> np.ndarray:
    """Returns the next numbers as a view of the file."""
    self.expect(dtype.itemsize * count, what)
    stored = np.dtype(np.uint8) if dtype == np.bool_ else dtype
    found = np.frombuffer(self.data, stored, count, self.offset)
    if dtype == np.bool_ and count and found.max() > 1:
      raise GGUFError(f'{what} holds a truth value other than 0 and 1.')
    self.offset += dtype.itemsize * count
    return found.view(dtype)

  def integer(self, dtype: np.dtype, what: str) -> int:
    return int(self.numbers(dtype, 1, what)[0])

  def string(
    self, what: str, limit: int = _MAX_ITEM_BYTES, on_error: str = 'strict'
  ) -> str:
    """Returns the next string, a name unless `limit` is larger."""
    length = self.integer(_U64, what)
    self.expect(length, what)
    _check_length(length, limit, what)
    start = self.offset
    self.offset += length
    try:
      return str(self.data[start : self.offset], 'utf-8', on_error)
    except UnicodeDecodeError as error:
      raise GGUFError(f'{what} at byte {start} is not UTF-8.') from error

  def strings(self, count: int, what: str) -> list[str]:
    """Returns the next strings; a vocabulary has 10^5, so the loop is bare."""
    self.expect(count * _LENGTH.size, what)
    self.strings_left -= count
    if self.strings_left < 0:
      raise GGUFError(f'{what}: more than {_MAX_STRINGS} strings in a header.')
    data, size, offset = self.data, self.size, self.offset
    unpack, found = _LENGTH.unpack_from, []
    for _ in range(count):
      start = offset + 8
      if start > size:
        raise _truncated(what, 8, offset, size)
      offset = start + unpack(data, offset)[0]
      if offset > size:
        raise _truncated(what, offset - start, start, size)
      _check_length(offset - start, _MAX_ITEM_BYTES, what)
      found.append(str(data[start:offset], 'utf-8', 'replace'))
    self.offset = offset
    return found

  def value(self, number: int, what: str, depth: int = 0) -> Any:
    """Returns the next value of a metadata type."""
    if number in _DTYPES:
      return self.numbers(_DTYPES[number], 1, what)[0].item()
    if number == _STRING:
      return self.string(what, _MAX_TEXT_BYTES, 'replace')
    if number != _ARRAY:
      raise GGUFError(f'{what} has unknown metadata type {number}.')
    element = self.integer(_U32, what)
    count = self.integer(_U64, what)
    if element in _DTYPES:
      return self.numbers(_DTYPES[element], count, what)
    if element == _STRING:
      return self.strings(count, what)
    # Smallest nested array: its type and its count.
    self.expect(count * 12, what)
    self.arrays_left -= count
    if depth >= _MAX_DEPTH or self.arrays_left < 0:
      raise GGUFError(
        f'{what} nests arrays deeper than {_MAX_DEPTH} or more than'
        f' {_MAX_ARRAYS} of them.'
      )
    return [self.value(element, what, depth + 1) for _ in range(count)]


def _tensor(scan: _Scan, alignment: int) -> TensorInfo:
  """Reads a row of the table of tensors."""
  name = scan.string('tensor name')
  what = f'tensor {_quoted(name)}'
  axes = scan.integer(_U32, what)
  if axes > _MAX_AXES:
    raise GGUFError(f'{what} has {axes} axes; at most {_MAX_AXES} are allowed.')
  sizes = [int(size) for size in scan.numbers(_U64, axes, what)]
  number = scan.integer(_U32, what)
  offset = scan.integer(_U64, what)
  if math.prod(size for size in sizes if size) >= 1 << 60:
    raise GGUFError(f'{what}: its axes {sizes} overflow 64 bits.')
  if offset % alignment:
    raise GGUFError(
      f'{what} has offset {offset}, not a multiple of {alignment}.'
    )
  shape = tuple(reversed(sizes))
  try:
    kind = gguf_blocks.block_type(number)
    nbytes = math.prod(gguf_blocks.byte_shape(number, shape))
  except GGUFError as error:
    raise GGUFError(f'{what}: {error}') from error
  return TensorInfo(name, kind.name, shape, offset, nbytes)


def _check_length(length: int, limit: int, what: str) -> None:
  if length > limit:
    raise GGUFError(f'{what} has {length} bytes; at most {limit} are allowed.')


def _version(number: int) -> int:
  if number in _VERSIONS:
    return number
  # A version is a small number; with its zeros first it was written swapped.
  swapped = number & 0xFFFF == 0 and number
  version = int.from_bytes(number.to_bytes(4, 'little')) if swapped else number
  kind = 'big-endian' if swapped else 'unsupported'
  raise GGUFError(
    f'GGUF version {version} is big-endian/unsupported (this one is {kind});'
    ' convert the file to little-endian version 3.'
  )


def _native(value: Any) -> Any:
  """Copies arrays out of the file, in the byte order of this machine."""
  if isinstance(value, np.ndarray):
    return value.astype(value.dtype.newbyteorder('='))
  if isinstance(value, list):
    return [_native(item) for item in value]
  return value


def _truncated(what: str, need: int, offset: int, size: int) -> GGUFError:
  return GGUFError(
    f'truncated: {what} needs {need} bytes at offset {offset}, file has {size}.'
  )


def _quoted(value: Any) -> str:
  """Returns a value on one line, shortened: damaged names can be long."""
  text = value[:60] if isinstance(value, str) else repr(value)[:60]
  return repr(text) if isinstance(value, str) else text


def encode(metadata: Mapping[str, Any], tensors: Sequence[TensorInfo]) -> bytes:
  """Returns a header of version 3, padded to the start of the data.

  Args:
    metadata: what `parse` returns. A bool, float (as float32) or str is
      stored as such, an int as uint32 where it fits, else as int32, uint64 or
      int64; NumPy scalars and arrays keep their dtype; lists hold strings,
      numbers or lists, an empty one is taken for strings.
    tensors: with offsets from the start of the data.

  Raises:
    GGUFError: if a value has no form in the file.
  """
  counts = np.array([len(tensors), len(metadata)], _U64).tobytes()
  parts = [MAGIC, np.array(VERSION, _U32).tobytes(), counts]
  for key, value in metadata.items():
    try:
      number, content = _encode_value(value)
    except (TypeError, ValueError, OverflowError) as error:
      raise GGUFError(f'key {_quoted(key)}: {error}') from error
    parts += [_encode_string(key), np.array(number, _U32).tobytes(), content]
  for info in tensors:
    axes = len(info.shape)
    if axes > _MAX_AXES:
      raise GGUFError(
        f'tensor {_quoted(info.name)} has {axes} axes; at most {_MAX_AXES} are'
        ' allowed.'
      )
    number = gguf_blocks.block_type(info.qtype).number
    parts += [
      _encode_string(info.name),
      np.array(axes, _U32).tobytes(),
      np.array(info.shape[::-1], _U64).tobytes(),
      np.array(number, _U32).tobytes(),
      np.array(info.offset, _U64).tobytes(),
    ]
  header = b''.join(parts)
  return header + bytes(-len(header) % checked_alignment(metadata))


def _encode_string(text: str) -> bytes:
  content = text.encode()
  return _LENGTH.pack(len(content)) + content


def _encode_value(value: Any) -> tuple[int, bytes]:
  """Returns the number of a metadata type and the bytes of a value."""
  if isinstance(value, str):
    return _STRING, _encode_string(value)
  if isinstance(value, list | tuple) or np.ndim(value):
    return _ARRAY, _encode_array(value)
  scalar = _typed(value)
  return _NUMBERS[scalar.dtype], scalar.tobytes()


def _encode_array(values: Any) -> bytes:
  if isinstance(values, np.ndarray) and values.dtype.kind != 'U':
    flat = _typed(values)
    element, content = _NUMBERS[flat.dtype], flat.tobytes()
    if flat.ndim > 1:
      raise GGUFError(f'an array of metadata has one axis, got {flat.ndim}.')
  elif all(isinstance(item, str) for item in values):
    element, content = _STRING, b''.join(map(_encode_string, values))
  elif all(isinstance(item, list | tuple | np.ndarray) for item in values):
    element, content = _ARRAY, b''.join(map(_encode_array, values))
  else:
    return _encode_array(_typed(values))
  head = np.array(element, _U32).tobytes()
  return head + _LENGTH.pack(len(values)) + content


def _typed(value: Any) -> np.ndarray:
  """Gives a number or numbers the dtype that stands in the file."""
  array = np.asarray(value)
  if isinstance(value, np.ndarray | np.generic):
    dtype = array.dtype.newbyteorder('<')
  elif array.dtype.kind == 'f':
    dtype = np.dtype('<f4')
  elif array.dtype.kind in 'iu':
    low, high = int(array.min()), int(array.max())
    kinds = 'u4 u8' if low >= 0 else 'i4 i8'
    limits = [np.iinfo(name) for name in kinds.split()]
    fitting = [str(i.dtype) for i in limits if i.min <= low and high <= i.max]
    dtype = np.dtype(fitting[0]).newbyteorder('<')
  else:
    dtype = array.dtype
  if dtype not in _NUMBERS:
    raise GGUFError(f'{_quoted(value)} ({dtype}) has no form in a GGUF file.')
  with np.errstate(over='raise'):
    try:
      return array.astype(dtype)
    except FloatingPointError as error:
      raise GGUFError(f'{_quoted(value)} overflows float32.') from error
