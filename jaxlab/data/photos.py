"""Photographs that ship with scikit-learn and scikit-image: no download.

They have no labels: good for comparing a network with its quantized self.
"""

import pathlib
from typing import NamedTuple

import numpy as np
import sklearn.datasets
from PIL import Image

from jaxlab import errors
from jaxlab.data import pictures

# Photographs of scikit-image that lie in its wheel; the last four are grey.
_SKIMAGE = {
  'astronaut': 'astronaut.png',
  'chelsea': 'chelsea.png',
  'coffee': 'coffee.png',
  'motorcycle': 'motorcycle_left.png',
  'rocket': 'rocket.jpg',
  'brick': 'brick.png',
  'camera': 'camera.png',
  'grass': 'grass.png',
  'gravel': 'gravel.png',
}
_SKLEARN = {'china': 'china.jpg', 'flower': 'flower.jpg'}
# Of another half of the photographs each, so that no scene is in both.
_SPLITS = ('calibration', 'test')


class Photos(NamedTuple):
  """Square crops of photographs.

  Attributes:
    images: `[n, size, size, 3]` float32 in [0, 1].
    photo: `[n]` int32, places in `names`.
    names: of the photographs.
  """

  images: np.ndarray
  photo: np.ndarray
  names: tuple[str, ...]


def load(
  split: str | None = None, *, n: int = 40, size: int = 224, seed: int = 0
) -> Photos:
  """Cuts random squares out of the photographs.

  Args:
    split: `'calibration'` or `'test'`: half of the photographs each; None is
      all of them.
    n: number of crops; every photograph gives as many, or one more.
    size: side of the crops, to which they are scaled.
    seed: decides where the crops lie.

  Raises:
    UserError: if `split`, `n` or `size` is out of range.
    MissingDataError: if scikit-image is not installed.
  """
  if split is not None and split not in _SPLITS:
    raise errors.UserError(
      f"photos: split={split!r} is not 'calibration' or 'test'."
    )
  if n < 1 or size < 1:
    raise errors.UserError(f'photos: n={n} and size={size} must be positive.')
  chosen = read()
  if split is not None:
    first = _SPLITS.index(split)
    chosen = dict(list(chosen.items())[first :: len(_SPLITS)])
  images = crops(list(chosen.values()), n, size, seed)
  photo = np.arange(n, dtype=np.int32) % len(chosen)
  return Photos(images, photo, tuple(chosen))


def read() -> dict[str, Image.Image]:
  """Returns the photographs by name.

  Raises:
    MissingDataError: if scikit-image is not installed.
  """
  try:
    import skimage  # noqa: PLC0415 (not everybody has it)
  except ImportError as error:
    raise errors.MissingDataError(
      "photos needs scikit-image; install the extra: pip install 'jaxlab"
      "[pretrained]'."
    ) from error
  folders = {
    pathlib.Path(sklearn.datasets.__file__).parent / 'images': _SKLEARN,
    pathlib.Path(skimage.__file__).parent / 'data': _SKIMAGE,
  }
  return {
    name: pictures.decode(folder / file)
    for folder, names in folders.items()
    for name, file in names.items()
  }


def crops(
  photos: list[Image.Image], n: int, size: int, seed: int
) -> np.ndarray:
  """Cuts random squares: crop i from photograph i modulo their number.

  Args:
    photos: of any size.
    n: number of crops.
    size: side of the crops after scaling.
    seed: decides the squares: their side is half to all of the shorter side.

  Returns:
    `[n, size, size, 3]` float32 in [0, 1].
  """
  rng = np.random.default_rng(seed)
  images = []
  for i in range(n):
    photo = photos[i % len(photos)]
    side = round(min(photo.size) * rng.uniform(0.5, 1))
    left, top = (int(rng.integers(0, whole - side + 1)) for whole in photo.size)
    box = (left, top, left + side, top + side)
    crop = photo.resize((size, size), Image.Resampling.BILINEAR, box)
    images.append(np.asarray(crop))
  return pictures.unit(np.stack(images))


def prepare(manual_dir: str | None = None) -> str:
  """Says that there is nothing to prepare."""
  del manual_dir
  read()
  return 'photos ship with scikit-learn and scikit-image: nothing to prepare.'


def describe(split: str | None = None) -> list[tuple[str, str]]:
  """Returns source, licence and sizes; see `jaxlab.data.describe`."""
  photos = load(split, size=8)
  return [
    ('source', 'photographs in scikit-learn and scikit-image'),
    ('licence', 'public domain, CC0 or CC BY; see the packages'),
    ('splits', 'calibration, test: half of the photographs each'),
    ('images', 'any number of crops of any size, float32 in [0, 1]'),
    ('photographs', ', '.join(photos.names)),
  ]
