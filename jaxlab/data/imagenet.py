"""ImageNet, or any pictures of which each class has a folder of its own.

J. Deng et al. (2009). The pictures come from the user: `<split>/<class>/*` or
`<class>/*` in one folder. Each is scaled to a shorter side of 256 pixels and
cut to the middle 224, as in the usual evaluation.
"""

import os
import pathlib
from typing import NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import paths, pictures

_ENDINGS = ('.jpeg', '.jpg', '.png', '.webp', '.bmp')


class ImageNet(NamedTuple):
  """Pictures with their labels.

  Attributes:
    images: `[n, size, size, 3]` float32 in [0, 1].
    labels: `[n]` int32, places in `classes`.
    classes: the names of the classes' folders.
  """

  images: np.ndarray
  labels: np.ndarray
  classes: tuple[str, ...]


def load(
  split: str | None = 'val',
  *,
  folder: str | os.PathLike[str] | None = None,
  index: str | os.PathLike[str] | None = None,
  per_class: int | None = None,
  size: int = 224,
  resize: int = 256,
) -> ImageNet:
  """Reads the pictures, class by class, each class sorted by file name.

  Args:
    split: folder of the split, such as `'train'` or `'val'`; None where the
      classes' folders lie directly in `folder`.
    folder: None is `imagenet` under `JAXLAB_DATA`.
    index: text file whose lines start with the folder of label 0, 1, ...; None
      numbers the sorted folders.
    per_class: reads only so many pictures of each class.
    size: side of the middle that is kept.
    resize: length of the shorter side before that.

  Raises:
    UserError: if a picture is damaged, a folder is not in `index`, or the
      sizes do not fit.
    MissingDataError: if there are no pictures.
  """
  if not 0 < size <= resize:
    raise errors.UserError(
      f'imagenet: size={size} is not in [1, resize={resize}].'
    )
  if per_class is not None and per_class < 1:
    raise errors.UserError(
      f'imagenet: per_class={per_class} is not positive; None reads all.'
    )
  root = _root(split, folder)
  found = _class_folders(root)
  if not found:
    raise _missing(root)
  classes = _classes(found, index)
  place = {name: label for label, name in enumerate(classes)}
  labels, images = [], []
  for name in sorted(found, key=place.__getitem__):
    for path in found[name][:per_class]:
      images.append(pictures.center_crop(pictures.decode(path), size, resize))
      labels.append(place[name])
  return ImageNet(
    pictures.unit(np.stack(images)), np.array(labels, np.int32), classes
  )


def prepare(manual_dir: str | None = None) -> str:
  """Says how many pictures there are; they stay where they are."""
  root = _root(None, manual_dir)
  below = [path for path in sorted(root.glob('*')) if path.is_dir()]
  found = [_class_folders(path) for path in (root, *below)]
  count = sum(len(files) for classes in found for files in classes.values())
  if not count:
    raise _missing(root)
  return f'imagenet: {count:,} pictures in {root}, which is read as it is.'


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  found = _class_folders(_root(split, None))
  counts = [len(paths) for paths in found.values()]
  if not counts:
    raise _missing(_root(split, None))
  return [
    ('source', 'pictures of yours, a folder for each class'),
    ('licence', 'that of your pictures'),
    ('splits', 'the folders of your splits'),
    ('images', f'{sum(counts):,}, cut to 224 x 224, float32 in [0, 1]'),
    ('labels', f'{len(counts):,}, {min(counts)}..{max(counts)} pictures each'),
  ]


def _root(
  split: str | None, folder: str | os.PathLike[str] | None
) -> pathlib.Path:
  root = paths.data_root() / 'imagenet' if folder is None else folder
  return pathlib.Path(root).expanduser() / (split or '')


def _class_folders(root: pathlib.Path) -> dict[str, list[pathlib.Path]]:
  """The pictures in each folder in `root` that has any."""
  found = {}
  for folder in sorted(root.glob('*')):
    files = [
      path
      for path in sorted(folder.glob('*'))
      if path.suffix.lower() in _ENDINGS
    ]
    if files:
      found[folder.name] = files
  return found


def _classes(
  found: dict[str, list[pathlib.Path]], index: str | os.PathLike[str] | None
) -> tuple[str, ...]:
  """The names of the classes in the order of their labels."""
  if index is None:
    return tuple(found)
  try:
    lines = pathlib.Path(index).expanduser().read_text().splitlines()
  except (OSError, UnicodeDecodeError) as error:
    raise errors.UserError(
      f'{index} cannot be read; name a text file with a folder in each line.'
    ) from error
  classes = tuple(line.split()[0] for line in lines if line.strip())
  unknown = sorted(set(found) - set(classes))
  if unknown:
    raise errors.UserError(
      f'imagenet: the folder {unknown[0]!r} is not in {index}; add its line.'
    )
  return classes


def _missing(root: pathlib.Path) -> errors.MissingDataError:
  return errors.MissingDataError(
    f'imagenet is not here (looked for <class>/*.jpeg in {root}): take the'
    ' pictures from the ImageNet site, unpack them into a folder for each'
    ' class, and name their folder, or point the variable JAXLAB_DATA to a'
    ' folder that holds them in imagenet/.'
  )
