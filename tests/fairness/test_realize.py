"""The rules behind a PPV and a FOR, and the decisions drawn from them."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.errors import UserError
from jaxlab.fairness import (
  InfeasibleError,
  decide,
  decision_probabilities,
  make_groups,
  optimal_sufficient,
)
from jaxlab.fairness.realize import realize
from tests.fairness import oracles

pytestmark = pytest.mark.usefixtures('x64')

HOW = ['mixture', 'window', 'three_level']


def targets(count=100):
  """Groups with a rate and a number of positives inside what is possible."""
  batch = oracles.random_instances(5, 1, count)
  gs = oracles.instance(batch, 0)
  rng = np.random.default_rng(0)
  rate = rng.uniform(0.02, 0.98, count)
  after = np.cumsum(gs.mass, axis=1)
  taken = np.clip(rate[:, None] - after + gs.mass, 0, gs.mass)
  most = (taken * gs.scores).sum(axis=1)
  flat = rate * oracles.base_rates(gs)
  share = rng.uniform(0, 1, count)
  share[:10], share[10:20] = 0, 1
  return gs, rate, flat + share * (most - flat), share


@pytest.fixture(scope='module')
def rules():
  with jax.enable_x64(True):
    gs, rate, positive, share = targets()
    found = {
      how: np.asarray(
        realize(*map(jnp.asarray, (*gs[:2], rate, positive)), how=how)
      )
      for how in HOW
    }
  return gs, rate, positive, share, found


def is_random(rho):
  return (rho > 1e-9) & (rho < 1 - 1e-9)


@pytest.mark.parametrize('how', HOW)
def test_rates_are_met(rules, how):
  gs, rate, positive, _, found = rules
  rho = found[how]
  assert rho.min() >= 0 and rho.max() <= 1
  np.testing.assert_allclose((gs.mass * rho).sum(axis=1), rate, atol=1e-10)
  np.testing.assert_allclose(
    (gs.mass * gs.scores * rho).sum(axis=1), positive, atol=1e-10
  )


@pytest.mark.parametrize('how', ['mixture', 'three_level'])
def test_monotone_in_the_score(rules, how):
  gs, *_, found = rules
  real = gs.mass[:, 1:] > 0
  assert (np.diff(found[how], axis=1)[real] <= 1e-12).all()


def test_window_is_one_interval_with_two_random_atoms(rules):
  gs, *_, found = rules
  rho, real = found['window'], gs.mass > 0
  assert ((is_random(rho) & real).sum(axis=1) <= 2).all()
  for row, here in zip(rho, real, strict=True):
    inside = np.flatnonzero(row[here] > 1e-9)
    assert (row[here][inside[0] + 1 : inside[-1]] > 1 - 1e-9).all()


@pytest.mark.parametrize('how', HOW)
def test_on_the_boundary_one_atom_is_random(rules, how):
  gs, _, _, share, found = rules
  random = is_random(found[how]) & (gs.mass > 0)
  assert (random[share == 1].sum(axis=1) <= 1).all()


def test_three_levels_randomize_no_more_than_the_mixture(rules):
  gs, *_, found = rules
  mass = {how: (gs.mass * is_random(found[how])).sum(axis=1) for how in HOW}
  assert (mass['three_level'] <= mass['mixture'] + 1e-9).all()
  assert mass['three_level'].mean() < 0.9 * mass['mixture'].mean()


def test_three_levels_are_the_least_random_chord(rules):
  """Against all chords that start or end at a vertex, one by one."""
  gs, rate, positive, _, found = rules
  for i in range(20, 40):
    keep = gs.mass[i] > 0
    scores, mass = gs.scores[i][keep], gs.mass[i][keep]
    taken = np.concatenate([[0], np.cumsum(mass)])
    gained = np.concatenate([[0], np.cumsum(mass * scores)])
    line = np.linspace(0, 1, 20_001)
    costs = []
    for k in range(len(taken)):
      if abs(taken[k] - rate[i]) < 1e-9:
        continue
      slope = (positive[i] - gained[k]) / (rate[i] - taken[k])
      over = np.interp(line, taken, gained) > (
        positive[i] + slope * (line - rate[i])
      )
      if taken[k] < rate[i]:
        end = line[(line > rate[i]) & ~over]
        if end.size and end[0] < 1:
          costs.append(taken[taken >= end[0] - 1e-4][0] - taken[k])
      else:
        end = line[(line < rate[i]) & ~over]
        if end.size and end[-1] > 0:
          costs.append(taken[k] - taken[taken <= end[-1] + 1e-4][-1])
    ours = (mass * is_random(found['three_level'][i][keep])).sum()
    assert ours <= min(costs, default=1) + 1e-9


@pytest.mark.slow
def test_all_realizers_have_the_same_loss():
  batch = oracles.random_instances(2, 200, 2)
  gs = jax.tree.map(jnp.asarray, batch)
  losses = []
  for how in HOW:
    found = optimal_sufficient(gs, realize=how)
    rho = np.asarray(found.rho)
    good = batch.mass * batch.scores
    wrong = rho * (batch.mass - good) + (1 - rho) * good
    losses.append(np.sum(batch.weight * wrong.sum(axis=-1), axis=-1))
    np.testing.assert_allclose(losses[-1], found.loss, atol=1e-10)


@pytest.fixture
def rule():
  gs = make_groups(
    [0.9, 0.45, 0.05, 0.85, 0.2], [0, 0, 0, 1, 1], [1, 1, 2, 3, 2]
  )
  solution = optimal_sufficient(gs)
  rho = jnp.array([[0.9, 0.6, 0.2], [0.7, 0.1, 0.1]])
  return gs, solution._replace(rho=rho)


def test_probabilities_look_up_the_own_group(rule):
  gs, solution = rule
  scores, groups = jnp.array([0.2, 0.9, 0.05, 0.85]), jnp.array([1, 0, 0, 1])
  want = [0.1, 0.9, 0.2, 0.7]
  got = decision_probabilities(solution, gs, scores, groups)
  np.testing.assert_array_equal(got, want)
  jitted = jax.jit(decision_probabilities)
  np.testing.assert_array_equal(jitted(solution, gs, scores, groups), want)


def test_snap_takes_the_nearest(rule):
  gs, solution = rule
  scores, groups = jnp.array([0.99, 0.5, 0.0, 0.6]), jnp.array([0, 0, 1, 1])
  got = decision_probabilities(solution, gs, scores, groups, snap=True)
  np.testing.assert_array_equal(got, [0.9, 0.6, 0.1, 0.7])


@pytest.mark.parametrize(
  ('scores', 'groups', 'words'),
  [
    ([0.9, 0.33], [0, 0], ['score 0.33', 'row 1', 'group 0', 'snap']),
    ([0.2], [0], ['score 0.2', 'group 0']),
    ([0.9, 0.9], [0, 2], ['group 2', 'row 1']),
    ([0.9], [-1], ['group -1']),
    ([0.9], [0, 0], ['groups', '(2,)', '(1,)']),
    ([0.9], [2**40], ['group', 'row 0', 'unknown']),
    ([0.9], [0.5], ['groups', 'integers', '0.5']),
    ([0.9], ['a'], ['groups', "'a'"]),
    (['a'], [0], ['scores', "'a'"]),
  ],
)
def test_names_what_is_unknown(rule, scores, groups, words):
  gs, solution = rule
  with pytest.raises(UserError) as error:
    decision_probabilities(solution, gs, scores, groups)
  for word in words:
    assert word in str(error.value)


def test_nobody_needs_no_decision(rule):
  gs, solution = rule
  assert decide(jax.random.key(0), solution, gs, [], []).shape == (0,)


def test_names_of_groups_in_messages(rule):
  gs, solution = rule
  with pytest.raises(UserError, match='does not occur in young; use snap'):
    decision_probabilities(solution, gs, [0.3], [1], names=['old', 'young'])


@pytest.mark.parametrize('rates', [np.nan, np.full(2, np.nan)])
def test_no_rule_no_decisions(rule, rates):
  gs, solution = rule
  missing = solution._replace(status=jnp.int32(1), ppv=rates)
  with pytest.raises(InfeasibleError, match='the rule is infeasible'):
    decide(jax.random.key(0), missing, gs, [0.9], [0])
  several = jax.tree.map(lambda x: x[None], solution)
  with pytest.raises(UserError, match='solution must be of one instance'):
    decide(jax.random.key(0), several, gs, [0.9], [0])


def test_a_rule_keeps_its_precision(rule):
  """Applied in float32 mode it is what it was, without a warning."""
  gs, solution = rule
  scores, groups = np.array([0.9, 0.45, 0.85, 0.2]), np.array([0, 0, 1, 1])
  inside = decide(jax.random.key(0), solution, gs, scores, groups)
  with jax.enable_x64(False), warnings.catch_warnings(action='error'):
    chance = decision_probabilities(solution, gs, scores, groups)
    outside = decide(jax.random.key(0), solution, gs, scores, groups)
  np.testing.assert_array_equal(chance, [0.9, 0.6, 0.7, 0.1])
  np.testing.assert_array_equal(inside, outside)


def test_unknown_is_nan_in_traced_code(rule):
  gs, solution = rule
  got = jax.jit(decision_probabilities)(
    solution, gs, jnp.array([0.9, 0.33, 0.9]), jnp.array([0, 0, 5])
  )
  np.testing.assert_array_equal(np.isnan(got), [False, True, True])


def test_decisions_have_the_rates_of_the_rule():
  gs = make_groups(
    [0.9, 0.45, 0.05, 0.85, 0.2], [0, 0, 0, 1, 1], [1, 1, 2, 3, 2]
  )
  solution = optimal_sufficient(gs)
  rng = np.random.default_rng(0)
  n = 200_000
  groups = rng.choice(2, n, p=np.asarray(gs.weight))
  atom = np.where(
    groups == 0,
    rng.choice(3, n, p=np.asarray(gs.mass[0])),
    rng.choice(2, n, p=np.asarray(gs.mass[1, :2] / gs.mass[1, :2].sum())),
  )
  scores = np.asarray(gs.scores)[groups, atom]
  label = rng.uniform(size=n) < scores
  decision = np.asarray(decide(jax.random.key(0), solution, gs, scores, groups))
  for k in range(2):
    here = groups == k
    ppv = label[here & decision].mean()
    for_ = label[here & ~decision].mean()
    np.testing.assert_allclose(ppv, solution.ppv, atol=0.01)
    np.testing.assert_allclose(for_, solution.for_, atol=0.01)
  np.testing.assert_allclose(
    (label != decision).mean(), solution.loss, atol=0.005
  )
