"""Scalars over steps: `metrics.jsonl` and its copy for TensorBoard."""

import json
import pathlib
from typing import Any

from jaxlab.harness import files


class MetricsLog:
  """Appends scalars and stays without gaps or doubles across restarts.

  Scalars that are logged together form a stream. The first line of a stream
  in this process says where it goes on: older lines of the same stream at
  this step or later are dropped. Other streams are left as they are. The
  TensorBoard events are a copy of the kept lines.
  """

  def __init__(self, folder: pathlib.Path):
    """Writes nothing until the first `log`."""
    self._folder = folder
    self._path = folder / 'metrics.jsonl'
    self._streams: set[frozenset[str]] = set()
    self._file: Any = None
    self._events: Any = None

  def log(self, step: int, **scalars: float) -> None:
    """Appends one line.

    Args:
      step: the position of the scalars on their stream.
      **scalars: numbers or 0-d arrays; NaN and infinities are written as null.
    """
    values = {name: float(value) for name, value in scalars.items()}
    line = files.plain({'step': int(step), **values})
    stream = frozenset(scalars)
    if stream not in self._streams:
      self._rewind(stream, step)
      self._streams.add(stream)
    self._file.write(json.dumps(line) + '\n')
    self._file.flush()
    self._add_event(line)

  def close(self) -> None:
    """Closes both files."""
    if self._file is not None:
      self._file.close()
      self._events.close()
      self._file = self._events = None

  def _rewind(self, stream: frozenset[str], step: int) -> None:
    """Drops what the stream had at `step` or later and reopens both files."""
    lines = self._read()
    kept = [
      line
      for line in lines
      if line['step'] < step or line.keys() - {'step'} != stream
    ]
    if self._file is not None and len(kept) == len(lines):
      return
    # Costly to import, and only runs that log need it.
    import tensorboardX  # noqa: PLC0415

    self.close()
    files.write(self._path, ''.join(json.dumps(line) + '\n' for line in kept))
    for old in self._folder.glob('events.out.tfevents.*'):
      old.unlink()
    self._file = self._path.open('a')
    self._events = tensorboardX.SummaryWriter(str(self._folder))
    for line in kept:
      self._add_event(line)

  def _read(self) -> list[dict[str, Any]]:
    """Returns the whole lines; a torn last one is left out."""
    if not self._path.exists():
      return []
    lines = self._path.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith('\n')]

  def _add_event(self, line: dict[str, Any]) -> None:
    for name, value in line.items():
      if name != 'step' and value is not None:
        self._events.add_scalar(name, value, line['step'])
