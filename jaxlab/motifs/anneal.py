"""Metropolis search for a graph with given motif counts.

A move changes up to four dyads, and only triples that hold one of them are
counted again: O(N) a move.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import catalog
from jaxlab.motifs.census import census
from jaxlab.motifs.dyads import check_square, edges_of, states_of

# Moves between two looks at whether the target is met.
_BLOCK = 512
# [s(x, y), s(x, k) + 4 s(y, k), 13] 1 for the motif of the triple (x, y, k).
_MOTIF = (
  catalog.CLASS_OF_CODE.reshape(16, 4).T[..., None] == np.arange(13)
).astype(np.int32)
_TRIPLES = np.array([(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)])


class Annealed(NamedTuple):
  """The graph that a search ended with.

  Attributes:
    A: `[N, N]` bool.
    census: `[13]` int32: its motif counts.
    error: float: sum of |census - target| over the sum of the target.
    acceptance: float: share of the attempted moves that were made.
    energy: float: sum of squared differences in units of `scale`.
    moves: int32: number of attempted moves.
  """

  A: jax.Array
  census: jax.Array
  error: jax.Array
  acceptance: jax.Array
  energy: jax.Array
  moves: jax.Array


class _Search(NamedTuple):
  """State of a search.

  Attributes:
    source: `[E]` int32 of each edge, `target`: `[E]` likewise.
    state: `[N, N]` int8 dyad states.
    counts: `[13]` int32 motif counts.
    accepted: int32 number of moves made.
  """

  source: jax.Array
  target: jax.Array
  state: jax.Array
  counts: jax.Array
  accepted: jax.Array


def anneal(
  key: jax.Array,
  A: ArrayLike,
  target: ArrayLike,
  *,
  moves: str = 'degree',
  n_iter: int = 20_000,
  scale: ArrayLike | None = None,
  hot: ArrayLike = 0.1,
  cold: ArrayLike = 1e-4,
  tolerance: ArrayLike = 0.0,
) -> Annealed:
  """Moves edges until the motif counts are near a target.

  The energy is sum_m ((c_m - t_m) / s_m)^2; the temperature falls
  geometrically.

  Args:
    key: PRNG key; map over keys for several chains.
    A: `[N, N]` graph to start from, N at most 2345; loops are left out.
    target: `[13]` wanted counts t.
    moves: 'degree' swaps edges and keeps every in- and out-degree; 'edges'
      moves single edges and keeps their number.
    n_iter: most attempted moves.
    scale: `[13]` s; None is max(t, 1% of the sum of t, 1).
    hot: first temperature.
    cold: last temperature.
    tolerance: error at which the search stops.

  Returns:
    The last graph and how near it is.

  Raises:
    UserError: if A is not square, the target not `[13]` or the kind of move
      unknown.
  """
  check_square(A)
  if moves not in ('degree', 'edges'):
    raise UserError(f"moves={moves!r}; use 'degree' or 'edges'")
  if np.shape(target) != (13,):
    raise UserError(
      f'target has shape {np.shape(target)}; give 13 counts, one a motif'
    )
  size = np.shape(A)[0]
  cap = size * (size - 1)
  if not isinstance(A, jax.core.Tracer):
    cap = 1 << max(int(np.count_nonzero(A)) - 1, 255).bit_length()
  dtype = jnp.zeros(()).dtype
  target = jnp.asarray(target, dtype)
  if scale is None:
    scale = jnp.maximum(jnp.maximum(target, 0.01 * jnp.sum(target)), 1)
  return _annealed(
    key,
    jnp.asarray(A),
    target,
    jnp.asarray(scale, dtype),
    n_iter,
    hot,
    cold,
    tolerance,
    swaps=moves == 'degree',
    cap=cap,
  )


@functools.partial(jax.jit, static_argnames=('swaps', 'cap'))
def _annealed(
  key, A, target, scale, n_iter, hot, cold, tolerance, *, swaps, cap
) -> Annealed:
  edge = edges_of(A)
  num_edges = jnp.sum(edge, dtype=jnp.int32)
  source, end = jnp.nonzero(edge, size=cap, fill_value=0)
  search = _Search(
    source.astype(jnp.int32),
    end.astype(jnp.int32),
    states_of(A).astype(jnp.int8),
    jnp.asarray(census(edge), jnp.int32),
    jnp.int32(0),
  )
  propose = _propose_swap if swaps else _propose_move

  def energy(counts):
    return jnp.sum(((counts - target) / scale) ** 2)

  def error(counts):
    total = jnp.maximum(jnp.sum(jnp.abs(target)), 1)
    return jnp.sum(jnp.abs(counts - target)) / total

  def move(search, number_words_chance):
    number, words, chance = number_words_chance
    temperature = hot * (cold / hot) ** (number / n_iter)
    legal, change, edit = propose(search, words, num_edges)
    rise = energy(search.counts + change) - energy(search.counts)
    # log(u) <= 0, so that no move downhill is refused.
    legal &= (number < n_iter) & (jnp.log(chance) * temperature <= -rise)
    return edit(legal), None

  def block(carry):
    number, search = carry
    word_key, chance_key = jax.random.split(jax.random.fold_in(key, number))
    words = jax.random.bits(word_key, (_BLOCK, 3), jnp.uint32)
    chance = jax.random.uniform(chance_key, (_BLOCK,), scale.dtype)
    numbers = number * _BLOCK + jnp.arange(_BLOCK)
    search, _ = jax.lax.scan(move, search, (numbers, words, chance))
    return number + 1, search

  def unfinished(carry):
    number, search = carry
    return (number * _BLOCK < n_iter) & (error(search.counts) > tolerance)

  number, search = jax.lax.while_loop(unfinished, block, (0, search))
  attempted = jnp.minimum(number * _BLOCK, n_iter)
  return Annealed(
    (search.state & 1) > 0,
    search.counts,
    error(search.counts),
    search.accepted / jnp.maximum(attempted, 1).astype(scale.dtype),
    energy(search.counts),
    jnp.asarray(attempted, jnp.int32),
  )


def _propose_swap(search: _Search, words: jax.Array, num_edges: jax.Array):
  """The swap a->b, c->d to a->d, c->b: legality, change and commit."""
  source, target, state, counts, accepted = search
  one, two = (_below(words[i], num_edges) for i in (0, 1))
  a, b, c, d = source[one], target[one], source[two], target[two]
  nodes = jnp.stack([a, b, c, d])
  rows = state[nodes].astype(jnp.int32)
  within = rows[:, nodes]
  # The four nodes of a legal swap differ.
  legal = (num_edges > 1) & (a != d) & (c != b)
  legal &= (within[0, 3] & 1 == 0) & (within[2, 1] & 1 == 0)
  first, second = np.array([0, 2, 0, 2]), np.array([1, 3, 3, 1])
  step = np.array([-1, -1, 1, 1])
  inside = jnp.any(jnp.arange(len(state)) == nodes[:, None], axis=0)
  before = within[first, second]
  change = _change(rows[first], rows[second], before, before + step, ~inside)
  # The triples of the four nodes hold two of the dyads each.
  after = within.at[first, second].add(step).at[second, first].add(2 * step)
  change += _motifs_within(after) - _motifs_within(within)

  def commit(made):
    made &= legal
    moved = (step * made).astype(jnp.int8)
    new = state.at[nodes[first], nodes[second]].add(moved)
    new = new.at[nodes[second], nodes[first]].add(2 * moved)
    ends = target.at[one].set(jnp.where(made, d, b))
    return _Search(
      source,
      ends.at[two].set(jnp.where(made, b, ends[two])),
      new,
      counts + change * made,
      accepted + made,
    )

  return legal, change, commit


def _propose_move(search: _Search, words: jax.Array, num_edges: jax.Array):
  """The move of an edge a->b to c->d, four different nodes."""
  source, target, state, counts, accepted = search
  place = _below(words[0], num_edges)
  size = len(state)
  a, b = source[place], target[place]
  c, d = _below(words[1], size), _below(words[2], size)
  nodes = jnp.stack([a, b, c, d])
  rows = state[nodes].astype(jnp.int32)
  within = rows[:, nodes]
  legal = (num_edges > 0) & (c != d) & (within[2, 3] & 1 == 0)
  legal &= (a != c) & (a != d) & (b != c) & (b != d)
  first, second = np.array([0, 2]), np.array([1, 3])
  one, two, step = nodes[first], nodes[second], np.array([-1, 1])
  # No triple holds both dyads.
  index = jnp.arange(size)
  other = (index != one[:, None]) & (index != two[:, None])
  before = within[first, second]
  change = _change(rows[first], rows[second], before, before + step, other)

  def commit(made):
    made &= legal
    moved = (step * made).astype(jnp.int8)
    new = state.at[one, two].add(moved)
    return _Search(
      source.at[place].set(jnp.where(made, c, a)),
      target.at[place].set(jnp.where(made, d, b)),
      new.at[two, one].add(2 * moved),
      counts + change * made,
      accepted + made,
    )

  return legal, change, commit


def _change(rows_x, rows_y, before, after, counted) -> jax.Array:
  """Change of the counts by dyads (x, y) over some third nodes.

  Args:
    rows_x: `[P, N]` states of x and all nodes; `rows_y` likewise.
    rows_y: `[P, N]`.
    before: `[P]` states of the dyads (x, y).
    after: `[P]` new states.
    counted: `[N]` or `[P, N]` the third nodes to count.

  Returns:
    `[13]` int32.
  """
  kind = jnp.where(counted, rows_x + 4 * rows_y, -1)
  times = jnp.sum(
    kind[:, None, :] == jnp.arange(16)[:, None], axis=-1, dtype=jnp.int32
  )
  table = jnp.asarray(_MOTIF)
  difference = table[after & 3] - table[before & 3]
  return jnp.sum(times[..., None] * difference, axis=(0, 1))


def _motifs_within(state: jax.Array) -> jax.Array:
  """`[13]` motif counts of the four triples of a `[4, 4]` state matrix."""
  x, y, z = _TRIPLES.T
  outer = state[x, z] + 4 * state[y, z]
  return jnp.sum(jnp.asarray(_MOTIF)[state[x, y] & 3, outer & 15], axis=0)


def _below(word: jax.Array, bound: ArrayLike) -> jax.Array:
  """A number below a bound (0 for the bound 0) from a random 32-bit word."""
  bound = jnp.maximum(jnp.asarray(bound), 1).astype(jnp.uint32)
  return (word % bound).astype(jnp.int32)
