"""Stopping between two steps when a signal asks for it."""

import signal
import threading
from typing import Any, Self

from jaxlab.harness import processes, progress

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Preemption:
  """Holds back the first SIGTERM or Ctrl-C until the end of the block.

  The loop inside asks `requested` between steps, saves and leaves the block;
  then the signal takes its usual course. A second signal does so at once. In
  a run over several processes JAX watches for SIGTERM, and all processes see
  the request at the same step.
  """

  def __init__(self) -> None:
    """Watches nothing yet."""
    self._received: int | None = None
    self._previous: dict[int, Any] = {}

  def __enter__(self) -> Self:
    main = threading.current_thread() is threading.main_thread()
    if main and processes.count() == 1:
      for number in _SIGNALS:
        # A signal that is ignored, or not Python's, stays as it is.
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
          self._previous[number] = signal.signal(number, self._receive)
    return self

  def __exit__(self, kind=None, *_) -> None:
    self._restore()
    if self._received is not None and kind is None:
      signal.raise_signal(self._received)
      raise SystemExit(128 + self._received)

  def requested(self, step: int) -> bool:
    """Whether to save and stop after this step.

    Args:
      step: number of steps done; equal on all processes.

    Returns:
      The same answer on every process.
    """
    if processes.count() > 1:
      # Only a run over several processes needs (and already has) jax.
      from jax.experimental import multihost_utils  # noqa: PLC0415

      if multihost_utils.reached_preemption_sync_point(step):
        self._received = signal.SIGTERM
        if processes.is_first():
          progress.note('SIGTERM: saving; start again to go on.')
    return self._received is not None

  def _receive(self, number: int, _: Any) -> None:
    self._received = number
    self._restore()
    progress.note('stopping after this step; once more stops at once.')

  def _restore(self) -> None:
    for number, handler in self._previous.items():
      signal.signal(number, handler)
    self._previous = {}
