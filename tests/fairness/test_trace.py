"""The sequential walk against the polylines and the vector solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.fairness import (
  OK,
  make_groups,
  optimal_sufficient,
  trace_boundary,
  trace_optimum,
)
from tests.fairness import oracles

pytestmark = pytest.mark.usefixtures('x64')

COUNT = 100


@pytest.fixture(scope='module')
def traced():
  with jax.enable_x64(True):
    gs = oracles.random_instances(2, COUNT, 2)
    device = jax.tree.map(jnp.asarray, gs)
    trace = jax.vmap(trace_boundary)(device)
    return gs, device, trace


def test_pieces_are_the_common_boundary(traced):
  batch, _, trace = traced
  for i in range(COUNT):
    gs = oracles.instance(batch, i)
    one = jax.tree.map(lambda x, i=i: np.asarray(x[i]), trace)
    long = one.right - one.left > 1e-9
    if oracles.base_rates(gs).max() >= gs.scores[:, 0].min():
      assert not long.any()
      continue
    for share in (0.01, 0.5, 0.99):
      p = one.left + share * (one.right - one.left)
      q = one.slope - one.below * (p - one.slope) / np.where(
        one.below > 0, p - one.pi - one.below, 1
      )
      want = oracles.common_for(gs, p[long])
      np.testing.assert_allclose(q[long], want, atol=1e-11)
    # The pieces tile the interval from the right to the left.
    np.testing.assert_array_equal(one.left[:-1], one.right[1:])
    assert one.right[0] == gs.scores[:, 0].min()
    np.testing.assert_allclose(
      one.left[-1], oracles.base_rates(gs).max(), atol=1e-15
    )
    row = one.group[long], one.edge[long]
    np.testing.assert_array_equal(one.slope[long], gs.scores[row])


@pytest.mark.parametrize('costs', [(1.0, 1.0), (3.0, 1.0)])
def test_optimum_agrees_with_the_vector_solver(traced, costs):
  _, device, trace = traced
  p, q, loss = jax.vmap(lambda g, t: trace_optimum(g, t, *costs))(device, trace)
  want = optimal_sufficient(device, cost_fp=costs[0], cost_fn=costs[1])
  np.testing.assert_allclose(loss, want.loss, atol=1e-12)
  assert (np.asarray(want.status) == OK).sum() > 20
  np.testing.assert_allclose(p, want.ppv, atol=1e-8)
  np.testing.assert_allclose(q, want.for_, atol=1e-8)


def test_refuses_three_groups():
  with pytest.raises(UserError, match='two groups'):
    trace_boundary(make_groups([0.1, 0.2, 0.3], [0, 1, 2]))
