"""Best-arm identification: python -m benchmarks.bandits [--quick].

Times are per replication of a whole run, random numbers included on both
sides. The NumPy reference of Box Thirding is the one of the tests, so its rows
need a checkout.
"""

import functools
import sys
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import scipy.stats

from benchmarks import bandits_loops, bandits_program, peers, timing
from benchmarks.timing import Row, Side
from jaxlab import bandits, parallel

try:
  from tests.bandits import reference
except ModuleNotFoundError:
  reference = None  # type: ignore[assignment]

_NUM_ARMS = 9250
_SIGMA = 0.5
_T0 = 2
_NUMPY = f'NumPy {np.__version__}'
_CONTEST = f'N={_NUM_ARMS}'
# 20 arms on which a few hundred pulls leave an error of about a seventh.
_TWENTY = (0.7, *(0.5,) * 9, *(0.4,) * 10)


def rows(quick: bool) -> Iterator[Row]:
  """Yields the rows, the longest ones only without `quick`."""
  budgets = (500, 3000) if quick else (500, 3000, 30000)
  largest = budgets[-1]
  yield compile_time(largest)
  for budget in budgets:
    yield from b3_against_reference(budget, quick)
  if not quick:
    yield many_replications()
    yield bandits_program.cost_slope((2000, 8000, 32000))
  env = bandits.gaussian(_means(_NUM_ARMS), _SIGMA)
  yield bandits_program.memory(env, largest)
  yield from bandits_program.random_numbers(env, largest)
  yield from bandits_program.hashes()
  yield from index_rules(quick)
  yield from packages(quick)


def b3_against_reference(budget: int, quick: bool) -> Iterator[Row]:
  """Batched Box Thirding against sequential NumPy."""
  goal = {3000: timing.faster(40), 30000: timing.faster(30)}.get(budget)
  work = f'B3, {_CONTEST}, T={budget}'
  if reference is None:
    cure = 'run it in a checkout: the reference is one of the tests'
    why = 'NumPy reference: not installed'
    yield timing.unmeasured(work, why, 'ms', goal=goal, note=cure)
    return
  mu = _means(_NUM_ARMS)
  env = bandits.gaussian(mu, _SIGMA)
  replications = 500 if quick or budget > 3000 else 2000

  def ours(seed: int) -> np.ndarray:
    return _simulate(bandits.box_thirding(), env, budget, replications, seed)

  def theirs(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    play = functools.partial(
      reference.numpy_b3, rng, mu.tolist(), _SIGMA, budget, _T0, bandits.R_STAR
    )
    return np.array([play() for _ in range(100)])

  def agree(a: np.ndarray, b: np.ndarray) -> str:
    exact = _same_without_noise(mu, budget, replications)
    return f'{exact}; {means_agree(mu[a], mu[b])}'

  row = timing.compare(
    *(work, Side(ours, replications), Side(theirs, 100, _NUMPY), agree),
    goal=goal,
    repeats=3 if quick else 9,
  )
  yield row
  if budget == 30000 and row.ours is not None:
    limit = timing.below(3, 'ms')
    yield timing.measured(f'{work}, by itself', row.ours, 'ms', goal=limit)


def _same_without_noise(mu: np.ndarray, budget: int, replications: int) -> str:
  """Both engines on the same entry orders, without noise: the same arms."""
  key = jax.random.key(7)
  algorithm = bandits.box_thirding()
  engine = algorithm.engine
  assert engine is not None
  env = bandits.gaussian(mu, 0.0)
  found = _simulate(algorithm, env, budget, replications, 7)

  def order(key):
    algorithm_key, _ = jax.random.split(key)
    return engine.enter(algorithm_key, _NUM_ARMS, budget)

  keys = parallel.replication_keys(key, 20)
  orders = np.asarray(jax.jit(jax.vmap(order))(keys))
  expected = [
    reference.numpy_b3(
      GivenOrder(each), mu.tolist(), 0.0, budget, _T0, bandits.R_STAR
    )
    for each in orders
  ]
  if list(found[:20]) != expected:
    raise timing.DisagreementError(f'{list(found[:20])} and {expected}.')
  return '20 of 20 noiseless runs end with the same arm'


class GivenOrder(np.random.Generator):
  """Stands in for a generator: a given order and no noise."""

  def __init__(self, order: np.ndarray):
    super().__init__(np.random.PCG64())
    self._order = order

  def permutation(self, x, axis=0):
    del x, axis
    return self._order

  def standard_normal(self, size=None, *_, **__):
    return np.zeros(size)


def compile_time(budget: int) -> Row:
  """The first call, less a second one."""
  env = bandits.gaussian(_means(_NUM_ARMS), _SIGMA)
  seconds = timing.first_call_seconds(
    lambda seed: _simulate(bandits.box_thirding(), env, budget, 500, seed)
  )
  return timing.measured(
    f'B3, {_CONTEST}, T={budget}: to compile, without a cache',
    *(seconds, 's'),
    goal=timing.below(15, 's'),
  )


def many_replications() -> Row:
  """2000 replications of T=8000, compiled."""
  env = bandits.gaussian(_means(_NUM_ARMS), _SIGMA)
  seconds = timing.median_seconds(
    lambda seed: _simulate(bandits.box_thirding(), env, 8000, 2000, seed), 5
  )
  return timing.measured(
    f'B3, {_CONTEST}, T=8000: 2000 replications',
    *(seconds, 's'),
    goal=timing.below(5, 's'),
  )


def index_rules(quick: bool) -> Iterator[Row]:
  """Rules that choose every pull, 1000 replications at once."""
  a, delta, replications = 8.0, 0.1, 1000
  budget = 300 if quick else 1000
  jobs: list[tuple[str, Any, Any, int, float]] = [
    ('UCB-E', bandits.ucb_e(a), bandits_loops.ucb_e, 64, a),
    ('LUCB', bandits.lucb(delta, _SIGMA), bandits_loops.lucb, 64, delta),
    (
      *('BUCB', bandits.bracketing_ucb(delta, sigma=_SIGMA)),
      *(bandits_loops.bucb, 1000, delta),
    ),
  ]
  for name, algorithm, loop, num_arms, setting in jobs:
    mu = _means(num_arms)
    env = bandits.gaussian(mu, _SIGMA)

    def ours(seed, algorithm=algorithm, env=env):
      return _simulate(algorithm, env, budget, replications, seed)

    def theirs(seed, loop=loop, mu=mu, setting=setting):
      rng = np.random.default_rng(seed)
      return np.array(
        [loop(rng, mu, _SIGMA, budget, setting) for _ in range(50)]
      )

    def agree(x, y, mu=mu):
      return means_agree(mu[x], mu[y])

    yield timing.compare(
      f'{name}, N={num_arms}, T={budget}',
      Side(ours, replications),
      Side(theirs, 50, _NUMPY),
      agree,
      goal=timing.faster(20),
      repeats=3 if quick else 7,
    )


def packages(quick: bool) -> Iterator[Row]:
  """Published packages on 20 Bernoulli arms."""
  budget, a, delta, replications = 400, 2.0, 0.1, 1000
  env = bandits.bernoulli(_TWENTY)
  # (package, algorithm here, replications of a call there)
  jobs: list[tuple[str, str, Any, int]] = [
    ('SMPyBandits', 'UCB-E', bandits.ucb_e(a), 300),
    ('rlberry', 'UCB-E', bandits.ucb_e(a), 60),
    ('best-arm', 'LUCB', bandits.lucb(delta), 200),
  ]
  for package, name, algorithm, full_size in jobs:
    work = f'{name}, 20 Bernoulli arms, T={budget}'
    size = full_size // 4 if quick else full_size
    with peers.Peer(package, 'bandits_peers.py') as peer:
      if peer.version is None:
        why = f'{package}: not installed'
        yield timing.unmeasured(work, why, 'ms', note=peers.CURE)
        continue
      job = {'mu': _TWENTY, 'budget': budget, 'a': a, 'delta': delta}

      def ours(seed, algorithm=algorithm):
        return _simulate(algorithm, env, budget, replications, seed)

      def theirs(seed, peer=peer, job=job, size=size):
        return np.array(peer.run(seed=seed, replications=size, **job))

      yield timing.compare(
        *(work, Side(ours, replications), Side(theirs, size, peer.version)),
        lambda x, y: shares_agree(x != 0, y != 0),
        repeats=3 if quick else 5,
      )


def means_agree(a: np.ndarray, b: np.ndarray) -> str:
  """Compares two samples of true means: within 3 standard errors.

  Raises:
    DisagreementError: if they are further apart.
  """
  error = np.hypot(scipy.stats.sem(a), scipy.stats.sem(b))
  text = f'mean of the arm {np.mean(a):.4f} and {np.mean(b):.4f}'
  return _within(text, abs(np.mean(a) - np.mean(b)), float(error))


def shares_agree(a: np.ndarray, b: np.ndarray) -> str:
  """Compares two error rates: within 3 standard errors of equal ones.

  Raises:
    DisagreementError: if they are further apart.
  """
  share = np.mean(np.concatenate([a, b]))
  error = np.sqrt(share * (1 - share) * (1 / len(a) + 1 / len(b)))
  text = f'error rates {np.mean(a):.3f} and {np.mean(b):.3f}'
  return _within(text, abs(np.mean(a) - np.mean(b)), float(error))


def _within(text: str, distance: float, error: float) -> str:
  text = f'{text}, standard error {error:.4f}'
  if distance > 3 * error:
    raise timing.DisagreementError(text)
  return text


def _simulate(algorithm, env, budget, replications, seed) -> np.ndarray:
  key = jax.random.key(seed)
  result = bandits.simulate(
    key, algorithm, env, budget=budget, replications=replications
  )
  return result.arms[:, 0]


@functools.cache
def _means(num_arms: int) -> np.ndarray:
  """Evenly spaced means in random order, all of them different."""
  rng = np.random.default_rng(0)
  return rng.permutation(np.linspace(0, 1, num_arms, dtype=np.float32))


if __name__ == '__main__':
  from benchmarks.__main__ import main

  sys.exit(main(['bandits', *sys.argv[1:]]))
