"""Other implementations, each in a process of its own.

They need older versions of NumPy, SciPy and Pillow than the rest, so they live
in a virtual environment beside the checkout's own, made by
`python -m benchmarks --install-peers`, which does nothing else.
"""

import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from types import TracebackType
from typing import Any, Self

_ROOT = pathlib.Path(__file__).parents[1]
VENV = _ROOT / '.venv-bench'
CURE = 'python -m benchmarks --install-peers'
# rlberry 0.6.0 is the last release that holds bandits.
REQUIREMENTS = (
  'SMPyBandits==0.9.7',
  'best-arm==0.1.1',
  'gguf==0.19.0',
  'gymnasium<1',
  'numpy<2',
  'rlberry==0.6.0',
  'scipy<1.13',
  'torch==2.13.0',
  'transformers==5.24.0',
  'xllamacpp==2026.10.11549',
)


def install() -> None:
  """Makes the environment of the peers, with uv if there is one, else pip.

  Raises:
    CalledProcessError: if an installation fails.
  """
  python = str(VENV / 'bin' / 'python')
  uv = shutil.which('uv')
  if uv:
    make = [uv, 'venv', '--allow-existing', '--python', sys.executable]
    add = [uv, 'pip', 'install', '--python', python]
  else:
    make = [sys.executable, '-m', 'venv']
    add = [python, '-m', 'pip', 'install']
  subprocess.run([*make, str(VENV)], check=True)
  subprocess.run([*add, *REQUIREMENTS], check=True)


class Peer:
  """A package that answers jobs from its own process; a context manager.

  Between its jobs the process is stopped: threads that wait in a loop for their
  next job would take cores from the other side's turn.

  Attributes:
    version: name and version; None if it is not installed.
  """

  def __init__(self, package: str, program: str):
    """Starts a program with the interpreter of the peers.

    Args:
      package: name of the package, passed to the program.
      program: file in this folder. It prints a JSON line `{"version": ..}`,
        then answers each JSON line with one.
    """
    self.version: str | None = None
    self._process: subprocess.Popen[str] | None = None
    python = VENV / 'bin' / 'python'
    if not python.exists():
      return
    # Some packages write files where they are started.
    self._folder = tempfile.TemporaryDirectory()
    self._process = subprocess.Popen(
      [str(python), str(pathlib.Path(__file__).parent / program), package],
      cwd=self._folder.name,
      stdin=subprocess.PIPE,
      stdout=subprocess.PIPE,
      stderr=subprocess.DEVNULL,
      text=True,
    )
    hello = self._process.stdout.readline()  # type: ignore[union-attr]
    self.version = json.loads(hello)['version'] if hello else None
    self._signal(signal.SIGSTOP)

  def run(self, **job: Any) -> Any:
    """Sends a job and waits for its result.

    Raises:
      RuntimeError: if the peer fails.
    """
    process = self._process
    assert process and process.stdin and process.stdout
    self._signal(signal.SIGCONT)
    process.stdin.write(json.dumps(job) + '\n')
    process.stdin.flush()
    answer = process.stdout.readline()
    self._signal(signal.SIGSTOP)
    if not answer:
      raise RuntimeError(f'{self.version} failed on {sorted(job)}.')
    return json.loads(answer)

  def __enter__(self) -> Self:
    return self

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
  ) -> None:
    if self._process is None:
      return
    self._signal(signal.SIGCONT)
    for stream in (self._process.stdin, self._process.stdout):
      if stream:
        stream.close()
    self._process.wait()
    self._folder.cleanup()

  def _signal(self, number: signal.Signals) -> None:
    """Reaches a process that runs; one that has ended is left alone."""
    assert self._process
    self._process.send_signal(number)
