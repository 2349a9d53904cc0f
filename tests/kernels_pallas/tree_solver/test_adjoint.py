"""Derivatives of the solve, transformations, and what they store."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify
from jax.test_util import check_grads

from kernels_pallas.tree_solver import (
  Pivots,
  make_schedule,
  tree_factor_solve,
  tree_resolve,
  tree_solve,
  tree_solve_linear,
)

N, B = 24, 3


def random_parent(n, seed=0, roots=(13,)):
  rng = np.random.default_rng(seed)
  parent = [-1, *(int(rng.integers(max(0, i - 4), i)) for i in range(1, n))]
  return np.array([-1 if i in roots else p for i, p in enumerate(parent)])


PARENT = random_parent(N)
SCHEDULE = make_schedule(PARENT)
CHILD = np.flatnonzero(PARENT >= 0)


def system(batch=B, seed=1, parent=PARENT):
  rng = np.random.default_rng(seed)
  n, child = len(parent), (parent >= 0)[:, None]
  return (
    jnp.asarray(5 + rng.random((n, batch))),
    jnp.asarray(-rng.random((n, 1)) * child),
    jnp.asarray(-rng.random((n, 1)) * child),
    jnp.asarray(rng.normal(size=(n, batch))),
  )


def dense_solve(diag, lower, upper, rhs):
  """The same through `jnp.linalg.solve`, column by column."""

  def one(d, low, up, b):
    matrix = jnp.diag(d)
    matrix = matrix.at[CHILD, PARENT[CHILD]].set(low[CHILD])
    matrix = matrix.at[PARENT[CHILD], CHILD].set(up[CHILD])
    return jnp.linalg.solve(matrix, b)

  sides = [jnp.broadcast_to(a, rhs.shape) for a in (lower, upper)]
  return jax.vmap(one, 1, 1)(jnp.broadcast_to(diag, rhs.shape), *sides, rhs)


def weighted(solve, *args):
  """A number whose gradient knows every entry."""
  weight = jnp.cos(jnp.arange(N * B)).reshape(N, B)
  return jnp.sum(weight * solve(*args) ** 2)


ours = functools.partial(tree_solve, schedule=SCHEDULE)


@pytest.fixture(autouse=True)
def x64():
  with jax.enable_x64(True):
    yield


class Variants(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True, with_pmap=True)
  def test_solve(self):
    with jax.enable_x64(True):
      args = system()
      np.testing.assert_allclose(
        self.variant(ours)(*args), dense_solve(*args), rtol=1e-12
      )


@pytest.mark.parametrize('solve', [tree_solve, tree_solve_linear])
def test_gradients_equal_the_dense_ones(solve):
  args = system()
  solve = functools.partial(solve, schedule=SCHEDULE)
  for mode in (jax.grad, jax.jacfwd):
    found = mode(functools.partial(weighted, solve), (0, 1, 2, 3))(*args)
    expected = jax.grad(functools.partial(weighted, dense_solve), (0, 1, 2, 3))(
      *args
    )
    for a, b in zip(found, expected, strict=True):
      scale = np.abs(b).max()
      np.testing.assert_allclose(a, b, rtol=0, atol=1e-10 * scale)


def test_second_derivatives():
  solve = functools.partial(tree_solve_linear, schedule=SCHEDULE)
  check_grads(solve, system(), order=2, modes=['rev'], rtol=1e-6)
  with pytest.raises(NotImplementedError, match='tree_solve_linear'):
    jax.hessian(lambda d: weighted(ours, d, *system()[1:]))(system()[0])


def test_a_symmetric_matrix_needs_one_side():
  diag, lower, _, rhs = system()

  def one(lower):
    return tree_solve(diag, lower, None, rhs, SCHEDULE)

  np.testing.assert_allclose(
    one(lower), dense_solve(diag, lower, lower, rhs), rtol=1e-12
  )
  found = jax.grad(lambda x: jnp.sum(one(x) ** 2))(lower)
  expected = jax.grad(lambda x: jnp.sum(dense_solve(diag, x, x, rhs) ** 2))(
    lower
  )
  np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(
  'axes', [(0, None, None, 0), (None, None, None, 0), (0, 0, 0, 0)]
)
def test_mapped_axes_join_the_batch(axes):
  pairs = list(zip(system(seed=1), system(seed=2), strict=True))
  args = [
    pair[0] if axis is None else jnp.stack(pair)
    for pair, axis in zip(pairs, axes, strict=True)
  ]
  gradient = jax.grad(functools.partial(weighted, ours), (0, 1, 2, 3))
  mapped = jax.vmap(gradient, axes)(*args)
  for k in range(2):
    single = [
      a if axis is None else a[k] for a, axis in zip(args, axes, strict=True)
    ]
    for a, b in zip(mapped, gradient(*single), strict=True):
      np.testing.assert_allclose(a[k], b, rtol=1e-11, atol=1e-13)
  program = str(jax.make_jaxpr(jax.vmap(ours, axes))(*args))
  assert program.count('while') + program.count('scan') <= 2


def test_constants_of_a_closure_are_solved_rightly():
  diag, lower, upper, rhs = system()
  columns = jnp.moveaxis(jnp.stack([rhs, 2 * rhs]), 0, 0)

  def mapped(b):
    return jax.vmap(lambda b: tree_solve(diag, lower, upper, b, SCHEDULE))(b)

  np.testing.assert_array_equal(
    jax.jit(mapped)(columns), jax.jit(lambda: mapped(columns))()
  )


@pytest.mark.parametrize('n', [64, 512])
def test_nothing_is_taped(n):
  """Five arrays a solve, whatever the depth of the tree; no stacking scan."""
  parent = np.arange(-1, n - 1)
  args = system(batch=8, parent=parent)
  solve = functools.partial(tree_solve, schedule=make_schedule(parent))
  _, backward = jax.vjp(solve, *args)
  stored = sum(leaf.size for leaf in jax.tree.leaves(backward))
  assert stored <= 5 * n * 8

  def scans(jaxpr):
    for equation in jaxpr.eqns:
      if equation.primitive.name == 'scan':
        yield equation
      for value in equation.params.values():
        inner = getattr(value, 'jaxpr', value)
        if hasattr(inner, 'eqns'):
          yield from scans(inner)

  gradient = jax.grad(lambda *a: jnp.sum(solve(*a)), (0, 1, 2, 3))
  program = jax.make_jaxpr(gradient)(*args)
  for equation in scans(program.jaxpr):
    stacked = len(equation.outvars) - equation.params['num_carry']
    assert stacked == 0
  # Nor a dense matrix anywhere.
  assert f'{n},{n}]' not in str(program)


def test_pivots_serve_other_right_sides_and_the_transpose():
  diag, lower, upper, rhs = system()
  x, pivots = tree_factor_solve(diag, lower, upper, rhs, SCHEDULE)
  assert isinstance(pivots, Pivots)
  np.testing.assert_allclose(
    x, dense_solve(diag, lower, upper, rhs), rtol=1e-12
  )
  other = jnp.sin(rhs)
  np.testing.assert_allclose(
    tree_resolve(pivots, lower, upper, other, SCHEDULE),
    dense_solve(diag, lower, upper, other),
    rtol=1e-11,
  )
  np.testing.assert_allclose(
    tree_resolve(pivots, lower, upper, other, SCHEDULE, transpose=True),
    dense_solve(diag, upper, lower, other),
    rtol=1e-11,
  )


def test_several_right_sides_share_a_matrix():
  diag, lower, upper, rhs = system()
  several = jnp.stack([rhs, jnp.sin(rhs)], axis=-1)
  found = tree_solve(diag, lower, upper, several, SCHEDULE)
  for r in range(2):
    np.testing.assert_allclose(
      found[..., r],
      dense_solve(diag, lower, upper, several[..., r]),
      rtol=1e-11,
    )


def test_what_roots_hold_is_ignored():
  diag, lower, upper, rhs = system()
  roots = np.flatnonzero(PARENT < 0)
  spoiled = lower.at[roots].set(7.0)
  np.testing.assert_array_equal(
    ours(diag, spoiled, upper, rhs), ours(diag, lower, upper, rhs)
  )
  slope = jax.grad(lambda x: jnp.sum(ours(diag, x, upper, rhs)))(spoiled)
  np.testing.assert_array_equal(slope[roots], 0)


def test_bad_input():
  diag, lower, upper, rhs = system()
  with pytest.raises(ValueError, match=r'rhs has the shape \(23, 3\)'):
    ours(diag, lower, upper, rhs[1:])
  with pytest.raises(ValueError, match=r'upper has the shape \(24, 2\)'):
    ours(diag, lower, upper * jnp.ones((N, 2)), rhs)
  with pytest.raises(ValueError, match='complex'):
    ours(diag + 1j, lower, upper, rhs)
  with pytest.raises(ValueError, match='implementation'):
    ours(diag, lower, upper, rhs, implementation='cuda')
  error, _ = checkify.checkify(functools.partial(ours, check=True))(
    jnp.zeros_like(diag), lower * 0, upper * 0, rhs
  )
  assert 'pivot of 0' in error.get()
