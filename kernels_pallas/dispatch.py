"""Which implementation of a kernel can run, and which one runs by default."""

import importlib
import os

import jax


class BackendUnavailable(RuntimeError):
  """An implementation was asked for that cannot run here.

  Attributes:
    backend: name of the implementation.
    why: what it lacks.
  """

  def __init__(self, backend: str, why: str):
    super().__init__(f'{backend} is not available: {why}')
    self.backend = backend
    self.why = why


def default_platform() -> str:
  """'cpu', 'gpu' or 'tpu': where JAX puts arrays that nobody places."""
  platform = jax.default_backend()
  return 'gpu' if platform in ('cuda', 'rocm') else platform


def why_missing(*modules: str) -> str:
  """'' if all modules import, else why the first one does not."""
  environment = dict(os.environ)
  try:
    for name in modules:
      importlib.import_module(name)
  except ImportError as error:
    return f'{name}: {str(error).splitlines()[0]}'
  finally:
    # Some of them point a compiler's cache elsewhere as they are imported.
    for key in os.environ.keys() - environment.keys():
      del os.environ[key]
    os.environ.update(environment)
  return ''


def why_not_on(platform: str) -> str:
  """'' if this is the default platform, else a sentence that says which is."""
  found = default_platform()
  return '' if found == platform else f'the default device is a {found}'
