"""Safetensors files as Hugging Face stores them: one, or shards and an index.

A file is a little-endian u64 length, a JSON header of so many bytes (name ->
dtype, shape, first and last byte) and the arrays' bytes. It is read here
without the package of that name, which is an oracle of the tests.
"""

import json
import math
import os
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from jaxlab import errors
from jaxlab.lm import weight_files

SINGLE = 'model.safetensors'
INDEX = 'model.safetensors.index.json'
CONFIG = 'config.json'
_DTYPES = {
  np.dtype(np.bool_): 'BOOL',
  np.dtype(np.uint8): 'U8',
  np.dtype(np.int8): 'I8',
  np.dtype(np.uint16): 'U16',
  np.dtype(np.int16): 'I16',
  np.dtype(np.uint32): 'U32',
  np.dtype(np.int32): 'I32',
  np.dtype(np.uint64): 'U64',
  np.dtype(np.int64): 'I64',
  np.dtype(np.float16): 'F16',
  np.dtype(ml_dtypes.bfloat16): 'BF16',
  np.dtype(np.float32): 'F32',
  np.dtype(np.float64): 'F64',
}
_NUMPY = {name: dtype.newbyteorder('<') for dtype, name in _DTYPES.items()}
_METADATA = '__metadata__'
# What a header of the wrong form makes Python say.
_FAULTS = (AttributeError, KeyError, RecursionError, TypeError, ValueError)
_MAX_HEADER_BYTES = 100_000_000  # the format's own limit


class SafetensorsError(errors.UserError):
  """Weights or their configuration cannot be read or written."""


class _Stored(NamedTuple):
  """An array of a mapped file: its header's words and its bytes."""

  kind: str
  shape: tuple[int, ...]
  raw: np.ndarray


class _Arrays(Mapping[str, np.ndarray]):
  """Arrays of mapped files, views that are made when they are asked for."""

  def __init__(self, files: Mapping[str, pathlib.Path]):
    opened = {path: _open(path) for path in sorted(set(files.values()))}
    absent = [name for name, path in files.items() if name not in opened[path]]
    if absent:
      raise SafetensorsError(
        f'{files[absent[0]].parent / INDEX} names tensors that its files do'
        f' not hold: {absent[:10]}; download the model again.'
      )
    self._paths = files
    self._stored = {name: opened[path][name] for name, path in files.items()}

  def __getitem__(self, name: str) -> np.ndarray:
    kind, shape, raw = self._stored[name]
    if kind not in _NUMPY:
      raise SafetensorsError(
        f'{self._paths[name]}: tensor {name!r} has dtype {kind}, which is not'
        ' read here; convert it to BF16.'
      )
    return raw.view(_NUMPY[kind]).reshape(shape)

  def __iter__(self) -> Iterator[str]:
    return iter(self._paths)

  def __len__(self) -> int:
    return len(self._paths)


def read_safetensors(path: str | os.PathLike) -> Mapping[str, np.ndarray]:
  """Opens the weights of a model.

  Args:
    path: a file, or a folder with `model.safetensors` or with shards and
      `model.safetensors.index.json`; the single file wins.

  Returns:
    name -> array of its stored dtype (bfloat16 as `ml_dtypes.bfloat16`), a
    read-only view of the mapped file.

  Raises:
    SafetensorsError: if a file is absent or damaged, or the index names
      tensors or files that are not there.
  """
  path = pathlib.Path(path)
  if path.is_dir() and (path / SINGLE).exists():
    path = path / SINGLE
  if not path.is_dir():
    return _Arrays(dict.fromkeys(_open(path).keys(), path))
  if not (path / INDEX).exists():
    raise SafetensorsError(
      f'{path} holds neither {SINGLE} nor {INDEX}; name a folder of a'
      ' downloaded model.'
    )
  return _Arrays(_indexed(path))


def _indexed(folder: pathlib.Path) -> dict[str, pathlib.Path]:
  """Returns name -> shard of a folder with an index."""
  index = folder / INDEX
  shards = _json_object(index).get('weight_map')
  if not isinstance(shards, dict) or not shards:
    raise SafetensorsError(f'{index} has no weight_map; download it again.')
  for file in shards.values():
    # An index comes from strangers; a shard lies beside it and nowhere else.
    plain = isinstance(file, str) and '\\' not in file and file != '..'
    if not plain or not file or pathlib.PurePath(file).name != file:
      raise SafetensorsError(
        f'{index} names the file {file!r}, which is not a plain file name.'
      )
  files = dict.fromkeys(shards.values())
  missing = [file for file in files if not os.path.exists(folder / file)]
  if missing:
    raise SafetensorsError(
      f'{index} names {missing[:10]}, which the folder lacks; download the'
      ' model again.'
    )
  return {name: folder / shard for name, shard in shards.items()}


def _open(path: pathlib.Path) -> dict[str, _Stored]:
  """Maps a file and checks its header; its arrays are not read."""
  data = weight_files.mapped(path, SafetensorsError)
  end = 8 + int.from_bytes(data[:8], 'little')
  try:
    if end > min(len(data), 8 + _MAX_HEADER_BYTES):
      raise ValueError(f'a header of {end - 8} bytes in {len(data)}')
    header = json.loads(data[8:end])
    header.pop(_METADATA, None)
    content = np.frombuffer(data, np.uint8)[end:]
    stored = {name: _entry(row, content) for name, row in header.items()}
    last = max((row['data_offsets'][1] for row in header.values()), default=0)
    if last != content.size:
      raise ValueError(f'{last} bytes of arrays, file has {content.size}')
  except _FAULTS as error:
    reason = ' '.join(str(error).split())[:100]
    raise SafetensorsError(
      f'{path} is not a whole safetensors file ({reason}); download it again.'
    ) from error
  return stored


def _entry(row: Any, content: np.ndarray) -> _Stored:
  """Checks a row of a header; faults are errors of any builtin kind."""
  kind, shape = row['dtype'], tuple(row['shape'])
  start, end = row['data_offsets']
  if not all(type(size) is int and size >= 0 for size in (*shape, start, end)):
    raise ValueError(f'shape {shape} or offsets {start}, {end}')
  if not isinstance(kind, str) or not start <= end <= content.size:
    raise ValueError(f'truncated: offsets {start}, {end} of {content.size}')
  if math.prod(size for size in shape if size) >= 1 << 60:
    raise ValueError(f'shape {shape} overflows')
  known = kind in _NUMPY
  if known and math.prod(shape) * _NUMPY[kind].itemsize != end - start:
    raise ValueError(f'{end - start} bytes of {kind} for shape {shape}')
  return _Stored(kind, shape, content[start:end])


def read_hf_config(folder: str | os.PathLike) -> dict[str, Any]:
  """Reads the `config.json` of a Hugging Face model.

  Args:
    folder: of the model.

  Returns:
    Its content.

  Raises:
    SafetensorsError: if it is absent or not a JSON object.
  """
  return _json_object(pathlib.Path(folder) / CONFIG)


def write_hf_config(
  folder: str | os.PathLike, config: Mapping[str, Any]
) -> None:
  """Writes the `config.json` of a Hugging Face model.

  Args:
    folder: of the model; made where it is missing.
    config: its content, of JSON's types.

  Raises:
    UserError: if it cannot be written.
  """
  _write_json(pathlib.Path(folder) / CONFIG, config)


def _write_json(path: pathlib.Path, content: Mapping[str, Any]) -> None:
  with weight_files.replacing(path) as temporary:
    text = json.dumps(dict(content), indent=2)
    temporary.write_text(text + '\n', encoding='utf-8')


def _json_object(path: pathlib.Path) -> dict[str, Any]:
  weight_files.check_regular(path, SafetensorsError)
  try:
    content = json.loads(path.read_text(encoding='utf-8'))
  except OSError as error:
    raise SafetensorsError(
      f'cannot read {path}: {error.strerror or error}; name a folder of a'
      ' downloaded model.'
    ) from error
  except (ValueError, RecursionError) as error:
    raise SafetensorsError(
      f'{path} is not valid JSON ({error}); download it again.'
    ) from error
  if not isinstance(content, dict):
    raise SafetensorsError(f'{path} is not a JSON object; download it again.')
  return content


def write_safetensors(
  path: str | os.PathLike,
  tensors: Mapping[str, Any],
  metadata: Mapping[str, str] | None = None,
  max_shard_bytes: int | None = None,
) -> None:
  """Writes arrays, whole or not at all.

  Args:
    path: the file; with `max_shard_bytes` a folder, which gets
      `model.safetensors` or, where that is not enough, shards and, last, their
      index.
    tensors: name -> array.
    metadata: texts for the header; `{'format': 'pt'}` where it is None,
      because transformers refuses files that do not say it.
    max_shard_bytes: bytes of arrays in a file; one larger array has a file of
      its own.

  Raises:
    SafetensorsError: if a dtype or a name has no form in the file, or the
      folder holds a model already.
    UserError: if a file cannot be written.
  """
  path = pathlib.Path(path)
  texts = {'format': 'pt'} if metadata is None else dict(metadata)
  _check(tensors, texts)
  if max_shard_bytes is None:
    _write_file(path, tensors, texts)
    return
  # Shards of two models under one index could never be told apart.
  if (path / SINGLE).exists() or (path / INDEX).exists():
    raise SafetensorsError(f'{path} holds a model already; name a new folder.')
  shards = _shards(tensors, max_shard_bytes)
  if len(shards) <= 1:
    _write_file(path / SINGLE, tensors, texts)
    return
  weight_map: dict[str, str] = {}
  for number, names in enumerate(shards, 1):
    file = f'model-{number:05d}-of-{len(shards):05d}.safetensors'
    _write_file(path / file, {name: tensors[name] for name in names}, texts)
    weight_map |= dict.fromkeys(names, file)
  total = sum(np.asarray(array).nbytes for array in tensors.values())
  index = {'metadata': {'total_size': total}, 'weight_map': weight_map}
  _write_json(path / INDEX, index)


def _check(tensors: Mapping[str, Any], texts: Mapping[str, str]) -> None:
  for name, array in tensors.items():
    dtype = np.asarray(array).dtype
    if dtype not in _DTYPES:
      raise SafetensorsError(
        f'tensor {name!r} has dtype {dtype}, which is not written here; convert'
        ' it to float32.'
      )
    if not isinstance(name, str) or name == _METADATA:
      raise SafetensorsError(f'{name!r} cannot name a tensor.')
  if not all(isinstance(part, str) for pair in texts.items() for part in pair):
    raise SafetensorsError('metadata must be texts under texts; convert them.')


def _shards(tensors: Mapping[str, Any], limit: int) -> list[list[str]]:
  """Returns the names of every file, filled in the order of `tensors`."""
  if limit <= 0:
    raise SafetensorsError(f'max_shard_bytes must be positive, got {limit}.')
  shards: list[list[str]] = []
  room = 0
  for name, array in tensors.items():
    nbytes = np.asarray(array).nbytes
    if not shards or nbytes > room:
      shards.append([])
      room = limit
    shards[-1].append(name)
    room -= nbytes
  return shards


def _write_file(
  path: pathlib.Path, tensors: Mapping[str, Any], texts: Mapping[str, str]
) -> None:
  """Writes one file, an array at a time."""
  arrays = {name: np.asarray(array) for name, array in tensors.items()}
  # The widest first: every array then starts at a multiple of its item size.
  order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
  header: dict[str, Any] = {_METADATA: dict(texts)} if texts else {}
  end = 0
  for name in order:
    array = arrays[name]
    start, end = end, end + array.nbytes
    header[name] = {
      'dtype': _DTYPES[array.dtype],
      'shape': list(array.shape),
      'data_offsets': [start, end],
    }
  content = json.dumps(header, separators=(',', ':')).encode()
  content += b' ' * (-len(content) % 8)
  with (
    weight_files.replacing(path) as temporary,
    temporary.open('wb') as stream,
  ):
    stream.write(len(content).to_bytes(8, 'little') + content)
    for name in order:
      # `tobytes` gives C order, whatever the strides of a transposed view.
      little = arrays[name].astype(
        arrays[name].dtype.newbyteorder('<'), copy=False
      )
      stream.write(little.tobytes())
