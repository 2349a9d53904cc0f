"""Linear algebra of many small symmetric positive definite matrices.

Elementwise operations, unrolled over the few dimensions of an ability. The
batched LAPACK calls behind `jnp.linalg` are slower for such sizes, and two of
them at once can block each other for ever in the thread pool of a CPU (seen
with jaxlib 0.10.2 on two cores, from some 10^4 matrices on).
"""

import jax
import jax.numpy as jnp

_MOST = 16  # dimensions that are unrolled


def inverse(matrix: jax.Array) -> jax.Array:
  """Inverses of `[..., D, D]`, by sweeping each dimension in turn.

  The sweep operator (Goodnight, The American Statistician, 1979) needs no
  pivots for positive definite matrices; where one is not, the result has
  infinities or NaNs, or is not to be relied on.
  """
  size = matrix.shape[-1]
  if size > _MOST:
    return jnp.linalg.inv(matrix)
  swept = matrix
  for k in range(size):
    pivot = swept[..., k, k][..., None, None]
    column, row = swept[..., :, k : k + 1], swept[..., k : k + 1, :]
    here = jnp.arange(size) == k
    rest = swept - column * row / pivot
    rest = jnp.where(here, column / pivot, rest)
    rest = jnp.where(here[:, None], row / pivot, rest)
    swept = jnp.where(here & here[:, None], -1 / pivot, rest)
  return -swept


def solve(matrix: jax.Array, vector: jax.Array) -> jax.Array:
  """`matrix^-1 vector` for `[..., D, D]` and `[..., D]`."""
  if matrix.shape[-1] > _MOST:
    return jnp.linalg.solve(matrix, vector[..., None])[..., 0]
  return jnp.sum(inverse(matrix) * vector[..., None, :], axis=-1)


def cholesky(matrix: jax.Array) -> jax.Array:
  """Lower triangular roots of `[..., D, D]`; NaN where there is none."""
  size = matrix.shape[-1]
  if size > _MOST:
    return jnp.linalg.cholesky(matrix)
  rest, columns = matrix, []
  for k in range(size):
    below = jnp.arange(size) >= k
    column = jnp.where(below, rest[..., :, k], 0)
    column = column / jnp.sqrt(rest[..., k, k])[..., None]
    rest = rest - column[..., :, None] * column[..., None, :]
    columns.append(column)
  return jnp.stack(columns, axis=-1)
