"""Compiling is most of the tests' time: do it quickly and once."""

import os
import pathlib

_CACHE = pathlib.Path(__file__).resolve().parents[1] / '.jax_cache'
os.environ.setdefault('JAX_COMPILATION_CACHE_DIR', str(_CACHE))
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0.1')
os.environ.setdefault('JAX_DISABLE_MOST_OPTIMIZATIONS', '1')
