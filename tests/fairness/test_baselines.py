"""The baselines against linear programs, enumeration and fairlearn."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.base import BaseEstimator

from jaxlab.errors import UserError
from jaxlab.fairness import baselines, predictive_parity, relaxed
from jaxlab.fairness.abstention import abstention
from jaxlab.fairness.grouping import make_groups
from jaxlab.fairness.sufficiency import optimal_sufficient
from jaxlab.fairness.types import GroupScores

B, M = 10, 5
COSTS = (1.0, 1.3)
EPS = (0.04, 0.06)
SOFTENED = (0, 1, B - 1)


@pytest.fixture(autouse=True, scope='module')
def double_precision():
  with jax.enable_x64(True):
    yield


def random_groups(seed: int, num_groups: int, low: float = 0.0) -> GroupScores:
  """`B` instances of 3 to M atoms; `low` > 0 pulls the scores apart.

  In the last one every score of group 0 is above every other group's.
  """
  rng = np.random.default_rng(seed)
  shape = (B, num_groups, M)
  n_atoms = rng.integers(3, M + 1, shape[:2])
  is_real = np.arange(M) < n_atoms[..., None]
  scores = np.where(is_real, rng.uniform(0.02, 0.98, shape), np.inf)
  scores[..., 0] = np.where(
    low, 1 - low * rng.random(shape[:2]), scores[..., 0]
  )
  scores[..., 1] = np.where(low, low * rng.random(shape[:2]), scores[..., 1])
  scores = -np.sort(-np.where(is_real, scores, -1), axis=-1)
  scores[-1] = np.where(is_real[-1], scores[-1] / 3, -1)
  scores[-1, 0] = np.where(is_real[-1, 0], scores[-1, 0] + 0.6, -1)
  last = np.take_along_axis(scores, n_atoms[..., None] - 1, -1)
  mass = np.where(is_real, rng.dirichlet(np.ones(M), shape[:2]) + 0.05, 0)
  weight = rng.dirichlet(5 * np.ones(num_groups), B)
  return GroupScores(
    jnp.asarray(np.where(is_real, scores, last)),
    jnp.asarray(mass / mass.sum(-1, keepdims=True)),
    jnp.asarray(weight),
    jnp.asarray(n_atoms, jnp.int32),
  )


def instances(gs: GroupScores):
  """Each instance as numpy arrays (scores, mass, weight)."""
  return zip(*(np.asarray(x) for x in gs[:3]), strict=True)


def loss_vector(s, w, g):
  """Loss of a rule is `loss_vector @ rho + constant`."""
  part = g[:, None] * w
  return (part * (COSTS[0] * (1 - s) - COSTS[1] * s)).ravel(), COSTS[
    1
  ] * np.sum(part * s)


def best_loss(s, w, g, equal=(), at_most=()):
  """Linear program over rho.

  `equal` are rows [K, m] whose group sums must agree, `at_most` are rows
  [K, m] with limits [K] for each group's sum.
  """
  num_groups, m = s.shape
  objective, constant = loss_vector(s, w, g)

  def spread(row, a):
    full = np.zeros((num_groups, m))
    full[a] = row[a]
    return full.ravel()

  equalities = [
    spread(row, a) - spread(row, 0)
    for row in equal
    for a in range(1, num_groups)
  ]
  limits = [
    (spread(row, a), limit[a])
    for row, limit in at_most
    for a in range(num_groups)
  ]
  found = linprog(
    objective,
    A_eq=np.array(equalities) if equalities else None,
    b_eq=np.zeros(len(equalities)) if equalities else None,
    A_ub=np.array([row for row, _ in limits]) if limits else None,
    b_ub=np.array([limit for _, limit in limits]) if limits else None,
    bounds=(0, 1),
  )
  return found.fun + constant if found.status == 0 else np.inf


def informative(s, w):
  """P(R=1, Y=1) of at least base rate times P(R=1)."""
  pi = np.sum(w * s, axis=1, keepdims=True)
  return w * (pi - s), np.zeros(len(s))


def ppv_between(s, w, low, high):
  return [
    (w * (low - s), np.zeros(len(s))),
    (w * (s - high), np.zeros(len(s))),
  ]


def for_between(s, w, low, high):
  pi = np.sum(w * s, axis=1)
  return [(w * (s - low), pi - low), (w * (high - s), high - pi)]


def loss_with_rate(s, w, g, between, value):
  """Least loss of informative rules with one PPV, or one FOR."""
  limits = [*between(s, w, value, value), informative(s, w)]
  return best_loss(s, w, g, at_most=limits)


def least_on_grid(s, w, g, ps, qs, wider_p=0.0, wider_q=0.0):
  """Least loss with PPV in [p, p + eps] and FOR in [q, q + eps]."""
  return min(
    best_loss(
      s,
      w,
      g,
      at_most=[
        *ppv_between(s, w, p, p + EPS[0] + wider_p),
        *for_between(s, w, q, q + EPS[1] + wider_q),
        informative(s, w),
      ],
    )
    for p, q in itertools.product(ps, qs)
  )


def loss_of_deferring(s, w, g, price, p, q):
  """Cheapest acceptances and rejections of mean score p and q."""
  part = g[:, None] * w
  num_groups, size = len(s), s.size
  rows = np.zeros((2 * num_groups, 2 * size))
  for a in range(num_groups):
    mask = (np.arange(num_groups) == a)[:, None] * w
    rows[2 * a, :size] = (mask * (s - p)).ravel()
    rows[2 * a + 1, size:] = (mask * (s - q)).ravel()
  result = linprog(
    np.concatenate(
      [(part * (1 - s - price)).ravel(), (part * (s - price)).ravel()]
    ),
    A_eq=rows,
    b_eq=np.zeros(len(rows)),
    A_ub=np.hstack([np.eye(size)] * 2),
    b_ub=np.ones(size),
    bounds=(0, 1),
  )
  return result.fun + price


@functools.cache
def solved(num_groups: int):
  """Instances and every baseline's solutions, one compilation."""
  gs = random_groups(num_groups, num_groups, low=0.25)
  names = ['bayes', 'statistical_parity', 'equal_opportunity', 'equalized_odds']
  methods = {name: getattr(baselines, name) for name in names}
  methods['ppv'] = predictive_parity.predictive_parity_ppv
  methods['for_'] = predictive_parity.predictive_parity_for
  methods['single'] = lambda gs, **kw: baselines.single_threshold(gs, 0.4, **kw)
  methods['sufficient'] = optimal_sufficient
  methods['pleiss'] = relaxed.calibrated_eq_odds
  methods['thresholds'] = lambda gs, **kw: baselines.group_thresholds(
    gs, max_gap=0.2, **kw
  )

  def solve(gs):
    return {
      name: method(gs, cost_fp=COSTS[0], cost_fn=COSTS[1])
      for name, method in methods.items()
    }

  return gs, jax.jit(jax.vmap(solve))(gs)


CRITERIA = {
  'bayes': lambda s, w: [],
  'statistical_parity': lambda s, w: [w],
  'equal_opportunity': lambda s, w: [w * s / np.sum(w * s, 1, keepdims=True)],
  'equalized_odds': lambda s, w: [
    w * s / np.sum(w * s, 1, keepdims=True),
    w * (1 - s) / np.sum(w * (1 - s), 1, keepdims=True),
  ],
}


@pytest.mark.parametrize(
  'num_groups', [2, pytest.param(3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize('name', list(CRITERIA))
def test_linear_criteria_reach_the_linear_program(name, num_groups):
  gs, solutions = solved(num_groups)
  solution = solutions[name]
  for i, (s, w, g) in enumerate(instances(gs)):
    rows = CRITERIA[name](s, w)
    rho = np.asarray(solution.rho[i])
    assert rho.min() >= 0 and rho.max() <= 1
    for row in rows:
      assert np.ptp(np.sum(row * rho, axis=1)) < 1e-12
    objective, constant = loss_vector(s, w, g)
    assert objective @ rho.ravel() + constant == pytest.approx(
      best_loss(s, w, g, equal=rows), abs=1e-9
    )
    assert float(solution.loss[i]) == pytest.approx(
      objective @ rho.ravel() + constant, abs=1e-12
    )


@pytest.mark.parametrize(
  'num_groups', [2, pytest.param(3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize('rate', ['ppv', 'for_'])
def test_predictive_parity_of_one_rate(rate, num_groups):
  gs, solutions = solved(num_groups)
  solution = solutions[rate]
  checked = 0
  for i, (s, w, g) in enumerate(instances(gs)):
    if solution.status[i]:
      continue
    pi = np.sum(w * s, axis=1)
    between = ppv_between if rate == 'ppv' else for_between
    ends = (
      (pi.max(), s.max(1).min())
      if rate == 'ppv'
      else (s.min(1).max(), pi.min())
    )

    at = functools.partial(loss_with_rate, s, w, g, between)
    values = np.asarray(getattr(solution, rate)[i])
    if np.isnan(values).all():  # a constant rule
      own = float(solution.loss[i])
    else:
      assert np.nanmax(values) - np.nanmin(values) < 1e-9
      own = at(np.nanmean(values))
      checked += 1
    assert float(solution.loss[i]) == pytest.approx(own, abs=1e-9)
    grid = np.linspace(*ends, 21)
    assert own <= min(map(at, grid)) + 1e-9
  assert checked >= 3


@functools.cache
def softened():
  """Soft sufficiency of some instances at EPS, no gap and any gap."""
  gs, solutions = jax.tree.map(lambda x: x[jnp.array(SOFTENED)], solved(3))
  gaps = jnp.array([EPS, (0.0, 0.0), (1.0, 1.0)])

  def solve(gs, eps):
    return relaxed.soft_sufficiency(
      gs, eps[0], eps[1], cost_fp=COSTS[0], cost_fn=COSTS[1]
    )

  solve = jax.vmap(jax.vmap(solve, (None, 0)), (0, None))
  return gs, solutions, jax.jit(solve)(gs, gaps)


@pytest.mark.slow
def test_soft_sufficiency_keeps_gaps_and_beats_a_grid():
  gs, _, soft = softened()
  solution = jax.tree.map(lambda x: x[:, 0], soft)
  checked = 0
  for i, (s, w, g) in enumerate(instances(gs)):
    pi = np.sum(w * s, axis=1)
    ps = np.linspace(pi.max() - EPS[0], s.max(1).min(), 7)
    qs = np.linspace(s.min(1).max() - EPS[1], pi.min(), 7)
    least = functools.partial(least_on_grid, s, w, g)
    if solution.status[i]:
      assert ps[0] > ps[-1] or least(ps, qs) == np.inf
      continue
    ppv, for_ = np.asarray(solution.ppv[i]), np.asarray(solution.for_[i])
    assert np.nanmax(ppv) - np.nanmin(ppv) <= EPS[0] + 1e-9
    assert np.nanmax(for_) - np.nanmin(for_) <= EPS[1] + 1e-9
    loss = float(solution.loss[i])
    assert loss <= least(ps, qs) + 1e-9
    # Wider bands around a grid cover every choice of p and q.
    bound = least(ps[:-1], qs[:-1], ps[1] - ps[0], qs[1] - qs[0])
    assert bound - 1e-9 <= loss
    checked += 1
  assert checked == 2


@pytest.mark.parametrize(
  'num_groups', [2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_group_thresholds_by_enumeration(num_groups):
  gs, solutions = solved(num_groups)
  solution = solutions['thresholds']
  for i, (s, w, g) in enumerate(instances(gs)):
    n_atoms = np.asarray(gs.n_atoms[i])
    objective, constant = loss_vector(s, w, g)
    best = np.inf
    for kept in itertools.product(*(range(n + 1) for n in n_atoms)):
      rho = (np.arange(M) < np.array(kept)[:, None]).astype(float)
      rates = []
      for r in (rho, 1 - rho):
        mass = np.sum(w * r, 1)
        defined = mass > 1e-12
        if defined.any():
          rates.append(
            np.ptp(np.sum(w * s * r, 1) / mass) if defined.all() else np.inf
          )
      if max(rates) <= 0.2:
        best = min(best, objective @ rho.ravel() + constant)
    if np.isinf(best):
      assert solution.status[i] == 1 and np.isnan(solution.loss[i])
    else:
      assert float(solution.loss[i]) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(
  'num_groups', [2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_mixing_equalises_the_costs_of_scores(num_groups):
  gs, solutions = solved(num_groups)
  shares, feasibles = jax.vmap(relaxed.calibrated_mixing)(gs)
  tau = COSTS[0] / sum(COSTS)
  checked = 0
  for i, (s, w, _) in enumerate(instances(gs)):
    share, feasible = shares[i], feasibles[i]
    pi = np.sum(w * s, axis=1)
    own = np.sum(w * s * (1 - s), axis=1) / pi
    assert bool(feasible) == bool(own.max() <= np.min(1 - pi))
    assert bool(feasible) == (int(solutions['pleiss'].status[i]) == 0)
    if not feasible:
      continue
    # The mixed score has the cost of each part in its share.
    costs = (1 - share) * own + share * (1 - pi)
    np.testing.assert_allclose(costs, own.max(), atol=1e-12)
    follow = np.asarray(1 - share)[:, None] * (s >= tau)
    rho = follow + np.asarray(share)[:, None] * (pi >= tau)[:, None]
    np.testing.assert_allclose(solutions['pleiss'].rho[i], rho, atol=1e-12)
    checked += 1
  assert checked >= 2


@pytest.mark.slow
def test_soft_sufficiency_between_sufficiency_and_bayes():
  _, solutions, soft = softened()
  _, none, wide = np.moveaxis(np.asarray(soft.loss), 1, 0)
  assert np.isfinite(none).sum() == 2
  np.testing.assert_allclose(none, solutions['sufficient'].loss, atol=1e-9)
  np.testing.assert_allclose(wide, solutions['bayes'].loss, atol=1e-9)


def test_withholding_reaches_the_linear_program():
  gs = jax.tree.map(lambda x: x[:3], random_groups(7, 2, low=0.25))
  price = 1.5
  solve = jax.jit(jax.vmap(lambda gs: abstention(gs, cost_withheld=price)))
  found = solve(gs)
  for i, (s, w, g) in enumerate(instances(gs)):
    assert found.status[i] == 0
    accept, reject = np.asarray(found.accept[i]), np.asarray(found.reject[i])
    assert min(accept.min(), reject.min(), (1 - accept - reject).min()) > -1e-12
    at = functools.partial(loss_of_deferring, s, w, g, price)
    loss = float(found.loss[i])
    assert loss == pytest.approx(at(found.ppv[i], found.for_[i]), abs=1e-9)
    pi = np.sum(w * s, axis=1)
    grid = itertools.product(
      np.linspace(pi.max(), s.max(1).min(), 7),
      np.linspace(s.min(1).max(), pi.min(), 7),
    )
    assert loss <= min(itertools.starmap(at, grid)) + 1e-9
    own = g @ np.sum(w * (accept * (1 - s) + reject * s), axis=1)
    own += price * g @ np.asarray(found.withheld[i])
    assert loss == pytest.approx(own, abs=1e-9)


@pytest.mark.parametrize(
  'num_groups', [2, pytest.param(3, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize('name', ['ppv', 'for_', 'thresholds'])
def test_groups_out_of_reach_are_infeasible(name, num_groups):
  solution = jax.tree.map(lambda x: x[-1], solved(num_groups)[1][name])
  assert int(solution.status) == 1 and np.isnan(solution.loss)


@pytest.mark.slow
def test_wide_gaps_reach_every_group():
  soft = jax.tree.map(lambda x: x[-1], softened()[2])
  np.testing.assert_array_equal(soft.status, [1, 1, 0])
  np.testing.assert_array_equal(np.isnan(soft.loss), [True, True, False])


def test_too_many_combinations_are_refused():
  gs = GroupScores(*(jnp.ones(shape) for shape in [(3, 999), (3, 999), 3, 3]))
  with pytest.raises(ValueError, match='1e\\+09 combinations'):
    baselines.group_thresholds(gs, max_gap=0.1)


RULES = {
  'bayes': baselines.bayes,
  'single': functools.partial(baselines.single_threshold, threshold=0.5),
  'thresholds': functools.partial(baselines.group_thresholds, max_gap=0.1),
  'parity': baselines.statistical_parity,
  'opportunity': baselines.equal_opportunity,
  'odds': baselines.equalized_odds,
  'ppv': predictive_parity.predictive_parity_ppv,
  'for': predictive_parity.predictive_parity_for,
  'soft': functools.partial(relaxed.soft_sufficiency, eps_p=0.1, eps_q=0.1),
  'mixed': relaxed.calibrated_eq_odds,
  'withheld': abstention,
}
BAD = [('cost_fp', 0.0), ('cost_fp', -1), ('cost_fn', np.nan), ('cost_fn', 'a')]


@pytest.mark.parametrize(
  ('name', 'argument', 'value'),
  [
    *((name, *BAD[i % len(BAD)]) for i, name in enumerate(RULES)),
    ('bayes', 'cost_fp', np.inf),
    ('single', 'threshold', np.nan),
    ('thresholds', 'max_gap', -0.1),
    ('soft', 'eps_p', -0.1),
    ('soft', 'eps_q', np.nan),
    ('mixed', 'fnr_weight', -1),
    ('withheld', 'cost_withheld', -1),
  ],
)
def test_bad_numbers_are_named(name, argument, value):
  gs = make_groups([0.2, 0.8, 0.3, 0.9], [0, 0, 1, 1])
  with pytest.raises(UserError, match=f'{argument} must be .* got {value!r}'):
    RULES[name](gs, **{argument: value})


def test_single_threshold():
  gs, solutions = solved(2)
  for i, (s, w, _) in enumerate(instances(gs)):
    np.testing.assert_allclose(
      solutions['single'].selection_rate[i], np.sum(w * (s >= 0.4), axis=1)
    )


def test_against_fairlearn():
  postprocessing = pytest.importorskip('fairlearn.postprocessing')
  rng = np.random.default_rng(0)
  n = 2000
  group = (rng.random(n) < 0.3).astype(int)
  level = np.clip(rng.binomial(9, np.where(group, 0.35, 0.6)), 0, 9)
  y = (rng.random(n) < (level + 1 + group) / 12).astype(int)
  # Scores calibrated on these very rows.
  cell = 10 * group + level
  score = np.bincount(cell, y, 20) / np.maximum(
    np.bincount(cell, minlength=20), 1
  )
  score = score[cell]
  gs = make_groups(score, group)

  class Scores(BaseEstimator):
    def fit(self, X, y):
      self.fitted_ = True
      return self

    def predict(self, X):
      return X[:, 0]

  methods = {
    'demographic_parity': baselines.statistical_parity,
    'true_positive_rate_parity': baselines.equal_opportunity,
    'equalized_odds': baselines.equalized_odds,
  }
  losses = jax.jit(
    lambda gs: {name: method(gs).loss for name, method in methods.items()}
  )(gs)
  for constraint, loss in losses.items():
    peer = postprocessing.ThresholdOptimizer(
      estimator=Scores().fit(None, None),
      prefit=True,
      constraints=constraint,
      objective='accuracy_score',
      grid_size=1000,
      predict_method='predict',
    ).fit(score[:, None], y, sensitive_features=group)
    chance = peer._pmf_predict(score[:, None], sensitive_features=group)
    accuracy = np.mean(chance[np.arange(n), y])
    ours = 1 - float(loss)
    assert ours >= accuracy - 1e-12
    assert ours <= accuracy + 2e-3
