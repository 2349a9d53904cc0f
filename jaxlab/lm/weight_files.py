"""Files of weights: mapped into memory, and either whole or absent."""

import contextlib
import mmap
import os
import pathlib
from collections.abc import Iterator

from jaxlab import errors


def mapped(path: pathlib.Path, error: type[errors.UserError]) -> mmap.mmap:
  """Maps a file into memory, of which nothing is read yet.

  Args:
    path: the file.
    error: what is raised.

  Returns:
    Its bytes, read-only.

  Raises:
    UserError: of the type `error`, if it is absent, empty or a folder.
  """
  if path.is_dir():
    raise error(f'{path} is a folder; name the file in it.')
  try:
    with path.open('rb') as stream:
      if not os.fstat(stream.fileno()).st_size:
        raise error(f'{path} is empty; download it again.')
      return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
  except OSError as fault:
    raise error(
      f'cannot read {path}: {fault.strerror or fault}; check its name and'
      ' permissions.'
    ) from fault


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Yields a name to write to, whose file becomes `path` at the end.

  Where the body fails nothing of it is left, and an older file stays.

  Args:
    path: the file; missing folders above it are made.

  Yields:
    A name in the folder of `path`.

  Raises:
    UserError: if the disk is full, or the folder cannot be written to.
  """
  path = pathlib.Path(path)
  temporary = path.with_name(f'.tmp-{os.getpid()}-{path.name}')
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
      yield temporary
      with temporary.open('rb') as stream:
        os.fsync(stream.fileno())
      os.replace(temporary, path)
    finally:
      temporary.unlink(missing_ok=True)
  except OSError as error:
    raise errors.UserError(
      f'cannot write {path}: {error.strerror or error}; make room or choose a'
      ' file that you may write to.'
    ) from error
