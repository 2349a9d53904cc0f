"""How much of a computation is held in memory at a time."""

MAX_BYTES = 2**28


def chunk_length(max_bytes: int, bytes_each: int) -> int:
  """Number of elements of `bytes_each` that fit in `max_bytes`, at least 1.

  Raises:
    ValueError: if `max_bytes` is not positive.
  """
  if max_bytes < 1:
    raise ValueError(f'max_bytes must be positive, got {max_bytes}.')
  return max(1, max_bytes // max(1, bytes_each))
