"""Runs all golden cases of the tree solver; a kind has one check."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas import tree_solver
from kernels_pallas.tree_solver.lowering import backends
from kernels_pallas.tree_solver.schedule import (
  make_schedule,
  schedule_stats,
  steps_lower_bound,
)
from tests.golden import Golden

GOLDEN = Golden('tree_solver_kernel')
KINDS = ('hines', 'level', 'dhs', 'contract')
# These follow the steps of a schedule, the others read the tree alone.
STEPPED = ('xla_steps', 'pallas', 'triton', 'interpret', 'interpret_tpu')
WORKING = [name for name, why in backends().items() if not why]
SOLVES = [
  (name, kind, True)
  for name, kind in itertools.product([None, *WORKING], KINDS)
  if name in STEPPED or kind == 'dhs'
] + [(name, 'dhs', False) for name in (None, 'interpret')]


@functools.partial(jax.jit, static_argnums=(0, 1))
def solve_with_gradients(schedule, implementation, bands, rhs, cotangent):
  """x and the gradients by bands `[n]`, summed over the batch, and rhs."""

  def solve(bands, rhs):
    full = [jnp.broadcast_to(a[:, None], rhs.shape) for a in bands]
    return tree_solver.tree_solve(
      *full, rhs, schedule, implementation=implementation
    )

  x, pull = jax.vjp(solve, bands, rhs)
  return x, *pull(cotangent)


def check_tree_solve(case):
  for implementation, kind, x64 in SOLVES:
    with jax.enable_x64(x64):
      check_one_solve(case, implementation, kind, x64)


def check_one_solve(case, implementation, kind, x64):
  dtype = np.float64 if x64 else np.float32
  limit = case['rtol_f64' if x64 else 'rtol_f32']
  schedule = make_schedule(case['parent'], kind, k=4)
  names = 'diag', 'lower', 'upper', 'rhs', 'cotangent'
  *bands, rhs, cotangent = (np.asarray(case[name], dtype) for name in names)
  x, gradients, rhs_bar = solve_with_gradients(
    schedule, implementation, bands, rhs, cotangent
  )
  assert x.dtype == dtype
  found = x, rhs_bar, *gradients
  names = 'x', 'grad_rhs', 'grad_diag', 'grad_lower', 'grad_upper'
  for name, value in zip(names, found, strict=True):
    expected = np.asarray(case[name])
    assert value.shape == expected.shape
    error = np.abs(np.asarray(value) - expected).max()
    allowed = limit * np.abs(expected).max()
    assert error <= allowed, (implementation, kind, x64, name)


def check_dhs_steps(case):
  for index, k in enumerate(case['k']):
    stats = schedule_stats(make_schedule(case['parent'], 'dhs', k))
    bound = steps_lower_bound(case['parent'], k)
    assert stats.steps == case['steps'][index] == bound == stats.bound
    assert bound == case['bound'][index]
    assert case['optimal'][index] in (None, stats.steps)
    assert stats.height == case['height']


def check_dhs_order(case):
  schedule = make_schedule(case['parent'], kind='dhs', k=case['k'])
  assert [set(step) for step in schedule.order] == [
    set(step) for step in case['order']
  ]
  assert schedule_stats(schedule).steps == case['steps']
  assert steps_lower_bound(case['parent'], case['k']) == case['bound']


def check_schedule_error(case):
  error = getattr(tree_solver, case['raises'])
  with pytest.raises(error) as raised:
    make_schedule(case['parent'], kind='dhs', k=case['k'])
  assert all(word in str(raised.value) for word in case['match'])


CHECKS = {
  'tree_solve': check_tree_solve,
  'dhs_steps': check_dhs_steps,
  'dhs_order': check_dhs_order,
  'schedule_error': check_schedule_error,
}


@pytest.mark.parametrize('case', GOLDEN.parameters())
def test_case(case):
  CHECKS[case['kind']](case)
