"""One folder per run: its config, results, checkpoints, lock and end mark.

A folder holds `config.json` (frozen config and environment), `metrics.jsonl`
with TensorBoard events, `tables/*.csv`, `figures/*.png`, `checkpoints/`,
`summary.json` and, once finished, `DONE`.
"""

import datetime
import io
import json
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Self

import numpy as np

from jaxlab import errors
from jaxlab.harness import (
  claims,
  files,
  metrics,
  ownership,
  processes,
  progress,
  provenance,
)

_NAME = re.compile(r'[\w=+,@%~-][\w.=+,@%~-]*(/[\w=+,@%~-][\w.=+,@%~-]*)*')


class Workdir:
  """The folder of one run, owned by one process while it is open.

  In a run over several JAX processes only process 0 reads and writes; the
  others have the same methods, which do nothing, and take the same branch in
  `cached`.

  Attributes:
    path: the folder.
    is_done: the run had finished before; nothing is to be done.
    is_writer: this process owns the folder.
  """

  def __init__(
    self,
    path: pathlib.Path,
    *,
    identity: Mapping[str, Any],
    lock: IO[str] | None,
    is_done: bool,
  ):
    """Use `Workdir.open`."""
    self.path = path
    self.is_done = is_done
    self.is_writer = lock is not None
    self._identity = identity
    self._lock = lock
    self._metrics = metrics.MetricsLog(path)
    self._claims: list[claims.Claim] = []
    self._headline: list[dict[str, Any]] = []
    self._captions: dict[str, dict[str, str]] = {'tables': {}, 'figures': {}}
    self._start = time.monotonic() - _seconds_before(path)

  @classmethod
  def open(
    cls,
    path: str | os.PathLike,
    *,
    config: Mapping[str, Any],
    name: str,
    title: str = '',
    mode: str = '',
    argv: Sequence[str] = (),
  ) -> Self:
    """Makes the folder, or takes up the run that was left in it.

    Args:
      path: the folder; missing ones above it are made.
      config: what defines the run; a folder of another config is refused.
      name: the experiment, such as `'bandits/model_selection'`.
      title: one line for people.
      mode: `''`, `'full'` or `'test'`.
      argv: the command line, for the record.

    Returns:
      The open folder. If the run had finished, `is_done` is True and the
      folder is neither locked nor written to.

    Raises:
      UserError: the folder belongs to another config or to a live process,
        is not a run's folder, or cannot be written.
    """
    path = pathlib.Path(path)
    frozen = ownership.frozen(config)
    seed = frozen.get('seed')
    identity = {'title': title or name, 'mode': mode, 'seed': seed}
    record = {
      'name': name,
      **identity,
      'config': frozen,
      'environment': provenance.environment(argv, seed),
    }
    lock, problem = None, ''
    if processes.is_first():
      try:
        lock = _take(path, record)
      except errors.UserError as error:
        problem = str(error)
    found = json.dumps({'done': lock is None, 'problem': problem})
    found = json.loads(processes.from_first(found.encode()) or b'')
    if found['problem']:
      raise errors.UserError(found['problem'])
    identity = {'experiment': name, **identity}
    return cls(path, identity=identity, lock=lock, is_done=found['done'])

  def __enter__(self) -> Self:
    return self

  def __exit__(self, kind=None, *_) -> None:
    self._metrics.close()
    if self._lock is None:
      return
    refused = kind is not None and issubclass(kind, ValueError)
    if refused and not any(self.path.glob('*/**/*')):
      # The config was no good and nothing came of it: do not bind the folder.
      (self.path / 'config.json').unlink(missing_ok=True)
    self._lock.close()

  def cached(
    self, name: str, compute: Callable[[], Mapping[str, Any]]
  ) -> dict[str, np.ndarray]:
    """Does a unit of work once over all restarts of the run.

    Args:
      name: its name among the run's units; `/` makes folders.
      compute: returns named arrays, the same on every process.

    Returns:
      The arrays, equal in dtype and shape whether computed now or before.

    Raises:
      ValueError: if the name is not a plain relative path.
      TypeError: if a value has a dtype that NumPy's files cannot hold, such
        as object or bfloat16.
    """
    path = self._file('checkpoints', name, '.npz')
    content = _stored(path) if self.is_writer else None
    found = processes.from_first(content)
    if found is not None:
      return files.npz_arrays(found)
    arrays = {key: np.array(value) for key, value in compute().items()}
    content = files.npz_bytes(arrays)
    if self.is_writer:
      files.write(path, content)
      files.write(self.path / '.seconds', repr(self._seconds()))
    return arrays

  def log(self, step: int, **scalars: float) -> None:
    """Appends scalars to `metrics.jsonl` and the TensorBoard events.

    After a restart the first line of each set of scalars that are logged
    together drops the older lines of that set from its step on, so that there
    are neither gaps nor doubles.

    Args:
      step: position on the axis of the scalars.
      **scalars: numbers or 0-d arrays.
    """
    if self.is_writer:
      self._metrics.log(step, **scalars)

  def save_table(
    self, name: str, rows: Sequence[Mapping[str, Any]], caption: str = ''
  ) -> None:
    """Writes `tables/<name>.csv`.

    Args:
      name: name of the table.
      rows: one mapping a row; the columns are the keys in order of first
        appearance; floats keep every digit.
      caption: one sentence for the report.
    """
    path = self._file('tables', name, '.csv')
    self._captions['tables'][name] = caption
    if self.is_writer:
      files.write(path, files.csv_text(rows))

  def save_figure(self, name: str, fig: Any, caption: str = '') -> None:
    """Writes `figures/<name>.png` at 150 dpi and empties the figure.

    Args:
      name: name of the figure.
      fig: a matplotlib figure; not usable afterwards.
      caption: one sentence for the report.
    """
    path = self._file('figures', name, '.png')
    self._captions['figures'][name] = caption
    if self.is_writer:
      image = io.BytesIO()
      fig.savefig(image, format='png', dpi=150)
      files.write(path, image.getvalue())
    if 'matplotlib.pyplot' in sys.modules:
      sys.modules['matplotlib.pyplot'].close(fig)
    fig.clear()

  def add_claim(self, claim: claims.Claim) -> None:
    """Enters a claim in the ledger of `summary.json`."""
    self._claims.append(claim)

  def headline(
    self,
    name: str,
    value: float,
    low: float | None = None,
    high: float | None = None,
    unit: str = '',
  ) -> None:
    """Adds a number that a reader should see first.

    Args:
      name: what it is.
      value: the estimate, in `unit`.
      low: lower end of its interval, if it has one.
      high: upper end.
      unit: unit of the three.
    """
    self._headline.append(
      {
        'name': name,
        'value': float(value),
        'low': None if low is None else float(low),
        'high': None if high is None else float(high),
        'unit': unit,
      }
    )

  @property
  def summary(self) -> dict[str, Any]:
    """What `summary.json` holds; of a finished run, what it held."""
    if self.is_done:
      return json.loads((self.path / 'summary.json').read_text())
    return files.plain(
      {
        **self._identity,
        'wall_seconds': round(self._seconds(), 3),
        'headline': self._headline,
        'claims': [claim.to_json() for claim in self._claims],
        **{
          kind: [{'name': n, 'caption': c} for n, c in captions.items()]
          for kind, captions in self._captions.items()
        },
      }
    )

  def finish(self) -> None:
    """Writes `summary.json` and then the mark that all is there."""
    self._metrics.close()
    if self.is_writer:
      files.write(self.path / 'summary.json', files.json_text(self.summary))
      now = datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds')
      files.write(self.path / 'DONE', f'{now}\n')

  def _seconds(self) -> float:
    return time.monotonic() - self._start

  def _file(self, kind: str, name: str, suffix: str) -> pathlib.Path:
    if not _NAME.fullmatch(name) or ('/' in name and kind != 'checkpoints'):
      raise ValueError(
        f'{name!r} cannot name one of the {kind}: use letters, digits and'
        ' . _ = + , @ % ~ - (and / between folders of checkpoints).'
      )
    return self.path / kind / f'{name}{suffix}'


def _take(path: pathlib.Path, record: Mapping[str, Any]) -> IO[str] | None:
  """Locks the folder and freezes the config; None if the run had finished."""
  if ownership.is_finished(path, record['config']):
    return None
  lock = ownership.lock(path)
  try:
    # The former owner may have finished between the look and the lock.
    if ownership.is_finished(path, record['config']):
      lock.close()
      return None
    if (path / 'config.json').exists():
      _compare_environments(path, record['environment'])
    else:
      files.write(path / 'config.json', files.json_text(record))
  except BaseException:
    lock.close()
    raise
  return lock


def _compare_environments(path: pathlib.Path, now: Mapping[str, Any]) -> None:
  """Says what changed since the run in `path` began."""
  then = json.loads((path / 'config.json').read_text())['environment']
  for key in ('jaxlab', 'jax', 'device', 'revision'):
    if then.get(key) != now[key]:
      progress.note(
        f'this run began with {key} {then.get(key)}, goes on with {now[key]}.'
      )


def _seconds_before(path: pathlib.Path) -> float:
  """Returns the wall time that earlier starts of this run have spent."""
  try:
    return float((path / '.seconds').read_text())
  except (OSError, ValueError):
    return 0.0


def _stored(path: pathlib.Path) -> bytes | None:
  """Returns a whole checkpoint, or None if it must be computed."""
  try:
    content = path.read_bytes()
    files.npz_arrays(content)
  except FileNotFoundError:
    return None
  except (OSError, ValueError):
    progress.note(f'{path} is damaged; it is computed again.')
    return None
  return content
