"""Data sets of questions: columns of text, from files or a prepared copy."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlab import errors
from jaxlab.data import paths, prepared

Columns = dict[str, list[str]]
Splits = Mapping[str, Sequence[pathlib.Path]]


class QuestionSource(NamedTuple):
  """What differs between data sets of questions.

  Attributes:
    name: the data set.
    what: its questions, in a few words.
    origin: where the files come from.
    licence: of the questions.
    homepage: address of that.
    columns: names of the columns of text.
    wanted: the raw files, for the message that they are missing.
    find: for a folder, the files of each split that is there.
    read: for the files of a split, its columns.
  """

  name: str
  what: str
  origin: str
  licence: str
  homepage: str
  columns: tuple[str, ...]
  wanted: str
  find: Callable[[pathlib.Path], Splits]
  read: Callable[[pathlib.Path, Sequence[pathlib.Path]], Columns]

  def load(self, split: str | None) -> dict[str, np.ndarray]:
    """Returns the columns of a split as `[n]` arrays of str objects.

    Args:
      split: the part; None where there is only one.

    Raises:
      UserError: if the split is unknown or a file is damaged.
      MissingDataError: if the data set is not on this machine.
    """
    return _arrays(self._load(split)[0])

  def prepare(self, manual_dir: str | None = None) -> str:
    """Builds the prepared copy; see `jaxlab.data.prepare`."""
    folder = (
      pathlib.Path(manual_dir).expanduser() if manual_dir else self._folder()
    )
    splits = self.find(folder) if folder else {}
    if not folder or not splits:
      raise self._missing(folder)
    rows = [
      len(self.read(folder, found)[self.columns[0]])
      for found in splits.values()
    ]
    found = [path for each in splits.values() for path in each]
    where, built = prepared.build(self.name, folder, found)
    done = 'prepared' if built else 'was prepared already'
    sizes = ', '.join(
      f'{split} {count:,}' for split, count in zip(splits, rows, strict=True)
    )
    return f'{self.name} {done}: {sizes} questions, in {where}.'

  def describe(self, split: str | None = None) -> list[tuple[str, str]]:
    """Returns source, licence and sizes; see `jaxlab.data.describe`."""
    parts = [split] if split is not None else self._splits()
    loaded = {part: self._load(part) for part in parts}
    origins = dict.fromkeys(origin for _, origin in loaded.values())
    return [
      ('what', self.what),
      ('source', self.origin),
      ('licence', self.licence),
      ('columns', ', '.join(self.columns)),
      ('read from', '; '.join(origins)),
      *(
        (part, f'{len(columns[self.columns[0]]):,} questions')
        for part, (columns, _) in loaded.items()
      ),
    ]

  def _load(self, split: str | None) -> tuple[Columns, str]:
    known = self._splits()
    if split is None and len(known) == 1:
      split = known[0]
    if split not in known:
      raise errors.UserError(
        f'{self.name}: split={split!r} is not one of {", ".join(known)}.'
      )
    builder = prepared.find(self.name)
    if builder is None:
      folder = self._folder()
      assert folder  # or it would have no splits
      return self.read(folder, self.find(folder)[split]), str(folder)
    rows = prepared.read(builder, split)
    columns = {
      name: [row[name].decode() for row in rows] for name in self.columns
    }
    return columns, f'prepared copy {builder.data_path}'

  def _splits(self) -> list[str]:
    builder = prepared.find(self.name)
    if builder is not None:
      return list(builder.info.splits)
    folder = self._folder()
    if folder is None:
      raise self._missing(None)
    return list(self.find(folder))

  def _folder(self) -> pathlib.Path | None:
    return next((each for each in self._candidates() if self.find(each)), None)

  def _candidates(self) -> list[pathlib.Path]:
    root = paths.data_root()
    return [root / self.name, root / 'lora_rlvr' / self.name]

  def _missing(self, folder: pathlib.Path | None) -> errors.MissingDataError:
    looked = [folder] if folder else self._candidates()
    return errors.MissingDataError(
      f'{self.name} is not here (looked for {self.wanted} in'
      f' {" and ".join(map(str, looked))}): take the files from {self.origin},'
      f' and run `jaxlab data prepare {self.name} --manual_dir=DIR`, or point'
      ' the variable JAXLAB_DATA to a folder that holds them in'
      f' {self.name}/.'
    )


def named_files(folder: pathlib.Path, names: Mapping[str, str]) -> Splits:
  """Returns the files that are there, by split.

  Args:
    folder: the folder.
    names: for each split the name of its file.
  """
  found = {split: folder / name for split, name in names.items()}
  return {split: [path] for split, path in found.items() if path.is_file()}


def _arrays(columns: Columns) -> dict[str, np.ndarray]:
  """Objects, because one long text would widen every cell of a text array."""
  arrays: dict[str, Any] = {}
  for name, values in columns.items():
    arrays[name] = np.empty(len(values), object)
    arrays[name][:] = values
  return arrays
