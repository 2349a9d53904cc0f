"""What a run over several JAX processes must agree on.

Process 0 alone touches the work folder; these functions tell the others what
it found there. With one process they import nothing.
"""

import sys

import numpy as np


def count() -> int:
  """Returns the number of processes of this run."""
  jax = sys.modules.get('jax')
  if jax is None or not jax.distributed.is_initialized():
    return 1
  return jax.process_count()


def is_first() -> bool:
  """Whether this process is the one that writes files."""
  return count() == 1 or sys.modules['jax'].process_index() == 0


def from_first(data: bytes | None) -> bytes | None:
  """Gives every process the bytes that process 0 passed.

  Args:
    data: up to 2 GiB on process 0; ignored on the others.

  Returns:
    The bytes of process 0, or None on all where process 0 passed None.
  """
  if count() == 1:
    return data
  # Only a run over several processes needs (and already has) jax.
  from jax.experimental import multihost_utils  # noqa: PLC0415

  length = np.int32(-1 if data is None else len(data))
  size = int(multihost_utils.broadcast_one_to_all(length))
  if size < 0:
    return None
  if data is None or not is_first():
    data = bytes(size)
  buffer = np.frombuffer(data, np.uint8)
  return np.asarray(multihost_utils.broadcast_one_to_all(buffer)).tobytes()
