"""Tree solve on a TPU, in Pallas on Mosaic: a vector register for each node.

Cells are cut into blocks of 1024, so a node of a block is one (8, 128) tile and
all indexing is by whole tiles. A block walks through the schedule's nodes one
after the other: the width of the machine is in the cells. The tree, and
off-diagonals that all cells share, are scalars in SMEM; the rest of a block
lives in VMEM.
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from kernels_pallas.tree_solver.schedule import TreeSchedule
from kernels_pallas.tree_solver.tpu_tree import above_of, band_of, launch
from kernels_pallas.tree_solver.types import Pivots


def solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  interpret: bool = False,
) -> jax.Array:
  """Solves A x = rhs.

  Args:
    diag: `[n, B]`.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)]; not read at a root.
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; not read at a root.
    rhs: `[n, B]`.
    schedule: its order; which nodes share a step does not matter here.
    interpret: run the kernel's text on the host.

  Returns:
    `[n, B]` solution.

  Raises:
    ValueError: for float64, or a tree that does not fit a core's memory.
  """
  return factor_solve(diag, lower, upper, rhs, schedule, interpret=interpret)[0]


def factor_solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  interpret: bool = False,
) -> tuple[jax.Array, Pivots]:
  """`solve` that keeps the pivots; arguments as there."""
  x, inverse, factor = launch(
    'factor_solve',
    _solve_kernel,
    schedule,
    (diag, lower, upper, rhs),
    [rhs.shape] * 3,
    interpret,
    ones=(0,),
  )
  return x, Pivots(factor, inverse)


def resolve(
  pivots: Pivots,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  transpose: bool = False,
  interpret: bool = False,
) -> jax.Array:
  """Solves A x = rhs, or A^T x = rhs, with the pivots of A.

  Args:
    pivots: from `factor_solve`.
    lower: as there, and so `upper`, `schedule` and `interpret`.
    upper: see there.
    rhs: `[n, B]`.
    schedule: see there.
    transpose: whether to solve with A^T.
    interpret: see there.

  Returns:
    `[n, B]` solution.
  """
  sides = (upper, lower) if transpose else (lower, upper)
  arrays = (pivots.inverse, *sides, rhs)
  outs = [rhs.shape]
  return launch('resolve', _resolve_kernel, schedule, arrays, outs, interpret)[
    0
  ]


def backward(
  pivots: Pivots,
  lower: jax.Array,
  upper: jax.Array,
  x: jax.Array,
  cotangent: jax.Array,
  schedule: TreeSchedule,
  *,
  interpret: bool = False,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
  """Cotangents of all that went into a solve, in one launch.

  Args:
    pivots: from `factor_solve`.
    lower: as there, and so `upper`, `schedule` and `interpret`.
    upper: see there.
    x: `[n, B]` solution.
    cotangent: `[n, B]` cotangent of x.
    schedule: see there.
    interpret: see there.

  Returns:
    Cotangents of diag, lower, upper and rhs; those of `[n, 1]` off-diagonals
    are summed over the batch.
  """

  def kernel(tree, inverse, factor, lower, x, cotangent, adjoint, *outs):
    diag_bar, lower_bar, upper_bar = outs
    for out in (lower_bar, upper_bar):
      tree.start(out)
    _eliminate_rhs(tree, lower, inverse, cotangent, adjoint)

    def emit(i, parent):
      above = above_of(adjoint, parent)
      mine = adjoint[i] - factor[i] * above
      adjoint[i] = mine
      diag_bar[i] = -mine * x[i]
      tree.add(lower_bar, i, -mine * above_of(x, parent))
      tree.add(upper_bar, i, -above * x[i])

    tree.down(emit)

  arrays = (pivots.inverse, pivots.factor, lower, x, cotangent)
  outs = [x.shape, x.shape, lower.shape, upper.shape]
  adjoint, diag_bar, lower_bar, upper_bar = launch(
    'backward', kernel, schedule, arrays, outs, interpret
  )
  return diag_bar, lower_bar, upper_bar, adjoint


def assemble_and_solve(
  capacitance_over_dt: jax.Array,
  conductance: jax.Array,
  drive: jax.Array,
  current: jax.Array,
  voltage: jax.Array,
  coupling: jax.Array,
  schedule: TreeSchedule,
  *,
  interpret: bool = False,
) -> tuple[jax.Array, Pivots]:
  """One implicit Euler step of the cable equation, without a stored matrix.

  Args:
    capacitance_over_dt: `[n, 1]` or `[n, B]`, C/dt.
    conductance: `[n, B]`, G: sum of the membrane's conductances.
    drive: `[n, B]`, sum of conductances times reversal potentials.
    current: `[n, B]`, injected current.
    voltage: `[n, B]`, V before the step.
    coupling: `[n, 1]` or `[n, B]`, g to the parent; not read at a root.
    schedule: as in `solve`.
    interpret: as in `solve`.

  Returns:
    `[n, B]` voltage after the step, and the pivots.
  """
  x, inverse, factor = launch(
    'assemble_and_solve',
    _assemble_kernel,
    schedule,
    (capacitance_over_dt, coupling, conductance, drive, current, voltage),
    [voltage.shape] * 3,
    interpret,
    ones=(0,),
  )
  return x, Pivots(factor, inverse)


def assemble_backward(
  pivots: Pivots,
  capacitance_over_dt: jax.Array,
  voltage: jax.Array,
  coupling: jax.Array,
  x: jax.Array,
  cotangent: jax.Array,
  schedule: TreeSchedule,
  *,
  interpret: bool = False,
) -> tuple[jax.Array, ...]:
  """Cotangents of the arguments of `assemble_and_solve`, in one launch.

  Args:
    pivots: from `assemble_and_solve`.
    capacitance_over_dt: as there, and so `voltage`, `coupling`, `schedule`.
    voltage: see there.
    coupling: see there.
    x: `[n, B]` voltage after the step.
    cotangent: `[n, B]` cotangent of x.
    schedule: see there.
    interpret: as in `solve`.

  Returns:
    Cotangents in the order of the arguments there; those of `[n, 1]` arrays
    are summed over the batch.
  """

  def kernel(tree, inverse, factor, c, v, g, x, cotangent, adjoint, *outs):
    c_bar, conductance_bar, v_bar, g_bar = outs
    for out in (c_bar, g_bar):
      tree.start(out)
    _eliminate_rhs(tree, g, inverse, cotangent, adjoint, sign=-1)

    def emit(i, parent):
      above = above_of(adjoint, parent)
      mine = adjoint[i] - factor[i] * above
      step = jnp.where(parent >= 0, x[i] - above_of(x, parent), 0)
      adjoint[i] = mine
      conductance_bar[i] = -mine * x[i]
      v_bar[i] = mine * c[i]
      tree.add(c_bar, i, mine * (v[i] - x[i]))
      tree.add(g_bar, i, (above - mine) * step)

    tree.down(emit)

  shape = x.shape
  adjoint, c_bar, conductance_bar, v_bar, g_bar = launch(
    'assemble_backward',
    kernel,
    schedule,
    (*reversed(pivots), capacitance_over_dt, voltage, coupling, x, cotangent),
    [shape, capacitance_over_dt.shape, shape, shape, coupling.shape],
    interpret,
  )
  return c_bar, conductance_bar, adjoint, adjoint, v_bar, g_bar


def _solve_kernel(tree, diag, lower, upper, rhs, x, inverse, factor):
  # `inverse` holds d' and `x` holds b' until their node's turn.
  def copy(i, _):
    inverse[i], x[i] = diag[i], rhs[i]

  def eliminate(i, parent):
    pivot = 1 / inverse[i]
    z = x[i] * pivot
    u = band_of(upper, i, parent)
    scaled = u * pivot
    inverse[i], x[i], factor[i] = pivot, z, scaled

    @pl.when(parent >= 0)
    def _():
      inverse[parent] -= scaled * lower[i]
      x[parent] -= u * z

  tree.up(copy)
  tree.up(eliminate)
  _substitute(tree, lower, inverse, x)


def _assemble_kernel(tree, c, g, conductance, drive, current, v, *outs):
  x, inverse, factor = outs

  def assemble(i, parent):
    inverse[i] = c[i] + conductance[i] + band_of(g, i, parent)
    x[i] = c[i] * v[i] + drive[i] + current[i]

  def eliminate(i, parent):
    pivot = 1 / inverse[i]
    z, own = x[i] * pivot, band_of(g, i, parent)
    inverse[i], x[i], factor[i] = pivot, z, -own * pivot

    @pl.when(parent >= 0)
    def _():
      inverse[parent] += own * (1 - own * pivot)
      x[parent] += own * z

  tree.up(assemble)
  tree.up(eliminate)
  _substitute(tree, g, inverse, x, sign=-1)


def _resolve_kernel(tree, inverse, lower, upper, rhs, x):
  _eliminate_rhs(tree, upper, inverse, rhs, x)
  _substitute(tree, lower, inverse, x)


def _eliminate_rhs(tree, upper, inverse, rhs, x, sign=1):
  def copy(i, _):
    x[i] = rhs[i]

  def eliminate(i, parent):
    z = x[i] * inverse[i]
    x[i] = z

    @pl.when(parent >= 0)
    def _():
      x[parent] -= sign * upper[i] * z

  tree.up(copy)
  tree.up(eliminate)


def _substitute(tree, lower, inverse, x, sign=1):
  def substitute(i, parent):
    scaled = sign * band_of(lower, i, parent) * inverse[i]
    x[i] = x[i] - scaled * above_of(x, parent)

  tree.down(substitute)
