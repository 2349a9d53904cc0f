"""Pictures in files or bytes, decoded by Pillow."""

import hashlib
import io
import os
import pathlib
from collections.abc import Callable

import numpy as np
from PIL import Image, UnidentifiedImageError

from jaxlab import errors
from jaxlab.data import paths


def decode(
  source: str | os.PathLike[str] | io.BytesIO, name: str | None = None
) -> Image.Image:
  """Decodes a picture to RGB.

  Args:
    source: a file, or a stream of its contents.
    name: what an error calls it; by default the file's path.

  Raises:
    UserError: if it is no picture, or is damaged.
  """
  try:
    with Image.open(source) as picture:
      return picture.convert('RGB')
  except (OSError, SyntaxError, UnidentifiedImageError) as error:
    raise errors.UserError(
      f'{name or source} is no readable picture; take the file again from its'
      ' source, or remove it.'
    ) from error


def center_crop(picture: Image.Image, size: int, resize: int) -> np.ndarray:
  """Scales the shorter side to `resize` and cuts out the middle.

  Args:
    picture: any size.
    size: side of the result, at most `resize`.
    resize: length of the shorter side after scaling.

  Returns:
    `[size, size, 3]` uint8.
  """
  width, height = picture.size
  scale = resize / min(width, height)
  scaled = (
    max(resize, round(width * scale)),
    max(resize, round(height * scale)),
  )
  picture = picture.resize(scaled, Image.Resampling.BILINEAR)
  left, top = ((side - size) // 2 for side in scaled)
  return np.asarray(picture.crop((left, top, left + size, top + size)))


def decoded_once(
  path: pathlib.Path,
  decode_all: Callable[[pathlib.Path], tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
  """Decodes a file of pictures, or reads what it was decoded to before.

  Args:
    path: the file; its contents, not its name, say whether it was decoded.
    decode_all: returns its images and labels.

  Raises:
    UserError: if the copy cannot be written.
  """
  digest = hashlib.sha256(path.read_bytes()).hexdigest()
  copy = paths.cache_root() / 'decoded' / f'{digest}.npz'
  if not copy.is_file():
    images, labels = decode_all(path)
    partial = copy.with_suffix(f'.{os.getpid()}')
    try:
      copy.parent.mkdir(parents=True, exist_ok=True)
      with partial.open('wb') as stream:
        np.savez(stream, images=images, labels=labels)
      partial.replace(copy)
    except OSError as error:
      raise errors.UserError(
        f'cannot write the decoded copy to {copy.parent} ({error.strerror});'
        ' set JAXLAB_CACHE to a writable folder.'
      ) from error
  with np.load(copy) as content:
    return content['images'], content['labels']


def unit(images: np.ndarray) -> np.ndarray:
  """Maps uint8 to float32 in [0, 1]."""
  return images.astype(np.float32) / np.float32(255)
