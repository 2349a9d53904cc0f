"""From weights to graphs: thresholds, and trained networks."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError


def threshold(
  W: ArrayLike, *, level: ArrayLike | None = None, density: float | None = None
) -> jax.Array:
  """Turns weights into a graph by a level or by a share of edges.

  Args:
    W: `[N, N]` weights, `W[j, i]` from i to j; the diagonal is ignored.
    level: edges are the weights larger than this in size; 0 by default.
    density: instead of a level, the share of the N (N-1) ordered pairs that
      become edges: the largest in size, but no weight of 0.

  Returns:
    `[N, N]` bool A with `A[i, j]` for an edge i -> j.

  Raises:
    UserError: if both are given or the density is no share.
  """
  if level is not None and density is not None:
    raise UserError(f'level={level} and density={density}; give one of them')
  size = jnp.abs(jnp.asarray(W)).T
  num = size.shape[0]
  size = jnp.where(jnp.eye(num, dtype=bool), 0, size)
  if density is None:
    return size > (0 if level is None else level)
  if not 0 <= density <= 1:
    raise UserError(f'density={density} is no share; take 0 to 1')
  count = int(np.floor(density * num * (num - 1) + 0.5))
  order = jnp.argsort(-size.ravel(), stable=True)
  chosen = jnp.zeros(num * num, bool).at[order[:count]].set(True)
  return chosen.reshape(num, num) & (size > 0)


def from_params(
  params: Any, *, level: ArrayLike | None = None, density: float | None = None
) -> dict[str, jax.Array]:
  """Finds the recurrent matrices of a trained network and makes graphs.

  A recurrent kernel is a square matrix of at least three rows that multiplies
  from the right, as in flax: `kernel[i, j]` acts from unit i to unit j.

  Args:
    params: pytree of arrays.
    level: see `threshold`.
    density: see `threshold`.

  Returns:
    For the path of each square matrix its `[N, N]` bool graph.

  Raises:
    UserError: if there is no square matrix.
  """
  leaves = jax.tree_util.tree_flatten_with_path(params)[0]
  found = {
    jax.tree_util.keystr(path, simple=True, separator='/'): leaf
    for path, leaf in leaves
    if np.ndim(leaf) == 2 and 3 <= np.shape(leaf)[0] == np.shape(leaf)[1]
  }
  if not found:
    raise UserError(
      'params hold no square matrix of 3 or more rows; pass the part with the '
      'recurrent kernel'
    )
  return {
    name: threshold(kernel.T, level=level, density=density)
    for name, kernel in found.items()
  }
