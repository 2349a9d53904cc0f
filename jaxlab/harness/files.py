"""Files that are either whole or absent: atomic writes, JSON, CSV, npz."""

import csv
import io
import json
import math
import os
import pathlib
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxlab import errors


def write(path: pathlib.Path, data: bytes | str) -> None:
  """Writes a file so that its name never shows less than all of `data`.

  Args:
    path: the file; missing folders above it are made.
    data: the content; text is encoded as UTF-8.

  Raises:
    UserError: if the disk is full, or the folder is missing or read-only.
  """
  content = data.encode() if isinstance(data, str) else data
  temporary = path.with_name(f'.tmp-{os.getpid()}-{path.name}')
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
      with temporary.open('wb') as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
      os.replace(temporary, path)
    finally:
      temporary.unlink(missing_ok=True)
  except OSError as error:
    raise errors.UserError(
      f'cannot write {path}: {error.strerror}; make room or choose a folder'
      ' that you may write to.'
    ) from error


def json_text(value: Any) -> str:
  """Returns valid, indented JSON; NaN and infinities become null."""
  return json.dumps(plain(value), indent=2, allow_nan=False) + '\n'


def plain(value: Any, *, nonfinite: Any = None) -> Any:
  """Turns nested mappings, sequences and NumPy values into JSON's types.

  Args:
    value: mappings, lists, tuples, scalars, arrays, paths.
    nonfinite: what stands for NaN and infinities; a callable is given the
      number.

  Returns:
    The same made of dict, list, str, int, float, bool and None.

  Raises:
    TypeError: if a value is of a kind that JSON cannot say.
  """
  if isinstance(value, Mapping):
    return {
      str(key): plain(item, nonfinite=nonfinite) for key, item in value.items()
    }
  if isinstance(value, list | tuple):
    return [plain(item, nonfinite=nonfinite) for item in value]
  if hasattr(value, 'tolist'):
    return plain(value.tolist(), nonfinite=nonfinite)
  if isinstance(value, os.PathLike):
    return os.fspath(value)
  if isinstance(value, float) and not math.isfinite(value):
    return nonfinite(value) if callable(nonfinite) else nonfinite
  if value is None or isinstance(value, str | bool | int | float):
    return value
  raise TypeError(f'{value!r} ({type(value).__name__}) has no form in JSON.')


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
  """Returns rows as CSV; floats keep every digit.

  Args:
    rows: one mapping a row; the columns are their keys in order of first
      appearance, a missing value is an empty cell.

  Returns:
    The text with a header line.
  """
  columns = list(dict.fromkeys(key for row in rows for key in row))
  text = io.StringIO()
  writer = csv.DictWriter(text, columns, restval='', lineterminator='\n')
  writer.writeheader()
  for row in rows:
    # repr of a NumPy scalar names its type; item() is the bare number.
    writer.writerow(
      {
        key: value.item() if hasattr(value, 'item') else value
        for key, value in row.items()
      }
    )
  return text.getvalue()


def npz_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
  """Returns the content of an npz file; any string may name an array.

  Args:
    arrays: name -> array.

  Returns:
    What `npz_arrays` reads.

  Raises:
    TypeError: if a dtype has no form in the file, such as object or bfloat16.
  """
  stream = io.BytesIO()
  with zipfile.ZipFile(stream, 'w') as archive:
    for key, array in arrays.items():
      if array.dtype.hasobject or array.dtype.kind == 'V':
        raise TypeError(
          f'{key!r} has dtype {array.dtype}, which an npz file cannot hold;'
          ' convert it.'
        )
      with archive.open(f'{key}.npy', 'w', force_zip64=True) as member:
        np.lib.format.write_array(member, array, allow_pickle=False)
  return stream.getvalue()


def npz_arrays(content: bytes) -> dict[str, np.ndarray]:
  """Reads the content of an npz file.

  Args:
    content: the whole file.

  Returns:
    name -> array.

  Raises:
    ValueError: if it is damaged or holds pickles.
  """
  try:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
      return dict(archive)
  except (OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
    raise ValueError(f'not a whole npz file: {error}') from error
