"""From a matrix to its dyads, and what a valid adjacency matrix is."""

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError


class Dyads(NamedTuple):
  """The three kinds of a graph's dyads.

  Attributes:
    single: `[N, N]` bool: i -> j and not j -> i.
    mutual: `[N, N]` bool: both; symmetric.
    null: `[N, N]` bool: none, off the diagonal; symmetric.
  """

  single: jax.Array
  mutual: jax.Array
  null: jax.Array


class CheckedAdjacency(NamedTuple):
  """A graph that is fit for the functions of this family.

  Attributes:
    A: `[N, N]` bool without loops.
    loops_ignored: number of loops that were left out.
  """

  A: np.ndarray
  loops_ignored: int


def edges_of(A: ArrayLike) -> jax.Array:
  """Returns `[N, N]` bool: `A` is not 0, without loops."""
  A = jnp.asarray(A)
  return (A != 0) & ~jnp.eye(A.shape[-1], dtype=bool)


def dyads_of(A: ArrayLike) -> Dyads:
  """Sorts the dyads of a graph `[N, N]`, whose loops are ignored."""
  edge = edges_of(A)
  reverse = edge.T
  null = ~(edge | reverse | jnp.eye(edge.shape[0], dtype=bool))
  return Dyads(edge & ~reverse, edge & reverse, null)


def states_of(A: ArrayLike) -> jax.Array:
  """Returns the `[N, N]` int32 dyad states 0..3 of `jaxlab.motifs.catalog`."""
  edge = edges_of(A).astype(jnp.int32)
  return edge + 2 * edge.T


def check_square(A: ArrayLike, name: str = 'A') -> None:
  """Raises UserError unless `A` is a square matrix."""
  shape = np.shape(A)
  if len(shape) != 2 or shape[0] != shape[1]:
    raise UserError(
      f'{name} has shape {shape}; an adjacency matrix is square: [N, N]'
    )


def check_adjacency(A: ArrayLike) -> CheckedAdjacency:
  """Checks a graph on the host.

  Warns where the graph has edges and all of them are mutual: it may be an
  undirected graph.

  Args:
    A: `[N, N]` entries 0 and 1 of any type.

  Returns:
    The graph without loops, and their number.

  Raises:
    UserError: if A is not square or has an entry other than 0 and 1.
  """
  check_square(A)
  matrix = np.asarray(A)
  bad = ~((matrix == 0) | (matrix == 1))
  if bad.any():
    row, column = (int(place) for place in np.argwhere(bad)[0])
    raise UserError(
      f'A[{row}, {column}] = {matrix[row, column]}, but edges are 0 or 1; '
      'choose a threshold first, such as A = weights > 0'
    )
  edge = matrix == 1
  loops = int(np.trace(edge))
  edge = edge & ~np.eye(len(edge), dtype=bool)
  if edge.any() and (edge == edge.T).all():
    warnings.warn(
      'A == A.T: every edge is mutual; is this an undirected graph?',
      stacklevel=2,
    )
  return CheckedAdjacency(edge, loops)
