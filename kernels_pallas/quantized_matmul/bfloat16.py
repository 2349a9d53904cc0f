"""float32 rows as sums of bfloat16 ones, for CPUs that multiply these faster.

A float32 has 24 bits, a bfloat16 8 of them: three add up to it. Their products
with integers of at most 8 bits and a sign are exact in float32, so nothing is
lost, and on CPUs with tiles (AMX) three such products take less time than one
in float32. Elsewhere they take more.
"""

import functools
import pathlib

import jax
import jax.numpy as jnp
from jax import lax

_CPU_INFO = pathlib.Path('/proc/cpuinfo')
_FLAG = 'amx_bf16'


@functools.cache
def is_fast() -> bool:
  """Whether the CPU here has tiles of bfloat16; False where none can tell."""
  try:
    return _FLAG in _CPU_INFO.read_text().split()
  except OSError:
    return False


def split(x: jax.Array) -> jax.Array:
  """Parts of `[M, K]` bfloat16 or float32 rows, below each other.

  Args:
    x: the rows; what is infinite or nan stays so.

  Returns:
    `[P M, K]` bfloat16, P = 1 or 3.
  """
  if x.dtype == jnp.bfloat16:
    return x
  parts = []
  for _ in range(3):
    # In bits, since a cast there and back counts as one that does nothing.
    bits = lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(0xFFFF0000)
    upper = (bits >> 16).astype(jnp.uint16)
    parts.append(lax.bitcast_convert_type(upper, jnp.bfloat16))
    rest = x - lax.bitcast_convert_type(bits, jnp.float32)
    x = jnp.where(jnp.isinf(x), 0, rest)
  return jnp.concatenate(parts)


def joined(y: jax.Array, m: int) -> jax.Array:
  """`[M, N]` sums of the products `[P M, N]` of parts, the small ones first."""
  if len(y) == m:
    return y
  first, second, third = y.reshape(3, m, y.shape[1])
  return third + second + first
