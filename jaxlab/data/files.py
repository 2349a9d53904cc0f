"""Where the raw files of a data set lie, and how to get them there."""

import os
import pathlib
import shutil
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jaxlab import errors
from jaxlab.data import paths


class RawFiles(NamedTuple):
  """The files of a data set.

  Attributes:
    name: the data set; its own folder under `JAXLAB_DATA` has this name.
    patterns: for each file the names, or patterns of names, that it may have.
    origin: where the files come from.
    shared: another folder under `JAXLAB_DATA` that may hold them.
  """

  name: str
  patterns: Sequence[Sequence[str]]
  origin: str
  shared: str = 'sufficiency'


def find(
  raw: RawFiles, folder: str | os.PathLike[str] | None = None
) -> list[pathlib.Path]:
  """Returns the first file of every pattern, all from one folder.

  Args:
    raw: the files.
    folder: the folder; None looks at the copy that `keep` made, then under
      `JAXLAB_DATA`.

  Raises:
    MissingDataError: if no folder has all files.
  """
  looked = _folders(raw) if folder is None else [pathlib.Path(folder)]
  for place in looked:
    found = [matching(place, names) for names in raw.patterns]
    if all(found):
      return [group[0] for group in found]
  raise missing(raw, looked)


def find_all(
  raw: RawFiles, folder: str | os.PathLike[str] | None = None
) -> list[pathlib.Path]:
  """Returns all files of the first pattern in all folders, or in one.

  Raises:
    MissingDataError: if there is none.
  """
  looked = _folders(raw) if folder is None else [pathlib.Path(folder)]
  found = [path for each in looked for path in matching(each, raw.patterns[0])]
  if not found:
    raise missing(raw, looked)
  return found


def matching(folder: pathlib.Path, names: Sequence[str]) -> list[pathlib.Path]:
  """Returns the files in a folder of the first name that there is."""
  found = (sorted(folder.expanduser().glob(name)) for name in names)
  return next((group for group in found if group), [])


def missing(
  raw: RawFiles, looked: Iterable[pathlib.Path]
) -> errors.MissingDataError:
  """Returns the error that says where the files should be."""
  wanted = ', '.join(' or '.join(names) for names in raw.patterns)
  return errors.MissingDataError(
    f'{raw.name} is not here (looked for {wanted} in'
    f' {" and ".join(map(str, looked))}): take the files from {raw.origin},'
    f' and run `jaxlab data prepare {raw.name} --manual_dir=DIR`, or point the'
    f' variable JAXLAB_DATA to a folder that holds them in {raw.name}/.'
  )


def keep(
  raw: RawFiles, found: Sequence[pathlib.Path], manual_dir: str | None
) -> str:
  """Copies sound files of a folder of the user's to where `find` looks.

  Args:
    raw: the data set.
    found: its files.
    manual_dir: the user's folder; None leaves the files where they are.

  Returns:
    One line: what was done and where the files lie.

  Raises:
    UserError: if the copy cannot be written.
  """
  if manual_dir is None:
    return f'{raw.name}: the files in {found[0].parent} are sound.'
  folder = _copies(raw)
  try:
    folder.mkdir(parents=True, exist_ok=True)
    for path in found:
      partial = folder / f'.{path.name}.{os.getpid()}'
      shutil.copyfile(path, partial)
      partial.replace(folder / path.name)
  except OSError as error:
    raise errors.UserError(
      f'cannot write the copy to {folder} ({error.strerror}); set JAXLAB_CACHE'
      ' to a writable folder.'
    ) from error
  return f'{raw.name} prepared: {len(found)} files, in {folder}.'


def no_split(name: str, split: str | None) -> None:
  """Raises UserError if a split of an undivided data set is asked for."""
  if split is not None:
    raise errors.UserError(
      f'{name}: split={split!r}, but it has no splits; leave split out.'
    )


def _copies(raw: RawFiles) -> pathlib.Path:
  return paths.cache_root() / 'raw' / raw.name


def _folders(raw: RawFiles) -> list[pathlib.Path]:
  root = paths.data_root()
  return [_copies(raw), root / raw.name, root / raw.shared]
