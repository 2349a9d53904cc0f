"""Uniform allocation, halving, rejects and Hyperband."""

import functools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxlab import bandits, parallel
from jaxlab.bandits import elimination_plan
from jaxlab.bandits.halving import doubling_plan, largest_subset
from tests.bandits import enumeration

KEY = jax.random.key(11)


@pytest.fixture(autouse=True, scope='module')
def fast_compiles():
  """Programs that run once: their compilation is most of the time."""
  before = jax.config.values['jax_disable_most_optimizations']
  jax.config.update('jax_disable_most_optimizations', True)
  yield
  jax.config.update('jax_disable_most_optimizations', before)


def simulated(algorithm, env, budget, replications, checkpoints=None):
  return bandits.simulate(
    KEY,
    algorithm,
    env,
    budget=budget,
    replications=replications,
    checkpoints=checkpoints,
  )


def mapped(function, keys, env):
  """Maps over keys in one program; programs that run once compile fast."""
  fast = {'xla_backend_optimization_level': 0}
  each = jax.vmap(function, (0, None))
  return jax.jit(each, compiler_options=fast)(keys, env)


def engine_run(algorithm, budget, checkpoints):
  def play(key, env):
    key, reward_key = jax.random.split(key)
    arms = algorithm.engine.enter(key, env.num_arms, budget)
    taken = env.take(arms)
    result = algorithm.engine.play(
      key, reward_key, taken, env.num_arms, budget, checkpoints
    )
    true_means = taken.mean(reward_key, result.arms)
    return result._replace(arms=arms[result.arms]), true_means, arms

  return play


def step_run(algorithm, budget, checkpoints):
  return lambda key, env: bandits.run(key, algorithm, env, budget, checkpoints)


def test_sequential_halving_plan():
  plan = bandits.sequential_halving_plan
  assert plan(8, 96) == (((8, 4), (4, 8), (2, 16)), 96)
  assert plan(10, 100) == (((10, 2), (5, 5), (3, 8), (2, 12)), 93)
  assert plan(1, 5) == ((), 0)


@pytest.mark.parametrize('budget', [1, 2, 7, 16, 100, 1999, 2000])
def test_largest_subset(budget):
  fits = [c for c in range(1, 400) if c * math.ceil(math.log2(c)) <= budget]
  assert largest_subset(budget) == max(fits)


@pytest.mark.parametrize('num_arms,budget', [(4, 100), (20, 1000), (61, 70)])
def test_successive_rejects_plan(num_arms, budget):
  plan = bandits.successive_rejects_plan(num_arms, budget)
  logbar = Fraction(1, 2) + sum(Fraction(1, i) for i in range(2, num_arms + 1))
  expected = [
    math.ceil((budget - num_arms) / (logbar * (num_arms + 1 - k)))
    for k in range(1, num_arms)
  ]
  assert list(plan.n_k) == expected
  # The arm dropped in phase k has n_k pulls, the last one as many as the last.
  assert plan.total == sum(expected) + expected[-1] <= budget
  assert np.cumsum(plan.new_pulls_per_phase).tolist() == expected


def test_hyperband_plan():
  assert bandits.hyperband_plan(3, 9).brackets == (
    ((9, 1), (3, 3), (1, 9)),
    ((5, 3), (1, 9)),
    ((3, 9),),
  )
  first = [b[0] for b in bandits.hyperband_plan(3, 81).brackets]
  assert first == [(81, 1), (34, 3), (15, 9), (8, 27), (5, 81)]
  # R is no power of eta: floating-point logarithms would lose a bracket.
  assert len(bandits.hyperband_plan(3, 243).brackets) == 6
  assert bandits.hyperband_plan(3, 10).brackets[0] == ((9, 1), (3, 3), (1, 10))


def test_doubling_passes_fit_their_budgets():
  plan = doubling_plan(20, 500, 8)
  stages = [[r for r in plan if r.stage == k] for k in range(7)]
  assert [rounds[0].arms for rounds in stages] == [4, 5, 8, 16, 20, 20, 20]
  for k, rounds in enumerate(stages):
    assert sum(r.arms * r.pulls for r in rounds) <= 8 * 2**k
  assert [r.rank > 0 for r in plan if r.stage == 2] == [False, False, True]


# One shape of run for all tests: each algorithm is compiled once.
NUM_ARMS, BUDGET, POINTS = 12, 60, (1, 2, 9, 21, 60)
REPLICATIONS = 10_000
ALGORITHMS = {
  'uniform': bandits.uniform(54),
  'halving': bandits.sequential_halving(BUDGET),
  'rejects': bandits.successive_rejects(BUDGET),
  'doubling': bandits.doubling_sh(),
  'hyperband': bandits.hyperband(2, 4),
}
every_algorithm = pytest.mark.parametrize('name', ALGORITHMS)


@functools.cache
def standard_run(name, mu, sigma):
  return bandits.simulate(
    KEY,
    ALGORITHMS[name],
    bandits.gaussian(np.asarray(mu), sigma),
    budget=BUDGET,
    replications=REPLICATIONS,
    checkpoints=POINTS,
  )


STEPS = tuple(np.linspace(0, 1, NUM_ARMS))


@pytest.mark.parametrize(
  'name',
  [
    'uniform',
    'halving',
    pytest.param('rejects', marks=pytest.mark.slow),
    pytest.param('hyperband', marks=pytest.mark.slow),
  ],
)
def test_engine_equals_ask_and_tell(name):
  found = standard_run(name, STEPS, 0.5)
  env = bandits.gaussian(np.asarray(STEPS), 0.5)
  keys = parallel.replication_keys(KEY, REPLICATIONS)[:100]
  expected = mapped(step_run(ALGORITHMS[name], BUDGET, POINTS), keys, env)
  for field in ('arms', 'pulls', 'spent', 'pending'):
    np.testing.assert_array_equal(
      getattr(found, field)[:100], getattr(expected, field), err_msg=field
    )
  np.testing.assert_allclose(found.means[:100], expected.means, atol=1e-5)


def test_recorded_rewards_are_not_used_twice_across_stages():
  rewards = np.random.default_rng(0).normal(size=(5, 60)).astype(np.float32)
  algorithm, points = bandits.doubling_sh(), (3, 60, 120)
  keys = jax.random.split(KEY, 60)
  play = engine_run(algorithm, 120, points)
  found, _, _ = mapped(play, keys, bandits.table(rewards))
  steps = mapped(step_run(algorithm, 120, points), keys, bandits.table(rewards))
  for field in ('arms', 'pulls', 'spent', 'pending'):
    np.testing.assert_array_equal(getattr(found, field), getattr(steps, field))
  np.testing.assert_allclose(found.means, steps.means, atol=1e-5)


@every_algorithm
def test_equal_arms_are_recommended_equally_often(name):
  result = standard_run(name, (0.5,) * NUM_ARMS, 0.0)
  for arms in result.arms.T:
    counts = np.bincount(arms, minlength=NUM_ARMS)
    assert stats.chisquare(counts).pvalue > 1e-4


# Without noise the best arm is missed only where it did not take part:
# - doubling: the last finished pass has 32 pulls for 8 arms in 3 rounds;
# - Hyperband: 4, 3 and 3 arms are led to 4 pulls for R = 4, and 8 for R = 8.
CHANCE_TO_MISS = {
  'uniform': 0,
  'halving': 0,
  'rejects': 0,
  'doubling': 4 / 12,
  'hyperband': 8 / 12 * 9 / 12 * 9 / 12 * 4 / 12,
}


@every_algorithm
@pytest.mark.parametrize('best', [0, 7])
def test_finds_the_best_arm_that_took_part(name, best):
  mu = np.roll(STEPS[::-1], best)
  result = standard_run(name, tuple(mu), 0.0)
  missed = np.mean(result.arms[:, -1] != best)
  p = CHANCE_TO_MISS[name]
  assert abs(missed - p) <= 5 * math.sqrt(p * (1 - p) / REPLICATIONS)
  np.testing.assert_allclose(result.means[:, 2:], result.true_means[:, 2:])


@every_algorithm
def test_labels_do_not_matter(name):
  regrets = [
    1 - standard_run(name, mu, 0.5).true_means for mu in (STEPS, STEPS[::-1])
  ]
  variance = sum(r.var(0) / len(r) for r in regrets)
  difference = regrets[0].mean(0) - regrets[1].mean(0)
  assert np.all(np.abs(difference) < 5 * np.sqrt(variance))


@every_algorithm
def test_accounts_for_every_pull(name):
  result = standard_run(name, STEPS, 0.5)
  planned = {
    'uniform': 54,
    'halving': bandits.sequential_halving_plan(NUM_ARMS, BUDGET).total,
    'rejects': bandits.successive_rejects_plan(NUM_ARMS, BUDGET).total,
  }
  total = np.minimum(POINTS, planned.get(name, BUDGET))
  np.testing.assert_array_equal(
    result.spent + result.pending, np.tile(total, (REPLICATIONS, 1))
  )
  if name in planned:
    assert result.spent[0, -1] == planned[name]


@pytest.mark.parametrize(
  'algorithm,exact,mu,budget',
  [
    (
      bandits.sequential_halving(16, samples='pooled'),
      lambda mu, t: enumeration.sequential_halving(mu, t, samples='pooled'),
      ['1/5', '2/5', '3/5', '9/10'],
      16,
    ),
    (
      bandits.successive_rejects(14),
      enumeration.successive_rejects,
      ['1/5', '2/5', '3/5', '9/10'],
      14,
    ),
  ],
)
def test_exact_distribution(algorithm, exact, mu, budget):
  mu = [Fraction(p) for p in mu]
  expected = np.asarray([float(p) for p in exact(mu, budget)])
  env = bandits.bernoulli(np.asarray([float(p) for p in mu]))
  result = simulated(algorithm, env, budget, 100_000)
  share = np.bincount(result.arms[:, 0], minlength=len(mu)) / 100_000
  sigma = np.sqrt(expected * (1 - expected) / 100_000)
  assert np.all(np.abs(share - expected) < 5 * sigma)
  assert expected.max() - expected.min() > 0.3


@pytest.mark.slow
def test_two_gaussian_arms():
  # Passes of 8, 16 and 32 pulls: 4, 8 and 16 of each arm.
  env = bandits.gaussian([0.5, 0.0], 1.0)
  points, pulls = (8, 23, 24, 56), np.asarray([4, 4, 8, 16])
  result = simulated(bandits.doubling_sh(8), env, 56, 100_000, points)
  error = (result.arms == 1).mean(0)
  expected = stats.norm.cdf(-0.5 * np.sqrt(pulls / 2))
  sigma = np.sqrt(expected * (1 - expected) / 100_000)
  assert np.all(np.abs(error - expected) < 5 * sigma)
  np.testing.assert_array_equal(result.pulls, np.tile(pulls, (100_000, 1)))


TOLD = {
  'halving': bandits.sh_subset,
  'uniform': bandits.uniform,
  'rejects': lambda t: bandits.successive_rejects(t, subset=lambda t: t // 3),
}


@pytest.mark.parametrize(
  'name',
  [
    'halving',
    pytest.param('uniform', marks=pytest.mark.slow),
    pytest.param('rejects', marks=pytest.mark.slow),
  ],
)
def test_without_a_budget_each_checkpoint_is_one(name):
  env = bandits.bernoulli(np.linspace(0.2, 0.7, 37))
  build, points = TOLD[name], (7, 60)
  told = simulated(build(None), env, 60, 80, points)
  for place, point in enumerate(points):
    own = simulated(build(point), env, point, 80)
    for field in ('arms', 'means', 'pulls', 'spent', 'pending'):
      np.testing.assert_array_equal(
        getattr(told, field)[:, place], getattr(own, field)[:, 0], field
      )


def test_a_longer_run_starts_the_same():
  short = standard_run('hyperband', STEPS, 0.5)
  env = bandits.gaussian(np.asarray(STEPS), 0.5)
  play = engine_run(ALGORITHMS['hyperband'], 200, (*POINTS, 200))
  keys = parallel.replication_keys(KEY, 100)
  longer, _, _ = mapped(play, keys, env)
  np.testing.assert_array_equal(longer.arms[:, :-1], short.arms[:100])


def test_share_of_the_arms():
  algorithm = bandits.sh_subset(64, 0.25)
  arms = algorithm.engine.enter(KEY, 40, 64)
  assert len(set(arms.tolist())) == 10
  with pytest.raises(ValueError, match=r'subset must be <= num_arms = 8'):
    bandits.sh_subset(64, 9).init(KEY, 8)
  with pytest.raises(ValueError, match=r'share must be <= 1, got 1\.5'):
    bandits.sh_subset(64, 1.5).init(KEY, 8)


def test_a_single_arm_needs_no_pull():
  for algorithm in (
    bandits.sequential_halving(9),
    bandits.successive_rejects(9),
    bandits.doubling_sh(),
    bandits.hyperband(),
  ):
    state = algorithm.init(KEY, 1)
    assert algorithm.ask(state)[1] == 0
    assert algorithm.recommend(state).arm == 0
    env = bandits.gaussian([0.3], 1.0)
    result = algorithm.engine.play(KEY, KEY, env, 1, 9, (9,))
    assert (result.arms[0], result.pulls[0], result.spent[0]) == (0, 0, 0)


@pytest.mark.slow
def test_an_endless_pool():
  env = bandits.infinite(jax.random.uniform, sigma=0.0)
  play = engine_run(bandits.hyperband(3, 27), 400, (3, 400))
  result, true_means, arms = mapped(play, jax.random.split(KEY, 4), env)
  assert np.all(np.diff(np.sort(arms)) > 0)
  np.testing.assert_allclose(result.means, true_means, rtol=1e-6)
  assert np.all(true_means[:, 1] >= true_means[:, 0])


def test_an_exhausted_table_is_reported():
  rewards = bandits.table(np.zeros((4, 3), np.float32))
  with pytest.raises(ValueError, match='exhausted'):
    simulated(bandits.sequential_halving(64), rewards, 64, 2)


def test_equal_totals_come_in_every_order():
  def order(counter):
    return elimination_plan.ranked(
      KEY, counter, jnp.asarray([0.0, 1.0, 0.0, 0.0, 5.0]), 4, capacity=9
    )

  orders = np.asarray(jax.vmap(order)(jnp.arange(6000)))
  assert np.all(orders[:, 0] == 1)
  assert np.all(orders[:, 4] == 4)
  tails = np.unique(orders[:, 1:4], axis=0, return_counts=True)
  assert tails[0].shape[0] == 6
  assert stats.chisquare(tails[1]).pvalue > 1e-4


@pytest.mark.parametrize(
  'call,message',
  [
    (
      lambda: bandits.sequential_halving_plan(10, 39),
      r'budget must be >= num_arms \* ceil\(log2 num_arms\) = 40, got 39',
    ),
    (lambda: bandits.sequential_halving(39).init(KEY, 10), 'got 39'),
    (lambda: bandits.sequential_halving_plan(0, 9), 'num_arms .* got 0'),
    (lambda: bandits.sequential_halving(0), 'budget must be >= 1, got 0'),
    (lambda: bandits.sequential_halving(9, samples='old'), "got 'old'"),
    (lambda: bandits.sh_subset(9, 'all').init(KEY, 3), "got 'all'"),
    (lambda: bandits.doubling_sh(1), 'first_budget must be >= 2, got 1'),
    (
      lambda: bandits.successive_rejects_plan(10, 10),
      'budget must be > num_arms = 10, got 10',
    ),
    (lambda: bandits.hyperband_plan(1, 9), 'eta .* got 1'),
    (lambda: bandits.hyperband_plan(3, 0), 'max_resource .* got 0'),
    (lambda: bandits.hyperband(3, 2), 'max_resource must be >= eta = 3, got 2'),
    (lambda: bandits.uniform(None).init(KEY, 3), 'has one budget: give it'),
    (lambda: bandits.sh_subset(None).init(KEY, 3), 'has one budget: give it'),
    (lambda: bandits.sh_subset(None, 0.5), 'subset=0.5 is a share'),
    (lambda: bandits.uniform(0), 'budget must be >= 1, got 0'),
    (lambda: bandits.uniform(3).init(KEY, 0), 'got 0'),
    (lambda: bandits.doubling_sh().init(KEY, 0), 'num_arms .* got 0'),
  ],
)
def test_bad_input(call, message):
  with pytest.raises(ValueError, match=message):
    call()
