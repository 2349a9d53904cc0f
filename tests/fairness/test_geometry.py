"""Boundaries and feasible sets against linear programs and polylines."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.fairness import (
  INFEASIBLE,
  OK,
  TRIVIAL,
  GroupScores,
  InfeasibleError,
  feasible_region,
  for_lower,
  group_boundary,
  make_groups,
  optimal_sufficient,
  require_feasible,
)
from tests.fairness import oracles

pytestmark = pytest.mark.usefixtures('x64')


@pytest.fixture
def batch():
  return oracles.random_instances(0, 30, 2)


def on_device(gs):
  return jax.tree.map(jnp.asarray, gs)


def test_lower_for_against_linear_program(batch):
  boundary = group_boundary(on_device(batch))
  share = np.linspace(0.03, 1, 5)
  for i in range(8):
    gs = oracles.instance(batch, i)
    pi, top = oracles.base_rates(gs), gs.scores[:, 0]
    for k in range(2):
      p = pi[k] + share * (top[k] - pi[k])
      one = jax.tree.map(lambda x, i=i, k=k: x[i, k], boundary)
      got = for_lower(one, jnp.asarray(p))
      keep = gs.mass[k] > 0
      want = [
        oracles.lp_lower_for(gs.scores[k][keep], gs.mass[k][keep], x) for x in p
      ]
      np.testing.assert_allclose(got, want, atol=1e-10)


def test_boundary_is_the_polyline(batch):
  boundary = group_boundary(on_device(batch))
  np.testing.assert_allclose(
    boundary.M[..., 1:], np.cumsum(batch.mass, axis=-1), atol=1e-14
  )
  gained = np.cumsum(batch.mass * batch.scores, axis=-1)
  np.testing.assert_allclose(boundary.N[..., 1:], gained, atol=1e-14)
  intercept = boundary.N[..., :-1] - batch.scores * boundary.M[..., :-1]
  np.testing.assert_allclose(boundary.c, intercept, atol=1e-14)
  assert np.all(np.diff(boundary.P, axis=-1) <= 1e-15)
  np.testing.assert_array_equal(boundary.P[..., -1], boundary.pi)


def test_lower_for_is_nan_outside(batch):
  boundary = jax.tree.map(lambda x: x[0], group_boundary(on_device(batch)))
  p = jnp.stack([boundary.pi, boundary.P[:, 0], boundary.P[:, 0] + 1e-6])
  got = jnp.diagonal(for_lower(boundary, p), axis1=0, axis2=2)
  np.testing.assert_array_equal(
    np.isnan(got), [[True, True], [False, False], [True, True]]
  )


def test_region_against_polylines(batch):
  region = feasible_region(on_device(batch), n_points=9)
  for i in range(30):
    gs = oracles.instance(batch, i)
    feasible = oracles.is_feasible(gs)
    assert int(region.status[i]) == (OK if feasible else INFEASIBLE)
    assert np.isnan(region.pmax[i]) != feasible
    if not feasible:
      assert np.isnan(region.intersection[i]).all()
      continue
    np.testing.assert_allclose(region.q_at_lo[i], oracles.q_at_lo(gs))
    p, q = np.asarray(region.intersection[i][1:-2]).T
    np.testing.assert_allclose(q, oracles.common_for(gs, p), atol=1e-12)
    cap = oracles.base_rates(gs).min()
    after = region.pmax[i] + 1e-7
    assert oracles.common_for(gs, region.pmax[i : i + 1])[0] <= cap + 1e-9
    assert after > region.hi[i] or oracles.common_for(gs, [after])[0] > cap
    for k in range(2):
      p, q = np.asarray(region.polygons[i, k][1:-2]).T
      want = oracles.lower_for(gs.scores[k], gs.mass[k], p)
      np.testing.assert_allclose(q, want, atol=1e-12)


def test_a_lowest_score_just_above_the_cap_is_infeasible():
  # Dividing by 1 - mu next to mu = 1 would find a point here.
  first = [0.85475816, 0.78275599, 0.60964402, 0.30146862, 0.15864577]
  gs = make_groups(
    [*first, 0.78860061, 0.60644647, 0.37935927],
    [0] * 5 + [1] * 3,
    [0.0904, 0.0376, 0.1601, 0.4193, 0.2926, 0.2971, 0.1195, 0.5834],
  )
  region = feasible_region(gs, n_points=9)
  assert int(region.status) == INFEASIBLE
  assert float(region.q_at_lo) == 0.37935927


def test_a_single_point_is_trivial():
  # Base rates .5 and .3: all positive in group 0, all negative in group 1.
  gs = make_groups([0.7, 0.3, 0.5, 0.1], [0, 0, 1, 1])
  region = feasible_region(gs, n_points=9)
  np.testing.assert_allclose(
    [region.lo, region.pmax, region.q_at_lo, region.qcap],
    [0.5, 0.5, 0.3, 0.3],
    atol=1e-15,
  )
  assert int(region.status) == TRIVIAL
  solution = optimal_sufficient(gs)
  assert int(solution.status) == TRIVIAL
  np.testing.assert_array_equal(solution.rho, [[1, 1], [0, 0]])


def test_atoms_of_mass_zero_change_nothing(batch):
  gs = oracles.instance(batch, 3)
  more = GroupScores(
    np.insert(gs.scores, [0, 3, 12], [[0.999, 0.5, 0.0001]] * 2, axis=1),
    np.insert(gs.mass, [0, 3, 12], 0.0, axis=1),
    gs.weight,
    gs.n_atoms + 3,
  )
  order = np.argsort(-more.scores, axis=1)
  more = more._replace(
    scores=np.take_along_axis(more.scores, order, 1),
    mass=np.take_along_axis(more.mass, order, 1),
  )
  a, b = (feasible_region(on_device(x), n_points=9) for x in (gs, more))
  for name in ('polygons', 'intersection', 'lo', 'hi', 'pmax', 'q_at_lo'):
    np.testing.assert_allclose(
      getattr(a, name), getattr(b, name), atol=1e-13, err_msg=name
    )


@pytest.mark.parametrize(
  ('scores', 'words'),
  [
    (
      [0.9, 0.8, 0.2, 0.1],
      r'lo = 0.85, .*old, .* hi = 0.2, .*young, but lo',
    ),
    ([0.9, 0.7, 0.9, 0.1], r'\[0.8, 0.9\] .* \[0.7, 0.5\], but Q\(lo\) > qcap'),
  ],
)
def test_require_feasible_names_the_limits(scores, words):
  gs = make_groups(scores, [0, 0, 1, 1])
  rule = optimal_sufficient(gs)
  with pytest.raises(InfeasibleError, match=words) as error:
    require_feasible(rule, gs, ['old', 'young'])
  assert 'qcap' in str(error.value)
  batch = jax.tree.map(lambda x: jnp.stack([x, x]), (rule, gs))
  status = jnp.array([OK, INFEASIBLE])
  with pytest.raises(InfeasibleError, match='instance 1: no rule gives'):
    require_feasible(batch[0]._replace(status=status), batch[1])
  fine = batch[0]._replace(status=jnp.array([OK, OK]))
  assert require_feasible(fine, batch[1]) is fine
