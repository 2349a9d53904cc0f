"""Groups all positive or all negative, and reversed rules, against grids."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.fairness import (
  INFEASIBLE,
  OK,
  TRIVIAL,
  make_groups,
  min_separation,
  optimal_sufficient,
)
from tests.fairness import oracles

pytestmark = pytest.mark.usefixtures('x64')

COUNT = 60


@functools.cache
def solved(num_groups, vacuous='closure', branch='informative'):
  batch = oracles.random_instances(20 + num_groups, COUNT, num_groups, least=3)
  found = optimal_sufficient(
    jax.tree.map(jnp.asarray, batch),
    vacuous=vacuous,
    branch=branch,
    rate_floor=0.02,
  )
  return batch, jax.tree.map(np.asarray, found)


def check_rule(gs, found, i):
  """Rates that are defined are the common ones; the loss is the rule's."""
  ppv, for_, loss = oracles.rates_of_rule(gs, found.rho[i])
  np.testing.assert_allclose(ppv[~np.isnan(ppv)], found.ppv[i], atol=1e-9)
  np.testing.assert_allclose(for_[~np.isnan(for_)], found.for_[i], atol=1e-9)
  np.testing.assert_allclose(loss, found.loss[i], atol=1e-9)


@pytest.mark.parametrize(
  'num_groups', [2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_forbidden_rates_stay_inside(num_groups):
  """Never worse than any grid point with all rates inside the floor."""
  _, closed = solved(num_groups)
  batch, found = solved(num_groups, 'forbid')
  cut = 0
  for i in range(COUNT):
    gs = oracles.instance(batch, i)
    if closed.status[i] != OK:
      assert found.status[i] == INFEASIBLE
      continue
    p, q = oracles.grid(gs, points=800, levels=21)
    rate = (oracles.base_rates(gs)[:, None] - q) / (p - q)
    inside = (rate.min(axis=0) >= 0.02) & (rate.max(axis=0) <= 0.98)
    if found.status[i] != OK:
      assert not inside.any()
      continue
    assert not found.degenerate[i]
    check_rule(gs, found, i)
    if not closed.degenerate[i]:
      np.testing.assert_allclose(found.loss[i], closed.loss[i], atol=1e-13)
      continue
    cut += 1
    rates = found.selection_rate[i]
    assert rates.min() >= 0.02 - 1e-9 and rates.max() <= 0.98 + 1e-9
    losses = oracles.loss_of(gs, p, q)[inside]
    assert found.loss[i] <= losses.min(initial=np.inf) + 1e-12
  assert cut >= 3


@pytest.mark.slow
def test_forbidden_separation_stays_inside():
  batch, closed = solved(2)
  gs = jax.tree.map(jnp.asarray, batch)
  found = min_separation(gs, vacuous='forbid', rate_floor=0.02)
  free = min_separation(gs)
  found, free = (jax.tree.map(np.asarray, x) for x in (found, free))
  for i in np.flatnonzero((found.status == OK) & free.degenerate):
    one = oracles.instance(batch, i)
    p, q = oracles.grid(one, points=800, levels=21)
    rate = (oracles.base_rates(one)[:, None] - q) / (p - q)
    inside = (rate.min(axis=0) >= 0.02) & (rate.max(axis=0) <= 0.98)
    gaps = sum(oracles.gaps_of(one, p, q))[inside]
    ours = found.tpr_gap[i] + found.fpr_gap[i]
    assert ours <= gaps.min(initial=np.inf) + 1e-11
    assert not found.degenerate[i]
  assert closed.status.shape == (COUNT,)


def exempt_losses(gs, points=400):
  """Losses of all rules with one extreme group exempt, on a grid."""
  pi = oracles.base_rates(gs)
  high, low = pi.argmax(), pi.argmin()
  others = [k for k in range(len(pi)) if k != high]
  rest = oracles.GroupScores(gs.scores[others], gs.mass[others], None, None)
  found = []
  if gs.scores[others, 0].min() >= pi[high]:
    bottom = oracles.common_for(rest, pi[[high]])[0]
    if bottom <= pi[low]:
      q = np.linspace(bottom, pi[low], points)
      found.append(oracles.loss_of(gs, pi[high], q))
  others = [k for k in range(len(pi)) if k != low]
  rest = oracles.GroupScores(gs.scores[others], gs.mass[others], None, None)
  p = np.linspace(pi[high], gs.scores[others, 0].min(), points + 1)[1:]
  if p[0] > pi[high]:
    p = p[oracles.common_for(rest, p) <= pi[low]]
    found.append(oracles.loss_of(gs, p, pi[low]))
  others = [k for k in range(len(pi)) if k not in (high, low)]
  rest = oracles.GroupScores(gs.scores[others], gs.mass[others], None, None)
  if not others or (
    gs.scores[others, 0].min() >= pi[high]
    and oracles.common_for(rest, pi[[high]])[0] <= pi[low]
  ):
    found.append(oracles.loss_of(gs, pi[[high]], pi[low]))
  return np.concatenate([np.array([np.inf]), *map(np.atleast_1d, found)])


@pytest.mark.parametrize(
  'num_groups', [2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_allowed_rules_beat_the_grid_of_exempt_rules(num_groups):
  _, closed = solved(num_groups)
  batch, found = solved(num_groups, 'allow')
  better = 0
  for i in range(COUNT):
    gs = oracles.instance(batch, i)
    best = exempt_losses(gs).min()
    if closed.status[i] == OK:
      best = min(best, closed.loss[i])
    if found.status[i] == INFEASIBLE:
      assert best == np.inf
      continue
    assert found.loss[i] <= best + 1e-12
    check_rule(gs, found, i)
    better += not found.loss[i] >= closed.loss[i] - 1e-9
  assert better > 0
  if num_groups == 2:  # one group positive, the other negative: always there
    assert (found.status != INFEASIBLE).all()


@pytest.mark.parametrize(
  'num_groups', [1, 2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_both_branches_beat_the_grid_of_reversed_rules(num_groups):
  _, closed = solved(num_groups)
  batch, found = solved(num_groups, 'closure', 'both')
  turned = 0
  for i in np.flatnonzero(closed.status == OK):
    gs = oracles.instance(batch, i)
    p, q = oracles.grid(gs)
    reversed_ = oracles.loss_of(gs, q, p)
    best = min(closed.loss[i], reversed_.min(initial=np.inf))
    assert found.loss[i] <= best + 1e-12
    check_rule(gs, found, i)
    turned += found.ppv[i] < found.for_[i]
  np.testing.assert_array_equal(found.status, closed.status)
  # A group on its own, and most others, gain nothing from a reversed rule.
  assert turned == 0 or num_groups > 1


def test_reversed_rule_that_is_cheaper():
  gs = make_groups(
    [0.55, 0.12, 0.03, 0.5, 0.35, 0.08],
    [0, 0, 0, 1, 1, 1],
    np.repeat([0.02, 0.98], 3) * np.array([0.15, 0.45, 0.4, 0.25, 0.45, 0.3]),
  )
  found = optimal_sufficient(gs, branch='both')
  np.testing.assert_allclose(
    [found.ppv, found.for_], [0.08, 0.3065], atol=1e-12
  )
  assert found.loss < optimal_sufficient(gs).loss - 0.09


@pytest.mark.slow
def test_ties_for_the_highest_base_rate_are_all_exempt():
  gs = make_groups(
    [0.7, 0.6, 0.8, 0.5, 0.3, 0.1], [0, 0, 1, 1, 2, 2], num_groups=3
  )
  assert int(optimal_sufficient(gs).status) == INFEASIBLE
  found = optimal_sufficient(gs, vacuous='allow')
  assert int(found.status) == TRIVIAL
  np.testing.assert_allclose([found.ppv, found.for_], [0.65, 0.2])
  np.testing.assert_array_equal(found.selection_rate, [1, 1, 0])
  assert bool(found.degenerate)


@functools.cache
def equal_base_rates():
  """Two groups of four tenths each, whose sums differ by rounding alone."""
  rng = np.random.default_rng(5)
  found = []
  while len(found) < COUNT:
    rows = rng.integers(0, 11, (2, 4))
    if rows[0].sum() == rows[1].sum() and (np.ptp(rows, axis=1) > 0).all():
      scores = np.r_[[0.4, 0, 0.5, 0.5, 0.8, 0.4, 0.2, 0]]
      scores = rows.ravel() / 10 if found else scores
      found.append(make_groups(scores, np.repeat([0, 1], 4), max_atoms=12))
  return jax.tree.map(lambda *x: jnp.stack(x), *found)


@pytest.mark.parametrize(
  ('vacuous', 'branch'),
  [
    ('closure', 'informative'),
    ('closure', 'both'),
    ('forbid', 'informative'),
    ('allow', 'informative'),
  ],
)
def test_base_rates_equal_up_to_rounding(vacuous, branch):
  gs = equal_base_rates()
  found = optimal_sufficient(
    gs, cost_fp=3.0, vacuous=vacuous, branch=branch, rate_floor=0.02
  )
  solved_ = np.asarray(found.status) != INFEASIBLE
  assert solved_.mean() > 0.9
  s, w, r = (np.asarray(x)[solved_] for x in (gs.scores, gs.mass, found.rho))
  cost = 3 * (1 - s) * r + s * (1 - r)
  loss = np.mean(np.sum(w * cost, axis=-1), axis=-1)
  np.testing.assert_allclose(loss, found.loss[solved_], atol=1e-9)
  rate = np.sum(w * r, axis=-1)
  np.testing.assert_allclose(rate[:, 0], rate[:, 1], atol=1e-8)


@pytest.mark.parametrize(('score', 'rate'), [(0.3, 0), (0.8, 1)])
def test_one_score_for_all_leaves_a_constant(score, rate):
  gs = make_groups([score, score], [0, 1])
  found = optimal_sufficient(gs)
  assert int(found.status) == TRIVIAL
  np.testing.assert_allclose(found.loss, min(score, 1 - score))
  np.testing.assert_array_equal(found.selection_rate, [rate, rate])
  inside = optimal_sufficient(gs, vacuous='forbid', rate_floor=0.1)
  np.testing.assert_allclose(inside.selection_rate, abs(rate - 0.1))
  assert not bool(inside.degenerate)


def test_no_constant_rule_for_unequal_base_rates():
  gs = make_groups([0.9, 0.7, 0.8, 0.5], [0, 0, 1, 1])
  found = optimal_sufficient(gs)
  assert int(found.status) == INFEASIBLE
  assert np.isnan(found.selection_rate).all()
