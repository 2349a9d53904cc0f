"""Many replications: chunks, batches, precisions, endless pools, replays."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxlab import bandits

slow = pytest.mark.slow
KEY = jax.random.key(12)
NUM, BUDGET = 20, 40
MU = np.linspace(0, 1, NUM)
B3 = bandits.box_thirding(1)
# A small state for the step engine, which carries all of it along.
STEPS = bandits.box_thirding(1, max_levels=8, max_shifts=4)


@functools.cache
def rewards():
  return np.random.default_rng(0).normal(size=(NUM, 60)).astype(np.float32)


def simulated(env, algorithm=B3, replications=11, key=KEY, **options):
  options = {'budget': BUDGET, 'checkpoints': (20, BUDGET)} | options
  return bandits.simulate(
    key, algorithm, env, replications=replications, **options
  )


@pytest.fixture(scope='module')
def normal_run():
  return simulated(bandits.gaussian(MU, 1.0))


def assert_equal(one, two):
  for name, value in one._asdict().items():
    np.testing.assert_array_equal(value, getattr(two, name), err_msg=name)


@pytest.mark.parametrize(
  'options', [{'chunk': 4}, pytest.param({'max_bytes': 0}, marks=slow)]
)
def test_chunks_do_not_matter(normal_run, options):
  seen = []
  other = simulated(bandits.gaussian(MU, 1.0), progress=seen.append, **options)
  assert_equal(normal_run, other)
  size = options.get('chunk', 1)
  assert seen == [min(11, done + size) for done in range(0, 11, size)]


@slow
def test_replications_are_a_function_of_their_number(normal_run):
  more = simulated(bandits.gaussian(MU, 1.0), replications=12, chunk=11)
  np.testing.assert_array_equal(more.arms[:11], normal_run.arms)
  np.testing.assert_array_equal(more.means[:11], normal_run.means)


def test_replications_differ(normal_run):
  assert np.unique(normal_run.means[:, -1]).size == 11
  assert np.unique(normal_run.arms[:, -1]).size > 2
  assert np.all(normal_run.spent + normal_run.pending == [20, BUDGET])
  np.testing.assert_array_equal(
    normal_run.true_means, MU.astype(np.float32)[normal_run.arms]
  )
  assert normal_run.best_mean == 1


def test_regret_is_measured_against_the_whole_pool():
  """Three of twenty arms are tried: the best is rarely among them."""
  run = simulated(
    bandits.deterministic(MU), replications=600, budget=5, checkpoints=(5,)
  )
  regret = bandits.simple_regret(run.true_means, run.best_mean)
  entered = bandits.b3_schedule(5, NUM, t0=1).entered
  # The best of c0 arms, drawn without replacement, wins without noise only
  # if it was compared: at most that good.
  expected = bandits.uniform_deterministic_regret(MU, entered)
  assert regret.mean() > 0.9 * expected


@slow
def test_batch_of_environments():
  """Each replication plays its own environment."""
  shifts = 10.0 * np.arange(11)
  batch = bandits.deterministic(MU + shifts[:, None])
  run = simulated(batch)
  single = simulated(bandits.deterministic(MU))
  np.testing.assert_array_equal(run.arms, single.arms)
  np.testing.assert_allclose(
    run.means, single.means + shifts[:, None], rtol=1e-5
  )
  np.testing.assert_allclose(run.best_mean, 1 + shifts)
  with pytest.raises(ValueError, match=r'11 environments.*7'):
    simulated(batch, replications=7)


def test_traced_means():
  """One program for all instances; a shift of all means changes no choice."""
  play = jax.jit(
    jax.vmap(
      lambda key, mu: bandits.run(key, STEPS, bandits.deterministic(mu), 12),
      in_axes=(None, 0),
    ),
    compiler_options={'xla_backend_optimization_level': 0},
  )
  few = jnp.asarray([1.0, 2.0, 3.0])
  result = play(KEY, jnp.stack([few, few + 8, few * 4]))
  assert np.unique(result.arms).size == 1
  np.testing.assert_allclose(result.means[1], result.means[0] + 8)
  np.testing.assert_allclose(result.means[2], result.means[0] * 4)


def test_double_precision_is_kept():
  """Means that differ by less than single precision are told apart."""
  with jax.enable_x64(True):
    mu = 1 + 1e-12 * np.arange(9)
    plan = bandits.b3_schedule(22, 9, t0=1)
    env = bandits.deterministic(mu)
    order = jnp.arange(9, dtype=jnp.int32)
    play = jax.jit(
      lambda env: bandits.simulate_b3(KEY, env, plan, entry_order=order),
      compiler_options={'xla_backend_optimization_level': 0},
    )
    result = play(env)
    assert result.means.dtype == np.float64
    assert result.arms.dtype == np.int32
    # 0..8 enter in order; 2, 5, 8 are lifted and 8 is the best of them.
    assert int(result.arms[0]) == 8
    assert float(result.means[0]) == pytest.approx(mu[8], abs=1e-15)


def test_single_precision_is_kept(normal_run):
  assert normal_run.means.dtype == np.float32
  assert normal_run.true_means.dtype == np.float32


@slow
@pytest.mark.parametrize('impl', ['rbg', 'threefry2x32'])
def test_kinds_of_keys(impl):
  key = jax.random.key(1, impl=impl)
  run = simulated(bandits.bernoulli(MU), key=key, replications=40)
  assert np.unique(run.arms[:, -1]).size > 3
  late = run.true_means[:, -1].mean()
  assert late > 0.6  # of a random arm: 0.5


def test_replications_are_no_loop():
  """The program is as long for 1000 replications as for two."""

  def size(replications):
    keys = jax.random.split(KEY, replications)
    play = jax.vmap(
      lambda key: bandits.run(key, STEPS, bandits.gaussian(MU[:3], 1.0), BUDGET)
    )
    return str(jax.make_jaxpr(play)(keys)).count(' = ')

  assert size(2) == size(1000)


@slow
def test_endless_pool():
  """Uniform means: the sample mean of a lone top arm grows with the budget."""
  env = bandits.infinite(jax.random.uniform, sigma=0.1, best=1.0)
  run = simulated(env, replications=300, budget=200, checkpoints=(1, 20, 200))
  means = run.true_means.mean(0)
  error = math.sqrt(1 / 12 / 300)
  assert abs(means[0] - 0.5) < 5 * error
  assert means[0] < means[1] < means[2]
  assert means[2] > 0.9
  assert run.best_mean == 1
  # The arms of two replications are different arms.
  assert np.unique(run.true_means[:, 0]).size == 300
  assert scipy.stats.kstest(run.true_means[:, 0], 'uniform').pvalue > 1e-4


def test_exhausted_table():
  """It is an error at once, wherever the exhausted arm waits."""
  env = bandits.table(rewards()[:, :1])
  few = simulated(env, budget=2, checkpoints=(2,), replications=4)
  assert np.all(few.pulls == 1)
  with pytest.raises(ValueError, match=r'exhausted.*40.*recycle'):
    simulated(env)
  recycled = simulated(bandits.table(rewards()[:, :1], recycle=True))
  np.testing.assert_allclose(
    recycled.means, rewards()[recycled.arms, 0], rtol=1e-5
  )


@slow
def test_exhausted_table_is_noticed_by_the_drain():
  """The first pass takes 66 pulls or so; the drain compares what waits."""
  lengths = np.full(NUM, 60)
  lengths[7] = 1
  env = bandits.table(rewards(), lengths)
  algorithm = bandits.box_thirding(2, max_passes=1)
  for budget in (130, 140, 400):
    with pytest.raises(ValueError, match='exhausted'):
      simulated(env, algorithm, budget=budget, checkpoints=(budget,))


@slow
def test_one_exhausted_arm_is_noticed_in_a_single_run():
  """Arm 7 has one reward and every arm that enters is pulled twice."""
  lengths = np.full(NUM, 60)
  lengths[7] = 1
  env = bandits.table(rewards(), lengths)
  plan = bandits.b3_schedule(100, NUM, t0=2)
  missed = 0
  algorithm = bandits.box_thirding(2)
  for seed in range(12):
    key = jax.random.key(seed)
    try:
      simulated(
        env, algorithm, key=key, replications=1, budget=100, checkpoints=None
      )
      missed += 1
    except ValueError:
      pass
  # It has entered in a share c0 / N of the runs.
  assert plan.entered >= NUM - 2
  assert missed <= 12 * (1 - plan.entered / NUM) + 3


@slow
def test_replayed_rewards_are_the_recorded_ones():
  """With all 60 rewards of an arm its mean is exact."""
  env = bandits.table(rewards())
  run = simulated(env, replications=30)
  np.testing.assert_allclose(
    run.true_means, rewards().mean(-1)[run.arms], rtol=1e-4, atol=1e-6
  )
  assert np.all(run.pulls >= 1)
  ones = simulated(env, replications=30, budget=1, checkpoints=(1,))
  for arm, mean in zip(ones.arms[:, 0], ones.means[:, 0], strict=True):
    assert mean in rewards()[arm]


@pytest.mark.parametrize(
  'options,words',
  [
    ({'budget': 0}, ['budget', '0']),
    ({'budget': 2**31}, ['budget', '2147483648']),
    ({'budget': 10.5}, ['budget', '10.5']),
    ({'replications': 0}, ['replications', '0']),
    ({'checkpoints': (9, 3)}, ['checkpoints', '(9, 3)']),
    ({'checkpoints': (3, 3)}, ['checkpoints', '(3, 3)']),
    ({'checkpoints': ()}, ['checkpoints']),
    ({'checkpoints': (-1, 5)}, ['checkpoints', '-1']),
    ({'checkpoints': (5, 61)}, ['checkpoints', '61', '40']),
    ({'chunk': 0}, ['chunk', '0']),
    ({'chunk': -2}, ['chunk', '-2']),
  ],
)
def test_bad_input(options, words):
  with pytest.raises(ValueError) as caught:
    simulated(bandits.gaussian(MU, 1.0), **{'checkpoints': None} | options)
  assert all(word in str(caught.value) for word in words), str(caught.value)


def test_more_arms_than_there_are_cannot_be_chosen():
  with pytest.raises(ValueError, match=r'20.*21'):
    simulated(bandits.gaussian(MU, 1.0), bandits.on_subset(B3, 21))
