"""Tensors in a file of `torch.save`, read without PyTorch.

The format is that of PyTorch before 1.6: five pickles (a magic number, a
version, the machine, the object, the keys of the storages), then the storages
themselves. Only tensors in dictionaries are unpickled: a file cannot run code.
"""

import collections
import os
import pickle
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from jaxlab import errors

_MAGIC = 0x1950A86A20F9469CFC6C
_DTYPES = {
  'FloatStorage': '<f4',
  'DoubleStorage': '<f8',
  'HalfStorage': '<f2',
  'LongStorage': '<i8',
  'IntStorage': '<i4',
  'ByteStorage': 'u1',
}


class _Storage(NamedTuple):
  key: str
  dtype: np.dtype
  size: int


class _View(NamedTuple):
  """A tensor whose storage comes later in the file."""

  storage: _Storage
  offset: int
  shape: tuple[int, ...]
  strides: tuple[int, ...]


class _Unpickler(pickle.Unpickler):
  """Makes views of storages and ordered dictionaries, and nothing else."""

  storages: dict[str, _Storage]

  def __init__(self, stream: BinaryIO):
    super().__init__(stream)
    self.storages = {}

  def find_class(self, module: str, name: str) -> Any:
    if (module, name) == ('collections', 'OrderedDict'):
      return collections.OrderedDict
    if (module, name) == ('torch._utils', '_rebuild_tensor_v2'):
      return lambda storage, offset, shape, strides, *rest: _View(
        storage, offset, shape, strides
      )
    if module == 'torch' and name in _DTYPES:
      return np.dtype(_DTYPES[name])
    raise pickle.UnpicklingError(f'it asks for {module}.{name}')

  def persistent_load(self, pid: Any) -> _Storage:
    _, dtype, key, _, size, whole = pid
    if whole is not None:
      raise pickle.UnpicklingError('it has views of storages')
    self.storages[key] = _Storage(key, dtype, size)
    return self.storages[key]


def read(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
  """Reads the dictionary of tensors that a file holds.

  Raises:
    UserError: if it cannot be read, is in another format, is damaged, or holds
      anything but tensors by name.
  """
  try:
    with open(path, 'rb') as stream:
      return _read(stream)
  except OSError as error:
    raise errors.UserError(
      f'{path}: {error.strerror}; make it a readable file.'
    ) from error
  # A damaged pickle raises whatever its bytes happen to spell.
  except Exception as error:
    raise errors.UserError(
      f'{path} holds no dictionary of tensors in the format of PyTorch before'
      f' 1.6 ({error}); take the file again from its source.'
    ) from error


def _read(stream: BinaryIO) -> dict[str, np.ndarray]:
  if _Unpickler(stream).load() != _MAGIC:
    raise pickle.UnpicklingError('its magic number is another')
  for _ in ('version', 'machine'):
    _Unpickler(stream).load()
  unpickler = _Unpickler(stream)
  views = unpickler.load()
  content = {}
  for key in _Unpickler(stream).load():
    storage = unpickler.storages[key]
    size = int.from_bytes(stream.read(8), 'little')
    data = stream.read(size * storage.dtype.itemsize)
    content[key] = np.frombuffer(data, storage.dtype)
    if not size == storage.size == content[key].size:
      raise EOFError(f'storage {key} is not of {storage.size} numbers')
  return {
    str(name): _array(view, content[view.storage.key])
    for name, view in views.items()
  }


def _array(view: _View, numbers: np.ndarray) -> np.ndarray:
  steps = zip(view.shape, view.strides, strict=True)
  last = view.offset + sum((size - 1) * stride for size, stride in steps)
  lowest = min((view.offset, *view.shape, *view.strides))
  if lowest < 0 or last >= numbers.size:
    raise ValueError('a tensor reaches out of its storage')
  item = numbers.dtype.itemsize
  return np.lib.stride_tricks.as_strided(
    numbers[view.offset :], view.shape, [item * step for step in view.strides]
  ).copy()
