"""Fair decisions from scores: python -m benchmarks.fairness [--quick].

All in float64. The linear programs are those of the tests, so their row needs
a checkout; the rows of fairlearn need it in the environment.
"""

import contextlib
import functools
import os
import pathlib
import sys
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import scipy

from benchmarks import fairness_fairlearn, fairness_reference, timing
from benchmarks.timing import Row, Side
from jaxlab import parallel
from jaxlab.fairness import GroupScores, Solution, optimal_sufficient

try:
  from tests.fairness import oracles
except ModuleNotFoundError:
  oracles = None  # type: ignore[assignment]

_NUMPY = f'NumPy {np.__version__}'
_HIGHS = f'HiGHS in SciPy {scipy.__version__}'
_LEVELS = 200  # distinct scores of a group of the credit scores
_PEOPLE = np.array([17_000, 3_000])
_CHUNK = 16  # instances at once on a device: they stay in its cache
_THREADS = pathlib.Path('/proc/self/task')


def rows(quick: bool) -> Iterator[Row]:
  """Yields the rows, with fewer and smaller instances if `quick`."""
  for part in (
    one_instance,
    many_instances,
    linear_programs,
    fairlearn_fits,
  ):
    with jax.enable_x64(True):
      found = list(part(quick))
    yield from found


def one_instance(quick: bool) -> Iterator[Row]:
  """The time of one call against the number of scores of a group."""
  sizes: tuple[int, ...] = (1000, 10_000, 100_000)
  if not quick:
    sizes = (1000, 3162, 10_000, 31_623, 100_000)
  goals = {1000: timing.below(5, 'ms'), 100_000: timing.below(1000, 'ms')}
  yield compile_time(sizes[0])
  seconds = {}
  with one_core() as where:
    for m in sizes:
      run = functools.partial(_solve, random_instance(m))
      seconds[m] = timing.median_seconds(run, 51 if m <= 10_000 else 15)
    for m, goal in goals.items():
      yield timing.measured(
        f'Optimum, K=2, m={m:_}, {where}', 1e3 * seconds[m], 'ms', goal=goal
      )
    yield traffic(sizes[-1], where)
  slope = np.polyfit(np.log(sizes), np.log([*seconds.values()]), 1)[0]
  yield timing.measured(
    f'Optimum, K=2: log-log slope of time over m = {sizes[0]:_} to '
    f'{sizes[-1]:_}, {where}',
    *(float(slope), ''),
    goal=timing.Goal('<= 1.15', lambda ours, _: ours <= 1.15),
    note=', '.join(f'm={m:_} {1e3 * t:.3g} ms' for m, t in seconds.items()),
  )


def compile_time(m: int) -> Row:
  """The first call, less a second one."""
  gs = random_instance(m)
  seconds = timing.first_call_seconds(lambda seed: _solve(gs, seed))
  return timing.measured(
    f'Optimum, K=2, m={m:_}: to compile, without a cache', seconds, 's'
  )


def traffic(m: int, where: str) -> Row:
  """Bytes that XLA counts in the program, by the time of a call."""
  gs = random_instance(m)
  program = jax.jit(optimal_sufficient).lower(gs).compile()
  seconds = timing.median_seconds(
    lambda _: jax.block_until_ready(program(gs)), 15
  )
  moved = (program.cost_analysis() or {}).get('bytes accessed', np.nan)
  return timing.measured(
    f'Optimum, K=2, m={m:_}, {where}: bytes that the program accesses, by the '
    'count of XLA',
    *(moved / seconds / 1e9, 'GB/s'),
    note=f'{moved / 1e6:.0f} MB a call; the body of a loop counts once',
  )


def many_instances(quick: bool) -> Iterator[Row]:
  """Bootstrap instances at once, on all devices, against a loop."""
  count, looped = (2000, 200) if quick else (10_000, 1000)
  gs = bootstrap_instances(count)
  scores, mass, weight, _ = map(np.asarray, gs)
  solve = parallel.sharded_vmap(optimal_sufficient, chunk=_CHUNK)

  def ours(seed: int) -> Solution:
    del seed
    return jax.block_until_ready(solve(gs))

  def theirs(seed: int) -> list[fairness_reference.Rule | None]:
    del seed
    return [
      fairness_reference.optimal_sufficient(*instance)
      for instance in zip(scores, mass, weight[:looped], strict=False)
    ]

  yield timing.compare(
    f'Optimum, K=2, m={_LEVELS}: a bootstrap instance, {count:_} at once',
    Side(ours, count),
    Side(theirs, looped, _NUMPY),
    _same_rules,
    unit='us',
    goal=timing.faster(20),
    repeats=3 if quick else 7,
  )


def _same_rules(found: Solution, rules: list) -> str:
  """The losses agree to 1e-9, or neither has any."""
  expected = np.array([rule.loss if rule else np.nan for rule in rules])
  loss = np.asarray(found.loss)[: len(rules)]
  error = np.where(np.isnan(loss) & np.isnan(expected), 0, loss - expected)
  worst = np.max(np.abs(error))
  text = f'{len(rules)} losses agree to {worst:.0e}'
  if not worst <= 1e-9:
    raise timing.DisagreementError(text)
  return f'{text}, {np.isfinite(loss).sum()} feasible'


def linear_programs(quick: bool) -> Iterator[Row]:
  """A grid of PPVs, with a linear program for each group's FOR at each."""
  points, calls = 200, 100
  goal = timing.faster(1000)
  work = f'Optimum, K=2, m={_LEVELS}: against a grid of {points} PPVs'
  if oracles is None:
    cure = 'run it in a checkout: the linear programs are those of the tests'
    why = 'linear programs: not installed'
    yield timing.unmeasured(work, why, 'ms', goal=goal, note=cure)
    return
  gs = jax.tree.map(lambda x: x[0], bootstrap_instances(1))
  host = jax.device_get(gs)
  base_rates = oracles.base_rates(host)
  best = float(_solve(gs).ppv)
  low, high = base_rates.max(), host.scores[:, 0].min()
  # The grid is given one optimal point: both sides are then equally accurate.
  grid = np.append(np.linspace(low, high, points + 1)[1:-1], best)

  def ours(seed: int) -> Solution:
    del seed
    return [_solve(gs) for _ in range(calls)][-1]

  def theirs(seed: int) -> np.ndarray:
    del seed
    lowest = [
      max(
        oracles.lp_lower_for(s, w, p)
        for s, w in zip(host.scores, host.mass, strict=True)
      )
      for p in grid
    ]
    loss = oracles.loss_of(host, grid, np.array(lowest))
    return np.where(np.array(lowest) <= base_rates.min() + 1e-9, loss, np.inf)

  def agree(found: Solution, losses: np.ndarray) -> str:
    error = float(abs(found.loss - losses.min()))
    if not error <= 1e-9:
      raise timing.DisagreementError(f'the losses differ by {error:.0e}')
    behind = float(losses[:-1].min() - found.loss)
    return (
      f'losses agree to {error:.0e} as the grid holds the optimum; without '
      f'that point it is {behind:.0e} behind'
    )

  yield timing.compare(
    work,
    Side(ours, calls),
    Side(theirs, 1, _HIGHS),
    agree,
    goal=goal,
    repeats=1 if quick else 3,
  )


def fairlearn_fits(quick: bool) -> Iterator[Row]:
  """ThresholdOptimizer on as many people, and against a bootstrap instance."""
  people = int(_PEOPLE.sum())
  repeats = 3 if quick else 7
  for calibrated in (True, False):
    yield from fairness_fairlearn.fits(
      labelled_people(calibrated=calibrated), repeats, calibrated=calibrated
    )
  gs = bootstrap_instances(2000 if quick else 10_000)
  solve = parallel.sharded_vmap(optimal_sufficient, chunk=_CHUNK)
  yield fairness_fairlearn.other_criterion(
    f'A bootstrap instance, m={_LEVELS}, against a fit, n={people:_}',
    Side(lambda _: jax.block_until_ready(solve(gs)), len(gs.weight)),
    labelled_people(calibrated=True),
    repeats,
  )


@contextlib.contextmanager
def one_core() -> Iterator[str]:
  """Keeps all threads of the process on one core, where the system can.

  Yields:
    How many cores are used, in words.
  """
  if not _THREADS.exists():
    yield 'all cores'
    return
  cores = os.sched_getaffinity(0)
  try:
    _keep_threads_on({max(cores)})
    yield 'one core'
  finally:
    _keep_threads_on(cores)


def _keep_threads_on(cores: set[int]) -> None:
  for thread in _THREADS.iterdir():
    with contextlib.suppress(ProcessLookupError):
      os.sched_setaffinity(int(thread.name), cores)


def _solve(gs: GroupScores, seed: int = 0) -> Solution:
  del seed
  return jax.block_until_ready(optimal_sufficient(gs))


def random_instance(m: int) -> GroupScores:
  """Two groups of m distinct scores."""
  rng = np.random.default_rng(0)
  scores, mass = _distributions(rng, m)
  weight, n_atoms = np.array([0.7, 0.3]), np.full(2, m, dtype=np.int32)
  return GroupScores(*map(jnp.asarray, (scores, mass, weight, n_atoms)))


def bootstrap_instances(count: int) -> GroupScores:
  """Resampled people of two groups with 200 levels of a score."""
  rng = np.random.default_rng(1)
  scores, mass = _distributions(rng, _LEVELS)
  drawn = np.stack(
    [
      rng.multinomial(n, weights, count) / n
      for n, weights in zip(_PEOPLE, mass, strict=True)
    ],
    axis=1,
  )
  weight = np.broadcast_to(_PEOPLE / _PEOPLE.sum(), (count, 2))
  n_atoms = np.full((count, 2), _LEVELS, dtype=np.int32)
  scores = np.broadcast_to(scores, drawn.shape)
  return GroupScores(*map(jnp.asarray, (scores, drawn, weight, n_atoms)))


def labelled_people(*, calibrated: bool) -> fairness_fairlearn.People:
  """People of two groups.

  Args:
    calibrated: give each the share of positives among those of the same group
      and level as the score, so that a rule has the same accuracy on scores
      and labels; otherwise, a score of one's own.
  """
  rng = np.random.default_rng(2)
  scores, mass = _distributions(rng, _LEVELS)
  group = np.repeat(np.arange(2), _PEOPLE)
  level = np.concatenate(
    [
      rng.choice(_LEVELS, n, p=weights)
      for n, weights in zip(_PEOPLE, mass, strict=True)
    ]
  )
  chance = scores[group, level]
  label = (rng.random(len(group)) < chance).astype(int)
  if not calibrated:
    own = np.clip(chance + 0.01 * rng.normal(size=len(group)), 0, 1)
    return fairness_fairlearn.People(own, group, label)
  cell = group * _LEVELS + level
  share = np.bincount(cell, label) / np.maximum(np.bincount(cell), 1)
  return fairness_fairlearn.People(share[cell], group, label)


def _distributions(
  rng: np.random.Generator, m: int
) -> tuple[np.ndarray, np.ndarray]:
  """Falling scores and masses of two groups, `[2, m]` each."""
  scores = -np.sort(-rng.beta([[2.0], [1.3]], [[1.3], [1.6]], (2, m)), axis=1)
  return scores, rng.dirichlet(np.full(m, 3.0), 2)


if __name__ == '__main__':
  from benchmarks.__main__ import main

  sys.exit(main(['fairness', *sys.argv[1:]]))
