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
    UserError: of the type `error`, if it is absent, empty or no regular file.
  """
  check_regular(path, error)
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


def check_regular(
  path: str | os.PathLike[str], error: type[errors.UserError]
) -> None:
  """Refuses folders, devices and pipes, and allows what is absent.

  Opening a pipe would wait for ever, and writing would destroy a device.

  Args:
    path: a file, or a link to one.
    error: what is raised.

  Raises:
    UserError: of the type `error`, if it is no regular file.
  """
  if os.path.isdir(path):
    raise error(f'{path} is a folder; name a file in it.')
  if os.path.exists(path) and not os.path.isfile(path):
    raise error(f'{path} is a device or a pipe; name a regular file.')


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[pathlib.Path]:
  """Yields a name to write to, whose file becomes `path` at the end.

  Where the body fails nothing of it is left, and an older file stays.

  Args:
    path: the file; missing folders above it are made, and where it is a link
      the file is written that it leads to.

  Yields:
    A name in the folder of that file.

  Raises:
    UserError: if the disk is full, the folder cannot be written to, or no
      regular file stands there.
  """
  check_regular(path, errors.UserError)
  path = pathlib.Path(os.path.realpath(path))
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
