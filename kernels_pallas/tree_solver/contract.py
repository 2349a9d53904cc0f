"""Tree solve by contraction: cyclic reduction on a tree, in O(log n) rounds.

Each round eliminates an independent set of leaves and of nodes with a single
child. A chain node i between its parent p and its child c leaves an edge from c
to p with the off-diagonals -A[c,i] A[i,p] / d_i and -A[p,i] A[i,c] / d_i, so
what remains is a tree again, and keeps its diagonal dominance.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from kernels_pallas.tree_solver.schedule import TreeSchedule, make_schedule


class Round(NamedTuple):
  """Nodes that are eliminated together.

  Attributes:
    nodes: `[m]` int32: chain nodes first, then leaves.
    parents: `[m]` int32: their parents in the tree of this round.
    children: `[c]` int32: the child of each of the first c nodes.
  """

  nodes: np.ndarray
  parents: np.ndarray
  children: np.ndarray


def solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
) -> jax.Array:
  """Solves A x = rhs.

  Args:
    diag: `[n, B]`.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)]; not read at a root.
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; not read at a root.
    rhs: `[n, B]`.
    schedule: of kind 'contract'; of another one only the tree is taken.

  Returns:
    `[n, B]` solution.
  """
  d, b = diag, rhs
  low, up = (jnp.broadcast_to(band, rhs.shape) for band in (lower, upper))
  rounds = contraction_rounds(schedule)
  left = []
  for nodes, parents, children in rounds:
    chain = len(children)
    pivot, own = 1 / d[nodes], up[nodes]
    z, g = b[nodes] * pivot, low[nodes] * pivot
    down, w = low[children], up[children] * pivot[:chain]
    d = d.at[parents].add(-own * g)
    b = b.at[parents].add(-own * z)
    d = d.at[children].add(-down * w)
    b = b.at[children].add(-down * z[:chain])
    low = low.at[children].set(-down * g[:chain])
    up = up.at[children].set(-own[:chain] * w)
    left.append((z, g, w))
  x = b / d  # right at the roots, and overwritten elsewhere
  for (nodes, parents, children), (z, g, w) in zip(
    reversed(rounds), reversed(left), strict=True
  ):
    found = z - g * x[parents]
    found = found.at[: len(children)].add(-w * x[children])
    x = x.at[nodes].set(found)
  return x


@functools.lru_cache(maxsize=64)
def contraction_rounds(schedule: TreeSchedule) -> tuple[Round, ...]:
  """The rounds, and what the tree looks like in each; the roots stay."""
  if schedule.kind != 'contract':
    schedule = make_schedule(schedule.parent, 'contract', validate=False)
  above = list(schedule.parent)
  below: list[set[int]] = [set() for _ in above]
  for node, parent in enumerate(above):
    if parent >= 0:
      below[parent].add(node)
  rounds = []
  for step in schedule.order[:-1]:
    nodes = sorted(step, key=lambda node: not below[node])
    parents = [above[node] for node in nodes]
    children = [child for node in nodes for child in below[node]]
    for node in nodes:
      below[above[node]].remove(node)
      for child in below[node]:
        above[child] = above[node]
        below[above[node]].add(child)
    tables = (np.array(row, np.int32) for row in (nodes, parents, children))
    rounds.append(Round(*tables))
  return tuple(rounds)
