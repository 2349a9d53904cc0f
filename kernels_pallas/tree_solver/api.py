"""Solves linear systems whose graph is a tree, as cables of neurons are."""

import functools
import importlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from kernels_pallas import dispatch
from kernels_pallas.tree_solver import adjoint, contract, reference, xla
from kernels_pallas.tree_solver.adjoint import Solver
from kernels_pallas.tree_solver.schedule import TreeSchedule
from kernels_pallas.tree_solver.types import Pivots

IMPLEMENTATIONS = (
  'xla',
  'xla_steps',
  'xla_contract',
  'pallas',
  'triton',
  'interpret',
  'interpret_tpu',
  'reference',
)


def tree_solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array | None,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  implementation: str | None = None,
  check: bool = False,
) -> jax.Array:
  """Solves A x = rhs where A's graph is a forest.

  Row i of A is `diag[i] x_i + lower[i] x_parent(i) + sum over children c of
  upper[c] x_c`. There is no pivoting: rows are to be diagonally dominant, as
  those of an implicit step of the cable equation are. First derivatives in both
  modes cost about half a solve and store five arrays of the size of `rhs`;
  `tree_solve_linear` has derivatives of every order. A mapped axis (`vmap`)
  joins the last one.

  Args:
    diag: `[n, B]` or `[n, 1]` diagonal.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)]; what it holds at roots is
      ignored, and has no gradient.
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; None where A is symmetric
      (cheaper).
    rhs: `[n, B]` right side, or `[n, B, R]` for several with one matrix.
    schedule: of `make_schedule`.
    implementation: one of `IMPLEMENTATIONS`; None takes what is fastest on the
      default device.
    check: adds a `checkify` check that no pivot is 0.

  Returns:
    `[n, B]` or `[n, B, R]` solution.

  Raises:
    ValueError: shapes that do not fit each other or the schedule, complex
      numbers, an unknown implementation.
    BackendUnavailable: an implementation that does not work here.
  """
  solver = _solver(implementation)
  if rhs.ndim == 3:
    solve = functools.partial(
      tree_solve, schedule=schedule, implementation=implementation, check=check
    )
    return jax.vmap(solve, (None, None, None, -1), -1)(diag, lower, upper, rhs)
  args = _checked(diag, lower, upper, rhs, schedule)
  schedule = _fitted(schedule, rhs.shape[1], implementation)
  if check:
    _, pivots = adjoint.factor_solve(*args, schedule, solver)
    _check_pivots(pivots, check)
  return adjoint.solve(*args, schedule, solver)


def tree_solve_linear(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array | None,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  implementation: str | None = None,
) -> jax.Array:
  """`tree_solve` with derivatives of every order, and more memory.

  Args:
    diag: `[n, B]` or `[n, 1]` diagonal.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)].
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; None where A is symmetric.
    rhs: `[n, B]` right side.
    schedule: of `make_schedule`.
    implementation: one of `IMPLEMENTATIONS`, or None.

  Returns:
    `[n, B]` solution.
  """
  solver = _solver(implementation)
  diag, lower, upper, rhs = _checked(diag, lower, upper, rhs, schedule)
  upper = lower if upper is None else upper
  return adjoint.solve_linear(diag, lower, upper, rhs, schedule, solver)


def tree_factor_solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array | None,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  implementation: str | None = None,
) -> tuple[jax.Array, Pivots]:
  """Solves A x = rhs and returns the pivots for `tree_resolve`.

  Not differentiable; `tree_solve` does this by itself.

  Args:
    diag: `[n, B]` or `[n, 1]` diagonal.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)].
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; None where A is symmetric.
    rhs: `[n, B]` right side.
    schedule: of `make_schedule`.
    implementation: one of `IMPLEMENTATIONS`, or None.

  Returns:
    `[n, B]` solution, and the pivots.
  """
  solver = _solver(implementation)
  args = _checked(diag, lower, upper, rhs, schedule)
  return adjoint.factor_solve(*args, schedule, solver)


def tree_resolve(
  pivots: Pivots,
  lower: jax.Array,
  upper: jax.Array | None,
  rhs: jax.Array,
  schedule: TreeSchedule,
  *,
  transpose: bool = False,
  implementation: str | None = None,
) -> jax.Array:
  """Solves A x = rhs, or A^T x = rhs, with pivots at hand.

  Args:
    pivots: of `tree_factor_solve` for the same matrix and implementation.
    lower: `[n, 1]` or `[n, B]`, A[i, parent(i)].
    upper: `[n, 1]` or `[n, B]`, A[parent(i), i]; None where A is symmetric.
    rhs: `[n, B]` right side.
    schedule: of `make_schedule`.
    transpose: solve with A^T.
    implementation: one of `IMPLEMENTATIONS`, or None.

  Returns:
    `[n, B]` solution; linear, and differentiable, in `rhs` alone.
  """
  solver = _solver(implementation)
  _, lower, upper, rhs = _checked(pivots.inverse, lower, upper, rhs, schedule)
  return adjoint.resolve(
    pivots, lower, upper, rhs, schedule, solver, transpose=transpose
  )


def _checked(
  diag, lower, upper, rhs, schedule
) -> tuple[jax.Array, jax.Array, jax.Array | None, jax.Array]:
  """The arguments in full shape, with nothing above a root.

  Raises:
    ValueError: what does not fit, by its name.
  """
  given = {'diag': diag, 'lower': lower, 'upper': upper, 'rhs': rhs}
  given = {k: jnp.asarray(a) for k, a in given.items() if a is not None}
  shape = given['rhs'].shape
  if len(shape) != 2 or shape[0] != schedule.n:
    raise ValueError(
      f'rhs has the shape {shape}; the schedule asks for ({schedule.n}, B).'
    )
  for name, a in given.items():
    if a.shape not in (shape, (schedule.n, 1)):
      raise ValueError(
        f'{name} has the shape {a.shape}, which does not fit rhs {shape}: give '
        f'{shape} or {(schedule.n, 1)}.'
      )
    if jnp.iscomplexobj(a):
      raise ValueError(f'{name} is complex; tree_solve takes real numbers.')
  dtype = jnp.result_type(*given.values(), jnp.float32)
  given = {k: a.astype(dtype) for k, a in given.items()}
  child = jnp.asarray(np.asarray(schedule.parent) >= 0)[:, None]
  for name in ('lower', 'upper'):
    if name in given:
      given[name] = jnp.where(child, given[name], 0)
  diag = jnp.broadcast_to(given['diag'], shape)
  return diag, given['lower'], given.get('upper'), given['rhs']


def _check_pivots(pivots, check):
  if check:
    checkify.check(
      jnp.all(jnp.isfinite(pivots.inverse)),
      'tree_solve met a pivot of 0: the matrix is not diagonally dominant.',
    )


def _solver(implementation: str | None) -> Solver:
  """The kernels of an implementation.

  Raises:
    ValueError: no such implementation.
    BackendUnavailable: it does not work here.
  """
  platform = dispatch.default_platform()
  if implementation is None:
    implementation = 'xla' if platform == 'cpu' else 'pallas'
  if implementation not in IMPLEMENTATIONS:
    raise ValueError(
      f'implementation {implementation!r} is not known; take one of '
      f'{", ".join(IMPLEMENTATIONS)}.'
    )
  return _kernels(implementation, platform)


# One object for each, since what is static is compared by identity.
@functools.cache
def _kernels(implementation: str, platform: str) -> Solver:
  solve = {
    'xla_steps': xla.solve_steps,
    'xla_contract': contract.solve,
    'reference': _on_host,
  }
  if implementation in ('xla', *solve):
    first = solve.get(implementation, xla.solve)
    return Solver(first, xla.factor_solve, xla.resolve)
  if implementation.startswith('interpret'):
    tpu = implementation == 'interpret_tpu'
    name = 'pallas_tpu' if tpu else 'pallas_gpu'
  elif implementation == 'triton':
    name = 'triton'
  else:
    name = f'pallas_{platform}'
  if not implementation.startswith('interpret'):
    _require(implementation, platform)
  kernels = importlib.import_module(f'kernels_pallas.tree_solver.{name}')
  if not implementation.startswith('interpret'):
    return Solver(kernels.solve, kernels.factor_solve, kernels.resolve)
  return Solver(
    functools.partial(kernels.solve, interpret=True),
    functools.partial(kernels.factor_solve, interpret=True),
    functools.partial(kernels.resolve, interpret=True),
  )


def _fitted(schedule: TreeSchedule, batch: int, implementation: str | None):
  """The schedule that suits a batch, where the caller left the choice to us."""
  if implementation is None and dispatch.default_platform() == 'gpu':
    kernels = importlib.import_module('kernels_pallas.tree_solver.pallas_gpu')
    return kernels.fit_schedule(schedule, batch)
  return schedule


def _require(implementation: str, platform: str) -> None:
  """Raises `BackendUnavailable` where compiled kernels cannot run."""
  if implementation == 'triton':
    why = dispatch.why_not_on('gpu') or dispatch.why_missing('jax_triton')
  else:
    why = '' if platform in ('gpu', 'tpu') else dispatch.why_not_on('gpu')
  if why:
    raise dispatch.BackendUnavailable(implementation, why)


def _on_host(diag, lower, upper, rhs, schedule):
  """The NumPy reference, called from the program."""

  def compute(diag, lower, upper, rhs):
    x = reference.tree_solve(diag, lower, upper, rhs, schedule.parent)
    return x.astype(rhs.dtype)

  shape = jax.ShapeDtypeStruct(rhs.shape, rhs.dtype)
  return jax.pure_callback(compute, shape, diag, lower, upper, rhs)
