"""Box Thirding: both engines against each other and against enumeration."""

import math
from fractions import Fraction

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxlab import bandits
from tests.bandits import enumeration, reference

KEY = jax.random.key(8)
slow = pytest.mark.slow
FAST = {'xla_backend_optimization_level': 0}
NUM, BUDGET = 40, 36
# A small state: the step engine carries all of it through each step.
SMALL = {'max_levels': 10, 'max_shifts': 5}
POINTS = (0, 1, 2, 5, 11, 17, 28, 33, BUDGET)
ENVS = {
  'gaussian': bandits.gaussian(np.linspace(0, 1, NUM), 0.7),
  'categorical': bandits.categorical(
    np.random.default_rng(0).dirichlet([1, 1, 1], NUM), [0, 0.5, 1]
  ),
  'equal': bandits.bernoulli(np.full(NUM, 0.5)),
}


def engine_program(algorithm, budget, points):
  """`(keys, env) -> RunResult`: the whole-run program, mapped over keys."""

  def play(key, env):
    key, reward_key = jax.random.split(key)
    arms = algorithm.engine.enter(key, env.num_arms, budget)
    result = algorithm.engine.play(
      key, reward_key, env.take(arms), env.num_arms, budget, points
    )
    return result._replace(arms=arms[result.arms])

  return jax.jit(jax.vmap(play, (0, None)), compiler_options=FAST)


def step_program(algorithm, budget, points):
  def play(key, env):
    return bandits.run(key, algorithm, env, budget, points)

  return jax.jit(jax.vmap(play, (0, None)), compiler_options=FAST)


def both_engines(algorithm, env, budget, points, replications=60):
  keys = jax.random.split(KEY, replications)
  return tuple(
    jax.tree.map(np.asarray, program(algorithm, budget, points)(keys, env))
    for program in (engine_program, step_program)
  )


def assert_same_run(one, two, *, same_costs=True):
  np.testing.assert_array_equal(one.arms, two.arms)
  np.testing.assert_array_equal(one.pulls, two.pulls)
  np.testing.assert_allclose(one.means, two.means, rtol=1e-6)
  if same_costs:
    np.testing.assert_array_equal(one.spent, two.spent)
    np.testing.assert_array_equal(one.pending, two.pending)


@pytest.mark.parametrize(
  't0,reuse,rule,name',
  [
    (1, True, 'top', 'categorical'),
    pytest.param(2, False, 'top', 'gaussian', marks=slow),
    pytest.param(2, True, 'lcb', 'categorical', marks=slow),
    pytest.param(1, False, 'mean_all', 'equal', marks=slow),
  ],
)
def test_both_engines_agree(t0, reuse, rule, name):
  algorithm = bandits.box_thirding(
    t0, reuse=reuse, recommend=rule, sigma=0.5, **SMALL
  )
  points = tuple(t0 * point for point in POINTS)
  plan = bandits.b3_schedule(points[-1], NUM, t0=t0, reuse=reuse)
  assert plan.next_unaffordable is not None
  one, two = both_engines(algorithm, ENVS[name], points[-1], points)
  assert_same_run(one, two)
  np.testing.assert_array_equal(
    one.spent + one.pending, np.tile(points, (60, 1))
  )
  quotas = bandits.quotas(t0, bandits.R_STAR, 12)
  assert set(one.pulls.ravel().tolist()) <= {0, *quotas.tolist()}
  assert np.unique(one.arms[:, -1]).size > 5


@slow
@pytest.mark.parametrize('num_arms,max_shifts', [(2000, 8), (60, 2)])
def test_both_engines_agree_on_large_and_narrow_boxes(num_arms, max_shifts):
  """With 1100 entered arms the first box of a level is a program by itself."""
  budget = 3 * num_arms // 2
  algorithm = bandits.box_thirding(1, max_shifts=max_shifts, max_levels=16)
  env = bandits.gaussian(np.linspace(0, 1, num_arms), 0.3)
  points = (num_arms, budget)
  assert_same_run(*both_engines(algorithm, env, budget, points, 3))


@slow
@pytest.mark.parametrize('num_arms,reuse', [(7, True), (2, True), (12, False)])
def test_both_engines_agree_on_the_drain(num_arms, reuse):
  algorithm = bandits.box_thirding(1, reuse=reuse, max_passes=1, **SMALL)
  env = bandits.bernoulli(np.linspace(0.2, 0.8, num_arms))
  points = tuple(range(0, 14 * num_arms, 2))
  one, two = both_engines(algorithm, env, points[-1], points)
  assert_same_run(one, two)
  # The pass ends; what remains of the budget stays unspent.
  assert np.all(one.pending[:, -1] == 0)
  assert np.all(one.spent[:, -1] < points[-1])
  assert np.all(one.spent[:, -1] == one.spent[0, -1])


@slow
def test_shifted_arms_pulled_afresh():
  """The step engine tells such pulls one arm at a time, before the lift."""
  algorithm = bandits.box_thirding(reuse_shift=False, **SMALL)
  one, two = both_engines(algorithm, ENVS['gaussian'], 2 * BUDGET, POINTS)
  assert_same_run(one, two, same_costs=False)
  assert np.all(two.spent >= one.spent)
  np.testing.assert_array_equal(
    one.spent + one.pending, two.spent + two.pending
  )
  assert np.any(one.spent != two.spent)


@slow
def test_fresh_pulls_are_ranked_without_the_old_ones():
  """By hand: without noise from the environment, sums are by pulls alone."""
  plan = bandits.b3_schedule(10**4, 27, t0=2, reuse=False)
  env = bandits.gaussian(np.zeros(27), 1.0)
  keys = jax.random.split(KEY, 300)
  play = jax.jit(
    jax.vmap(lambda key: bandits.simulate_b3(key, env, plan).means),
    compiler_options=FAST,
  )
  means = np.asarray(play(keys)).ravel()
  # 27 arms: the best of the top level is the only arm there, never compared.
  assert plan.waiting[plan.num_levels - 1, 0] == 1
  scale = 1 / math.sqrt(plan.quotas[plan.num_levels - 1])
  assert scipy.stats.kstest(means / scale, 'norm').pvalue > 1e-4


@pytest.mark.parametrize(
  'mu,t0,reuse,replications',
  [
    ((0.3, 0.4, 0.9), 1, True, 20_000),
    pytest.param((0.3, 0.4, 0.5, 0.9), 1, True, 200_000, marks=slow),
    pytest.param((0.3, 0.8), 1, True, 200_000, marks=slow),
    pytest.param((0.2, 0.5, 0.6), 2, False, 200_000, marks=slow),
    pytest.param((0.3, 0.4, 0.9), 1, False, 200_000, marks=slow),
  ],
)
def test_passes_have_the_exact_distribution(mu, t0, reuse, replications):
  """After every few pulls, far into the second and third pass."""
  points = (3, 7, 9, 12)
  result = bandits.simulate(
    KEY,
    bandits.box_thirding(t0, reuse=reuse),
    bandits.bernoulli(mu),
    budget=12,
    replications=replications,
    checkpoints=points,
  )
  exact = [Fraction(str(p)) for p in mu]
  for place, budget in enumerate(points):
    chance = np.asarray(
      enumeration.box_thirding(
        exact, budget, t0=t0, growth=bandits.R_STAR, reuse=reuse
      ),
      float,
    )
    share = np.bincount(result.arms[:, place], minlength=len(mu)) / replications
    error = np.sqrt(chance * (1 - chance) / replications)
    assert np.all(np.abs(share - chance) <= 5 * error + 1e-12), budget


@pytest.mark.parametrize('reuse', [True, pytest.param(False, marks=slow)])
def test_deterministic_run_against_the_book(reuse):
  """Waiting, discarded, champion for several orders of entry."""
  num = 23
  mu = np.random.default_rng(3).permutation(num).astype(np.float32)
  plan = bandits.b3_schedule(10**4, num, t0=1, reuse=reuse)
  env = bandits.deterministic(mu)
  orders = np.stack(
    [np.random.default_rng(seed).permutation(num) for seed in range(6)]
  ).astype(np.int32)
  play = jax.jit(
    jax.vmap(
      lambda order: bandits.simulate_b3(KEY, env, plan, entry_order=order)
    ),
    compiler_options=FAST,
  )
  result = jax.tree.map(np.asarray, play(orders))
  for row, order in enumerate(orders):
    machine = reference.SequentialB3(
      num, t0=1, growth=bandits.R_STAR, reuse=reuse, drain=False
    )
    chance = reference.Given([order], lambda arm, _, n: n * mu[arm])
    machine.advance(10**4, chance)
    assert machine.recommend(chance) == result.arms[row, 0]
    assert sorted(machine.discarded) == sorted(result.discarded[row].tolist())
    assert {box: sorted(arms) for box, arms in machine.boxes.items()} == {
      box: sorted(a[row].tolist()) for box, a in result.waiting.items()
    }
    machine.drain = True
    while not machine.champions:
      assert machine.step(10**9, chance)
    assert machine.champions[0][0] == result.champion[row] == mu.argmax()


@slow
def test_a_longer_run_begins_with_the_shorter_one():
  """Also where the longer one is carried out by the other engine."""
  env = bandits.gaussian(np.linspace(0, 1, 12), 0.5)
  algorithm = bandits.box_thirding(1)
  keys = jax.random.split(KEY, 80)
  points = (4, 11, 20, 33)
  short = engine_program(algorithm, 33, points)(keys, env)
  long = engine_program(algorithm, 400, (*points, 400))(keys, env)
  cut = jax.tree.map(lambda x: x[:, :4], long)
  assert_same_run(short, cut)
  assert np.all(np.asarray(long.spent[:, -1] + long.pending[:, -1]) == 400)
  right = np.asarray(long.arms[:, -1]) == 11
  assert right.mean() > (np.asarray(short.arms[:, -1]) == 11).mean()


def test_ask_does_not_know_the_budget():
  """Nothing of the state depends on a budget: there is none to give."""
  algorithm = bandits.box_thirding()
  state = algorithm.init(KEY, 5)
  arm, n = algorithm.ask(state)
  assert int(n) == 2
  assert 0 <= int(arm) < 5
  assert int(algorithm.recommend(state).pulls) == 0
  assert np.isnan(algorithm.recommend(state).mean)


@pytest.mark.parametrize(
  'rule',
  [
    pytest.param('top', marks=slow),
    'lcb',
    pytest.param('mean_all', marks=slow),
  ],
)
def test_a_finished_run_returns_its_champion(rule):
  algorithm = bandits.box_thirding(
    recommend=rule, sigma=0.0, max_passes=1, max_levels=8, max_shifts=4
  )
  env = bandits.deterministic(np.arange(5.0))
  keys = jax.random.split(KEY, 30)
  points = (40, 300)
  result = step_program(algorithm, 300, points)(keys, env)
  assert np.all(np.asarray(result.arms[:, -1]) == 4)
  np.testing.assert_array_equal(result.pending[:, -1], 0)


@slow
def test_a_new_pass_does_not_forget_the_champion():
  """Without noise the best arm, once found, is recommended for ever."""
  env = bandits.deterministic(np.arange(5.0))
  keys = jax.random.split(KEY, 30)
  points = tuple(range(20, 200, 3))
  for rule in ('top', 'lcb'):
    algorithm = bandits.box_thirding(
      recommend=rule, sigma=0.0, max_levels=10, max_shifts=4
    )
    arms = step_program(algorithm, points[-1], points)(keys, env).arms
    assert np.all(np.asarray(arms) == 4), rule


@pytest.fixture(scope='module')
def hundred_arms():
  """A program `(keys, env) -> [R, 4]` arms for 100 normal arms."""
  program = engine_program(bandits.box_thirding(1), 60, (0, 1, 30, 60))
  return lambda keys, env: np.asarray(program(keys, env).arms)


def test_labels_and_the_order_of_the_pool_do_not_matter(hundred_arms):
  """A pool sorted by rank, best first, is no easier than a shuffled one."""

  def regrets(mu, seed):
    keys = jax.random.split(jax.random.key(seed), 1500)
    arms = hundred_arms(keys, bandits.gaussian(mu, 0.5))
    return np.max(mu) - mu[arms[:, -1]]

  best_first = np.linspace(1, 0, 100) ** 2
  shuffled = np.random.default_rng(0).permutation(best_first)
  by_rank = regrets(best_first, 0)
  for seed, pool in enumerate((best_first[::-1].copy(), shuffled), 1):
    other = regrets(pool, seed)
    difference = by_rank.mean() - other.mean()
    error = math.sqrt((by_rank.var() + other.var()) / by_rank.size)
    assert abs(difference) < 4 * error
  assert by_rank.std() > 0


def test_equal_arms_are_recommended_equally_often(hundred_arms):
  """Also before the first pull and after it."""
  env = bandits.deterministic(np.full(100, 0.5))
  arms = hundred_arms(jax.random.split(KEY, 20_000), env)
  for chosen in arms.T:
    counts = np.bincount(chosen, minlength=100)
    assert scipy.stats.chisquare(counts).pvalue > 1e-4


def test_too_small_a_budget_gives_a_random_arm():
  env = bandits.gaussian(np.arange(4.0), 1.0)
  plan = bandits.b3_schedule(3, 4, t0=5)
  keys = jax.random.split(KEY, 4000)
  run = engine_program(bandits.box_thirding(5), 3, (3,))(keys, env)
  play = jax.jit(jax.vmap(lambda key: bandits.simulate_b3(key, env, plan)))
  result = play(keys)
  for found in (run, result):
    assert np.all(np.isnan(found.means))
    assert np.all(np.asarray(found.pulls) == 0)
    counts = np.bincount(np.asarray(found.arms)[:, 0], minlength=4)
    assert scipy.stats.chisquare(counts).pvalue > 1e-4
  assert np.all(np.asarray(result.levels) == -1)
  assert np.all(np.asarray(run.pending) == 3)


def test_a_single_arm_needs_no_pull():
  env = bandits.gaussian([3.0], 1.0)
  keys = jax.random.split(KEY, 5)
  run = engine_program(bandits.box_thirding(), 50, (0, 50))(keys, env)
  assert np.all(np.asarray(run.arms) == 0)
  assert np.all(np.isnan(run.means))
  for counter in (run.pulls, run.spent, run.pending):
    assert np.all(np.asarray(counter) == 0)


def test_two_arms_and_pulls_for_one():
  """The one that was sampled is returned: either, equally often."""
  env = bandits.gaussian([3.0, 4.0], 1.0)
  keys = jax.random.split(KEY, 400)
  run = engine_program(bandits.box_thirding(3), 5, (3, 5))(keys, env)
  assert np.all(np.asarray(run.pulls) == 3)
  assert np.all(np.asarray(run.pending) == [0, 2])
  right = int(np.asarray(run.arms)[:, 1].sum())
  assert scipy.stats.binomtest(right, 400).pvalue > 1e-4


@slow
@pytest.mark.parametrize(
  'num_arms,t0,budget', [(1, 2, 50), (2, 3, 5), (4, 5, 3)]
)
def test_both_engines_agree_on_tiny_runs(num_arms, t0, budget):
  env = bandits.gaussian(np.arange(1.0 * num_arms), 1.0)
  algorithm = bandits.box_thirding(t0, **SMALL)
  assert_same_run(*both_engines(algorithm, env, budget, (0, budget)))


class Variants(chex.TestCase):
  @chex.variants(with_jit=True, with_pmap=True)
  def test_simulate_b3(self):
    plan = bandits.b3_schedule(20, 9, t0=1)
    env = bandits.deterministic(np.arange(9.0))
    order = jnp.asarray([3, 8, 1, 0, 2, 4, 7, 5, 6], jnp.int32)
    machine = reference.SequentialB3(
      9, t0=1, growth=bandits.R_STAR, reuse=True, drain=False
    )
    chance = reference.Given([order.tolist()], lambda arm, _, n: n * arm)
    machine.advance(20, chance)

    @self.variant
    def play(order):
      return bandits.simulate_b3(KEY, env, plan, entry_order=order).arms

    assert int(np.ravel(play(order))[0]) == machine.recommend(chance)

  @chex.variants(with_jit=True, without_jit=True)
  def test_one_answer(self):
    algorithm = bandits.box_thirding(3, max_levels=4, max_shifts=2)
    state = jax.jit(algorithm.init, static_argnums=1)(KEY, 5)
    arm, n = self.variant(algorithm.ask)(state)
    assert int(n) == 3
    state = self.variant(algorithm.tell)(state, arm, 6.0, n, 12.0)
    best = self.variant(algorithm.recommend)(state)
    assert (int(best.arm), float(best.mean), int(best.pulls)) == (arm, 2.0, 3)
    assert int(self.variant(algorithm.ask)(state)[0]) != int(arm)


@pytest.mark.parametrize(
  'arguments,words',
  [
    ({'t0': 0}, ['t0', '0']),
    ({'t0': 1.5}, ['t0', '1.5']),
    ({'growth': 2.0}, ['growth', '2.0']),
    ({'growth': 0.5}, ['growth', '0.5']),
    ({'recommend': 'best'}, ['recommend', 'best']),
    ({'max_levels': 0}, ['max_levels', '0']),
    ({'max_shifts': 0}, ['max_shifts', '0']),
    ({'max_passes': 0}, ['max_passes', '0']),
    ({'sigma': -1.0}, ['sigma', '-1.0']),
  ],
)
def test_bad_settings(arguments, words):
  with pytest.raises(ValueError) as caught:
    bandits.box_thirding(**arguments)
  assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(
  'options,words',
  [
    ({'checkpoints': (9, 3)}, ['checkpoints', '(9, 3)']),
    ({'checkpoints': (-1, 3)}, ['checkpoints', '-1']),
    ({'checkpoints': (3, 31)}, ['checkpoints', '31', '30']),
    ({'num_arms': 5}, ['num_arms', '5', '4']),
  ],
)
def test_bad_input_of_simulate_b3(options, words):
  plan = bandits.b3_schedule(30, options.get('num_arms', 4))
  env = bandits.gaussian(np.arange(4.0), 1.0)
  with pytest.raises(ValueError) as caught:
    bandits.simulate_b3(KEY, env, plan, checkpoints=options.get('checkpoints'))
  assert all(word in str(caught.value) for word in words), str(caught.value)


def test_too_few_levels_are_refused():
  algorithm = bandits.box_thirding(max_levels=2)
  env = bandits.gaussian(np.arange(99.0), 1.0)
  needed = bandits.b3_schedule(30, 99).num_levels
  assert needed == 3
  with pytest.raises(ValueError, match=f'max_levels = 2 .*30.*needs {needed}'):
    bandits.simulate(KEY, algorithm, env, budget=30, replications=2)
