"""Progress bars for work over two seconds; quiet when nobody watches."""

import datetime
import math
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Self, TypeVar

import rich.console
import rich.progress
import rich.text

from jaxlab.harness import processes

_PATIENCE = 2.0
_LINE_EVERY = 30.0

_T = TypeVar('_T')


class _Speed(rich.progress.ProgressColumn):
  """Steps a second, once they are known."""

  def render(self, task: rich.progress.Task) -> rich.text.Text:
    speed = task.finished_speed or task.speed
    return rich.text.Text('' if speed is None else f'{speed:.3g}/s')


class Progress:
  """A bar that is advanced by hand and shows once two seconds have passed.

  In a terminal it is a bar on stderr, which goes when the work ends; bars
  inside one another share the display. Elsewhere a plain line is written at
  most every 30 seconds.
  """

  _shared: rich.progress.Progress | None = None
  _users = 0
  _guard = threading.Lock()

  def __init__(self, description: str, total: float | None = None):
    """Shows nothing yet.

    Args:
      description: what is being done.
      total: number of steps, if known.
    """
    self._description = description
    self._total = total
    self._completed = 0.0
    self._task: Any = None
    self._line_at = 0.0
    self._mark: tuple[float, float] | None = None  # when and how far
    self._timer: threading.Timer | None = None

  def __enter__(self) -> Self:
    # Of the processes of one run the first speaks for all.
    first = processes.is_first()
    self._line_at = time.monotonic() + _LINE_EVERY if first else math.inf
    if first and sys.stderr.isatty():
      # A timer, for the first step alone may take long (it compiles).
      self._timer = threading.Timer(_PATIENCE, self._show)
      self._timer.daemon = True
      self._timer.start()
    return self

  def __exit__(self, *_) -> None:
    if self._timer is not None:
      self._timer.cancel()
      self._timer.join()
    if self._task is not None:
      self._hide()

  def advance(self, steps: float = 1) -> None:
    """Counts finished steps."""
    self._completed += steps
    with self._guard:
      if self._task is not None and self._shared is not None:
        self._shared.update(self._task, completed=self._completed)
    if self._timer is not None:
      return
    now = time.monotonic()
    if self._mark is None:
      # What is counted first may have been done before this start.
      self._mark = now, self._completed
    if now >= self._line_at:
      self._line_at = now + _LINE_EVERY
      print(self._line(now), file=sys.stderr, flush=True)
      self._mark = now, self._completed

  def _line(self, now: float) -> str:
    """How far, how fast since the last line, and how long it will take."""
    line = f'{self._description}: {self._completed:g}'
    if self._total is not None:
      line += f' of {self._total:g}'
    if self._mark is None or self._completed <= self._mark[1]:
      return line
    rate = (self._completed - self._mark[1]) / max(now - self._mark[0], 1e-9)
    line += f', {rate:.3g}/s'
    if self._total is not None:
      left = round((self._total - self._completed) / rate)
      line += f', {datetime.timedelta(seconds=max(left, 0))} left'
    return line

  def _show(self) -> None:
    with self._guard:
      if Progress._shared is None:
        # Results go to stdout, where a bar must not catch them.
        Progress._shared = rich.progress.Progress(
          rich.progress.TextColumn('{task.description}'),
          rich.progress.BarColumn(),
          rich.progress.MofNCompleteColumn(),
          _Speed(),
          rich.progress.TimeElapsedColumn(),
          rich.progress.TimeRemainingColumn(),
          console=rich.console.Console(stderr=True),
          transient=True,
          redirect_stdout=False,
        )
        Progress._shared.start()
      Progress._users += 1
      self._task = Progress._shared.add_task(
        self._description, total=self._total, completed=int(self._completed)
      )

  def _hide(self) -> None:
    with self._guard:
      shared = Progress._shared
      if shared is None:
        return
      shared.remove_task(self._task)
      Progress._users -= 1
      if Progress._users == 0:
        shared.stop()
        Progress._shared = None


def track(
  iterable: Iterable[_T], description: str, total: float | None = None
) -> Iterator[_T]:
  """Yields the items and shows how far it is.

  Args:
    iterable: the work.
    description: what is being done.
    total: number of items; by default `len(iterable)` where it has one.

  Yields:
    The items of `iterable`.
  """
  if total is None and isinstance(iterable, Sized):
    total = len(iterable)
  with Progress(description, total) as progress:
    for item in iterable:
      yield item
      progress.advance()


def note(message: str) -> None:
  """Tells the person at the terminal something that changes nothing."""
  print(f'note: {message}', file=sys.stderr)
