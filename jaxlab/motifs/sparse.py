"""Census of large sparse graphs, without a matrix.

Closed triads are found on the edges: every edge is directed from its node of
lower degree, and pairs of edges that leave a node (wedges) are tested for the
third side, in blocks of fixed size. Open triads follow from the degrees.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import catalog
from jaxlab.motifs.census import induced, with_disconnected

_BLOCK = 1 << 15
# Wedges that one call counts, so that its sums fit into int32.
_SEGMENT = 1 << 30


class Joined(NamedTuple):
  """The E' joined dyads of a graph, each once.

  Attributes:
    first: `[E']` int64 node; rows are sorted by (first, second).
    second: `[E']` int64 node.
    state: `[E']` int8: 1 first -> second, 2 second -> first, 3 both.
  """

  first: np.ndarray
  second: np.ndarray
  state: np.ndarray


def sparse_census(
  rows: ArrayLike, cols: ArrayLike, num_nodes: int, *, full: bool = False
) -> np.ndarray:
  """Counts the motifs of a graph given by its edges; runs from the host.

  Memory is O(E); time grows with the number of wedges of the directed graph,
  at most E sqrt(2 E).

  Args:
    rows: `[E]` integers: the nodes that edges leave.
    cols: `[E]` integers: the nodes that they enter. Loops and repeated edges
      are ignored.
    num_nodes: N.
    full: also count the triads 003, 012 and 102.

  Returns:
    `[13]` int64 exact counts in the order of `catalog.MOTIFS`; `[16]` in that
    of `catalog.TRIADS` with `full`.

  Raises:
    UserError: if the lists differ in length, hold something other than
      integers, or a node outside 0..N-1.
  """
  joined = _joined(*check_edges(rows, cols, num_nodes), num_nodes)
  counts = np.zeros(13, np.int64)
  counts[catalog.CLOSED] = _closed_counts(joined, num_nodes)
  degrees = _degrees(joined, num_nodes)
  for motif, wedges in zip(
    (0, 1, 2, 3, 4, 7), _wedge_totals(*degrees), strict=True
  ):
    counts[motif] = wedges
  counts = induced(counts)
  if not full:
    return counts
  mutual = int((joined.state == 3).sum())
  single = len(joined.state) - mutual
  return with_disconnected(counts, single, mutual, num_nodes)


def check_edges(
  rows: ArrayLike, cols: ArrayLike, num_nodes: int
) -> tuple[np.ndarray, np.ndarray]:
  """Returns the edges as int64, or the error that names the first bad one."""
  if num_nodes < 0:
    raise UserError(f'num_nodes={num_nodes} is negative; give a size of 0 on')
  ends = [np.asarray(rows), np.asarray(cols)]
  if ends[0].ndim != 1 or ends[0].shape != ends[1].shape:
    raise UserError(
      f'rows has shape {ends[0].shape} and cols {ends[1].shape}; give one '
      'entry an edge in both'
    )
  for name, nodes in zip(('rows', 'cols'), ends, strict=True):
    if nodes.size and nodes.dtype.kind not in 'iu':
      raise UserError(f'{name} holds {nodes.dtype}; number the nodes 0..N-1')
    bad = (nodes < 0) | (nodes >= num_nodes)
    if bad.any():
      place = int(bad.argmax())
      raise UserError(
        f'{name}[{place}] = {nodes[place]} is no node of 0..{num_nodes - 1}'
      )
  return ends[0].astype(np.int64), ends[1].astype(np.int64)


def _joined(rows: np.ndarray, cols: np.ndarray, num_nodes: int) -> Joined:
  kept = rows != cols
  rows, cols = rows[kept], cols[kept]
  key = np.minimum(rows, cols) * num_nodes + np.maximum(rows, cols)
  order = np.argsort(key, kind='stable')
  key = key[order]
  state = np.where(rows < cols, 1, 2).astype(np.int8)[order]
  starts = np.flatnonzero(np.diff(key, prepend=-1))
  if not len(starts):
    return Joined(key, key, state)
  key, state = key[starts], np.bitwise_or.reduceat(state, starts)
  return Joined(key // num_nodes, key % num_nodes, state)


def _degrees(joined: Joined, num_nodes: int) -> list[np.ndarray]:
  """Returns `[N]` int64 degrees of one-way edges out and in, and of mutuals."""

  def count(first_states, second_states):
    ends = [
      joined.first[np.isin(joined.state, first_states)],
      joined.second[np.isin(joined.state, second_states)],
    ]
    return np.bincount(np.concatenate(ends), minlength=num_nodes)

  return [count([1], [2]), count([2], [1]), count([3], [3])]


def _wedge_totals(
  n_out: np.ndarray, n_in: np.ndarray, n_mut: np.ndarray
) -> tuple[int, ...]:
  """Wedges of 021D, 021U, 021C, 111D, 111U and 201, by their centres."""
  return (
    (n_out * (n_out - 1) // 2).sum(),
    (n_in * (n_in - 1) // 2).sum(),
    (n_in * n_out).sum(),
    (n_mut * n_in).sum(),
    (n_mut * n_out).sum(),
    (n_mut * (n_mut - 1) // 2).sum(),
  )


def _closed_counts(joined: Joined, num_nodes: int) -> np.ndarray:
  """Counts the seven closed motifs: `[7]` int64."""
  total = np.zeros(len(catalog.CLOSED), np.int64)
  size = len(joined.state)
  if size < 3:
    return total
  ends = np.concatenate([joined.first, joined.second])
  degree = np.bincount(ends, minlength=num_nodes)
  rank = np.empty(num_nodes, np.int64)
  rank[np.argsort(degree, kind='stable')] = np.arange(num_nodes)
  first, second = rank[joined.first], rank[joined.second]
  turned = np.array([0, 2, 1, 3], np.int8)[joined.state]
  state = np.where(first < second, joined.state, turned)
  low, high = np.minimum(first, second), np.maximum(first, second)
  order = np.lexsort((high, low))
  low, high, state = low[order], high[order], state[order]
  starts = np.searchsorted(low, np.arange(num_nodes + 1))
  # The wedges of an edge are the pairs with the edges after it in its row.
  wedges = starts[low + 1] - 1 - np.arange(size)
  graph = _padded(high, 0), _padded(state, 0), _padded(starts, size)
  steps = int(np.diff(starts).max()).bit_length()
  some = np.flatnonzero(wedges)
  ends = np.cumsum(wedges[some])
  done = 0
  while done < len(some):
    base = ends[done - 1] if done else 0
    stop = max(done + 1, int(np.searchsorted(ends, base + _SEGMENT)))
    first_wedge = (ends - wedges[some])[done:stop] - base
    total += np.asarray(
      _closed_in_segment(
        graph,
        _padded(some[done:stop], 0, _BLOCK),
        _padded(first_wedge, _SEGMENT * 2 - 1, _BLOCK),
        jnp.int32(ends[stop - 1] - base),
        jnp.int32(steps),
      ),
      np.int64,
    )
    done = stop
  return total


def _padded(values: np.ndarray, fill: int, extra: int = 0) -> jax.Array:
  """Pads to a power of two, so that few programs are compiled."""
  size = 1 << max(len(values) - 1, 1023).bit_length()
  padded = np.full(size + extra, fill, np.int32)
  padded[: len(values)] = values
  return jnp.asarray(padded)


@jax.jit
def _closed_in_segment(graph, edges, first_wedge, num_wedges, steps):
  """Counts the closed motifs of some edges' wedges: `[7]` int32.

  Args:
    graph: neighbours, states and row starts of the directed edges.
    edges: edges that have wedges.
    first_wedge: the number of each one's first wedge, rising.
    num_wedges: total number of wedges.
    steps: steps of the search in the longest row.
  """
  high, state, starts = graph
  class_of = jnp.asarray(catalog.CLASS_OF_CODE)

  def block(number, counts):
    begin = number * _BLOCK
    place = jnp.searchsorted(first_wedge, begin, side='right') - 1
    marks = jax.lax.dynamic_slice(first_wedge, (place,), (_BLOCK,)) - begin
    is_new = jnp.zeros(_BLOCK, jnp.int32)
    is_new = is_new.at[jnp.where(marks > 0, marks, _BLOCK)].add(1, mode='drop')
    place = place + jnp.cumsum(is_new)
    wedge = begin + jnp.arange(_BLOCK, dtype=jnp.int32)
    one = edges[place]
    two = jnp.minimum(one + 1 + wedge - first_wedge[place], len(high) - 1)
    left, found = _search(high, starts, high[one], high[two], steps)
    third = jnp.where(found & (wedge < num_wedges), state[left], 0)
    motif = class_of[state[one] + 4 * state[two] + 16 * third]
    closed = (third > 0) & (motif == catalog.CLOSED[:, None])
    return counts + jnp.sum(closed, axis=1, dtype=jnp.int32)

  num_blocks = (num_wedges + _BLOCK - 1) // _BLOCK
  zeros = jnp.zeros(len(catalog.CLOSED), jnp.int32)
  return jax.lax.fori_loop(0, num_blocks, block, zeros)


def _search(high, starts, row, wanted, steps):
  """Looks for neighbours in rows: their place, and whether they are there."""

  def halve(_, bounds):
    left, right = bounds
    middle = (left + right) // 2
    below = (high[middle] < wanted) & (left < right)
    return jnp.where(below, middle + 1, left), jnp.where(below, right, middle)

  bounds = starts[row], starts[row + 1]
  left, _ = jax.lax.fori_loop(0, steps, halve, bounds)
  left = jnp.minimum(left, len(high) - 1)
  return left, (left < starts[row + 1]) & (high[left] == wanted)
