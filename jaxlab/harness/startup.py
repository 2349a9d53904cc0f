"""Prepares JAX before its first use."""

import contextlib
import os
import pathlib

from jaxlab import errors


def start_jax(device: str, *, fast_compile: bool = False) -> None:
  """Sets JAX up before its first use and joins the other processes.

  All cores become CPU devices and compiled programs are kept under
  `~/.cache/jaxlab/xla`, unless JAX's own variables say otherwise.

  Args:
    device: `'cpu'`, `'gpu'`, `'tpu'`, or `'auto'` for the best there is.
    fast_compile: leave out most optimizations: for short runs, of which
      compilation would take the most.

  Raises:
    UserError: if the device is not there.
  """
  # Costly to import; only a run that is about to start needs it.
  import jax  # noqa: PLC0415

  from jaxlab import parallel  # noqa: PLC0415

  if device == 'cpu':
    jax.config.update('jax_platforms', 'cpu')
  counted = 'xla_force_host_platform_device_count' in os.environ.get(
    'XLA_FLAGS', ''
  )
  if not counted and 'JAX_NUM_CPU_DEVICES' not in os.environ:
    # A process that has used JAX before keeps the devices that it has.
    with contextlib.suppress(RuntimeError):
      jax.config.update('jax_num_cpu_devices', cores())
  if fast_compile:
    jax.config.update('jax_disable_most_optimizations', True)
  if jax.config.values['jax_compilation_cache_dir'] is None:
    _keep_compiled_programs()
  parallel.initialize()
  if device != 'auto' and jax.default_backend() != device:
    raise errors.UserError(
      f'--device={device}, but JAX finds only {jax.default_backend()}; install'
      f' jaxlab[{device}], or leave out --device and JAX_PLATFORMS.'
    )


def cores() -> int:
  """Returns the number of CPU cores that this process may use."""
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _keep_compiled_programs() -> None:
  """Turns the persistent compilation cache on where the home is writable."""
  import jax  # noqa: PLC0415

  home = pathlib.Path(os.environ.get('XDG_CACHE_HOME') or '~/.cache')
  with contextlib.suppress(OSError, RuntimeError):
    cache = home.expanduser() / 'jaxlab' / 'xla'
    cache.mkdir(parents=True, exist_ok=True)
    if os.access(cache, os.W_OK):
      jax.config.update('jax_compilation_cache_dir', str(cache))
