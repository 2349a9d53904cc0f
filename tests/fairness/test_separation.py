"""The rule closest to separation against grids and against itself."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.fairness import (
  OK,
  GroupScores,
  make_groups,
  min_separation,
  optimal_sufficient,
  pareto_front,
  separation_gaps,
)
from tests.fairness import oracles

pytestmark = pytest.mark.usefixtures('x64')

COUNT = 60


@functools.cache
def instances(num_groups):
  return oracles.random_instances(10 + num_groups, COUNT, num_groups)


def on_device(gs):
  return jax.tree.map(jnp.asarray, gs)


def deviation(gs, tpr_gap, fpr_gap, norm):
  base = gs.weight @ oracles.base_rates(gs)
  if norm == 'max':
    return np.maximum(tpr_gap, fpr_gap)
  if norm == 'label_weighted':
    return base * tpr_gap + (1 - base) * fpr_gap
  return 0.4 * tpr_gap + 1.7 * fpr_gap


@pytest.mark.parametrize('norm', ['sum', 'max', 'label_weighted'])
@pytest.mark.parametrize(
  'num_groups', [2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_never_loses_to_a_grid(norm, num_groups):
  batch = instances(num_groups)
  found = min_separation(
    on_device(batch), norm=norm, tpr_weight=0.4, fpr_weight=1.7
  )
  found = jax.tree.map(np.asarray, found)
  close = 0
  for i in np.flatnonzero(found.status == OK):
    gs = oracles.instance(batch, i)
    p, q = oracles.grid(gs)
    if not p.size:
      continue
    best = deviation(gs, *oracles.gaps_of(gs, p, q), norm).min()
    ours = deviation(gs, found.tpr_gap[i], found.fpr_gap[i], norm)
    assert ours <= best + 1e-12
    close += best - ours < 2e-3
    gap_tpr, gap_fpr = oracles.gaps_of(gs, found.ppv[i], found.for_[i])
    np.testing.assert_allclose(found.tpr_gap[i], gap_tpr, atol=1e-9)
    np.testing.assert_allclose(found.fpr_gap[i], gap_fpr, atol=1e-9)
    ppv, for_, loss = oracles.rates_of_rule(gs, found.rho[i])
    np.testing.assert_allclose(ppv[~np.isnan(ppv)], found.ppv[i], atol=1e-9)
    np.testing.assert_allclose(for_[~np.isnan(for_)], found.for_[i], atol=1e-9)
    np.testing.assert_allclose(loss, found.loss[i], atol=1e-9)
  assert close > 0


def test_gaps_from_the_rule():
  """TPR and FPR counted atom by atom from rho, not from the formulas."""
  batch = instances(3)
  found = jax.tree.map(np.asarray, min_separation(on_device(batch)))
  for i in np.flatnonzero(found.status == OK):
    gs = oracles.instance(batch, i)
    good, bad = gs.mass * gs.scores, gs.mass * (1 - gs.scores)
    tpr = (good * found.rho[i]).sum(axis=1) / good.sum(axis=1)
    fpr = (bad * found.rho[i]).sum(axis=1) / bad.sum(axis=1)
    total, largest = separation_gaps(jnp.asarray(tpr), jnp.asarray(fpr))
    want = found.tpr_gap[i], found.fpr_gap[i]
    np.testing.assert_allclose(total, sum(want), atol=1e-9)
    np.testing.assert_allclose(largest, max(want), atol=1e-9)


def test_gaps_are_absolute_and_over_all_pairs():
  total, largest = separation_gaps(
    jnp.array([[0.6, 0.8, 0.7], [0.1, 0.1, 0.1]]),
    jnp.array([[0.4, 0.2, 0.3], [0.5, 0.5, 0.2]]),
  )
  np.testing.assert_allclose(total, [0.4, 0.3], atol=1e-15)
  np.testing.assert_allclose(largest, [0.2, 0.3], atol=1e-15)


@pytest.mark.slow
def test_one_group_has_no_separation_to_lose():
  one = on_device(instances(1))
  np.testing.assert_allclose(
    min_separation(one).loss, optimal_sufficient(one).loss, atol=1e-12
  )


def test_with_equal_base_rates_the_tie_break_decides():
  gs = make_groups([0.9, 0.5, 0.1, 0.8, 0.2], [0, 0, 0, 1, 1])
  got = min_separation(gs, norm='max')
  np.testing.assert_allclose(got.tpr_gap + got.fpr_gap, 0, atol=1e-14)
  np.testing.assert_allclose(got.loss, optimal_sufficient(gs).loss)


def test_ties_may_go_to_the_largest_ppv():
  gs = make_groups([0.9, 0.5, 0.1, 0.8, 0.2], [0, 0, 0, 1, 1])
  # False negatives are dear: the loss would have everybody positive.
  for tie_break, ppv in ('ppv', 0.8), ('loss', 0.5):
    found = min_separation(gs, tie_break=tie_break, cost_fn=20.0)
    np.testing.assert_allclose(found.ppv, ppv, atol=1e-12)


def test_pareto_front_trades_one_for_the_other():
  batch = on_device(instances(2))
  share = jnp.linspace(0, 1, 6)
  front = pareto_front(batch, share)
  assert front.loss.shape == (COUNT, 6)
  feasible = np.asarray(front.status[:, 0]) == OK
  loss = np.asarray(front.loss)[feasible]
  gaps = np.asarray(front.tpr_gap + front.fpr_gap)[feasible]
  assert (np.diff(loss, axis=1) >= -1e-11).all()
  assert (np.diff(gaps, axis=1) <= 1e-11).all()
  np.testing.assert_allclose(
    loss[:, 0], optimal_sufficient(batch).loss[feasible], atol=1e-12
  )
  ends = min_separation(batch)
  np.testing.assert_allclose(
    gaps[:, -1], (ends.tpr_gap + ends.fpr_gap)[feasible], atol=1e-11
  )
  for n, i in enumerate(np.flatnonzero(feasible)):
    gs = oracles.instance(instances(2), i)
    p, q = oracles.grid(gs)
    values = oracles.loss_of(gs, p, q), sum(oracles.gaps_of(gs, p, q))
    for j, lam in enumerate(np.asarray(share)):
      best = ((1 - lam) * values[0] + lam * values[1]).min(initial=np.inf)
      assert (1 - lam) * loss[n, j] + lam * gaps[n, j] <= best + 1e-11


def test_order_of_groups_changes_nothing():
  batch = instances(3)
  turned = GroupScores(*(x[:, ::-1].copy() for x in batch))
  a, b = (min_separation(on_device(gs)) for gs in (batch, turned))
  np.testing.assert_allclose(a.ppv, b.ppv, atol=1e-9)
  np.testing.assert_allclose(a.tpr_gap, b.tpr_gap, atol=1e-10)


@pytest.mark.parametrize(
  ('change', 'words'),
  [
    ({'norm': 'l2'}, ['norm', 'l2', 'label_weighted']),
    ({'tie_break': 'coin'}, ['tie_break', 'coin']),
    ({'tpr_weight': -1.0}, ['tpr_weight', '-1.0']),
    ({'tpr_weight': 0.0, 'fpr_weight': 0.0}, ['fpr_weight', '0.0']),
    ({'cost_fp': 0}, ['cost_fp', '0']),
    ({'fpr_weight': 'a'}, ['fpr_weight', "'a'"]),
  ],
)
def test_names_what_is_wrong(change, words):
  with pytest.raises(UserError) as error:
    min_separation(make_groups([0.2, 0.8], [0, 0]), **change)
  for word in words:
    assert word in str(error.value)


@pytest.mark.parametrize(
  ('lambdas', 'words'),
  [
    (np.array([0.0, 1.5]), r'lambdas.*1\.5'),
    (0.5, 'lambdas must be a list of numbers .* got 0.5'),
    ('a', "lambdas must be numbers, got 'a'"),
  ],
)
def test_refuses_bad_lambdas(lambdas, words):
  gs = make_groups([0.2, 0.8], [0, 0])
  with pytest.raises(UserError, match=words):
    pareto_front(gs, lambdas)
