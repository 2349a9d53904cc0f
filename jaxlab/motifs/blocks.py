"""Modular graphs: disjoint motif blocks with sparse coupling."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs.targets import apportion, shares_of
from jaxlab.motifs.tile import placed_graph
from jaxlab.motifs.types import Placements


def blocks(
  key: jax.Array,
  q_or_motif: ArrayLike | str,
  *,
  num_blocks: int,
  coupling: float = 0.0,
) -> tuple[jax.Array, Placements]:
  """Joins K motif blocks by random edges between different blocks.

  Args:
    key: PRNG key.
    q_or_motif: `[13]` shares of the blocks, or the name of one motif.
    num_blocks: K; block k has the nodes 3k, 3k + 1, 3k + 2.
    coupling: probability of each edge between nodes of different blocks.

  Returns:
    `[3K, 3K]` bool graph, and the K placements.

  Raises:
    UserError: if the motif, the shares, the size or the coupling are wrong.
  """
  q = shares_of(q_or_motif)
  if num_blocks < 1:
    raise UserError(f'num_blocks={num_blocks}; take at least 1')
  if not 0 <= coupling <= 1:
    raise UserError(f'coupling={coupling} is no probability; take 0 to 1')
  listed = np.repeat(np.arange(13), apportion(q, num_blocks))
  order_key, edge_key = jax.random.split(key)
  motif = jax.random.permutation(order_key, jnp.asarray(listed, jnp.int32))
  return block_graph(edge_key, motif, coupling)


@jax.jit
def block_graph(
  key: jax.Array, motif: jax.Array, coupling: ArrayLike
) -> tuple[jax.Array, Placements]:
  """The pure part of `blocks`, for `[K]` motif indices."""
  size = 3 * len(motif)
  placements = Placements(motif, jnp.arange(size).reshape(-1, 3))
  block = jnp.arange(size) // 3
  between = block[:, None] != block
  edges = between & jax.random.bernoulli(key, coupling, (size, size))
  return placed_graph(placements, size) | edges, placements
