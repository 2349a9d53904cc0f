"""Tree contraction against NumPy and by the shape of its rounds."""

import jax
import numpy as np
import pytest

from kernels_pallas.tree_solver import contract
from kernels_pallas.tree_solver.schedule import make_schedule

solve = jax.jit(contract.solve, static_argnums=4)


@pytest.mark.parametrize(
  ('shared', 'kind'), [(True, 'contract'), (False, 'dhs')]
)
def test_equals_numpy(shared, kind, dtype, make_system, assert_near):
  system = make_system(60, 4, dtype, shared)
  schedule = make_schedule(system.parent, kind)
  x = solve(*system.matrix, system.rhs, schedule)
  assert x.dtype == dtype
  assert_near(x, system.x)


@pytest.mark.parametrize(
  'parent', [[-1], [-1, -1], [-1] + [0] * 20, range(-1, 32)]
)
def test_extreme_trees(parent, make_system, assert_near):
  parent = np.array(parent)
  system = make_system(len(parent), 2, parent=parent)
  schedule = make_schedule(parent, 'contract')
  assert_near(solve(*system.matrix, system.rhs, schedule), system.x)


def test_a_chain_takes_a_logarithm_of_rounds():
  for n in (33, 1025):
    schedule = make_schedule(range(-1, n - 1), 'contract')
    rounds = contract.contraction_rounds(schedule)
    assert len(rounds) == np.log2(n - 1) + 1
    assert sum(len(r.nodes) for r in rounds) == n - 1


def test_rows_that_meet_in_a_round_are_no_neighbours(make_system):
  """What a round reads of a node, no other node of the round writes."""
  schedule = make_schedule(make_system(200, 1).parent, 'contract')
  for nodes, parents, children in contract.contraction_rounds(schedule):
    gone = set(nodes.tolist())
    assert not gone & set(parents.tolist())
    assert not gone & set(children.tolist())
    assert len(set(children.tolist())) == len(children)


def test_gradient_by_autodiff_equals_the_adjoint(make_system, assert_near):
  system = make_system(30, 2)

  def loss(diag, rhs):
    x = contract.solve(diag, *system.matrix[1:], rhs, schedule)
    return (x * system.cotangent).sum()

  schedule = make_schedule(system.parent, 'contract')
  gradient = jax.jit(jax.grad(loss, argnums=(0, 1)))
  found = gradient(system.diag, system.rhs)
  assert_near(found[0], system.gradients[0])
  assert_near(found[1], system.gradients[3])
