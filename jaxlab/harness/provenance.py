"""Where and with what a run was made."""

import datetime
import importlib.metadata
import pathlib
import platform
import socket
import subprocess
from collections.abc import Sequence
from typing import Any

from jaxlab import version

_CHECKOUT = pathlib.Path(__file__).parents[2]


def environment(argv: Sequence[str], seed: int | None) -> dict[str, Any]:
  """Describes the software, the machine and the command of this process.

  Starts the JAX backend if that has not happened.

  Args:
    argv: the command line as the user gave it.
    seed: the seed of the run, if it has one.

  Returns:
    Versions, devices, processes, host, git revision (None outside a
    checkout), time of the start in UTC, seed and command.
  """
  # The command line must be able to read workdirs without the cost of jax.
  import jax  # noqa: PLC0415

  devices = jax.devices()
  revision = _git('rev-parse', 'HEAD')
  return {
    'jaxlab': version.__version__,
    **{name: _installed(name) for name in ('jax', 'jaxlib', 'flax', 'numpy')},
    'python': platform.python_version(),
    'device': devices[0].device_kind,
    'devices': len(devices),
    'processes': jax.process_count(),
    'host': socket.gethostname(),
    'platform': platform.platform(),
    'revision': revision,
    'dirty': bool(_git('status', '--porcelain')) if revision else None,
    'started': datetime.datetime.now(datetime.UTC).isoformat(
      timespec='seconds'
    ),
    'seed': seed,
    'command': list(argv),
  }


def _installed(package: str) -> str | None:
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return None


def _git(*arguments: str) -> str | None:
  if not (_CHECKOUT / '.git').exists():
    return None
  try:
    done = subprocess.run(
      ['git', *arguments],
      cwd=_CHECKOUT,
      capture_output=True,
      text=True,
      timeout=10,
      check=True,
    )
  except (OSError, subprocess.SubprocessError):
    return None
  return done.stdout.strip()
