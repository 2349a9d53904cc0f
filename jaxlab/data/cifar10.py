"""CIFAR-10: 60,000 colour pictures of 32 x 32 pixels in ten classes.

A. Krizhevsky, "Learning multiple layers of features from tiny images" (2009).
Read from the binary batches of the public distribution, from the copy that
TensorFlow Datasets builds under the name `cifar10`, from zips of JPEG files
`<class>/<index>.jpg`, or from the bytes of some of these in npz files. JPEG is
lossy: compare methods on pictures of one source only.
"""

import io
import itertools
import os
import pathlib
import zipfile
import zlib
from typing import NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import files, pictures, ready_made

CLASSES = (
  'airplane',
  'automobile',
  'bird',
  'cat',
  'deer',
  'dog',
  'frog',
  'horse',
  'ship',
  'truck',
)
SOURCES = ('binary', 'tfds', 'jpeg', 'subset')
_SPLITS = ('train', 'test')
_SIDE = 32
_CURE = 'take the file again from its source'
_ORIGIN = (
  'the public distribution of CIFAR-10 (cifar-10-binary.tar.gz, unpacked) or'
  ' zips of JPEG files (train.zip, test.zip), or run `tfds build cifar10'
  ' --file_format=array_record`'
)
_BATCHES = {
  'train': [f'data_batch_{i}.bin' for i in range(1, 6)],
  'test': ['test_batch.bin'],
}
_PARTS = {
  'train': ['cifar10_train_a.npz', 'cifar10_train_b.npz'],
  'test': ['cifar10_test.npz'],
}


class Cifar10(NamedTuple):
  """Pictures with their labels.

  Attributes:
    images: `[n, 32, 32, 3]` float32 in [0, 1].
    labels: `[n]` int32, places in `CLASSES`.
    source: one of `SOURCES`.
  """

  images: np.ndarray
  labels: np.ndarray
  source: str


def load(
  split: str | None = None,
  *,
  source: str | None = None,
  folder: str | os.PathLike[str] | None = None,
) -> Cifar10:
  """Reads the pictures.

  Args:
    split: `'train'` (50,000) or `'test'` (10,000); None is both, one after
      the other.
    source: `'binary'`, `'tfds'`, `'jpeg'`, or `'subset'` (the first 6,000 and
      2,000 JPEG files); None is the first of them that is here.
    folder: folder of the files; None is the data set's under `JAXLAB_DATA`.

  Raises:
    UserError: if the split or source is unknown or a file is damaged.
    MissingDataError: if there are no such files.
  """
  if split is not None and split not in _SPLITS:
    raise errors.UserError(
      f"cifar10: split={split!r} is not 'train' or 'test'."
    )
  if source is not None and source not in SOURCES:
    raise errors.UserError(
      f'cifar10: source={source!r} is not one of {", ".join(SOURCES)}.'
    )
  splits = _SPLITS if split is None else (split,)
  absent: errors.MissingDataError | None = None
  for each in SOURCES if source is None else (source,):
    try:
      parts = [_READERS[each](part, folder) for part in splits]
    except errors.MissingDataError as error:
      absent = absent or error
    else:
      _check_labels([labels for _, labels in parts], each)
      images, labels = map(np.concatenate, zip(*parts, strict=True))
      return Cifar10(pictures.unit(images), labels.astype(np.int32), each)
  assert absent is not None
  raise absent


def prepare(manual_dir: str | None = None) -> str:
  """Checks the files, and copies those of `manual_dir` to the cache."""
  found = load(folder=manual_dir)
  if found.source == 'tfds':
    return 'cifar10: the copy of TensorFlow Datasets is sound.'
  raw = _raw(found.source, _SPLITS)
  return files.keep(raw, files.find(raw, manual_dir), manual_dir)


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  images, labels, source = load(split)
  counts = np.bincount(labels, minlength=len(CLASSES))
  return [
    ('source', f'Krizhevsky (2009), read from source={source!r}'),
    ('licence', 'none stated; published for research use with citation'),
    ('splits', 'train (50,000), test (10,000)'),
    ('images', f'{list(images.shape)} float32 in [0, 1]'),
    ('labels', f'[{len(labels):,}] int32, {counts.min()}..{counts.max()} each'),
  ]


def _raw(source: str, splits: tuple[str, ...]) -> files.RawFiles:
  """The files of some splits in one source."""
  if source == 'binary':
    patterns = [
      [name, f'cifar-10-batches-bin/{name}']
      for split in splits
      for name in _BATCHES[split]
    ]
    return files.RawFiles('cifar10', patterns, _ORIGIN, 'cifar10_binary')
  if source == 'jpeg':
    patterns = [[f'{split}.zip'] for split in splits]
    return files.RawFiles('cifar10', patterns, _ORIGIN, 'cifar10_jpeg')
  patterns = [[name] for split in splits for name in _PARTS[split]]
  return files.RawFiles('cifar10', patterns, _ORIGIN, 'sharp_q')


def _read_binary(split, folder):
  """Reads records of a label and the red, green and blue planes."""
  size = 1 + 3 * _SIDE**2
  batches = []
  for path in files.find(_raw('binary', (split,)), folder):
    content = np.fromfile(path, np.uint8)
    if not content.size or content.size % size:
      raise errors.UserError(
        f'{path} has {content.size:,} bytes, not records of {size}; {_CURE}.'
      )
    batches.append(content.reshape(-1, size))
  records = np.concatenate(batches)
  planes = records[:, 1:].reshape(-1, 3, _SIDE, _SIDE)
  return planes.transpose(0, 2, 3, 1), records[:, 0]


def _check_labels(parts, source):
  for labels in parts:
    if not labels.size or labels.min() < 0 or labels.max() >= len(CLASSES):
      raise errors.UserError(
        f'cifar10: source={source!r} has no labels of 0..9 only; take its files'
        ' again from their source.'
      )


def _read_tfds(split, folder):
  builder = None if folder is not None else ready_made.find('cifar10')
  if builder is None:
    raise errors.MissingDataError(
      'cifar10: there is no copy of TensorFlow Datasets; run `tfds build'
      ' cifar10 --file_format=array_record`, or leave source and folder out.'
    )
  return ready_made.read(builder, split)


def _read_jpeg(split, folder):
  (path,) = files.find(_raw('jpeg', (split,)), folder)
  return pictures.decoded_once(path, _decode_zip)


def _decode_zip(path):
  """Decodes all pictures of a zip, ordered by number, then by class."""
  try:
    with zipfile.ZipFile(path) as archive:
      members = sorted(
        (int(file.stem), CLASSES.index(file.parent.name), str(file))
        for file in map(pathlib.PurePosixPath, archive.namelist())
        if file.suffix == '.jpg'
      )
      content = [archive.read(name) for _, _, name in members]
  except (OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
    raise errors.UserError(
      f'{path} is no zip of <class>/<number>.jpg ({error}); {_CURE}.'
    ) from error
  names = [f'{name} in {path}' for _, _, name in members]
  return _decoded(content, names), np.array([label for _, label, _ in members])


def _read_subset(split, folder):
  """Decodes the JPEG files that lie end to end in arrays."""
  images, labels = [], []
  for path in files.find(_raw('subset', (split,)), folder):
    try:
      with np.load(path) as content:
        jpeg, ends = content['jpeg'].tobytes(), content['offsets']
        labels.append(content['label'])
    except (KeyError, OSError, ValueError, EOFError, zipfile.BadZipFile) as why:
      raise errors.UserError(
        f'{path} does not hold jpeg, offsets and label ({why}); {_CURE}.'
      ) from why
    pieces = [jpeg[a:b] for a, b in itertools.pairwise(ends)]
    names = [f'picture {i} in {path}' for i in range(len(pieces))]
    images.append(_decoded(pieces, names))
  return np.concatenate(images), np.concatenate(labels)


def _decoded(content, names):
  """Decodes JPEG bytes to `[n, 32, 32, 3]` uint8."""
  images = [
    np.asarray(pictures.decode(io.BytesIO(jpeg), name))
    for jpeg, name in zip(content, names, strict=True)
  ]
  for image, name in zip(images, names, strict=True):
    if image.shape != (_SIDE, _SIDE, 3):
      raise errors.UserError(
        f'{name} has {list(image.shape)} pixels, not [32, 32, 3]; {_CURE}.'
      )
  return np.stack(images) if images else np.zeros((0, _SIDE, _SIDE, 3), 'u1')


_READERS = {
  'binary': _read_binary,
  'tfds': _read_tfds,
  'jpeg': _read_jpeg,
  'subset': _read_subset,
}
