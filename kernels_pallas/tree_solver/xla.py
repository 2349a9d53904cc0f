"""The tree solve in plain XLA: loops over nodes whose body moves whole rows.

A row is one node of all cells, so a loop's body is a few vector operations; the
scatter-adds over whole levels that a parallel schedule asks for run element by
element on a CPU, and lose at every size. `solve_steps` keeps them for
comparison and for accelerators without a kernel.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from kernels_pallas.tree_solver.schedule import TreeSchedule
from kernels_pallas.tree_solver.types import Pivots


def solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
) -> jax.Array:
  """Solves A x = rhs by Hines' elimination.

  Args:
    diag: `[n, B]` diagonal.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)]; 0 at roots.
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; 0 at roots.
    rhs: `[n, B]` right side.
    schedule: the tree.

  Returns:
    `[n, B]` solution.
  """
  x, _ = factor_solve(diag, lower, upper, rhs, schedule)
  return x


def factor_solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
) -> tuple[jax.Array, Pivots]:
  """Solves A x = rhs and keeps what another right side needs.

  Args:
    diag: `[n, B]` diagonal.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)]; 0 at roots.
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; 0 at roots.
    rhs: `[n, B]` right side.
    schedule: the tree.

  Returns:
    `[n, B]` solution, and the pivots.
  """
  parent = _parent_or_self(schedule)
  last = schedule.n - 1

  def eliminate(k, carry):
    d, b = carry
    i = last - k
    p = parent[i]
    factor = _row(upper, i) / _row(d, i)
    d_parent = _row(d, p) - factor * _row(lower, i)
    b_parent = _row(b, p) - factor * _row(b, i)
    return _put(d, d_parent, p), _put(b, b_parent, p)

  d, b = lax.fori_loop(0, last, eliminate, (diag, rhs))
  inverse = 1 / d
  x = _substitute(b * inverse, lower * inverse, parent)
  return x, Pivots(factor=upper * inverse, inverse=inverse)


def resolve(
  pivots: Pivots,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  transpose: bool = False,
) -> jax.Array:
  """Solves A x = rhs, or A^T x = rhs, with the pivots of A.

  Args:
    pivots: of `factor_solve` for the same matrix.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)]; 0 at roots.
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; 0 at roots. The very same
      array as `lower` says that A is symmetric, and saves a product.
    rhs: `[n, B]` right side.
    schedule: the tree.
    transpose: solve with A^T, whose pivots are those of A.

  Returns:
    `[n, B]` solution.
  """
  parent = _parent_or_self(schedule)
  last = schedule.n - 1
  factor = scaled = pivots.factor
  if lower is not upper:
    other = lower * pivots.inverse
    factor, scaled = (other, factor) if transpose else (factor, other)

  def eliminate(k, b):
    i = last - k
    p = parent[i]
    return _put(b, _row(b, p) - _row(factor, i) * _row(b, i), p)

  b = lax.fori_loop(0, last, eliminate, rhs)
  return _substitute(b * pivots.inverse, scaled, parent)


def solve_steps(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
) -> jax.Array:
  """Solves A x = rhs step by step of the schedule, the nodes of one at once.

  Args:
    diag: `[n, B]` diagonal.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)]; 0 at roots.
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; 0 at roots.
    rhs: `[n, B]` right side.
    schedule: the tree, and which nodes go together.

  Returns:
    `[n, B]` solution.
  """
  steps, parents = _step_tables(schedule)
  shape, dtype = rhs.shape, rhs.dtype

  def padded(values, fill):
    row = jnp.full((1, shape[1]), fill, dtype)
    return jnp.concatenate([jnp.broadcast_to(values, shape), row])

  # Row n takes what lanes without a node, and roots, write.
  lower, upper = padded(lower, 0), padded(upper, 0)

  def eliminate(carry, step):
    nodes, above = step
    d, b = carry
    factor = upper[nodes] / d[nodes]
    d = d.at[above].add(-factor * lower[nodes])
    b = b.at[above].add(-factor * b[nodes])
    # Row n collects what roots would pass on: keep it a harmless pivot.
    return (d.at[-1].set(1), b.at[-1].set(0)), None

  (d, b), _ = lax.scan(
    eliminate, (padded(diag, 1), padded(rhs, 0)), (steps, parents)
  )
  y, scaled = b / d, lower / d

  def substitute(x, step):
    nodes, above = step
    return x.at[nodes].set(x[nodes] - scaled[nodes] * x[above]), None

  x, _ = lax.scan(substitute, y, (steps, parents), reverse=True)
  return x[:-1]


def _substitute(y, scaled, parent):
  """x_i = y_i - scaled_i x_parent(i), parents first."""

  def body(i, x):
    above = _row(x, parent[i])
    return _put(x, _row(x, i) - _row(scaled, i) * above, i)

  return lax.fori_loop(1, y.shape[0], body, y)


def _row(values, i):
  return lax.dynamic_index_in_dim(values, i, keepdims=False)


def _put(values, row, i):
  return lax.dynamic_update_index_in_dim(values, row, i, 0)


def _parent_or_self(schedule):
  """`[n]` parents; a root is its own: no cell touches another's rows."""
  parent = np.asarray(schedule.parent)
  alone = np.where(parent < 0, np.arange(len(parent)), parent)
  return jnp.asarray(alone.astype(np.int32))


def _step_tables(schedule):
  """`[S, k]` nodes of each step and their parents; n where there is none."""
  n = schedule.n
  width = max(len(step) for step in schedule.order)
  nodes = np.full((len(schedule.order), width), n, np.int32)
  for row, step in zip(nodes, schedule.order, strict=True):
    row[: len(step)] = step
  parent = np.append(np.asarray(schedule.parent), n)
  above = np.where(parent[nodes] < 0, n, parent[nodes])
  return jnp.asarray(nodes), jnp.asarray(above.astype(np.int32))
