"""Copies that TensorFlow Datasets itself has built, read without TensorFlow."""

import os
import pathlib
from typing import Any

import numpy as np

from jaxlab import errors
from jaxlab.data import paths, prepared


def find(name: str) -> Any | None:
  """Returns the builder of a copy, None without a copy.

  Args:
    name: of the data set in the catalogue of TensorFlow Datasets; copies are
      looked for under the cache and under `TFDS_DATA_DIR`.
  """
  default = os.environ.get('TFDS_DATA_DIR', '~/tensorflow_datasets')
  for root in (paths.prepared_root(), pathlib.Path(default).expanduser()):
    if not (root / name).is_dir():
      continue
    import tensorflow_datasets as tfds  # noqa: PLC0415 (takes a second)

    builder = tfds.builder(name, data_dir=root)
    if builder.is_prepared():
      return builder
  return None


def read(builder: Any, part: str) -> tuple[np.ndarray, np.ndarray]:
  """Returns the images and labels of a split.

  Raises:
    UserError: if the copy is in a format that needs TensorFlow.
  """
  try:
    rows = prepared.read(builder, part)
  except NotImplementedError as error:
    raise errors.UserError(
      f'{builder.data_path} cannot be read without TensorFlow; run `tfds build'
      f' {builder.name} --file_format=array_record --overwrite`.'
    ) from error
  images = np.array([row['image'] for row in rows])
  return images, np.array([row['label'] for row in rows])
