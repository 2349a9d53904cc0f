"""Installs the Python packages that hold public language models.

They are installed without their dependencies: those are runtimes that take a
long C++ build and that jaxlab does without. `jaxlab.pretrained` has the table.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

from jaxlab import errors, pretrained
from jaxlab.data import files

_BLOCK = 1 << 20


class ModelSource:
  """The three functions of the door for one model."""

  def __init__(self, name: str) -> None:
    """Takes the entry of the model.

    Args:
      name: a key of `pretrained.PACKAGES`.
    """
    self._package = pretrained.lookup(name)

  def load(self, split: str | None = None) -> pathlib.Path:
    """Returns the path of the model's GGUF file; there are no splits.

    Raises:
      MissingDataError: if the model is not on this machine.
    """
    files.no_split(self._package.name, split)
    return pretrained.require(self._package.name)

  def prepare(self, manual_dir: str | None = None) -> str:
    """Installs the model into this Python's environment.

    Args:
      manual_dir: folder of the packages' wheels, for a machine without a
        network; None takes them from the installer's index.

    Returns:
      The package's notice where it has one, then one line: what was done,
      where the file is, under which licence.

    Raises:
      UserError: if there is no installer, it fails, or the file is damaged.
    """
    package = self._package
    path, done = pretrained.find(package.name), 'was installed already'
    if path is None:
      path, done = _get(package, manual_dir), 'installed'
    notices = [
      found.read_text(encoding='utf-8').strip()
      for found in map(pretrained.installed_file, package.notices)
      if found
    ]
    last = f'{package.name} {done}: {path}; licence: {_licence(package)}.'
    return '\n\n'.join([*notices, last])

  def describe(self, split: str | None = None) -> list[tuple[str, str]]:
    """Returns path, size and licence; see `jaxlab.data.describe`."""
    package, path = self._package, self.load(split)
    return [
      ('what', package.what),
      ('packages', ', '.join(package.requirements)),
      ('licence', _licence(package)),
      ('path', str(path)),
      ('bytes', f'{path.stat().st_size:,}'),
      ('SHA-256', package.sha256),
    ]


def _get(
  package: pretrained.ModelPackage, manual_dir: str | None
) -> pathlib.Path:
  """Installs what is missing, checks it, and returns the whole file."""
  if not all(map(pretrained.installed_file, package.chunks)) or (
    len(package.chunks) == 1  # it is there, but of the wrong size
  ):
    _install(package, manual_dir)
  importlib.invalidate_caches()
  chunks = [pretrained.installed_file(chunk) for chunk in package.chunks]
  found = [chunk for chunk in chunks if chunk]
  if len(found) != len(chunks):
    raise errors.UserError(
      f'{package.name}: {package.requirements} are installed, but not for'
      f' {sys.executable}: they lack {package.chunks[chunks.index(None)]}.'
    )
  if len(found) == 1:
    _check(package, _digest(found[0]))
    return found[0]
  return _join(package, found)


def _install(package: pretrained.ModelPackage, manual_dir: str | None) -> None:
  # Installed packages without their file are broken: hence the reinstall.
  uv = shutil.which('uv')
  if uv:
    command = [uv, 'pip', 'install', '--python', sys.executable, '--reinstall']
  else:
    command = [sys.executable, '-m', 'pip', 'install', '--force-reinstall']
  command += ['--no-deps', *package.requirements]
  if manual_dir is not None:
    folder = pathlib.Path(manual_dir).expanduser()
    command += ['--no-index', '--find-links', str(folder)]
  if not uv and importlib.util.find_spec('pip') is None:
    raise errors.UserError(
      f'{package.name}: neither uv nor pip is here; install one of them, or'
      f' make the packages importable: {shlex.join(command)}'
    )
  try:
    done = subprocess.run(
      command,
      stdin=subprocess.DEVNULL,
      capture_output=True,
      text=True,
      check=False,
    )
  except OSError as error:
    raise errors.UserError(
      f'{package.name}: {command[0]} does not start ({error.strerror}).'
    ) from error
  if done.returncode:
    printed = (done.stderr.strip() or done.stdout.strip()).splitlines()
    reason = printed[-1].strip() if printed else f'code {done.returncode}'
    raise errors.UserError(
      f'{package.name}: `{shlex.join(command)}` failed: {reason}'
    )


def _join(
  package: pretrained.ModelPackage, chunks: list[pathlib.Path]
) -> pathlib.Path:
  """Joins the chunks under the cache; only a right file gets its name."""
  target = pretrained.joined_path(package)
  partial = target.with_name(f'.{target.name}.{os.getpid()}')
  try:
    target.parent.mkdir(parents=True, exist_ok=True)
    with partial.open('wb') as stream:
      for chunk in chunks:
        with chunk.open('rb') as part:
          shutil.copyfileobj(part, stream, _BLOCK)
    _check(package, _digest(partial))
    partial.replace(target)
  except OSError as error:
    raise errors.UserError(
      f'cannot write {target} ({error.strerror}); set JAXLAB_CACHE to a'
      ' writable folder.'
    ) from error
  finally:
    with contextlib.suppress(OSError):
      partial.unlink()
  return target


def _digest(path: pathlib.Path) -> str:
  with path.open('rb') as stream:
    return hashlib.file_digest(stream, 'sha256').hexdigest()


def _check(package: pretrained.ModelPackage, digest: str) -> None:
  if digest != package.sha256:
    raise errors.UserError(
      f'{package.name} is damaged: SHA-256 {digest}, not {package.sha256};'
      f' remove {", ".join(package.requirements)} and prepare it again.'
    )


def _licence(package: pretrained.ModelPackage) -> str:
  terms = package.terms and pretrained.installed_file(package.terms)
  return f'{package.licence}, {terms}' if terms else package.licence
