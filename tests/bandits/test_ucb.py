import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core
from scipy import stats

from jaxlab.bandits import envs, thompson, ties, trivial, ucb
from jaxlab.bandits.simulate import run, simulate


@pytest.fixture(autouse=True, scope='module')
def fast_compiles():
  """Programs that run once: their compilation is most of the time."""
  before = jax.config.values['jax_disable_most_optimizations']
  jax.config.update('jax_disable_most_optimizations', True)
  yield
  jax.config.update('jax_disable_most_optimizations', before)


# Exact in float32, so that both sides see the same means.
MU = np.array([3, 14, 9, 12, 6]) / 16


def trace(algorithm, mu, budget, seed=0):
  """The arms that are pulled when arm i always pays mu[i]."""
  mu = jnp.asarray(mu, jnp.float32)

  def step(state, _):
    arm, n = algorithm.ask(state)
    return algorithm.tell(state, arm, mu[arm], n, mu[arm] ** 2), arm

  init = algorithm.init(jax.random.key(seed), mu.shape[0])
  state, arms = jax.lax.scan(step, init, length=budget)
  return algorithm.recommend(state), np.asarray(arms)


def ucb_e_choice(s, n, a):
  return int(np.argmax(s / n + np.sqrt(a / n)))


def lucb_round(s, n, delta, sigma):
  mean, t = s / n, n.sum()
  beta = sigma * np.sqrt(2 * np.log(1.25 * len(n) * t**4 / delta) / n)
  leader = int(np.argmax(mean))
  upper = np.where(np.arange(len(n)) == leader, -np.inf, mean + beta)
  challenger = int(np.argmax(upper))
  return leader, challenger, upper[challenger] - (mean - beta)[leader] <= 0


def test_fair_argmax_is_uniform_among_the_largest():
  score = jnp.asarray([1.0, 3.0, 3.0, 0.0, 3.0, -2.0, 3.0])
  words = jax.random.bits(jax.random.key(1), (40000,), jnp.uint32)
  pick = jax.jit(jax.vmap(ties.fair_argmax, (None, 0)))(score, words)
  counts = np.bincount(pick, minlength=7)
  assert counts[[0, 3, 5]].sum() == 0
  assert stats.chisquare(counts[[1, 2, 4, 6]]).pvalue > 1e-4


@pytest.mark.parametrize('num', [1, 2, 3, 64, 65])
def test_fair_argmax_finds_the_only_largest_and_shows_nan(num):
  for place in {0, num // 2, num - 1}:
    for best in (2.0, np.nan):
      score = jnp.arange(num, dtype=jnp.float32) / num
      score = score.at[place].set(best)
      for word in (0, 1, 2**32 - 1):
        assert ties.fair_argmax(score, jnp.uint32(word)) == place


def test_ucb_e_pulls_what_a_plain_loop_pulls():
  a, budget = 0.7, 60
  best, arms = trace(ucb.ucb_e(a), MU, budget)
  assert sorted(arms[:5]) == [0, 1, 2, 3, 4]
  s, n = MU.copy(), np.ones(5)
  for arm in arms[5:]:
    assert arm == ucb_e_choice(s, n, a)
    s[arm] += MU[arm]
    n[arm] += 1
  assert (best.arm, best.pulls) == (1, n[1])
  np.testing.assert_allclose(best.mean, MU[1], rtol=1e-6)


def test_ucb_e_default_exploration():
  # H1 of gaps (1/4, 1/4, 1/2) is 36; a = 25/36 (39 - 3)/36 = 25/36.
  _, given = trace(ucb.ucb_e(25 / 36), [0.75, 0.5, 0.25], 39)
  _, default = trace(
    ucb.ucb_e(budget=39, complexity=36.0), [0.75, 0.5, 0.25], 39
  )
  np.testing.assert_array_equal(given, default)


def test_lucb_pulls_leader_and_challenger():
  best, arms = trace(ucb.lucb(0.1, 0.5), MU, 45)
  s, n = MU.copy(), np.ones(5)
  for pair in arms[5:].reshape(-1, 2):
    assert tuple(pair) == lucb_round(s, n, 0.1, 0.5)[:2]
    for arm in pair:
      s[arm] += MU[arm]
      n[arm] += 1
  assert best.arm == 1


def test_at_lucb_shrinks_its_failure_probability_as_the_loop_does():
  delta, alpha, sigma = 0.5, 0.8, 0.05
  best, arms = trace(ucb.at_lucb(delta, alpha, sigma), MU, 105)
  s, n, stage = MU.copy(), np.ones(5), 1
  for pair in arms[5:].reshape(-1, 2):
    while lucb_round(s, n, delta * alpha ** (stage - 1), sigma)[2]:
      stage += 1
    level = delta * alpha ** (stage - 1)
    assert tuple(pair) == lucb_round(s, n, level, sigma)[:2]
    for arm in pair:
      s[arm] += MU[arm]
      n[arm] += 1
  assert stage > 20
  assert best.arm == 1


def test_top_two_thompson_reaches_the_optimal_proportions():
  # With the leader certain: share beta for it, equal costs for the others.
  mu = np.array([0.0, 2.0, 1.0, 0.5])
  budget = 2000
  _, arms = trace(thompson.top_two_thompson(0.02, 0.3), mu, budget)
  n = np.bincount(arms, minlength=4)
  assert abs(n[1] / budget - 0.3) < 4 * math.sqrt(0.21 / budget)
  cost = (mu[1] - mu) ** 2 / (1 / n + 1 / n[1])
  others = cost[[0, 2, 3]]
  assert others.max() / others.min() < 1.05


def test_a_proper_prior_weighs_as_many_pulls_as_its_precision_says():
  # Prior N(0, 1), sigma 1: posterior means 3 * 0.5/(3 + 1) and 0.4/(1 + 1).
  algorithm = thompson.top_two_thompson(1.0, prior_sigma=1.0)
  state = algorithm.init(jax.random.key(0), 2)
  state = algorithm.tell(state, 1, 0.6, 1, 0.36)
  state = algorithm.tell(state, 0, 1.5, 3, 0.75)
  best = algorithm.recommend(state)
  assert best.arm == 0
  np.testing.assert_allclose([best.mean, best.pulls], [0.5, 3], rtol=1e-6)


def plain_error(rule, mu, budget, replications, seed):
  """Error of a rule in a NumPy loop, all replications abreast."""
  rng = np.random.default_rng(seed)
  num = len(mu)
  rows = np.arange(replications)
  s, n = np.zeros((2, replications, num))
  order = rng.permuted(np.tile(np.arange(num), (replications, 1)), axis=1)
  pair = None
  for t in range(budget):
    mean = s / np.maximum(n, 1)
    jitter = rng.random(s.shape) * 1e-9
    if t < num:
      arm = order[:, t]
    elif rule == 'ucb_e':
      arm = np.argmax(mean + np.sqrt(1.5 / n) + jitter, 1)
    elif (t - num) % 2:
      arm = pair
    else:
      arm = np.argmax(mean + jitter, 1)
      beta = 0.5 * np.sqrt(2 * np.log(1.25 * num * t**4 / 0.1) / n)
      upper = mean + beta + rng.random(s.shape) * 1e-9
      upper[rows, arm] = -np.inf
      pair = np.argmax(upper, 1)
    s[rows, arm] += rng.random(replications) < mu[arm]
    n[rows, arm] += 1
  mean = np.where(n > 0, s / np.maximum(n, 1), -np.inf)
  picked = np.argmax(mean + rng.random(s.shape) * 1e-9, 1)
  return np.mean(picked != np.argmax(mu))


@pytest.mark.parametrize('rule', ['ucb_e', 'lucb'])
def test_error_equals_that_of_a_plain_loop_and_ignores_labels(rule):
  algorithm = {'ucb_e': ucb.ucb_e(1.5), 'lucb': ucb.lucb()}[rule]
  mu = np.array([0.8, 0.6, 0.5, 0.4])
  replications, budget = 20000, 40
  expect = plain_error(rule, mu, budget, replications, seed=3)
  # Four standard errors of a difference of two shares.
  slack = 4 * math.sqrt(2 * expect * (1 - expect) / replications)
  for labels in (mu, mu[::-1].copy()):
    result = simulate(
      jax.random.key(5),
      algorithm,
      envs.bernoulli(labels),
      budget=budget,
      replications=replications,
    )
    error = np.mean(result.arms[:, 0] != np.argmax(labels))
    assert abs(error - expect) < slack
    assert 0.05 < expect < 0.6


@pytest.mark.parametrize(
  'algorithm',
  [ucb.ucb_e(1.0), ucb.at_lucb(), thompson.top_two_thompson()],
  ids=['ucb_e', 'at_lucb', 'top_two_thompson'],
)
def test_equal_arms_are_recommended_equally_often(algorithm):
  result = simulate(
    jax.random.key(2),
    algorithm,
    envs.bernoulli(np.full(6, 0.0)),
    budget=18,
    replications=20000,
  )
  counts = np.bincount(result.arms[:, 0], minlength=6)
  assert stats.chisquare(counts).statistic < 20.5


def test_a_longer_run_begins_as_a_shorter_one():
  play = functools.partial(
    run, jax.random.key(4), ucb.lucb(), envs.bernoulli(MU)
  )
  short, long = play(25, (3, 25)), play(60, (3, 25, 60))
  for a, b in zip(short, long, strict=True):
    np.testing.assert_array_equal(a, b[:2])
  np.testing.assert_array_equal(long.spent, [3, 25, 60])


@pytest.mark.parametrize(
  'algorithm', [ucb.ucb_e(1.0), ucb.lucb(), thompson.top_two_thompson()]
)
def test_one_arm_and_no_pulls(algorithm):
  one = run(jax.random.key(0), algorithm, envs.deterministic([0.25]), 3, (0, 3))
  np.testing.assert_array_equal(one.arms, 0)
  np.testing.assert_array_equal(one.pulls, [0, 3])
  np.testing.assert_array_equal(one.means, [np.nan, 0.25])


def loops(jaxpr):
  """The while and scan equations that are not inside another one."""
  count = 0
  for eqn in jaxpr.eqns:
    if eqn.primitive.name in {'while', 'scan'}:
      count += 1
    else:
      count += sum(loops(j) for j in core.jaxprs_in_params(eqn.params))
  return count


def test_replications_share_one_loop():
  env = envs.bernoulli(MU)
  keys = jax.random.split(jax.random.key(0), 7)
  play = jax.vmap(lambda k: run(k, ucb.ucb_e(1.0), env, 50))
  assert loops(jax.make_jaxpr(play)(keys).jaxpr) == 1


def test_random_arm_is_uniform_and_the_oracle_knows():
  env = envs.bernoulli(MU)
  simulated = functools.partial(simulate, env=env, budget=5, replications=5000)
  guess = simulated(jax.random.key(0), trivial.random_arm())
  counts = np.bincount(guess.arms[:, 0], minlength=5)
  assert stats.chisquare(counts).pvalue > 1e-4
  known = simulated(jax.random.key(0), trivial.oracle(1))
  assert np.all(known.arms == 1)
  np.testing.assert_allclose(known.true_means, MU[1])
  assert np.all(known.spent == 0)
  live = run(jax.random.key(9), trivial.oracle(1), env, 5)
  assert (live.arms[0], live.spent[0], live.pending[0]) == (1, 0, 0)


@pytest.mark.parametrize(
  ('build', 'match'),
  [
    (lambda: ucb.ucb_e(-1.0), 'a .*-1'),
    (lambda: ucb.ucb_e(budget=10), 'complexity=None'),
    (lambda: ucb.ucb_e(budget=10, complexity=0.0), 'complexity .*0'),
    (lambda: ucb.lucb(1.5), 'delta .*1.5'),
    (lambda: ucb.lucb(sigma=0.0), 'sigma .*0'),
    (lambda: ucb.at_lucb(alpha=1.0), 'alpha .*1'),
    (lambda: thompson.top_two_thompson(-1.0), 'sigma .*-1'),
    (lambda: thompson.top_two_thompson(beta=1.0), 'beta .*1'),
    (lambda: thompson.top_two_thompson(prior_sigma=0.0), 'prior_sigma .*0'),
    (lambda: trivial.oracle(-2), 'arm .*-2'),
    (lambda: trivial.oracle(9).init(jax.random.key(0), 5), '9'),
  ],
)
def test_bad_settings_are_named(build, match):
  with pytest.raises(ValueError, match=match):
    build()
