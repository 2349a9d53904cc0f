"""Derivatives of the tree solve, written by hand: no tape over the tree.

A solve keeps its pivots. With them a tangent, or a cotangent (the pivots
serve the transposed matrix), costs the right-side half of a solve and nothing
is stored for single nodes or levels. `resolve` is a primitive, since JAX must
be told how to transpose it; everything else follows from it.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from kernels_pallas.tree_solver.schedule import TreeSchedule
from kernels_pallas.tree_solver.types import Pivots

_resolve_p = Primitive('tree_resolve')
_ONCE = 'tree_solve has first derivatives; tree_solve_linear has higher ones.'


class Solver(NamedTuple):
  """The three kernels of one implementation (static, hashable).

  Attributes:
    solve: `(diag, lower, upper, rhs, schedule) -> x`.
    factor_solve: the same, and the pivots.
    resolve: `(pivots, lower, upper, rhs, schedule, transpose=) -> x`.
  """

  solve: Callable[..., jax.Array]
  factor_solve: Callable[..., tuple[jax.Array, Pivots]]
  resolve: Callable[..., jax.Array]


def resolve(
  pivots: Pivots,
  lower: jax.Array,
  upper: jax.Array | None,
  rhs: jax.Array,
  schedule: TreeSchedule,
  solver: Solver,
  *,
  transpose: bool = False,
) -> jax.Array:
  """Solves with saved pivots; linear, and differentiable, in `rhs` alone.

  Args:
    pivots: of the same matrix.
    lower: `[n, 1]` or `[n, B]`.
    upper: `[n, 1]` or `[n, B]`; None where it is `lower`.
    rhs: `[n, B]` right side.
    schedule: the tree.
    solver: the kernels that do it.
    transpose: solve with A^T.

  Returns:
    `[n, B]` solution.
  """
  sides = (lower,) if upper is None else (lower, upper)
  return _resolve_p.bind(
    pivots.factor,
    pivots.inverse,
    *sides,
    rhs,
    schedule=schedule,
    solver=solver,
    transpose=transpose,
  )


@functools.partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def factor_solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array | None,
  rhs: jax.Array,
  schedule: TreeSchedule,
  solver: Solver,
) -> tuple[jax.Array, Pivots]:
  """Solves and keeps the pivots, which no derivative passes.

  Mapped axes are folded into the last one.
  """

  @jax.custom_batching.custom_vmap
  def folded(diag, lower, upper, rhs):
    other = lower if upper is None else upper
    return solver.factor_solve(diag, lower, other, rhs, schedule)

  @folded.def_vmap
  def rule(axis_size, batched, *args):
    args, unfold = _fold(axis_size, batched, args, sides=(1, 2))
    out = folded(*args)
    return jax.tree.map(unfold, out), jax.tree.map(lambda _: True, out)

  return folded(diag, lower, upper, rhs)


def _factor_solve_jvp(schedule, solver, primals, tangents):
  if any(_known(t) is not None for t in tangents if t is not None):
    raise NotImplementedError(_ONCE)
  out = factor_solve(*primals, schedule, solver)
  return out, jax.tree.map(jnp.zeros_like, out)


factor_solve.defjvp(_factor_solve_jvp, symbolic_zeros=True)


@functools.partial(jax.custom_jvp, nondiff_argnums=(4, 5))
def solve(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array | None,
  rhs: jax.Array,
  schedule: TreeSchedule,
  solver: Solver,
) -> jax.Array:
  """`factor_solve` whose first derivatives, in both modes, are `resolve`s."""

  @jax.custom_batching.custom_vmap
  def folded(diag, lower, upper, rhs):
    other = lower if upper is None else upper
    return solver.solve(diag, lower, other, rhs, schedule)

  @folded.def_vmap
  def rule(axis_size, batched, *args):
    args, unfold = _fold(axis_size, batched, args, sides=(1, 2))
    return unfold(folded(*args)), True

  return folded(diag, lower, upper, rhs)


def _solve_jvp(schedule, solver, primals, tangents):
  diag, lower, upper, rhs = primals
  x, pivots = factor_solve(diag, lower, upper, rhs, schedule, solver)
  residual = _residual(x, tangents, schedule)
  if residual is None:
    return x, jnp.zeros_like(x)
  return x, resolve(pivots, lower, upper, residual, schedule, solver)


solve.defjvp(_solve_jvp, symbolic_zeros=True)


def solve_linear(
  diag: jax.Array,
  lower: jax.Array,
  upper: jax.Array,
  rhs: jax.Array,
  schedule: TreeSchedule,
  solver: Solver,
) -> jax.Array:
  """The same by `jax.lax.custom_linear_solve`: derivatives of any order."""
  stop = jax.lax.stop_gradient
  sides = stop(lower), stop(upper)
  _, pivots = factor_solve(
    stop(diag), *sides, jnp.zeros_like(rhs), schedule, solver
  )

  def matvec(x):
    return diag * x + _couple(lower, upper, x, schedule)

  def solving(transpose) -> Callable:
    return lambda _, b: resolve(
      pivots, *sides, b, schedule, solver, transpose=transpose
    )

  return jax.lax.custom_linear_solve(
    matvec, rhs, solving(False), transpose_solve=solving(True)
  )


def _residual(x, tangents, schedule):
  """The right side of A x' = b' - A' x; None where nothing changes."""
  d_diag, d_lower, d_upper, d_rhs = (_known(t) for t in tangents)
  terms = []
  if d_rhs is not None:
    terms.append(d_rhs)
  if d_diag is not None:
    terms.append(-d_diag * x)
  # Without `upper`, A is symmetric and `lower` moves both sides.
  if d_upper is None and tangents[2] is None:
    d_upper = d_lower
  if d_lower is not None or d_upper is not None:
    # Only x is kept for the way back, not its gathered rows.
    couple = jax.checkpoint(_couple, static_argnums=3)
    terms.append(-couple(d_lower, d_upper, x, schedule))
  return functools.reduce(jnp.add, terms) if terms else None


def _known(tangent):
  zero = isinstance(tangent, jax.custom_derivatives.SymbolicZero)
  return None if zero else tangent


def _couple(lower, upper, x, schedule):
  """The off-diagonal part of A times x."""
  parent = np.asarray(schedule.parent)
  child = jnp.asarray(parent >= 0, x.dtype)[:, None]
  above = jnp.asarray(np.maximum(parent, 0))
  out = jnp.zeros_like(x)
  if lower is not None:
    out = out + child * lower * x[above]
  if upper is not None:
    out = out.at[above].add(child * upper * x)
  return out


def _fold(axis_size, batched, args, sides):
  """Moves a mapped axis of each of `args` into their last axis.

  Those at the indices `sides` stay `[n, 1]` where they are the same for all.
  """
  n, width = args[-1].shape[-2:]

  def fold(k, mapped, a):
    if a is None or (not mapped and k in sides and a.shape[-1] == 1):
      return a
    a = jnp.broadcast_to(a, (axis_size, n, width))
    return jnp.moveaxis(a, 0, 1).reshape(n, axis_size * width)

  def unfold(a):
    return jnp.moveaxis(a.reshape(n, axis_size, width), 1, 0)

  pairs = zip(batched, args, strict=True)
  return [fold(k, *pair) for k, pair in enumerate(pairs)], unfold


def _resolve_impl(*args, schedule, solver, transpose):
  factor, inverse, *sides, rhs = args
  lower, upper = sides[0], sides[-1]
  return solver.resolve(
    Pivots(factor, inverse), lower, upper, rhs, schedule, transpose=transpose
  )


def _resolve_jvp(primals, tangents, **params):
  if not all(isinstance(t, ad.Zero) for t in tangents[:-1]):
    raise NotImplementedError(_ONCE)
  x = _resolve_p.bind(*primals, **params)
  if isinstance(tangents[-1], ad.Zero):
    return x, ad.Zero(tangents[-1].aval)
  return x, _resolve_p.bind(*primals[:-1], tangents[-1], **params)


def _resolve_transpose(cotangent, *args, transpose, **params):
  none = [None] * (len(args) - 1)
  if isinstance(cotangent, ad.Zero):
    return [*none, cotangent]
  out = _resolve_p.bind(
    *args[:-1], cotangent, transpose=not transpose, **params
  )
  return [*none, out]


def _resolve_batch(args, axes, **params):
  size = next(
    a.shape[d] for a, d in zip(args, axes, strict=True) if d is not None
  )
  mapped = [d is not None for d in axes]
  front = [
    jnp.moveaxis(a, d, 0) if m else a
    for a, d, m in zip(args, axes, mapped, strict=True)
  ]
  sides = range(2, len(args) - 1)
  folded, unfold = _fold(size, mapped, front, sides)
  return unfold(_resolve_p.bind(*folded, **params)), 0


_resolve_p.def_impl(
  jax.jit(_resolve_impl, static_argnames=('schedule', 'solver', 'transpose'))
)
_resolve_p.def_abstract_eval(lambda *args, **_: args[-1])
mlir.register_lowering(
  _resolve_p, mlir.lower_fun(_resolve_impl, multiple_results=False)
)
ad.primitive_jvps[_resolve_p] = _resolve_jvp
ad.primitive_transposes[_resolve_p] = _resolve_transpose
batching.primitive_batchers[_resolve_p] = _resolve_batch
