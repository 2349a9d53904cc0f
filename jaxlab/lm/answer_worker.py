"""Checks of answers in processes of their own, which a time limit can end.

SymPy may compute for ever, also in one long operation that no signal handler
interrupts. Hence each check runs in a worker process; one that does not answer
in time is killed, and the next check starts another. Workers are started as new
interpreters and not by a fork, which threads of JAX would not survive.
"""

import atexit
import contextlib
import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

from jaxlab import errors

# A worker imports SymPy before its first answer; a loaded machine takes long.
_START_SECONDS = 120.0
_MEMORY = 4 << 30
# The package's own __init__ imports JAX, which a worker does without.
_START = """
import json, sys, types
folder, sys.path[:] = json.loads(sys.argv[1])
package = types.ModuleType('jaxlab.lm')
package.__path__ = [folder]
sys.modules['jaxlab.lm'] = package
from jaxlab.lm import answer_worker
answer_worker.serve()
"""


def check(text: str, gold: str, timeout: float) -> bool:
  """Whether `math_equivalence.equivalent` holds, found in a worker.

  Args:
    text: the answer.
    gold: the right answer.
    timeout: seconds after which the worker is killed and the answer is no.

  Raises:
    UserError: if Math-Verify is not installed or no worker starts.
  """
  with _idle.borrow() as worker:
    return worker.check(text, gold, timeout)


class _Worker:
  """One process and its pipes."""

  def __init__(self) -> None:
    folder = str(pathlib.Path(__file__).parent)
    path = [os.path.abspath(entry) for entry in sys.path]
    self._process = subprocess.Popen(
      [sys.executable, '-c', _START, json.dumps([folder, path])],
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      bufsize=0,
      # An interrupt at the terminal is for the caller, which ends its workers.
      start_new_session=True,
    )
    self.usable = True
    ready = self._read(_START_SECONDS)
    if ready != b'ready':
      self.end()
      raise errors.UserError(
        ready.decode()
        or 'rewards: the process that checks answers ended as'
        f' it started; try: {sys.executable} -c "import latex2sympy2_extended"'
      )

  def check(self, text: str, gold: str, timeout: float) -> bool:
    request = json.dumps([text, gold, timeout]) + '\n'
    try:
      self._pipe_in.write(request.encode())
    except OSError:  # it ended since its last answer
      self.usable = False
      return False
    reply = self._read(timeout)
    if reply not in (b'0', b'1'):
      self.usable = False
    return reply == b'1'

  def end(self) -> None:
    self.usable = False
    self._process.kill()
    self._process.wait()
    self._pipe_in.close()
    self._pipe_out.close()

  def forget(self) -> None:
    """Closes the pipes, which belong to the parent that this process left."""
    self._pipe_in.close()
    self._pipe_out.close()
    self._process.returncode = 0  # it is not this process's to wait for

  @property
  def _pipe_in(self):
    assert self._process.stdin
    return self._process.stdin

  @property
  def _pipe_out(self):
    assert self._process.stdout
    return self._process.stdout

  def _read(self, timeout: float) -> bytes:
    """Returns the next line; no bytes if it ends or takes too long."""
    line, end = b'', time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
      selector.register(self._pipe_out, selectors.EVENT_READ)
      while not line.endswith(b'\n'):
        left = end - time.monotonic()
        if left <= 0 or not selector.select(left):
          return b''
        part = os.read(self._pipe_out.fileno(), 4096)
        if not part:
          return b''
        line += part
    return line.strip()


class _Idle:
  """Workers that wait for a check; used by all threads of a process."""

  def __init__(self) -> None:
    self._lock = threading.Lock()
    self._workers: list[_Worker] = []
    atexit.register(self._end)
    os.register_at_fork(after_in_child=self._forget)

  @contextlib.contextmanager
  def borrow(self) -> Iterator[_Worker]:
    with self._lock:
      worker = self._workers.pop() if self._workers else None
    if worker is not None and worker._process.poll() is not None:
      worker.end()  # it died while it waited: that costs no check
      worker = None
    worker = worker or _Worker()
    returned = False
    try:
      yield worker
      returned = worker.usable
    finally:
      if returned:
        with self._lock:
          self._workers.append(worker)
      else:
        worker.end()

  def _end(self) -> None:
    with self._lock:
      workers, self._workers = self._workers, []
    for worker in workers:
      worker.end()

  def _forget(self) -> None:
    # A forked child would share the pipes, and maybe a lock held for ever.
    self._lock = threading.Lock()
    workers, self._workers = self._workers, []
    for worker in workers:
      worker.forget()


_idle = _Idle()


def serve() -> None:
  """Answers checks from standard input until it ends: the worker's side."""
  import resource  # noqa: PLC0415 (of POSIX, and only a worker needs it)

  from jaxlab.lm import math_equivalence  # noqa: PLC0415 (nor this)

  out = os.fdopen(os.dup(1), 'wb', buffering=0)
  os.dup2(2, 1)  # what a library prints is no answer
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  try:
    math_equivalence.equivalent('x^2-1', '(x-1)(x+1)')  # imports and tables
  except errors.UserError as error:
    out.write(f'{error}\n'.encode())
    return
  _, hard = resource.getrlimit(resource.RLIMIT_AS)
  resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard))
  out.write(b'ready\n')
  for line in sys.stdin:
    text, gold, timeout = json.loads(line)
    # The parent kills a late worker; if the parent is gone, the kernel does.
    signal.setitimer(signal.ITIMER_REAL, timeout + 1)
    try:
      right = math_equivalence.equivalent(text, gold)
    except MemoryError:
      right = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    out.write(b'1\n' if right else b'0\n')
