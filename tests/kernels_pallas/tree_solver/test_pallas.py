"""The Pallas kernels, run on the host, against NumPy."""

import functools

import jax
import numpy as np
import pytest
import scipy.sparse

from kernels_pallas.tree_solver import pallas_gpu, pallas_tpu, reference
from kernels_pallas.tree_solver.lowering import backends
from kernels_pallas.tree_solver.schedule import (
  ScheduleError,
  TreeSchedule,
  make_schedule,
)

KERNELS = pytest.mark.parametrize(
  'kernels', [pallas_gpu, pallas_tpu], ids=['gpu', 'tpu']
)


@functools.partial(jax.jit, static_argnums=(0, 1))
def every_kernel(kernels, schedule, diag, lower, upper, rhs, cotangent):
  """x three ways, the adjoint, and all cotangents."""
  matrix = diag, lower, upper
  bands = lower, upper, rhs
  x, pivots = kernels.factor_solve(*matrix, rhs, schedule, interpret=True)
  return (
    [
      kernels.solve(*matrix, rhs, schedule, interpret=True),
      x,
      kernels.resolve(pivots, *bands, schedule, interpret=True),
    ],
    kernels.resolve(
      pivots, lower, upper, cotangent, schedule, transpose=True, interpret=True
    ),
    kernels.backward(
      pivots, lower, upper, x, cotangent, schedule, interpret=True
    ),
    pivots,
  )


@KERNELS
@pytest.mark.parametrize(
  ('kind', 'B', 'shared', 'dtype'),
  [
    ('dhs', 40, True, 'float32'),
    ('dhs', 5, False, 'float64'),
    ('hines', 3, False, 'float32'),
    ('level', 1, True, 'float64'),
    ('contract', 5, True, 'float32'),
  ],
  indirect=['dtype'],
)
def test_every_kernel_equals_numpy(
  kernels, kind, B, shared, dtype, make_system, assert_near
):
  system = make_system(30, B, dtype, shared)
  schedule = make_schedule(system.parent, kind, 8)
  given = *system.matrix, system.rhs, system.cotangent
  solutions, adjoint, gradients, pivots = every_kernel(
    kernels, schedule, *given
  )
  for x in solutions:
    assert x.dtype == dtype
    assert_near(x, system.x)
  assert_near(adjoint, system.gradients[3])
  for found, expected in zip(gradients, system.gradients, strict=True):
    assert_near(found, expected)
  roots = system.parent < 0
  assert not np.asarray(pivots.factor)[roots].any()
  np.testing.assert_allclose(
    pivots.factor[~roots],
    (system.upper * pivots.inverse)[~roots],
    rtol=1e-6,
  )


@pytest.mark.parametrize('B', [129, 1030])
@KERNELS
def test_batches_that_end_inside_a_block(kernels, B, make_system, assert_near):
  """Sums over several blocks, of which the last one is cut."""
  system = make_system(6, B, shared=True)
  schedule = make_schedule(system.parent, 'hines')
  given = *system.matrix, system.rhs, system.cotangent
  solutions, _, gradients, _ = every_kernel(kernels, schedule, *given)
  assert_near(solutions[0], system.x)
  for found, expected in zip(gradients, system.gradients, strict=True):
    assert_near(found, expected)


@KERNELS
def test_the_schedule_is_followed(kernels, make_system, assert_near):
  """A node that is moved before its child gives another, wrong answer."""
  system = make_system(30, 3)
  order = [list(step) for step in make_schedule(system.parent, 'dhs', 4).order]
  order[0], order[-1] = order[-1], order[0]
  broken = TreeSchedule.from_order(system.parent, order, validate=False)
  solve = functools.partial(kernels.solve, interpret=True)
  x = jax.jit(solve, static_argnums=4)(*system.matrix, system.rhs, broken)
  error = np.abs(np.asarray(x) - system.x).max()
  assert not error < 1e-2 * np.abs(system.x).max()


@KERNELS
def test_children_of_one_parent_do_not_race(kernels, make_system, assert_near):
  parent = np.array([-1] + [0] * 40)
  system = make_system(41, 3, parent=parent)
  bands = [np.nan_to_num(band[:, 0]) for band in system.matrix]
  A = scipy.sparse.csc_array(reference.dense(*bands, parent))
  expected = scipy.sparse.linalg.spsolve(A, system.rhs[:, 0].astype(float))
  schedule = make_schedule(parent, 'dhs', 16)
  on_device = kernels is pallas_gpu and not backends()['pallas']
  solve = jax.jit(
    functools.partial(kernels.solve, interpret=not on_device),
    static_argnums=4,
  )
  for _ in range(100 if on_device else 1):
    x = solve(*system.matrix, system.rhs, schedule)
    assert_near(np.asarray(x)[:, 0], expected)


def test_threads_fill_blocks(make_system):
  system = make_system(30, 3)
  schedule = make_schedule(system.parent, 'dhs', 3)
  with pytest.raises(ScheduleError, match='k = 3'):
    pallas_gpu.solve(*system.matrix, system.rhs, schedule, interpret=True)


def test_many_cells_get_a_thread_each():
  schedule = make_schedule([-1, *([0] * 30)], 'dhs', 16)
  assert pallas_gpu.fit_schedule(schedule, 256) is schedule
  single = pallas_gpu.fit_schedule(schedule, 65_536)
  assert single.kind == 'hines' and single.parent == schedule.parent


def test_offsets_that_overflow_are_refused():
  schedule = make_schedule([-1, 0, 1, 2])
  full = jax.ShapeDtypeStruct((4, 2**29), np.float32)
  band = jax.ShapeDtypeStruct((4, 1), np.float32)
  solve = functools.partial(pallas_gpu.solve, schedule=schedule)
  with pytest.raises(ValueError, match='536870912'):
    jax.eval_shape(solve, full, band, band, full)


def test_a_tpu_takes_float32_and_trees_that_fit():
  def shapes(n, dtype):
    full = jax.ShapeDtypeStruct((n, 1024), dtype)
    return full, full, full, full

  deep = make_schedule(range(-1, 9_999))
  solve = functools.partial(pallas_tpu.solve, schedule=deep)
  with pytest.raises(ValueError, match=r'n = 10000.*MiB'):
    jax.eval_shape(solve, *shapes(10_000, np.float32))
  with jax.enable_x64(True), pytest.raises(ValueError, match='float64'):
    jax.eval_shape(solve, *shapes(10_000, np.float64))


@functools.partial(jax.jit, static_argnums=(0, 1))
def cable_step(kernels, schedule, arguments, cotangent):
  """One step of the cable equation and the cotangents of its arguments."""
  x, pivots = kernels.assemble_and_solve(*arguments, schedule, interpret=True)
  capacity, _, _, _, voltage, coupling = arguments
  bars = kernels.assemble_backward(
    pivots, capacity, voltage, coupling, x, cotangent, schedule, interpret=True
  )
  return x, bars


@pytest.mark.parametrize(
  ('shared', 'dtype'),
  [(True, 'float32'), (False, 'float64')],
  indirect=['dtype'],
)
@KERNELS
def test_assembly_is_fused_with_the_solve(
  kernels, shared, dtype, make_system, assert_near
):
  n, B = 20, 5
  parent = make_system(n, B).parent
  schedule = make_schedule(parent, 'dhs', 4)
  rng = np.random.default_rng(0)
  column = (n, 1) if shared else (n, B)
  shapes = [column, (n, B), (n, B), (n, B), (n, B), column]
  arguments = [rng.uniform(0.5, 2, shape).astype(dtype) for shape in shapes]
  cotangent = rng.normal(size=(n, B)).astype(dtype)
  expected = dense_cable_step(parent, *arguments)
  x, bars = cable_step(kernels, schedule, arguments, cotangent)
  assert_near(x, expected)

  for which, bar in enumerate(bars):
    assert bar.shape == shapes[which]
    direction = rng.normal(size=shapes[which])
    moved = []
    for step in (1e-5, -1e-5):
      other = [a.astype(float) for a in arguments]
      other[which] += step * direction
      moved.append(np.sum(cotangent * dense_cable_step(parent, *other)))
    slope = (moved[0] - moved[1]) / 2e-5
    scale = np.abs(np.asarray(bar, float) * direction).sum()
    assert abs(np.sum(bar * direction) - slope) <= 1e-5 * scale


def dense_cable_step(parent, capacity, conductance, drive, current, v, g):
  """The equation with a dense matrix for each cell, float64."""
  n, B = v.shape
  inner = np.flatnonzero(parent >= 0)
  x = np.zeros((n, B))
  for cell in range(B):
    C, coupling = (np.broadcast_to(a, (n, B))[:, cell] for a in (capacity, g))
    A = np.diag((C + conductance[:, cell]).astype(float))
    for i in inner:
      pair = np.ix_([i, parent[i]], [i, parent[i]])
      A[pair] += coupling[i] * np.array([[1, -1], [-1, 1]])
    b = C * v[:, cell] + drive[:, cell] + current[:, cell]
    x[:, cell] = np.linalg.solve(A, b)
  return x
