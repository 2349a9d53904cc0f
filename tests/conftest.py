"""Compiling is most of the tests' time: do it quickly and once."""

import os
import pathlib

_CACHE = pathlib.Path(__file__).resolve().parents[1] / '.jax_cache'
os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(_CACHE))
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.1')
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')

import jax  # noqa: E402 - after the settings above
import pytest  # noqa: E402

# A process may have 65,530 memory maps; each compiled program takes some, and
# XLA crashes where there are no more.
_MAPS = pathlib.Path('/proc/self/maps')
_MOST_MAPS = 40_000


@pytest.fixture(autouse=True, scope='module')
def few_programs():
  """Forgets compiled programs before there are too many of them."""
  yield
  if _MAPS.exists() and _MAPS.read_bytes().count(b'\n') > _MOST_MAPS:
    jax.clear_caches()
