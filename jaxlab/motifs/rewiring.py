"""Random graphs that share some property with a given one.

`er` and `reciprocity` are drawn directly. `degree` and `degree_mutual` are
Markov chains of double edge swaps (a->b, c->d become a->d, c->b) and, more
rarely, of moves that swaps cannot replace: paths and cycles of three edges are
turned, and pairs of single edges exchanged with mutual pairs. A move that is
not legal leaves the graph and counts as attempted, so that all graphs that can
be reached are equally likely. `degree_mutual` may keep a few graphs of very
small, dense classes apart.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs.dyads import check_square, dyads_of, edges_of

KINDS = ('er', 'degree', 'degree_mutual', 'reciprocity')
SWAPS_PER_EDGE = 10
# Random words are drawn for this many swaps at once; a few attempts at the
# other moves follow.
_BLOCK = 256
_TURNS = 8
_EXCHANGES = 2  # they search the list of edges
_PARTS = 10
_SHIFT, _MASK = 16, (1 << 16) - 1


class Rewired(NamedTuple):
  """A graph of a null model.

  Attributes:
    A: `[N, N]` bool.
    acceptance: float share of the attempted swaps that were made; 1 where the
      graph is drawn directly.
    autocorrelation: `[10]` float correlation of the adjacency matrix with the
      first one after each tenth of the chain; 0 where it is drawn directly.
  """

  A: jax.Array
  acceptance: jax.Array
  autocorrelation: jax.Array


class _Chain(NamedTuple):
  """State of a chain.

  Attributes:
    arcs: `[cap]` int32 `source << 16 | target`: one-way edges sorted by
      source, then mutual pairs, then padding.
    joined: `[N^2]` bool: ordered pairs that are edges, or for `degree_mutual`
      pairs (low, high) that are joined.
    accepted: int32 number of swaps made.
  """

  arcs: jax.Array
  joined: jax.Array
  accepted: jax.Array


def rewire(
  key: jax.Array,
  A: ArrayLike,
  kind: str = 'degree_mutual',
  n_swaps: int | None = None,
) -> jax.Array:
  """Draws a graph of a null model.

  Args:
    key: PRNG key.
    A: `[N, N]` graph; entries other than 0 are edges, loops are left out.
    kind: what is kept: 'er' the number of edges; 'degree' also all in- and
      out-degrees; 'degree_mutual' also the number of mutual edges of every
      node; 'reciprocity' the numbers of mutual and of one-way dyads.
    n_swaps: attempted swaps of a chain; None is 10 an edge.

  Returns:
    `[N, N]` bool. A graph without a legal move comes back unchanged.

  Raises:
    UserError: if the kind is unknown, A is not square or n_swaps negative.
  """
  return rewire_chain(key, A, kind, n_swaps).A


def rewire_chain(
  key: jax.Array,
  A: ArrayLike,
  kind: str = 'degree_mutual',
  n_swaps: int | None = None,
) -> Rewired:
  """Does as `rewire` and tells how the chain went."""
  cap = edge_capacity(A, kind, n_swaps)
  return rewired(key, jnp.asarray(A), n_swaps, kind=kind, cap=cap)


def edge_capacity(A: ArrayLike, kind: str, n_swaps: int | None) -> int:
  """Checks the arguments of `rewire`; the length of a list for A's edges."""
  if kind not in KINDS:
    raise UserError(f'unknown null model {kind!r}; use {", ".join(KINDS)}')
  check_square(A)
  if n_swaps is not None and n_swaps < 0:
    raise UserError(f'n_swaps={n_swaps} is negative; use None for 10 an edge')
  size = np.shape(A)[0]
  if size > _MASK // 2:
    raise UserError(f'{size} nodes are too many to rewire; at most 32767')
  if isinstance(A, jax.core.Tracer):
    return max(size * (size - 1), 1)
  # A power of two: graphs of a like size share one program.
  return 1 << max(int(np.count_nonzero(A)) - 1, 255).bit_length()


@functools.partial(jax.jit, static_argnames=('kind', 'cap'))
def rewired(
  key: jax.Array, A: jax.Array, n_swaps: jax.Array | int | None, *, kind, cap
) -> Rewired:
  """The pure part of `rewire_chain`; `cap` bounds the number of edges."""
  if kind in ('degree', 'degree_mutual'):
    return _swapped(key, A, n_swaps, kind == 'degree_mutual', cap)
  drawn = _drawn(key, A, kind == 'reciprocity')
  zeros = jnp.zeros(_PARTS)
  return Rewired(drawn, jnp.ones_like(zeros[0]), zeros)


def _drawn(key: jax.Array, A: jax.Array, keep_mutual: bool) -> jax.Array:
  """Draws `er`, or `reciprocity` where mutual pairs are kept."""
  single, mutual, _ = dyads_of(A)
  size = A.shape[0]
  num_single = jnp.sum(single, dtype=jnp.int32)
  num_mutual = jnp.sum(mutual, dtype=jnp.int32) // 2
  empty = jnp.zeros((size, size), bool)
  order_key, side_key = jax.random.split(key)
  cells = np.triu(np.ones((size, size)), 1) if keep_mutual else 1 - np.eye(size)
  rows, cols = (jnp.asarray(x, jnp.int32) for x in cells.nonzero())
  # The first of the shuffled cells are the edges.
  order = jnp.argsort(jax.random.bits(order_key, rows.shape, jnp.uint32))
  rows, cols = rows[order], cols[order]
  place = jnp.arange(len(rows))
  if not keep_mutual:
    return empty.at[rows, cols].set(place < num_single + 2 * num_mutual)
  both = place < num_mutual
  one = ~both & (place < num_mutual + num_single)
  side = jax.random.bernoulli(side_key, shape=both.shape)
  forward = empty.at[rows, cols].set(both | (one & side))
  return forward.at[cols, rows].set(both | (one & ~side))


def _swapped(key, A, n_swaps, keep_mutual: bool, cap: int) -> Rewired:
  size = A.shape[0]
  edge = edges_of(A)
  single, mutual, _ = dyads_of(A)
  if not keep_mutual:
    single, mutual = edge, jnp.zeros_like(edge)
  num_edges = jnp.sum(edge, dtype=jnp.int32)
  num_single = jnp.sum(single, dtype=jnp.int32)
  pairs = jnp.triu(mutual)
  num_arcs = num_single + jnp.sum(pairs, dtype=jnp.int32)
  arcs = _listed(single, cap, jnp.zeros(cap, jnp.int32), 0)
  arcs = _listed(pairs, cap, arcs, num_single)
  in_row = jnp.sum(single, axis=1, dtype=jnp.int32)
  starts = jnp.cumsum(in_row) - in_row
  joined = jnp.triu(edge | edge.T) if keep_mutual else edge
  steps = num_edges * SWAPS_PER_EDGE if n_swaps is None else n_swaps
  steps = jnp.asarray(steps, jnp.int32)

  def swap(chain, number_and_words):
    number, words = number_and_words
    return _swap(
      chain, words, number < steps, num_single, num_arcs, size, keep_mutual
    ), None

  def turn(chain, words):
    return _turn(
      chain, words, num_single, starts, in_row, size, keep_mutual
    ), None

  def exchange(chain, words):
    return _exchange(chain, words, num_single, num_arcs), None

  def block(number, chain):
    first, second = jax.random.split(jax.random.fold_in(key, number))
    words = jax.random.bits(first, (_BLOCK, 2), jnp.uint32)
    numbers = number * _BLOCK + jnp.arange(_BLOCK)
    chain, _ = jax.lax.scan(swap, chain, (numbers, words))
    words = jax.random.bits(second, (_TURNS + _EXCHANGES, 3), jnp.uint32)
    chain, _ = jax.lax.scan(turn, chain, words[:_TURNS])
    if keep_mutual:
      chain, _ = jax.lax.scan(exchange, chain, words[_TURNS:])
    return chain

  num_blocks = (steps + _BLOCK - 1) // _BLOCK

  index = jnp.arange(cap)
  is_arc, is_pair = index < num_arcs, (index >= num_single) & (index < num_arcs)

  def part(chain, number):
    begin = num_blocks * number // _PARTS
    end = num_blocks * (number + 1) // _PARTS
    chain = jax.lax.fori_loop(begin, end, block, chain)
    source, target = chain.arcs >> _SHIFT, chain.arcs & _MASK
    there = is_arc & edge[source, target]
    back = is_pair & edge[target, source]
    return chain, jnp.sum(there, dtype=jnp.int32) + jnp.sum(back)

  chain = _Chain(arcs, joined.ravel(), jnp.int32(0))
  chain, kept = jax.lax.scan(part, chain, jnp.arange(_PARTS))
  source, target = chain.arcs >> _SHIFT, chain.arcs & _MASK
  new = jnp.zeros_like(edge).at[source, target].max(is_arc)
  dtype = jnp.zeros(()).dtype
  density = num_edges.astype(dtype) / max(size * (size - 1), 1)
  share = kept / jnp.maximum(num_edges, 1).astype(dtype)
  return Rewired(
    new.at[target, source].max(is_pair),
    chain.accepted / jnp.maximum(steps, 1).astype(dtype),
    (share - density) / jnp.where(density < 1, 1 - density, 1),
  )


def _listed(mask, cap: int, arcs: jax.Array, begin) -> jax.Array:
  """Writes the true places of a matrix to a list, row by row."""
  rows, cols = jnp.nonzero(mask, size=cap, fill_value=0)
  index = jnp.arange(cap)
  place = jnp.where(index < jnp.sum(mask), begin + index, cap)
  codes = ((rows << _SHIFT) | cols).astype(jnp.int32)
  return arcs.at[place].set(codes, mode='drop')


def _swap(chain, words, live, num_single, num_arcs, size, keep_mutual):
  """Attempts one double edge swap, of two single edges or two mutual pairs."""
  arcs, joined, accepted = chain
  place = _below(words[0], num_arcs)
  if keep_mutual:
    paired = place >= num_single
    low = jnp.where(paired, num_single, 0)
    width = jnp.where(paired, num_arcs - num_single, num_single)
    other = low + _below(words[1], width)
  else:
    other = _below(words[1], num_arcs)
  one, two = arcs[place], arcs[other]
  a, b, c, d = one >> _SHIFT, one & _MASK, two >> _SHIFT, two & _MASK
  if keep_mutual:
    turned = paired & (words[0] >> 31 == 1)
    c, d = jnp.where(turned, d, c), jnp.where(turned, c, d)

  old, new = (
    [_cell(*ends, size, keep_mutual) for ends in pairs]
    for pairs in (((a, b), (c, d)), ((a, d), (c, b)))
  )
  legal = live & (a != d) & (c != b) & ~joined[new[0]] & ~joined[new[1]]
  # A refused swap writes what is there already.
  arcs = arcs.at[place].set(jnp.where(legal, (a << _SHIFT) | d, one))
  arcs = arcs.at[other].set(jnp.where(legal, (c << _SHIFT) | b, two))
  for before, after in zip(old, new, strict=True):
    joined = joined.at[before].set(~legal)
    joined = joined.at[jnp.where(legal, after, before)].set(True)
  return _Chain(arcs, joined, accepted + legal)


def _turn(chain, words, num_single, starts, in_row, size, keep_mutual):
  """Attempts to turn a path a -> b -> c -> d into a -> c -> b -> d.

  With d = a this reverses a cycle of three nodes. The path follows random
  edges; as rows keep their lengths, the way back is as likely. Half of the
  attempts stay, or a chain might alternate between two graphs.
  """
  arcs, joined, accepted = chain

  def follow(node, word):
    place = starts[node] + _below(word, in_row[node])
    return jnp.minimum(place, len(arcs) - 1)

  first = _below(words[0], num_single)
  second = follow(arcs[first] & _MASK, words[1])
  third = follow(arcs[second] & _MASK, words[2])
  places = jnp.stack([first, second, third])
  (a, b, c), (_, _, d) = arcs[places] >> _SHIFT, arcs[places] & _MASK
  # Nodes without single edges of their own lead to the edges of others.
  linked = (arcs[first] & _MASK == b) & (arcs[second] & _MASK == c)
  legal = linked & (a != c) & (b != d) & (num_single > 2)
  legal &= words[0] >> 31 == 1
  old = jnp.stack(
    [_cell(*ends, size, keep_mutual) for ends in ((a, b), (b, c), (c, d))]
  )
  new = jnp.stack(
    [_cell(*ends, size, keep_mutual) for ends in ((a, c), (c, b), (b, d))]
  )
  if keep_mutual:
    # b and c stay joined, and so do all nodes of a cycle.
    legal &= (a == d) | ~(joined[new[0]] | joined[new[2]])
  else:
    legal &= ~jnp.any(joined[new])
  joined = joined.at[old].set(joined[old] & ~legal)
  joined = joined.at[new].set(joined[new] | legal)
  turned = (jnp.stack([a, b, c]) << _SHIFT) | jnp.stack([c, d, b])
  arcs = arcs.at[places].set(jnp.where(legal, turned, arcs[places]))
  return _Chain(arcs, joined, accepted)


def _exchange(chain, words, num_single, num_arcs):
  """Attempts to exchange two single edges with two mutual pairs.

  a -> b, c -> d, a <-> d, c <-> b become a -> d, c -> b, a <-> b, c <-> d.
  """
  arcs, joined, accepted = chain
  one, two = (_below(words[i], num_single) for i in (0, 1))
  a, b = arcs[one] >> _SHIFT, arcs[one] & _MASK
  c, d = arcs[two] >> _SHIFT, arcs[two] & _MASK
  index = jnp.arange(len(arcs))
  is_pair = (index >= num_single) & (index < num_arcs)

  def find(x, y):
    here = (arcs == (x << _SHIFT) | y) | (arcs == (y << _SHIFT) | x)
    return jnp.argmax(here & is_pair), jnp.any(here & is_pair)

  (three, there), (four, also) = find(a, d), find(c, b)
  legal = there & also & (three != four) & (words[2] >> 31 == 1)
  places = jnp.stack([one, two, three, four])
  new = (jnp.stack([a, c, a, c]) << _SHIFT) | jnp.stack([d, b, b, d])
  arcs = arcs.at[places].set(jnp.where(legal, new, arcs[places]))
  return _Chain(arcs, joined, accepted)


def _cell(x, y, size: int, keep_mutual: bool):
  """Place of a pair in `_Chain.joined`."""
  if keep_mutual:
    return jnp.minimum(x, y) * size + jnp.maximum(x, y)
  return x * size + y


def _below(word: jax.Array, bound: jax.Array) -> jax.Array:
  """A number below a bound (0 for the bound 0) from a random 32-bit word."""
  bound = jnp.maximum(bound, 1).astype(jnp.uint32)
  return (word % bound).astype(jnp.int32)
