"""The tree solve in NumPy, float64: short enough to be seen to be right."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

Parent = Sequence[int] | np.ndarray


def tree_solve(
  diag: ArrayLike,
  lower: ArrayLike,
  upper: ArrayLike,
  rhs: ArrayLike,
  parent: Parent,
) -> np.ndarray:
  """Solves A x = b for a matrix whose graph is a tree (Hines 1984).

  Args:
    diag: `[n]`, `[n, 1]` or `[n, B]` the diagonal.
    lower: the same shapes; A[i, parent(i)], not read at a root.
    upper: the same shapes; A[parent(i), i], not read at a root.
    rhs: `[n, B]` right sides.
    parent: `[n]` parent of each node, below the node's index; -1 at a root.

  Returns:
    `[n, B]` float64.
  """
  x = np.array(rhs, float)
  d = _columns(diag, x.shape).copy()
  low, up = _columns(lower, x.shape), _columns(upper, x.shape)
  for i in range(len(parent) - 1, -1, -1):
    if (p := parent[i]) >= 0:
      factor = up[i] / d[i]
      d[p] -= factor * low[i]
      x[p] -= factor * x[i]
  for i, p in enumerate(parent):
    if p >= 0:
      x[i] -= low[i] * x[p]
    x[i] /= d[i]
  return x


def tree_gradients(
  diag: ArrayLike,
  lower: ArrayLike,
  upper: ArrayLike,
  rhs: ArrayLike,
  parent: Parent,
  cotangent: ArrayLike,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Gradients of sum(cotangent * x) by the adjoint system.

  Args:
    diag: as in `tree_solve`, and so `lower`, `upper`, `rhs` and `parent`.
    lower: see there.
    upper: see there.
    rhs: see there.
    parent: see there.
    cotangent: `[n, B]`.

  Returns:
    `[n, B]` float64 each, by diag, lower, upper and rhs, not summed over the
    batch; 0 for the lower and upper of a root.
  """
  x = tree_solve(diag, lower, upper, rhs, parent)
  adjoint = tree_solve(diag, upper, lower, cotangent, parent)
  above = np.asarray(parent)
  inner = (above >= 0)[:, None]
  lower_bar = np.where(inner, -adjoint * x[above], 0)
  upper_bar = np.where(inner, -adjoint[above] * x, 0)
  return -adjoint * x, lower_bar, upper_bar, adjoint


def dense(
  diag: ArrayLike, lower: ArrayLike, upper: ArrayLike, parent: Parent
) -> np.ndarray:
  """`[n, n]` float64: the matrix, from `[n]` bands."""
  A = np.diag(np.asarray(diag, float))
  above = np.asarray(parent)
  child = np.flatnonzero(above >= 0)
  A[child, above[child]] = np.asarray(lower)[child]
  A[above[child], child] = np.asarray(upper)[child]
  return A


def _columns(band: ArrayLike, shape: tuple[int, ...]) -> np.ndarray:
  found = np.asarray(band, float)
  found = found[:, None] if found.ndim == 1 else found
  return np.broadcast_to(found, shape)
