"""Motifs of weighted graphs: intensity, coherence and signs.

A weight `W[j, i]` acts from node i on node j; it is an edge where it is not 0.
Triples are visited node by node, so that memory stays O(N^2).
"""

import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import catalog
from jaxlab.motifs.dyads import states_of

# Up to here the number of triples, times the six paths of each, fits int32.
_MAX_NODES = 1290


class Intensity(NamedTuple):
  """Weighted census of Onnela et al. (2005).

  Attributes:
    total: `[13]` float: sum of the instances' intensities, the geometric mean
      of the sizes of their weights.
    intensity: `[13]` float: mean over the instances; nan where there is none.
    coherence: `[13]` float: mean ratio of the geometric to the arithmetic
      mean, in (0, 1]; nan where there is no instance.
  """

  total: jax.Array
  intensity: jax.Array
  coherence: jax.Array


class SignedCensus(NamedTuple):
  """Census of excitatory (positive) and inhibitory (negative) edges.

  The columns of the loops are (negative, positive) sign of the product.

  Attributes:
    inhibitory: `[13, 7]` int32: instances with 0..6 inhibitory edges.
    two_cycles: `[13, 2]` int32: cycles of two nodes within the instances.
    three_cycles: `[13, 2]` int32: cycles of three nodes.
    paths: `[13, 2]` int32: pairs of an edge a -> c and a path a -> b -> c;
      (incoherent, coherent): of different or of the same sign.
  """

  inhibitory: jax.Array
  two_cycles: jax.Array
  three_cycles: jax.Array
  paths: jax.Array


@jax.jit
def intensity(W: ArrayLike) -> Intensity:
  """Computes intensity and coherence of every motif.

  Args:
    W: `[N, N]` float weights, `W[j, i]` from i to j; the sign is ignored.

  Returns:
    The three measures in the type of W.
  """
  size = jnp.abs(jnp.asarray(W) * 1.0).T
  state = states_of(size)
  edge = (state & 1) > 0
  size = jnp.where(edge, size, 0)
  log_size = jnp.where(edge, jnp.log(jnp.where(edge, size, 1)), 0)
  per_dyad = [(x + x.T) for x in (log_size, size)]
  class_of = jnp.asarray(catalog.CLASS_OF_CODE)
  num_edges = jnp.asarray(np.append(catalog.NUM_EDGES, 1))

  def visit(sums, node):
    motif = class_of[_over_pairs(state, node, 4)]
    number = num_edges[motif]
    log_product, total = (_over_pairs(x, node, 1) for x in per_dyad)
    geometric = jnp.exp(log_product / number)
    coherence = geometric * number / jnp.where(total > 0, total, 1)
    motif = jnp.where(_later(node, len(state)), motif, -1)
    found = [jnp.ones_like(geometric), geometric, coherence]
    # A segment outside 0..12 (disconnected, or seen from another node) is left.
    add = [jax.ops.segment_sum(x.ravel(), motif.ravel(), 13) for x in found]
    return sums + jnp.stack(add), None

  zeros = jnp.zeros((3, 13), size.dtype)
  (count, total, coherence), _ = jax.lax.scan(
    visit, zeros, jnp.arange(len(state))
  )
  return Intensity(total, total / count, coherence / count)


@jax.jit
def signed_census(W: ArrayLike) -> SignedCensus:
  """Counts motifs by the signs of their edges, cycles and parallel paths.

  Args:
    W: `[N, N]` weights, `W[j, i]` from i to j: positive is excitatory,
      negative inhibitory, 0 no edge; the diagonal is ignored.

  Returns:
    Exact counts.

  Raises:
    UserError: if there are more than 1290 nodes, whose counts may not fit.
  """
  W = jnp.asarray(W)
  if W.shape[0] > _MAX_NODES:
    raise UserError(
      f'a signed census of {W.shape[0]} nodes may not fit into int32; take '
      f'at most {_MAX_NODES} nodes'
    )
  off = ~jnp.eye(W.shape[0], dtype=bool)
  # 0 no edge, 1 excitatory, 2 inhibitory, of both directions of a dyad.
  label = jnp.where(W > 0, 1, jnp.where(W < 0, 2, 0)).T * off
  state = label + 3 * label.T

  def visit(counts, node):
    code = jnp.where(_later(node, len(state)), _over_pairs(state, node, 9), 729)
    return counts.at[code.ravel()].add(1, mode='drop'), None

  zeros = jnp.zeros(729, jnp.int32)
  counts, _ = jax.lax.scan(visit, zeros, jnp.arange(len(state)))
  return SignedCensus(
    *(jnp.tensordot(counts, table, 1) for table in _sign_tables())
  )


def _over_pairs(dyads: jax.Array, node: jax.Array, base: int) -> jax.Array:
  """Joins the dyads of a node and all pairs: `[N, N]` sums of powers."""
  row = dyads[node]
  return row[:, None] + base * row + base * base * dyads


def _later(node: jax.Array, num_nodes: int) -> jax.Array:
  """`[N, N]` bool: pairs (j, k) with node < j < k."""
  index = jnp.arange(num_nodes)
  return (index[:, None] > node) & (index > index[:, None])


@functools.cache
def _sign_tables() -> tuple[np.ndarray, ...]:
  """What one triple of each of the 729 signed codes adds to the census."""
  inhibitory = np.zeros((729, 13, 7), np.int32)
  loops = np.zeros((3, 729, 13, 2), np.int32)
  pairs = ((0, 1), (0, 2), (1, 2))
  for code in range(729):
    sign = np.zeros((3, 3), np.int32)
    for place, (x, y) in enumerate(pairs):
      state = code // 9**place % 9
      sign[x, y], sign[y, x] = ((0, 1, -1)[s] for s in (state % 3, state // 3))
    edge = (sign != 0).astype(int)
    unsigned = sum(
      (edge[x, y] + 2 * edge[y, x]) << 2 * place
      for place, (x, y) in enumerate(pairs)
    )
    motif = catalog.CLASS_OF_CODE[unsigned]
    if motif < 0:
      continue
    inhibitory[code, motif, (sign < 0).sum()] = 1
    two = [sign[x, y] * sign[y, x] for x, y in pairs]
    three = [
      sign[a, b] * sign[b, c] * sign[c, a] for a, b, c in ((0, 1, 2), (0, 2, 1))
    ]
    paths = [
      sign[a, b] * sign[b, c] * sign[a, c]
      for a, b, c in itertools.permutations(range(3))
    ]
    for kind, products in enumerate((two, three, paths)):
      values = np.array(products)
      loops[kind, code, motif] = (values < 0).sum(), (values > 0).sum()
  return inhibitory, *loops
