"""How motifs are joined to one another, and the connectivity of connections."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import catalog
from jaxlab.motifs.dyads import check_adjacency, states_of
from jaxlab.motifs.nulls import null_statistic
from jaxlab.motifs.types import NullResult


class MotifGraph(NamedTuple):
  """Numbers of pairs of different motif instances, by what they share.

  Attributes:
    node: `[13, 13]` int64 symmetric: unordered pairs of an instance of the row
      motif and one of the column motif that share exactly one node.
    dyad: `[13, 13]` int64 symmetric: pairs that share two nodes, which are
      joined by an edge or two.
    gap: `[13, 13]` int64 symmetric: pairs that share two nodes without an edge
      between them.
    handover: `[30, 30]` int64: ordered pairs that share exactly one node; it
      has the row role in the first instance, which has an edge to it, and the
      column role in the second one, which has an edge from it.
  """

  node: np.ndarray
  dyad: np.ndarray
  gap: np.ndarray
  handover: np.ndarray


def motif_graph(A: ArrayLike) -> MotifGraph:
  """Counts how the motif instances of a graph hang together; exact.

  Args:
    A: `[N, N]` graph of zeros and ones; loops are ignored. Memory is
      O(30 N^2).

  Raises:
    UserError: if A is not square or has entries other than 0 and 1.
  """
  graph = check_adjacency(A).A
  by_pair = np.asarray(_roles_by_pair(jnp.asarray(graph)), np.int64)
  # Each instance of a role is seen with both other nodes.
  by_node = by_pair.sum(axis=1) // 2
  flat = by_pair.reshape(-1, catalog.NUM_ROLES)
  times = by_node.sum(axis=0)
  # Pairs with a shared node, less those that share a second one. An instance
  # with itself is counted once by node and twice by pair.
  one = by_node.T @ by_node - flat.T @ flat + np.diag(times)
  shared = catalog.ROLE_TO_MOTIF.T @ one @ catalog.ROLE_TO_MOTIF
  motifs = by_pair @ catalog.ROLE_TO_MOTIF
  upper = np.triu(np.ones_like(graph), 1)
  joined = graph | graph.T
  dyad, gap = (
    _two_shared(motifs[upper & where]) for where in (joined, ~joined)
  )
  passes = np.outer(catalog.ROLE_IN > 0, catalog.ROLE_OUT > 0)
  return MotifGraph(_unordered(shared), dyad, gap, one * passes)


def null_motif_graph(
  key: jax.Array,
  A: ArrayLike,
  kind: str = 'degree_mutual',
  replicas: int = 100,
  n_swaps: int | None = None,
) -> MotifGraph:
  """Compares `motif_graph` with a null model of `rewire`.

  Returns:
    A `MotifGraph` whose fields are `NullResult`s of these shapes.
  """
  sizes = [13 * 13] * 3 + [30 * 30]

  def flat(graphs):
    found = [motif_graph(graph) for graph in np.asarray(graphs)]
    return np.stack([np.concatenate([x.ravel() for x in f]) for f in found])

  result = null_statistic(key, A, flat, kind, replicas, n_swaps)
  ends = np.cumsum(sizes)
  return MotifGraph(
    *(
      _part(result, slice(end - size, end), (int(size**0.5),) * 2)
      for end, size in zip(ends, sizes, strict=True)
    )
  )


@functools.partial(jax.jit, static_argnames=('window', 'step'))
def meta_connectivity(
  x: ArrayLike, window: int, step: int = 1
) -> tuple[jax.Array, jax.Array]:
  """Correlates the time courses of functional connections.

  Within every sliding window the connection of two regions is the Pearson
  correlation of their series; the meta-connectivity of two connections is the
  correlation of these over the windows (Lombardo et al., 2020).

  Args:
    x: `[T, N]` float time series of N regions.
    window: length of a window, at least 2.
    step: distance of the windows.

  Returns:
    `[L, L]` meta-connectivity of the L = N (N-1) / 2 connections in the order
    of `np.triu_indices(N, 1)`, 0 where a connection never changes, and their
    `[windows, L]` time courses.

  Raises:
    UserError: if fewer than two windows of at least two samples fit.
  """
  x = jnp.asarray(x)
  starts = np.arange(0, x.shape[0] - window + 1, max(step, 1))
  if window < 2 or step < 1 or len(starts) < 2:
    raise UserError(
      f'window={window} and step={step} make {len(starts)} windows of '
      f'{x.shape[0]} samples; take window >= 2, step >= 1 and two windows'
    )
  pairs = np.triu_indices(x.shape[1], 1)
  slices = x[starts[:, None] + np.arange(window)]
  courses = jax.vmap(_correlations)(slices)[:, *pairs]
  return _correlations(courses), courses


def _correlations(x: jax.Array) -> jax.Array:
  """`[n, n]` Pearson correlations of the columns; 0 for constant ones."""
  centred = x - jnp.mean(x, axis=0)
  size = jnp.sqrt(jnp.sum(centred**2, axis=0))
  # Rounding alone leaves this much of a constant column.
  floor = jnp.finfo(x.dtype).eps * len(x) * jnp.max(jnp.abs(x), axis=0)
  unit = jnp.where(size > floor, centred / jnp.where(size > 0, size, 1), 0)
  return jnp.clip(unit.T @ unit, -1, 1)


@jax.jit
def _roles_by_pair(A: jax.Array) -> jax.Array:
  """`[N, N, 30]` int32: nodes k so that i has the role in {i, j, k}."""
  state = states_of(A)
  off = ~jnp.eye(len(state), dtype=bool)
  kinds = [((state == s) & off).astype(jnp.float32) for s in range(4)]
  roles = jnp.zeros((*state.shape, catalog.NUM_ROLES + 1), jnp.int32)
  role_of = jnp.asarray(catalog.ROLE_OF_CODE[:, 0], jnp.int32)
  index = jnp.arange(len(state))
  for first in range(4):
    for second in range(4):
      count = (kinds[first] @ kinds[second].T).astype(jnp.int32)
      role = role_of[state + 4 * first + 16 * second]
      # Disconnected triples go to a place that is cut off.
      role = jnp.where(role < 0, catalog.NUM_ROLES, role)
      roles = roles.at[index[:, None], index, role].add(count)
  return jnp.where(off[..., None], roles[..., :-1], 0)


def _two_shared(motifs: np.ndarray) -> np.ndarray:
  """Pairs of different instances on the same dyads, from `[D, 13]` counts."""
  return _unordered(motifs.T @ motifs - np.diag(motifs.sum(axis=0)))


def _unordered(pairs: np.ndarray) -> np.ndarray:
  """Counts pairs of instances of one motif once."""
  return pairs - np.diag(np.diag(pairs) // 2)


def _part(result: NullResult, where: slice, shape: tuple[int, int]):
  """One matrix of a comparison of many; its profile has the norm 1 again."""
  values = result._asdict()
  for name in ('acceptance', 'autocorrelation'):
    del values[name]
  part = result._replace(
    **{name: value[where].reshape(shape) for name, value in values.items()}
  )
  norm = np.sqrt(np.nansum(part.z**2))
  return part._replace(profile=part.z / norm if norm > 0 else part.z)
