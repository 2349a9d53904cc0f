"""Environments and the random numbers beneath them."""

import itertools
import math

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxlab import bandits
from jaxlab.bandits import randomness, ranking

KEY = jax.random.key(5)
KEYS = jax.random.split(KEY, 400)
UNLIKELY = 1e-4


def draw(function, *axes):
  """Values of `function(key, *counters)` over KEYS and ranges of counters."""
  ranges = [jnp.arange(size) for size in axes]
  for place in reversed(range(len(axes))):
    wanted = [None] * (len(axes) + 1)
    wanted[place + 1] = 0
    function = jax.vmap(function, tuple(wanted))
  every_key = jax.vmap(function, (0, *(None for _ in axes)))
  return np.asarray(jax.jit(every_key)(KEYS, *ranges))


@pytest.fixture(scope='module')
def words():
  """`[400, 50, 20, 2]` words: of keys, arms and pulls."""
  return draw(randomness.words, 50, 20)


@pytest.fixture(scope='module')
def normals():
  return draw(randomness.normal, 50, 20)


def test_words_are_uniform_in_every_byte(words):
  for place, shift in itertools.product(range(2), (0, 8, 16, 24)):
    counts = np.bincount(words[..., place].ravel() >> shift & 255)
    assert scipy.stats.chisquare(counts).pvalue > UNLIKELY


def test_words_differ_everywhere(words):
  pairs = words.reshape(-1, 2).astype(np.uint64)
  assert np.unique(pairs[:, 0] << np.uint64(32) | pairs[:, 1]).size == len(
    pairs
  )
  for place in range(2):
    num = len(pairs)
    repeats = num - np.unique(pairs[:, place]).size
    expected = num**2 / 2**33
    assert abs(repeats - expected) < 5 * math.sqrt(expected)


def test_neighbouring_bits_are_independent(words):
  """Each bit flips with chance 1/2 from one key, arm or pull to the next."""
  for axis in range(3):
    one, two = np.moveaxis(words, axis, 0)[:-1], np.moveaxis(words, axis, 0)[1:]
    flips = np.unpackbits((one ^ two)[..., 0].ravel().view(np.uint8))
    flips = flips.reshape(-1, 32)
    score = (flips.mean(0) - 0.5) * 2 * math.sqrt(len(flips))
    assert np.abs(score).max() < 5


def test_normals_are_normal(normals):
  sample = normals.ravel()
  assert scipy.stats.kstest(sample, 'norm').pvalue > UNLIKELY
  assert abs(sample.var() - 1) < 5 * math.sqrt(2 / sample.size)
  kurtosis = scipy.stats.kurtosis(sample)
  assert abs(kurtosis) < 5 * math.sqrt(24 / sample.size)
  assert np.abs(sample).max() > 4


def test_normals_are_uncorrelated(normals):
  for axis in range(3):
    first = np.moveaxis(normals, axis, 0)
    for lag in (1, 2):
      one, two = first[:-lag].ravel(), first[lag:].ravel()
      score = np.corrcoef(one, two)[0, 1] * math.sqrt(one.size)
      assert abs(score) < 5
      score = np.corrcoef(one**2, two**2)[0, 1] * math.sqrt(one.size)
      assert abs(score) < 5


def test_double_precision_uses_more_bits():
  with jax.enable_x64(True):
    sample = draw(lambda k, i: randomness.uniform(k, i, dtype='float64'), 100)
  assert sample.dtype == np.float64
  assert scipy.stats.kstest(sample.ravel(), 'uniform').pvalue > UNLIKELY
  assert sample.min() > 0
  assert sample.max() < 1
  low = sample * 2.0**26 % 1
  assert scipy.stats.kstest(low.ravel(), 'uniform').pvalue > UNLIKELY


def test_single_precision_stays_inside_the_unit_interval():
  edge = np.asarray([0, 2**23 - 1], np.float32)
  ends = (edge + np.float32(0.5)) * np.float32(2.0**-23)
  assert 0 < ends[0] < ends[1] < 1


@pytest.mark.parametrize('num', [1, 2, 3, 4, 7])
def test_every_order_is_equally_likely(num):
  keys = jax.random.split(KEY, 20_000)
  orders = jax.jit(jax.vmap(lambda k: randomness.random_order(k, num)))(keys)
  orders = np.asarray(orders)
  assert np.array_equal(
    np.sort(orders, -1), np.tile(np.arange(num), (20000, 1))
  )
  if num <= 4:
    kinds = np.unique(orders, axis=0, return_counts=True)[1]
    assert kinds.size == math.factorial(num)
    assert num == 1 or scipy.stats.chisquare(kinds).pvalue > UNLIKELY
  table = np.stack(
    [np.bincount(orders[:, i], minlength=num) for i in range(num)]
  )
  if num > 1:
    assert scipy.stats.chisquare(table.ravel(), ddof=2 * num - 2).pvalue > 1e-4


@pytest.mark.parametrize('num', [1000, 20_000])
def test_long_orders(num):
  keys = jax.random.split(KEY, 60)
  orders = jax.jit(jax.vmap(lambda k: randomness.random_order(k, num)))(keys)
  orders = np.asarray(orders)
  assert all(np.array_equal(np.sort(row), np.arange(num)) for row in orders)
  cells = np.bincount(orders[:, :100].ravel() * 20 // num)
  assert scipy.stats.chisquare(cells).pvalue > UNLIKELY
  # Neighbours in the order are uncorrelated but for having no repetition.
  one, two = orders[:, :-1].ravel(), orders[:, 1:].ravel()
  score = (np.corrcoef(one, two)[0, 1] + 1 / num) * math.sqrt(one.size)
  assert abs(score) < 5
  rising = (one < two).reshape(60, -1).mean(-1)
  assert abs(rising.mean() - 0.5) < 5 * math.sqrt(1 / 12 / num / 60) + 1 / num


@pytest.mark.parametrize('length', [300, 512, 513])
def test_replay_places_are_a_random_order(length):
  words = jax.vmap(lambda k: randomness.words(k, 3))(KEYS)

  @jax.jit
  @jax.vmap
  def places(word):
    def place(j):
      return randomness.replay_position(word, j, jnp.int32(length), 10)

    return jax.vmap(place)(jnp.arange(length, dtype=jnp.int32))

  found = np.asarray(places(words))
  everything = np.tile(np.arange(length), (len(found), 1))
  assert np.array_equal(np.sort(found, -1), everything)
  cells = np.bincount(found[:, :7].ravel() * 20 // length, minlength=20)
  expected = np.bincount(np.arange(length) * 20 // length) * 7 * len(found)
  assert scipy.stats.chisquare(cells, expected / length).pvalue > UNLIKELY
  assert_sampling_variance(found, np.arange(length))


def assert_sampling_variance(found, values):
  """Means of n draws without replacement vary by s^2 / n (1 - n / H).

  Independent draws would vary by s^2 / n, a fixed order by nothing.
  """
  length = len(values)
  for n in (2, 16, length // 2):
    means = values[found[:, :n]].mean(-1)
    theory = values.var(ddof=1) / n * (1 - n / length)
    # The variance of a sample variance of near-normal means.
    assert means.var(ddof=1) == pytest.approx(
      theory, rel=5 * math.sqrt(2 / len(found))
    )
    error = math.sqrt(theory / len(found))
    assert abs(means.mean() - values.mean()) < 5 * error


def test_equal_scores_are_ordered_uniformly():
  words = jax.vmap(lambda k: randomness.words(k, 0)[0])(
    jax.random.split(KEY, 12_000)
  )
  items = tuple(jnp.full(12_000, i) for i in range(3))

  def orders(*scores):
    scores = tuple(jnp.full(12_000, float(s)) for s in scores)
    ranks = np.stack(ranking.sort_three(scores, words, items), -1)
    return np.unique(ranks, axis=0, return_counts=True)

  kinds, counts = orders(1, 1, 1)
  assert len(kinds) == 6
  assert scipy.stats.chisquare(counts).pvalue > UNLIKELY
  kinds, counts = orders(1, 2, 1)
  assert kinds.tolist() == [[1, 0, 2], [1, 2, 0]]
  assert scipy.stats.chisquare(counts).pvalue > UNLIKELY
  for scores in itertools.permutations(range(3)):
    kinds, _ = orders(*scores)
    assert kinds.tolist() == [np.argsort(scores)[::-1].tolist()]


def test_gaussian_totals():
  mu, sigma = np.asarray([1.0, -2.0]), np.asarray([0.5, 2.0])
  env = bandits.gaussian(mu, sigma)
  keys = jax.random.split(KEY, 20_000)
  arms = jnp.asarray([0, 1])
  sample = jax.jit(jax.vmap(lambda k: env.sample(k, arms, 7, start=3)))
  total, squares = (np.asarray(x, np.float64) for x in sample(keys))
  expected = scipy.stats.norm(7 * mu, math.sqrt(7) * sigma)
  for arm in range(2):
    found = (total[:, arm] - expected.mean()[arm]) / expected.std()[arm]
    assert scipy.stats.kstest(found, 'norm').pvalue > UNLIKELY
    spread = (squares - total**2 / 7)[:, arm] / sigma[arm] ** 2
    assert scipy.stats.kstest(spread, 'chi2', args=(6,)).pvalue > UNLIKELY
    assert abs(np.corrcoef(spread, total[:, arm])[0, 1]) < 5 / math.sqrt(20_000)


def test_blocks_of_pulls_have_independent_noise():
  """Fresh pulls at another level, hence with another start, are other pulls."""
  env = bandits.gaussian(np.zeros(40), 1.0)
  arms = jnp.arange(40)
  starts = jnp.asarray([0, 2, 6, 12])

  def noise(key):
    return jax.vmap(lambda s: env.sample(key, arms, 2, start=s)[0])(starts)

  found = np.asarray(jax.jit(jax.vmap(noise))(KEYS))
  rows = np.moveaxis(found, 1, 0).reshape(4, -1)
  score = np.corrcoef(rows) * math.sqrt(rows.shape[1])
  assert np.abs(score[np.triu_indices(4, 1)]).max() < 5
  np.testing.assert_allclose(found.std(), math.sqrt(2), rtol=0.02)


def test_categorical_counts_are_multinomial():
  probs = np.asarray([[0.2, 0.5, 0.3], [0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
  env = bandits.categorical(probs, [0.0, 0.5, 1.0])
  keys = jax.random.split(KEY, 30_000)
  arms = jnp.arange(3)
  counts = np.asarray(
    jax.jit(jax.vmap(lambda k: env.counts(k, arms, jnp.int32(4))))(keys)
  )
  assert np.issubdtype(counts.dtype, np.integer)
  assert np.all(counts >= 0)
  assert np.all(counts.sum(-1) == 4)
  assert np.all(counts[:, 1] == [0, 4, 0])
  kinds, observed = np.unique(counts[:, 0], axis=0, return_counts=True)
  expected = scipy.stats.multinomial(4, probs[0]).pmf(kinds) * 30_000
  assert len(kinds) == math.comb(6, 2)
  assert scipy.stats.chisquare(observed, expected).pvalue > UNLIKELY


def test_pulls_add_up_however_they_are_batched():
  env = bandits.categorical([[0.2, 0.5, 0.3]] * 5, [0.0, 0.5, 1.0])
  arms = jnp.arange(5)

  @jax.jit
  def play(key):
    whole = env.sample(key, arms, 9, start=2)
    traced = env.sample(key, arms, jnp.full(5, 9), start=2)
    cuts = ((2, 4), (6, 1), (7, 4))
    return whole, traced, [env.sample(key, arms, n, start=s) for s, n in cuts]

  whole, traced, parts = play(KEY)
  for place in range(2):
    total = sum(np.asarray(part[place]) for part in parts)
    np.testing.assert_array_equal(whole[place], total)
    np.testing.assert_array_equal(whole[place], traced[place])


@pytest.mark.parametrize(
  'env',
  [
    bandits.gaussian(np.arange(6.0), 1.0),
    bandits.bernoulli(np.arange(6) / 6),
    bandits.table(np.arange(60.0).reshape(6, 10)),
    bandits.infinite(jax.random.uniform, sigma=0.1),
  ],
)
def test_taken_arms_keep_their_rewards(env):
  arms = jnp.asarray([4, 0, 5])

  @jax.jit
  def both(key):
    taken, places = env.take(arms), jnp.arange(3)
    return (
      (env.sample(key, arms, 3, start=1), env.mean(key, arms)),
      (taken.sample(key, places, 3, start=1), taken.mean(key, places)),
    )

  chex.assert_trees_all_close(*both(KEY), rtol=1e-6)
  assert env.take(arms).num_arms == 3


@pytest.mark.parametrize('num_rewards', [10, 300])
def test_table_gives_each_reward_once(num_rewards):
  rewards = np.arange(3 * num_rewards).reshape(3, num_rewards)
  lengths = np.asarray([num_rewards, num_rewards - 3, 1])
  env = bandits.table(rewards, lengths)

  @jax.jit
  def play(key):
    pulls = jnp.arange(num_rewards + 1)
    each = jax.vmap(lambda j: env.sample(key, jnp.arange(3), 1, start=j)[0])
    return each(pulls).T

  one, two = np.asarray(play(KEYS[0])), np.asarray(play(KEYS[1]))
  assert not np.array_equal(one, two)
  for found in (one, two):
    for arm, length in enumerate(lengths):
      assert sorted(found[arm, :length]) == rewards[arm, :length].tolist()
      assert np.all(np.isnan(found[arm, length:]))
  assert np.any(np.diff(one[0, :num_rewards]) != 1)


def test_short_table_draws_without_replacement():
  values = np.random.default_rng(0).normal(size=40)
  env = bandits.table(values[None])
  keys = jax.random.split(KEY, 2000)

  @jax.jit
  @jax.vmap
  def play(key):
    pull = jax.vmap(lambda j: env.sample(key, 0, 1, start=j)[0])
    return pull(jnp.arange(40))

  found = np.asarray(play(keys))
  order = np.argsort(values.astype(np.float32))
  places = order[np.searchsorted(values.astype(np.float32)[order], found)]
  assert_sampling_variance(places, values)


def test_recycled_table_starts_again_in_the_same_order():
  rewards = np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32)
  env = bandits.table(rewards, recycle=True)
  sample = jax.jit(lambda n, s: env.sample(KEY, jnp.arange(2), n, start=s)[0])
  once = sample(8, 0)
  np.testing.assert_array_equal(once, sample(8, 16))
  np.testing.assert_allclose(once, rewards.sum(-1), rtol=1e-5)
  np.testing.assert_array_equal(sample(3, 0), sample(3, 8))


@pytest.mark.parametrize('impl', ['threefry2x32', 'rbg', 'unsafe_rbg'])
def test_kinds_of_keys(impl):
  """Different keys of every kind give different numbers."""
  keys = jax.random.split(jax.random.key(3, impl=impl), 500)
  found = np.asarray(jax.vmap(lambda k: randomness.normal(k, 1, 2))(keys))
  assert np.unique(found).size == 500
  assert scipy.stats.kstest(found, 'norm').pvalue > UNLIKELY


def test_raw_keys_are_like_new_ones():
  new, raw = jax.random.key(3), jax.random.PRNGKey(3)
  assert randomness.normal(new, 1, 2) == randomness.normal(raw, 1, 2)


@pytest.mark.parametrize(
  'make,words',
  [
    (lambda: bandits.gaussian([0.0, math.nan], 1.0), ['mu[1]', 'nan']),
    (lambda: bandits.gaussian([[0.0, math.inf]], 1.0), ['mu[0, 1]', 'inf']),
    (lambda: bandits.gaussian([], 1.0), ['mu', '(0,)']),
    (lambda: bandits.gaussian([0.0], -0.5), ['sigma', '-0.5']),
    (lambda: bandits.gaussian([0.0], math.nan), ['sigma', 'nan']),
    (lambda: bandits.deterministic([math.inf]), ['mu[0]', 'inf']),
    (lambda: bandits.bernoulli([0.5, 1.5]), ['mu', '1.5']),
    (lambda: bandits.bernoulli([-0.1]), ['mu', '-0.1']),
    (lambda: bandits.bernoulli([math.nan]), ['mu[0]', 'nan']),
    (lambda: bandits.categorical([[0.5, 0.4]], [0, 1]), ['probs', '0.9']),
    (
      lambda: bandits.categorical([[1, 0], [0.5, 0.500002]], [0, 1]),
      ['probs', 'row 1'],
    ),
    (lambda: bandits.categorical([[1.5, -0.5]], [0, 1]), ['probs', '-0.5']),
    (lambda: bandits.categorical([[0.5, math.nan]], [0, 1]), ['probs', 'nan']),
    (lambda: bandits.categorical([[0.5, 0.5]], [0, math.nan]), ['values[1]']),
    (lambda: bandits.infinite(jax.random.uniform, sigma=-1.0), ['sigma', '-1']),
    (lambda: bandits.table([1.0, 2.0]), ['rewards', '(2,)']),
    (lambda: bandits.table(np.ones((2, 3)), [3, 0]), ['lengths[1]']),
    (lambda: bandits.table(np.ones((2, 3)), [5, 3]), ['lengths[0]', '5']),
    (lambda: bandits.table(np.ones((2, 3)), [3]), ['lengths']),
    (lambda: bandits.table([[1.0, math.nan]]), ['rewards[0, 1]', 'nan']),
  ],
)
def test_bad_input(make, words):
  with pytest.raises(ValueError) as caught:
    make()
  assert all(word in str(caught.value) for word in words), str(caught.value)


def test_places_beyond_the_length_may_hold_anything():
  assert float(bandits.table([[1.0, math.nan]], [1]).best_mean()) == 1
