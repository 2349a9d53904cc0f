"""Prepared copies: TensorFlow Datasets builders without TensorFlow.

The builder of a data set is the class `Builder` in the module
`jaxlab.data.<name>.<name>_dataset_builder`. Its copy lies under
`paths.prepared_root()`, is written as `array_record` files and read through
`as_data_source`. It is written to another folder and renamed when it is
complete, so that an interrupted build leaves no copy.
"""

import contextlib
import hashlib
import importlib
import io
import pathlib
import sys
from collections.abc import Iterable
from typing import Any

from jaxlab import errors
from jaxlab.data import paths


def build(
  name: str,
  folder: pathlib.Path,
  files: Iterable[pathlib.Path],
  config: str | None = None,
) -> tuple[pathlib.Path, bool]:
  """Builds the prepared copy of a data set, replacing one of other files.

  Args:
    name: the data set.
    folder: the builder's manual directory.
    files: the raw files, all under `folder`; a copy that was built from the
      same contents stays.
    config: the builder's configuration, where it has several.

  Returns:
    The folder of the copy, and whether it was built now.

  Raises:
    UserError: if the copy cannot be written.
  """
  digests = {
    str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
    for file in files
  }
  existing = find(name, config)
  if existing and existing.info.metadata.get('files') == digests:
    return pathlib.Path(existing.data_path), False
  import tensorflow_datasets as tfds  # noqa: PLC0415 (takes a second)

  builder = _builder(name, config)
  builder.info.metadata['files'] = digests
  if not sys.stderr.isatty():
    tfds.disable_progress_bar()
  try:
    with contextlib.redirect_stdout(io.StringIO()):
      builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(
          manual_dir=folder,
          download_mode=tfds.GenerateMode.REUSE_CACHE_IF_EXISTS,
        )
      )
  except OSError as error:
    raise errors.UserError(
      f'cannot write the prepared copy to {builder.data_path}'
      f' ({error.strerror or error}); set JAXLAB_CACHE to a writable folder.'
    ) from error
  return pathlib.Path(builder.data_path), True


def find(name: str, config: str | None = None) -> Any | None:
  """Returns the builder of a data set's prepared copy, None without a copy."""
  # Most runs have no copy: then TensorFlow Datasets is not even imported.
  if not (paths.prepared_root() / name / (config or '')).is_dir():
    return None
  builder = _builder(name, config)
  # Of a folder that is not there the builder would log a warning.
  complete = builder.data_path.is_dir() and builder.is_prepared()
  return builder if complete else None


def read(builder: Any, split: str) -> list[dict[str, Any]]:
  """Returns all examples of a split in the order they were written."""
  source = builder.as_data_source(split=split)
  return source.__getitems__(range(len(source)))


def _builder(name: str, config: str | None) -> Any:
  module = f'jaxlab.data.{name}.{name}_dataset_builder'
  return importlib.import_module(module).Builder(
    config=config, data_dir=paths.prepared_root(), file_format='array_record'
  )
