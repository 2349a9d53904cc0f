"""Whether a folder may take a run, and who owns it while it runs."""

import errno
import fcntl
import json
import os
import pathlib
import socket
from collections.abc import Mapping
from typing import IO, Any

from jaxlab import errors
from jaxlab.harness import files, progress

_NO_LOCKS_HERE = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)


def is_finished(path: str | os.PathLike, config: Mapping[str, Any]) -> bool:
  """Looks at a folder without touching it.

  Args:
    path: the folder, which need not exist.
    config: the config that one wants to run there.

  Returns:
    Whether a run of this config has finished there.

  Raises:
    UserError: if the folder cannot take this run, whatever its state: it is
      a file, holds something else, or a run of another config.
  """
  path = pathlib.Path(path)
  try:
    content = {entry.name for entry in path.iterdir()}
    record = (
      json.loads((path / 'config.json').read_text())
      if 'config.json' in content
      else None
    )
  except FileNotFoundError:
    return False
  except (OSError, ValueError) as error:
    reason = getattr(error, 'strerror', None) or 'config.json is damaged'
    raise errors.UserError(
      f'cannot use {path}: {reason}; choose another --workdir.'
    ) from error
  if record is None:
    foreign = sorted(c for c in content if c != '.lock' and c[:5] != '.tmp-')
    if foreign:
      raise errors.UserError(
        f'{path} holds {foreign[0]} but no run; choose another --workdir.'
      )
    return False
  difference = _difference(record['config'], frozen(config))
  if difference:
    raise errors.UserError(
      f'{path} holds a run of another config: {difference}; delete it or'
      ' choose another --workdir.'
    )
  return 'DONE' in content


def frozen(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the config as JSON holds it; `inf` and `nan` become words."""
  if hasattr(config, 'to_dict'):
    config = config.to_dict()
  return files.plain(config, nonfinite=str)


def _difference(old: Any, new: Any, field: str = 'config') -> str:
  """Names the first field that differs and both values, or returns ''."""
  if isinstance(old, dict) and isinstance(new, dict):
    nothing = object()
    pairs = (
      (key, old.get(key, nothing), new.get(key, nothing))
      for key in {**new, **old}
    )
    found = (
      f'{field}.{key} is absent on one side'
      if nothing in (a, b)
      else _difference(a, b, f'{field}.{key}')
      for key, a, b in pairs
    )
    return next(filter(None, found), '')
  # 1, 1.0 and True are equal to Python but not the same setting.
  if json.dumps(old) == json.dumps(new):
    return ''
  return f'{field} is {old!r} there and {new!r} here'


def lock(path: pathlib.Path) -> IO[str]:
  """Takes the folder for this process; the kernel frees it when it dies."""
  try:
    path.mkdir(parents=True, exist_ok=True)
    lock = (path / '.lock').open('a+')
  except OSError as error:
    raise errors.UserError(
      f'cannot write to {path}: {error.strerror}; choose another --workdir.'
    ) from error
  try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    lock.seek(0)
    owner = lock.read().strip() or 'another process'
    lock.close()
    raise errors.UserError(
      f'{path} is in use by {owner}; wait for it, stop it, or choose another'
      ' --workdir.'
    ) from None
  except OSError as error:
    if error.errno not in _NO_LOCKS_HERE:
      lock.close()
      raise
    progress.note(
      f'the file system of {path} has no locks: start no second run there.'
    )
  lock.truncate(0)
  lock.write(f'process {os.getpid()} on {socket.gethostname()}\n')
  lock.flush()
  return lock
