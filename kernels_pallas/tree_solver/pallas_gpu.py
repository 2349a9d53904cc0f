"""Tree solve on a GPU, in Pallas on Triton: one launch for both sweeps.

A program holds `block` cells and walks through the steps of the schedule; its
threads are lanes (nodes of a step) times cells, cells side by side in memory. A
node pulls what its children left, so nothing is added atomically and a result
does not depend on timing. Places without a node are masked. A node leaves 1/d'
and z = b'/d' (`x` holds z until the way back):

  d'_p = d_p - sum upper_c lower_c / d'_c,  b'_p = b_p - sum upper_c z_c,
  x_i = z_i - lower_i / d'_i x_p.
"""

import jax
import jax.numpy as jnp

from kernels_pallas.tree_solver.gpu_tile import Negative, launch
from kernels_pallas.tree_solver.schedule import TreeSchedule, make_schedule
from kernels_pallas.tree_solver.types import Pivots

RESIDENT_THREADS = 132 * 2048
"""Threads that an H100 or H200 holds at a time."""


def fit_schedule(schedule: TreeSchedule, batch: int) -> TreeSchedule:
  """One thread a cell where the cells alone fill the GPU twice over."""
  if batch * schedule.tables.nodes.shape[1] < 2 * RESIDENT_THREADS:
    return schedule
  return make_schedule(schedule.parent, 'hines', validate=False)


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
    schedule: steps; its width must be a power of two.
    interpret: run the kernel's text on the host.

  Returns:
    `[n, B]` solution.
  """
  arrays = (diag, lower, upper, rhs)
  outs = [rhs.shape] * 2
  return launch('solve', _solve_kernel, schedule, arrays, outs, interpret)[0]


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
  arrays = (diag, lower, upper, rhs)
  outs = [rhs.shape] * 3
  x, inverse, factor = launch(
    'factor_solve', _solve_kernel, schedule, arrays, outs, interpret
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
  if transpose:
    return launch(
      'resolve_transposed',
      _transposed_kernel,
      schedule,
      (pivots.inverse, pivots.factor, lower, rhs),
      [rhs.shape],
      interpret,
    )[0]
  arrays = (pivots.inverse, lower, upper, rhs)
  outs = [rhs.shape]
  [x] = launch('resolve', _resolve_kernel, schedule, arrays, outs, interpret)
  return x


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

  def kernel(tile, inverse, factor, lower, x, bar, adjoint, *outs):
    diag_bar, lower_bar, upper_bar = outs

    def emit(rows, parents, mine, above):
      x_mine, x_above = tile.read(x, rows), tile.read(x, parents)
      tile.write(diag_bar, rows, -mine * x_mine)
      tile.write(lower_bar, rows, -mine * x_above)
      tile.write(upper_bar, rows, -above * x_mine)

    _transposed_kernel(tile, inverse, factor, lower, bar, adjoint, emit=emit)

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

  The system is d_i = C_i/dt + G_i + sum of the couplings of i, off-diagonals
  -g_i, right side C_i/dt V_i + drive_i + current_i.

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
  arrays = (
    capacitance_over_dt,
    coupling,
    conductance,
    drive,
    current,
    voltage,
  )
  outs = [voltage.shape] * 3
  x, inverse, factor = launch(
    'assemble_and_solve',
    _assemble_kernel,
    schedule,
    arrays,
    outs,
    interpret,
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

  def kernel(tile, inverse, factor, c, v, g, x, bar, adjoint, *outs):
    c_bar, conductance_bar, v_bar, g_bar = outs

    def emit(rows, parents, mine, above):
      x_mine = tile.read(x, rows)
      inner = parents < tile.n
      step = jnp.where(inner, x_mine - tile.read(x, parents), 0)
      tile.write(c_bar, rows, mine * (tile.read(v, rows) - x_mine))
      tile.write(conductance_bar, rows, -mine * x_mine)
      tile.write(v_bar, rows, mine * tile.read(c, rows))
      tile.write(g_bar, rows, (above - mine) * step)

    negative = Negative(g)
    _transposed_kernel(tile, inverse, factor, negative, bar, adjoint, emit=emit)

  arrays = (*reversed(pivots), capacitance_over_dt, voltage, coupling, x)
  shape = x.shape
  outs = [shape, capacitance_over_dt.shape, shape, shape, coupling.shape]
  adjoint, c_bar, conductance_bar, v_bar, g_bar = launch(
    'assemble_backward',
    kernel,
    schedule,
    (*arrays, cotangent),
    outs,
    interpret,
  )
  return c_bar, conductance_bar, adjoint, adjoint, v_bar, g_bar


def _solve_kernel(tile, diag, lower, upper, rhs, x, inverse, factor=None):
  def eliminate(rows, parents, pull):
    def from_child(child, carry):
      d, b = carry
      u = tile.read(upper, child)
      d -= u * tile.read(lower, child) * tile.read(inverse, child)
      return d, b - u * tile.read(x, child)

    start = tile.read(diag, rows, other=1), tile.read(rhs, rows)
    d, b = pull(from_child, start)
    tile.write(inverse, rows, 1 / d)
    tile.write(x, rows, b / d)
    if factor is not None:
      u = tile.read(upper, tile.inner(rows, parents))
      tile.write(factor, rows, u / d)

  tile.up(eliminate)
  tile.down(_substitution(tile, lower, inverse, x))


def _assemble_kernel(tile, c, g, conductance, drive, current, v, *outs):
  x, inverse, factor = outs

  def eliminate(rows, parents, pull):
    def from_child(child, carry):
      d, b = carry
      own = tile.read(g, child)
      d += own * (1 - own * tile.read(inverse, child))
      return d, b + own * tile.read(x, child)

    own = tile.read(g, tile.inner(rows, parents))
    capacity = tile.read(c, rows, other=1)
    d = capacity + tile.read(conductance, rows) + own
    b = capacity * tile.read(v, rows)
    b += tile.read(drive, rows) + tile.read(current, rows)
    d, b = pull(from_child, (d, b))
    tile.write(inverse, rows, 1 / d)
    tile.write(x, rows, b / d)
    tile.write(factor, rows, -own / d)

  tile.up(eliminate)
  tile.down(_substitution(tile, Negative(g), inverse, x))


def _resolve_kernel(tile, inverse, lower, upper, rhs, x):
  _eliminate_rhs(tile, upper, inverse, rhs, x)
  tile.down(_substitution(tile, lower, inverse, x))


def _transposed_kernel(tile, inverse, factor, lower, rhs, x, emit=None):
  """A^T x = rhs; `emit` sees each node's x and its parent's."""
  _eliminate_rhs(tile, lower, inverse, rhs, x)

  def substitute(rows, parents):
    above = tile.read(x, parents)
    mine = tile.read(x, rows) - tile.read(factor, rows) * above
    tile.write(x, rows, mine)
    if emit is not None:
      emit(rows, parents, mine, above)

  tile.down(substitute)


def _eliminate_rhs(tile, upper, inverse, rhs, x):
  def eliminate(rows, parents, pull):
    del parents

    def from_child(child, b):
      return b - tile.read(upper, child) * tile.read(x, child)

    b = pull(from_child, tile.read(rhs, rows))
    tile.write(x, rows, b * tile.read(inverse, rows))

  tile.up(eliminate)


def _substitution(tile, lower, inverse, x):
  def substitute(rows, parents):
    own = tile.read(lower, tile.inner(rows, parents))
    own *= tile.read(inverse, rows)
    tile.write(x, rows, tile.read(x, rows) - own * tile.read(x, parents))

  return substitute
