import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxlab.bandits import (
  brackets,
  brackets_plan,
  envs,
  halving,
  passes,
  subset,
  thompson,
  trivial,
  ucb,
)
from jaxlab.bandits.simulate import run, simulate


@pytest.fixture(autouse=True, scope='module')
def fast_compiles():
  """Programs that run once: their compilation is most of the time."""
  before = jax.config.values['jax_disable_most_optimizations']
  jax.config.update('jax_disable_most_optimizations', True)
  yield
  jax.config.update('jax_disable_most_optimizations', before)


def test_allocation_is_the_literal_loop():
  opened, counts = 0, []
  for t in range(1, 2500):
    if t >= (opened + 1) * 2 ** (opened + 1) or opened == 0:
      opened += 1
      counts.append(0)
    counts[counts.index(min(counts))] += 1
    np.testing.assert_array_equal(brackets_plan.bracket_pulls(t), counts)
  assert opened == 8


def test_brackets_needed_for_large_budgets():
  # 11 * 2^11 = 22528 and 13 * 2^13 = 106496.
  times = [0, 7, 8, 22527, 22528, 106495, 106496]
  assert [brackets_plan.num_open(t) for t in times] == [1, 1, 2, 10, 11, 12, 13]
  assert brackets_plan.bracket_pulls(2**31 - 1).sum() == 2**31 - 1


def test_radius_by_hand():
  # Bracket 3 of 8 arms, 4 pulls: log2(2 * 4) = 3.
  expect = 2 * 0.5 * math.sqrt(math.log(8 * 9 * 3 / 0.1) / 4)
  got = brackets.radius(4, 8, 3, delta=0.1, c=2.0, sigma=0.5)
  np.testing.assert_allclose(got, expect, rtol=1e-6)


KEY = jax.random.key(3)


def played(algorithm, mu, budget, seed=0):
  """The state after `budget` pulls when arm i always pays mu[i]."""
  mu = jnp.asarray(mu, jnp.float32)

  def step(state, _):
    arm, n = algorithm.ask(state)
    return algorithm.tell(state, arm, mu[arm], n, mu[arm] ** 2), arm

  init = algorithm.init(jax.random.key(seed), mu.shape[0])
  return jax.jit(lambda s: jax.lax.scan(step, s, length=budget))(init)


@pytest.mark.slow
def test_bracketing_ucb_pulls_what_a_plain_loop_pulls():
  mu = np.random.default_rng(0).permutation(12) / 16
  algorithm = brackets.bracketing_ucb(0.1, 1.0, 0.5, max_brackets=4)
  state, _ = played(algorithm, mu, 140)
  sizes = [part.arms.shape[0] for part in state.brackets]
  assert sizes == [2, 4, 8, 12]
  lower = []
  for b, part in enumerate(state.brackets, 1):
    own, size = mu[np.asarray(part.arms)], sizes[b - 1]
    assert len(set(own)) == size
    n = np.ones(size)
    for _ in range(35 - size):
      width = 0.5 * np.sqrt(np.log(size * b**2 * np.log2(2 * n) / 0.1) / n)
      n[np.argmax(own + width)] += 1
    np.testing.assert_array_equal(part.inner.pulls, n)
    width = 0.5 * np.sqrt(np.log(size * b**2 * np.log2(2 * n) / 0.1) / n)
    lower.append(np.max(own - width))
  best = algorithm.recommend(state)
  width = best.mean - max(lower)
  assert best.mean == np.float32(mu[best.arm])
  assert np.isclose(best.mean - width, max(lower))
  b = int(np.argmax(lower))
  assert best.arm in state.brackets[b].arms
  place = list(state.brackets[b].arms).index(best.arm)
  assert best.pulls == state.brackets[b].inner.pulls[place]


@pytest.mark.parametrize('num_arms', [2, 5, 8])
def test_passes_are_sequential_halving_of_doubling_budgets(num_arms):
  mu = np.arange(num_arms) / 16
  shares = []
  for k in range(3):
    plan = halving.sequential_halving_plan(
      num_arms, 2**k * num_arms * math.ceil(math.log2(num_arms))
    )
    shares.extend(plan.rounds)
  algorithm = passes.halving_passes(pooled=False)
  total = sum(m * each for m, each in shares)
  state, arms = played(algorithm, mu, total)
  start = 0
  for m, each in shares:
    counts = np.bincount(arms[start : start + m * each], minlength=num_arms)
    # Without noise the best m arms are left: those of the largest mu.
    np.testing.assert_array_equal(counts[num_arms - m :], each)
    start += m * each
  best = algorithm.recommend(state)
  assert (best.arm, best.pulls) == (num_arms - 1, shares[-1][1])
  assert (state.number, state.position) == (3, 0)


def test_an_unfinished_first_pass_offers_the_largest_mean():
  mu = np.array([0.5, 0.25, 0.75, 1.0, 0.0])
  algorithm = passes.halving_passes(pooled=True)
  for budget, best in ((1, 0), (3, 2), (5, 3), (9, 3)):
    state, _ = played(algorithm, mu, budget)
    offer = algorithm.recommend(state)
    assert (offer.arm, offer.mean) == (best, mu[best])


BOTH = {
  'ucb': brackets.bracketing_ucb(max_brackets=2),
  'sh': brackets.bracketing_sh(max_brackets=2),
}


def as_a_whole(algorithm, env, budget, points):
  """Plays the engine; returns the entered arms and the result in pool arms."""

  def play(key):
    key, reward_key = jax.random.split(key)
    arms = algorithm.engine.enter(key, env.num_arms, budget)
    own_env = env.take(arms)
    result = algorithm.engine.play(
      key, reward_key, own_env, env.num_arms, budget, points
    )
    mean = own_env.mean(reward_key, result.arms)
    return arms, result._replace(arms=arms[result.arms]), mean

  return jax.jit(jax.vmap(play))


@pytest.mark.parametrize('name', BOTH)
def test_step_by_step_and_as_a_whole_agree_without_noise(name):
  algorithm, env = BOTH[name], envs.deterministic(np.arange(7) / 16)
  points = (0, 1, 2, 5, 7, 8, 12, 18, 23)
  keys = jax.random.split(jax.random.key(6), 20)
  live = jax.jit(jax.vmap(lambda k: run(k, algorithm, env, 23, points)))(keys)
  arms, whole, _ = as_a_whole(algorithm, env, 23, points)(keys)
  assert arms.shape == (20, 2 + 4)
  for a, b in zip(live, whole, strict=True):
    np.testing.assert_array_equal(a, b)
  np.testing.assert_array_equal(live.spent, np.tile(points, (20, 1)))
  np.testing.assert_array_equal(live.means[:, 1:], live.arms[:, 1:] / 16)
  assert len(np.unique(live.arms[:, 1])) > 4


def assert_alike(found, expected):
  for field in ('arms', 'means', 'pulls', 'spent', 'pending'):
    np.testing.assert_array_equal(
      getattr(found, field), getattr(expected, field), err_msg=field
    )


@pytest.mark.slow
@pytest.mark.parametrize(
  'build', [brackets.bracketing_ucb, brackets.bracketing_sh]
)
def test_variants_are_what_separate_runs_find(build):
  env = envs.bernoulli(np.linspace(0.2, 0.7, 11))
  simulated = functools.partial(
    simulate, KEY, env=env, budget=90, replications=60, checkpoints=(0, 9, 90)
  )
  settings = {'c': (1.0, 0.2), 'output': ('lcb', 'mean')}
  found = simulated(build(**settings))
  assert found.arms.shape == (60, 2, 3)
  assert np.any(found.arms[:, 0] != found.arms[:, 1])
  for v, (c, output) in enumerate(zip(*settings.values(), strict=True)):
    own = simulated(build(c=c, output=output))
    at = jax.tree.map(lambda x, v=v: x[:, v], found[:5])
    assert_alike(type(own)(*at, *own[5:]), own)


@pytest.mark.parametrize(
  'build',
  [
    lambda t: ucb.ucb_e(budget=t, complexity=lambda n: 2.0 * n),
    pytest.param(lambda _: ucb.lucb(), marks=pytest.mark.slow),
    pytest.param(lambda _: thompson.top_two_thompson(), marks=pytest.mark.slow),
  ],
  ids=['ucb_e', 'lucb', 't3c'],
)
def test_a_told_subset_is_a_run_that_knows_each_checkpoint(build):
  env = envs.bernoulli(np.linspace(0.2, 0.7, 37))
  points, size = (7, 60), lambda t: t // 3
  simulated = functools.partial(simulate, KEY, env=env, replications=60)
  algorithm = subset.on_subset(build(None), size)
  found = simulated(algorithm, budget=60, checkpoints=points)
  for place, point in enumerate(points):
    own = simulated(subset.on_subset(build(point), size(point)), budget=point)
    at = jax.tree.map(lambda x, place=place: x[:, [place]], found[:5])
    assert_alike(type(own)(*at, *own[5:]), own)


@pytest.mark.slow
def test_both_forms_err_equally_often_whatever_the_labels():
  algorithm = brackets.bracketing_ucb(max_brackets=2)
  mu = np.array([0.8, 0.6, 0.5, 0.4, 0.2])
  wrong = []
  stepwise = algorithm._replace(engine=None)
  for form, labels in ((stepwise, mu), (algorithm, mu), (algorithm, mu[::-1])):
    result = simulate(
      jax.random.key(7),
      form,
      envs.bernoulli(labels.copy()),
      budget=23,
      replications=8000,
    )
    wrong.append(np.mean(result.arms[:, 0] != np.argmax(labels)))
  assert 0.05 < wrong[0] < 0.7
  slack = 4 * math.sqrt(2 * wrong[0] * (1 - wrong[0]) / 8000)
  assert abs(wrong[1] - wrong[0]) < slack
  assert abs(wrong[2] - wrong[0]) < slack


@pytest.mark.parametrize(
  'algorithm',
  [
    brackets.bracketing_ucb(output='mean'),
    pytest.param(brackets.bracketing_sh(), marks=pytest.mark.slow),
  ],
  ids=['ucb', 'sh'],
)
def test_equal_arms_come_equally_often_and_a_longer_run_begins_alike(algorithm):
  simulated = functools.partial(
    simulate,
    jax.random.key(3),
    algorithm,
    envs.bernoulli(np.zeros(6)),
    replications=20000,
  )
  result = simulated(budget=18, checkpoints=(0, 7, 18))
  for arms in result.arms.T:
    counts = np.bincount(arms, minlength=6)
    assert stats.chisquare(counts).statistic < 20.5
  assert np.all(result.pulls[:, 0] == 0)
  assert np.all(np.isnan(result.means[:, 0]))
  short = simulated(budget=7, checkpoints=(0, 7))
  np.testing.assert_array_equal(short.arms, result.arms[:, :2])
  np.testing.assert_array_equal(short.pulls, result.pulls[:, :2])


def test_an_endless_pool_keeps_the_means_of_its_arms():
  env = envs.infinite(jax.random.uniform)
  play = as_a_whole(brackets.bracketing_ucb(), env, 30, (30,))
  _, result, mean = play(jax.random.split(jax.random.key(8), 50))
  np.testing.assert_allclose(result.means, mean, rtol=1e-5)
  assert result.arms.max() < 2 + 4 + 8
  assert len(np.unique(result.arms)) > 4


@pytest.mark.slow
def test_one_arm():
  for algorithm in (brackets.bracketing_ucb(), brackets.bracketing_sh()):
    result = simulate(
      jax.random.key(8),
      algorithm,
      envs.deterministic([0.5]),
      budget=3,
      replications=2,
    )
    assert np.all(result.arms == 0)
    assert np.all(result.means == 0.5)


@pytest.mark.parametrize(
  ('build', 'match'),
  [
    (lambda: brackets.bracketing_ucb(0.0), 'delta .*0'),
    (lambda: brackets.bracketing_ucb(c=-1.0), 'c .*-1'),
    (lambda: brackets.bracketing_sh(sigma=-2.0), 'sigma .*-2'),
    (
      lambda: brackets.bracketing_sh(c=(1.0, 2.0)),
      r'c and output .* \(1.0, 2.0\) and lcb',
    ),
    (
      lambda: brackets.bracketing_sh(c=(1.0,), output=('lcb',)).init(KEY, 3),
      'not tuples',
    ),
    (
      lambda: subset.on_subset(ucb.lucb(), lambda t: t).init(KEY, 3),
      'ask and tell has one budget',
    ),
    (lambda: brackets.bracketing_sh(output='best'), 'output .*best'),
    (lambda: brackets.bracketing_sh(samples='all'), 'samples .*all'),
    (lambda: brackets.bracketing_sh(max_brackets=0), 'max_brackets .*0'),
    (
      lambda: BOTH['sh'].engine.enter(jax.random.key(0), 9, 64),
      'max_brackets >= 4',
    ),
    (lambda: subset.on_subset(ucb.lucb(), 0), 'size .*0'),
    (
      lambda: subset.on_subset(ucb.lucb(), 6).init(jax.random.key(0), 5),
      'size .*6',
    ),
  ],
)
def test_bad_settings_are_named(build, match):
  with pytest.raises(ValueError, match=match):
    build()


@pytest.mark.parametrize(
  'inner', [ucb.ucb_e(0.5), halving.sequential_halving(48)]
)
def test_a_subset_finds_its_best_arm_in_both_forms(inner):
  mu = np.arange(30) / 32
  algorithm, env = subset.on_subset(inner, 6), envs.deterministic(mu)
  keys = jax.random.split(jax.random.key(2), 200)
  live = jax.jit(jax.vmap(lambda k: run(k, algorithm, env, 48)))(keys)
  arms, result, _ = as_a_whole(algorithm, env, 48, (48,))(keys)
  assert arms.shape == (200, 6)
  np.testing.assert_array_equal(result.arms[:, 0], arms.max(1))
  for a, b in zip(live, result, strict=True):
    np.testing.assert_array_equal(a, b)
  # Each arm is drawn with probability 6/30.
  drawn = np.bincount(np.ravel(arms), minlength=30)
  assert stats.chisquare(drawn).pvalue > 1e-4


def test_a_subset_of_an_endless_pool():
  algorithm = subset.on_subset(trivial.random_arm(), 4)
  play = as_a_whole(algorithm, envs.infinite(jax.random.uniform), 5, (5,))
  _, result, _ = play(jax.random.split(jax.random.key(0), 100))
  assert set(np.ravel(result.arms)) == {0, 1, 2, 3}
