"""Graphs without a motif target that a motif network is compared with.

`A[i, j] = 1` is an edge i -> j; no graph has self-loops. A control that keeps
degrees is `nulls.rewire(key, A, 'degree')`.
"""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError


def check_num_edges(num_nodes: int, num_edges: int) -> None:
  """Refuses more edges than a graph without self-loops can hold.

  Raises:
    UserError: names both numbers.
  """
  most = num_nodes * (num_nodes - 1)
  if not 0 <= num_edges <= most:
    raise UserError(
      f'{num_edges} edges do not fit a graph of {num_nodes} nodes, which holds '
      f'0 to {most}'
    )


def dense_adjacency(num_nodes: int) -> jax.Array:
  """`[N, N]` int32, every edge but self-loops."""
  return 1 - jnp.eye(num_nodes, dtype=jnp.int32)


def random_adjacency(
  key: jax.Array, num_nodes: int, num_edges: int
) -> jax.Array:
  """A uniform graph with a given number of edges (Erdos-Renyi).

  Args:
    key: PRNG key.
    num_nodes: N, static.
    num_edges: E, static.

  Returns:
    `[N, N]` int32 with exactly E edges.

  Raises:
    UserError: if the edges do not fit.
  """
  check_num_edges(num_nodes, num_edges)
  chosen = jax.random.permutation(key, num_nodes * (num_nodes - 1))[:num_edges]
  source, skipped = jnp.divmod(chosen, max(num_nodes - 1, 1))
  target = skipped + (skipped >= source)
  empty = jnp.zeros((num_nodes, num_nodes), jnp.int32)
  return empty.at[source, target].set(1)


def small_world_adjacency(
  key: jax.Array, num_nodes: int, num_edges: int, *, rewired: ArrayLike = 0.1
) -> jax.Array:
  """A directed ring lattice with some of its edges sent elsewhere.

  Watts and Strogatz (1998), directed: each node keeps its out-degree, and each
  of its edges goes to a new random target with probability `rewired`.

  Args:
    key: PRNG key.
    num_nodes: N, static.
    num_edges: E, static; out-degrees are E / N, rounded up or down.
    rewired: probability that an edge of the lattice is sent elsewhere.

  Returns:
    `[N, N]` int32 with exactly E edges.

  Raises:
    UserError: if the edges do not fit.
  """
  check_num_edges(num_nodes, num_edges)
  node = jnp.arange(num_nodes)
  degree = num_edges // num_nodes + (node < num_edges % num_nodes)
  ahead = (node[None, :] - node[:, None]) % num_nodes
  # Nearest first, the node ahead before the one as far behind; oneself last.
  nearness = jnp.where(
    ahead * 2 <= num_nodes, 2 * ahead - 1, 2 * (num_nodes - ahead)
  )
  nearness = jnp.where(ahead == 0, 2 * num_nodes, nearness)
  lattice = _ranks(nearness) < degree[:, None]
  leave_key, target_key = jax.random.split(key)
  shape = (num_nodes, num_nodes)
  leaves = jax.random.uniform(leave_key, shape) < rewired
  draw = jax.random.uniform(target_key, shape)
  # Kept edges come first, then random free targets, then what was given up.
  order = jnp.where(lattice, jnp.where(leaves, 2 + draw, -1), draw)
  order = jnp.where(ahead == 0, 4, order)
  return (_ranks(order) < degree[:, None]).astype(jnp.int32)


def _ranks(values: jax.Array) -> jax.Array:
  """Rank of each entry in its row."""
  return jnp.argsort(jnp.argsort(values, axis=-1), axis=-1)
