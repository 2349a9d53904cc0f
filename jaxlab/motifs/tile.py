"""Graphs that are made of motif copies on triples without a common dyad.

Random graphs with given subgraphs, after Karrer & Newman (2010).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import catalog
from jaxlab.motifs.targets import (
  apportion,
  check_target,
  copies_with_edges,
  most_triples,
  shares_of,
)
from jaxlab.motifs.types import InfeasibleTarget, Placements

_ADJACENCY = np.stack([catalog.adjacency(m) for m in range(13)]).astype(bool)


def tile(
  key: jax.Array,
  q_or_motif: ArrayLike | str,
  *,
  num_nodes: int,
  num_edges: int | None = None,
  copies: int | None = None,
  restarts: int = 1000,
) -> tuple[jax.Array, Placements]:
  """Places motif copies on random triples whose three dyads are still free.

  Each placed triple induces exactly its motif: the null dyads of open motifs
  are kept free too.

  Args:
    key: PRNG key.
    q_or_motif: `[13]` shares of the copies, or the name of one motif.
    num_nodes: N.
    num_edges: E of the graph, reached exactly; this or `copies` is given.
    copies: number of copies.
    restarts: how often to start again when no legal triple is left.

  Returns:
    `[N, N]` bool graph, and the n placements in random order.

  Raises:
    InfeasibleTarget: if E is no sum of the motifs' edges, or the copies did
      not find room.
    UserError: if the motif, the shares or a size are wrong.
  """
  q = shares_of(q_or_motif)
  check_target(num_nodes, num_edges)
  if (num_edges is None) == (copies is None) or (copies or 0) < 0:
    raise UserError(
      f'num_edges={num_edges} and copies={copies}; give one of them, 0 or more'
    )
  if copies is None:
    counts = copies_with_edges(q, int(num_edges or 0))
  else:
    counts = apportion(q, copies)
  asked = int(counts.sum())
  # More than the largest packing need not be tried often.
  tries = restarts if asked <= most_triples(num_nodes) else 0
  place_key, order_key = jax.random.split(key)
  motif = jnp.asarray(np.repeat(np.arange(13), counts), jnp.int32)
  motif = jax.random.permutation(order_key, motif)
  room = 1 << max(asked - 1, 63).bit_length()
  nodes, reached = _placed(place_key, asked, tries, num_nodes, room)
  if reached < asked:
    raise InfeasibleTarget(
      f'placed {int(reached)} of {asked} copies: no free triple of the '
      f'{num_nodes} nodes is left (they hold at most '
      f'{most_triples(num_nodes)}); take more nodes or fewer edges'
    )
  placements = Placements(motif, nodes[:asked])
  return placed_graph(placements, num_nodes), placements


def placed_graph(placements: Placements, num_nodes: int) -> jax.Array:
  """Returns the `[N, N]` bool graph of the placements' edges alone."""
  nodes = placements.nodes
  rows, cols = (
    jnp.broadcast_to(x, (len(nodes), 3, 3))
    for x in (nodes[:, :, None], nodes[:, None, :])
  )
  edges = jnp.asarray(_ADJACENCY)[placements.motif]
  return jnp.zeros((num_nodes, num_nodes), bool).at[rows, cols].max(edges)


@functools.partial(jax.jit, static_argnames=('num_nodes', 'room'))
def _placed(key, asked, restarts, num_nodes: int, room: int):
  """Draws up to `asked` triples, again until all fit or restarts are used."""

  def unfinished(state):
    number, _, reached = state
    return (reached < asked) & (number <= restarts)

  def again(state):
    number, _, _ = state
    nodes, reached = _one_try(
      jax.random.fold_in(key, number), asked, num_nodes, room
    )
    return number + 1, nodes, reached

  start = jnp.int32(0), jnp.zeros((room, 3), jnp.int32), jnp.int32(-1)
  _, nodes, reached = jax.lax.while_loop(unfinished, again, start)
  return nodes, reached


def _one_try(key, asked, num_nodes: int, room: int):
  """Draws legal triples, all equally likely, until there is none."""
  free = ~jnp.eye(num_nodes, dtype=bool)
  # Triples that hold a free dyad: nodes with free dyads to both of its ends.
  common = jnp.where(free, num_nodes - 2, 0)

  def triples(free, common):
    return jnp.sum(jnp.where(free, common, 0), axis=1)

  def legal(state):
    number, _, free, common = state
    return (number < asked) & jnp.any(triples(free, common) > 0)

  def place(state):
    number, nodes, free, common = state
    keys = jax.random.split(jax.random.fold_in(key, number), 3)
    x = _draw(keys[0], triples(free, common))
    y = _draw(keys[1], jnp.where(free[x], common[x], 0))
    z = _draw(keys[2], free[x] & free[y])
    for a, b in ((x, y), (x, z), (y, z)):
      # No node reaches a through b any more, nor b through a.
      for end, other in ((a, b), (b, a)):
        lost = free[other].at[end].set(False).astype(common.dtype)
        common = common.at[end].add(-lost).at[:, end].add(-lost)
      free = free.at[a, b].set(False).at[b, a].set(False)
    nodes = nodes.at[number].set(jnp.stack([x, y, z]).astype(jnp.int32))
    return number + 1, nodes, free, common

  start = jnp.int32(0), jnp.zeros((room, 3), jnp.int32), free, common
  number, nodes, _, _ = jax.lax.while_loop(legal, place, start)
  return nodes, number


def _draw(key: jax.Array, weight: jax.Array) -> jax.Array:
  """Draws an index with probability in proportion to its weight."""
  return jax.random.categorical(key, jnp.log(weight.astype(jnp.float32)))
