"""How often each motif occurs: exact counts of induced three-node subgraphs.

Only matrices of zeros and ones are multiplied: their products are exact in
float32, and everything after them is integer arithmetic. A closed motif (no
null dyad) is counted on its edges; an open one by the wedges at its centre,
less those wedges that the closed ones hold.
"""

import itertools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import catalog
from jaxlab.motifs.dyads import (
  check_adjacency,
  dyads_of,
)

# A node takes part in fewer than N^2 / 2 triples, and N times a limb of that
# must fit into int32.
_MAX_NODES = 32768
# With more nodes a count may exceed int32.
_MAX_NODES_INT32 = 2345
_LIMB = 15
_PACK = 12

_IS_CLOSED = np.isin(catalog.ROLES[:, 0], catalog.CLOSED)
# Of each motif one role, so chosen that the sums are over rows, and the number
# of nodes that have it. For an open motif it is the centre.
_COUNTED = np.array([1, 3, 5, 8, 11, 13, 16, 18, 20, 21, 23, 26, 29])
_SIZE = catalog.ROLES[_COUNTED, 2]


def _state(matrix: np.ndarray, x: int, y: int) -> int:
  return int(matrix[x, y] + 2 * matrix[y, x])


def _wedges_within(closed: int, opened: int) -> int:
  """How many wedges in which a node has an open role its closed role holds."""
  motif, place, _ = catalog.ROLES[opened]
  wedge = catalog.adjacency(int(motif))
  motif, node, _ = catalog.ROLES[closed]
  triangle = catalog.adjacency(int(motif))
  pairs = itertools.permutations([p for p in range(3) if p != node])
  if place == 1:  # the centre
    key = _state(wedge, 1, 0), _state(wedge, 1, 2)
    found = [
      key == (_state(triangle, node, x), _state(triangle, node, y))
      for x, y in pairs
    ]
    # Two equal dyads are one wedge in either order.
    return any(found) if key[0] == key[1] else sum(found)
  key = _state(wedge, place, 1), _state(wedge, 1, 2 - place)
  return sum(
    key == (_state(triangle, node, x), _state(triangle, x, y)) for x, y in pairs
  )


# `[30, 30]` wedges that a node's closed role (row) adds to its open ones.
_WITHIN = np.array(
  [
    [
      _wedges_within(c, o) if _IS_CLOSED[c] and not _IS_CLOSED[o] else 0
      for o in range(catalog.NUM_ROLES)
    ]
    for c in range(catalog.NUM_ROLES)
  ],
  np.int32,
)


def _closed_roles(single: jax.Array, mutual: jax.Array) -> dict[int, jax.Array]:
  """For each role in a closed motif, its `[N]` int32 counts."""
  back = single.T
  U, M = single.astype(jnp.float32), mutual.astype(jnp.float32)
  # via_XY[i, j] counts the nodes k with X[i, k] and Y[k, j]; V is U reversed.
  via_UU, via_UM = _two_products(U, U, M)
  via_MU, via_MM = _two_products(M, U, M)
  via_VU = (U.T @ U).astype(jnp.int32)

  def sums(mask, counts, axis):
    return jnp.sum(jnp.where(mask, counts, 0), axis, dtype=jnp.int32)

  return {
    13: sums(single, via_UU, 1),  # 030T: source, middle, sink
    14: sums(single, via_VU, 1),
    15: sums(single, via_UU, 0),
    16: sums(back, via_UU, 1),  # 030C
    19: sums(single, via_UM, 0),  # 120D: mutual pair, source
    20: sums(single, via_UM, 1) // 2,
    21: sums(single, via_MU, 1),  # 120U: mutual pair, sink
    22: sums(single, via_MU, 0) // 2,
    23: sums(mutual, via_UU, 1),  # 120C: start, middle, end of the path
    24: sums(back, via_UM, 1),
    25: sums(mutual, via_UU, 0),
    26: sums(single, via_MM, 1),  # 210: source, sink, the twice mutual node
    27: sums(single, via_MM, 0),
    28: sums(mutual, via_UM, 0),
    29: sums(mutual, via_MM, 1) // 2,  # 300
  }


def _two_products(left, one, two) -> tuple[jax.Array, jax.Array]:
  """Exact int32 products of zeros and ones, of which `one * two` is 0.

  Up to 4095 nodes both fit into the 24 bits of one float32 product.
  """
  if len(left) < 1 << _PACK:
    both = (left @ (one + (1 << _PACK) * two)).astype(jnp.int32)
    return both & ((1 << _PACK) - 1), both >> _PACK
  return (left @ one).astype(jnp.int32), (left @ two).astype(jnp.int32)


def _wedges(single: jax.Array, mutual: jax.Array) -> dict[int, jax.Array]:
  """For each role in an open motif, its `[N]` int32 counts of wedges.

  The dyad between the ends of a wedge may have any state.
  """
  n_out, n_in = (jnp.sum(single, axis, dtype=jnp.int32) for axis in (1, 0))
  n_mut = jnp.sum(mutual, 1, dtype=jnp.int32)
  back = single.T

  def along(mask, degree):
    return jnp.sum(jnp.where(mask, degree, 0), 1, dtype=jnp.int32)

  def pairs(degree):
    return degree * (degree - 1) // 2

  return {
    0: along(back, n_out - 1),  # 021D: target, source
    1: pairs(n_out),
    2: along(single, n_in - 1),  # 021U: source, target
    3: pairs(n_in),
    4: along(single, n_out),  # 021C: start, middle, end
    5: n_in * n_out,
    6: along(back, n_in),
    7: along(mutual, n_in),  # 111D: a <-> b <- c
    8: n_mut * n_in,
    9: along(single, n_mut),
    10: along(mutual, n_out),  # 111U: a <-> b -> c
    11: n_mut * n_out,
    12: along(back, n_mut),
    17: along(mutual, n_mut - 1),  # 201: end, centre
    18: pairs(n_mut),
  }


def _rows(A: jax.Array, roles: Sequence[int] | np.ndarray) -> jax.Array:
  """Stacks the counts of some roles, wedges for the open ones: `[N, n]`."""
  single, mutual, _ = dyads_of(A)
  counts = _closed_roles(single, mutual) | _wedges(single, mutual)
  return jnp.stack([counts[int(role)] for role in roles], axis=-1)


@jax.jit
def _role_counts(A: jax.Array) -> jax.Array:
  counts = _rows(A, range(catalog.NUM_ROLES))
  # An integer product by hand: XLA's own is slow on CPUs.
  held = sum(
    counts[:, c, None] * _WITHIN[c] for c in np.flatnonzero(_IS_CLOSED)
  )
  return counts - held


def role_census(A: ArrayLike) -> jax.Array:
  """Counts how often each node has each role in a motif.

  Args:
    A: `[N, N]` graph; entries other than 0 are edges, loops are ignored.

  Returns:
    `[N, 30]` int32, exact; the roles are the rows of `catalog.ROLES`.
  """
  _check_size(np.shape(A)[-1])
  return _role_counts(jnp.asarray(A))


def node_census(A: ArrayLike) -> jax.Array:
  """Counts the motif instances that each node belongs to: `[N, 13]` int32."""
  roles = role_census(A)
  starts = np.searchsorted(catalog.ROLES[:, 0], np.arange(13))
  return jnp.add.reduceat(roles, starts, axis=1)


@jax.jit
def census_limbs(A: ArrayLike) -> jax.Array:
  """Counts motifs exactly without 64-bit integers; for use inside `jit`.

  On CPUs `jax.lax.map` over many graphs is faster than `jax.vmap`.

  Args:
    A: `[N, N]` graph; entries other than 0 are edges, loops are ignored.

  Returns:
    `[2, 13]` int32: sums over the nodes in two limbs, for `join_limbs`.

  Raises:
    UserError: if there are more than 32768 nodes.
  """
  _check_size(np.shape(A)[-1])
  rows = _rows(jnp.asarray(A), _COUNTED)
  limbs = jnp.stack([rows >> _LIMB, rows & ((1 << _LIMB) - 1)])
  return jnp.sum(limbs, axis=1, dtype=jnp.int32)


def join_limbs(limbs: ArrayLike) -> np.ndarray:
  """Returns `[..., 13]` int64 counts of `[..., 2, 13]` limbs, on the host."""
  high, low = np.moveaxis(np.asarray(limbs, np.int64), -2, 0)
  return without_closed((high << _LIMB) + low)


def without_closed(sums):
  """Turns sums over nodes into counts of induced motifs.

  Args:
    sums: `[..., 13]` integers: wedges at the open motifs' centres, and how
      often the counted role of each closed motif occurs.

  Returns:
    `[..., 13]` counts of the same type.
  """
  return induced(sums // _SIZE.astype(sums.dtype))


def induced(counts):
  """Takes from wedges those that are part of closed motifs.

  Args:
    counts: `[..., 13]` integers: numbers of wedges for the open motifs, of
      instances for the closed ones.

  Returns:
    `[..., 13]` instances, of the same type.
  """
  held = catalog.WEDGES_HELD.astype(counts.dtype)
  return counts - (counts[..., None] * held).sum(-2)


def census(A: ArrayLike) -> np.ndarray | jax.Array:
  """Counts the induced instances of the 13 motifs, exactly.

  Args:
    A: `[N, N]` graph of zeros and ones; loops are ignored.

  Returns:
    `[13]` counts in the order of `catalog.MOTIFS`: int64 on the host. Inside
    `jit` or `vmap` the entries are not checked, and the counts are int64 under
    x64, else int32.

  Raises:
    UserError: if A is not square or has entries other than 0 and 1; inside
      `jit` without x64 if there are more than 2345 nodes, whose counts may
      not fit (take `census_limbs`).
  """
  if isinstance(A, jax.core.Tracer):
    return _traced_census(A)
  return join_limbs(census_limbs(check_adjacency(A).A))


def triad_census(A: ArrayLike) -> np.ndarray | jax.Array:
  """Counts all triads: 003, 012, 102 and then the 13 motifs.

  Args:
    A: as in `census`.

  Returns:
    `[16]` counts; they sum to N (N-1) (N-2) / 6. Types as in `census`.

  Raises:
    UserError: as `census`.
  """
  if isinstance(A, jax.core.Tracer):
    counts = _traced_census(A)
    dyads = dyads_of(A)
    number = [jnp.sum(x, dtype=counts.dtype) for x in dyads[:2]]
    return with_disconnected(counts, number[0], number[1] // 2, A.shape[-1])
  graph = check_adjacency(A).A
  num_mutual = int((graph & graph.T).sum()) // 2
  num_single = int(graph.sum()) - 2 * num_mutual
  exact = join_limbs(census_limbs(graph))
  return with_disconnected(exact, num_single, num_mutual, len(graph))


def with_disconnected(counts, num_single, num_mutual, num_nodes: int):
  """Puts the counts of 003, 012 and 102 before those of the motifs.

  Args:
    counts: `[13]` integer motif counts, of NumPy or JAX.
    num_single: number of one-way dyads.
    num_mutual: number of mutual dyads.
    num_nodes: N.

  Returns:
    `[16]` of the type of `counts`.
  """
  xp = np if isinstance(counts, np.ndarray) else jnp
  mutual_in = np.array(
    [sum((b, a) in edges for a, b in edges) // 2 for _, edges in catalog.MOTIFS]
  )
  single_in = catalog.NUM_EDGES - 2 * mutual_in
  one, two = (
    number * (num_nodes - 2) - xp.sum(counts * within.astype(counts.dtype))
    for number, within in ((num_single, single_in), (num_mutual, mutual_in))
  )
  triples = num_nodes * (num_nodes - 1) * (num_nodes - 2) // 6
  none = triples - one - two - xp.sum(counts)
  return xp.concatenate([xp.stack([none, one, two]), counts])


def expected_census(P: ArrayLike) -> jax.Array:
  """Expected counts where every edge is drawn by itself; differentiable.

  The three dyads of a triple are independent, so that the sums over products
  of dyads hold in expectation.

  Args:
    P: `[N, N]` float probabilities of the edges i -> j; the diagonal counts
      as 0.

  Returns:
    `[13]` expected counts in the type of P.
  """
  P = jnp.asarray(P)
  off = 1 - jnp.eye(P.shape[0], dtype=P.dtype)
  P = P * off
  M, U, N = P * P.T, P * (1 - P.T), (1 - P) * (1 - P.T) * off
  UU, VU, UV, UM, MU, MM = U @ U, U.T @ U, U @ U.T, U @ M, M @ U, M @ M
  return jnp.stack(
    [
      jnp.sum(N * VU) / 2,
      jnp.sum(N * UV) / 2,
      jnp.sum(N * UU),
      jnp.sum(N * UM),
      jnp.sum(N * MU),
      jnp.sum(U * UU),
      jnp.sum(U.T * UU) / 3,
      jnp.sum(N * MM) / 2,
      jnp.sum(M * VU) / 2,
      jnp.sum(M * UV) / 2,
      jnp.sum(M * UU),
      jnp.sum(U * MM),
      jnp.sum(M * MM) / 6,
    ]
  )


def _traced_census(A: jax.Array) -> jax.Array:
  wide = jnp.zeros((), int).dtype == jnp.int64
  if not wide and A.shape[-1] > _MAX_NODES_INT32:
    raise UserError(
      f'counts of {A.shape[-1]} nodes may not fit into int32; call '
      'census_limbs inside jit, or turn on jax_enable_x64'
    )
  dtype = jnp.int64 if wide else jnp.int32
  return without_closed(jnp.sum(_rows(A, _COUNTED), axis=0, dtype=dtype))


def _check_size(num_nodes: int) -> None:
  if num_nodes > _MAX_NODES:
    raise UserError(
      f'a dense census of {num_nodes} nodes is too large (at most '
      f'{_MAX_NODES}); use sparse_census'
    )
