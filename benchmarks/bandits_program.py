"""The compiled program of Box Thirding: cost, memory, random numbers."""

import ctypes
import ctypes.util
import gc
import pathlib
import re
import statistics
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import timing
from benchmarks.timing import Row, Side
from jaxlab import bandits
from jaxlab.bandits import randomness

_STATUS = pathlib.Path('/proc/self/status')
_CLEAR = pathlib.Path('/proc/self/clear_refs')


def cost_slope(budgets: tuple[int, ...]) -> Row:
  """Log-log slope of the time of a replication over the arms entered.

  The pool holds twice as many arms as enter, so that the random order of entry
  grows with them.
  """
  entered, seconds = [], []
  for budget in budgets:
    c0 = bandits.b3_schedule(budget, 10**6).entered
    env = bandits.gaussian(np.linspace(0, 1, 2 * c0), 0.5)
    replications = max(1, 2**20 // c0)

    def run(seed, env=env, budget=budget, replications=replications):
      bandits.simulate(
        jax.random.key(seed),
        bandits.box_thirding(),
        env,
        budget=budget,
        replications=replications,
      )

    entered.append(c0)
    seconds.append(timing.median_seconds(run, 5) / replications)
  slope = np.polyfit(np.log(entered), np.log(seconds), 1)[0]
  return timing.measured(
    f'B3: log-log slope of time over c0 = {entered[0]} to {entered[-1]}',
    *(float(slope), ''),
    goal=timing.between(0.9, 1.1),
  )


def memory(env: bandits.envs.Environment, budget: int) -> Row:
  """Growth of the peak memory of the process within a bounded simulation."""
  bound = 64
  work = f'B3, N={env.num_arms}, T={budget}: peak memory at {bound} MiB'
  goal = timing.below(bound, 'MiB')
  if not _CLEAR.exists():
    return timing.unmeasured(work, 'needs Linux', 'MiB', goal=goal)

  def run(seed):
    bandits.simulate(
      jax.random.key(seed),
      bandits.box_thirding(),
      env,
      budget=budget,
      replications=2000,
      max_bytes=bound * 2**20,
    )

  run(0)
  gc.collect()
  # Memory that was freed but not given back would hide what is used.
  library = ctypes.CDLL(ctypes.util.find_library('c'))
  if hasattr(library, 'malloc_trim'):
    library.malloc_trim(0)
  _CLEAR.write_text('5')
  before = _status_mib('VmRSS')
  run(1)
  grown = _status_mib('VmHWM') - before
  return timing.measured(
    work, grown, 'MiB', goal=goal, note='2000 replications'
  )


def random_numbers(env: bandits.envs.Environment, budget: int) -> Iterator[Row]:
  """The share of random numbers in a run, and its memory traffic."""
  schedule = bandits.b3_schedule(budget, env.num_arms)
  draws = schedule.entered + schedule.num_process
  replications = 200
  keys = jax.random.split(jax.random.key(0), replications)

  def whole(key):
    return bandits.simulate_b3(key, env, schedule).arms

  def only_draws(key):
    order = randomness.random_order(key, env.num_arms, schedule.entered)
    pulls = jnp.arange(draws, dtype=jnp.int32)
    normals = jax.vmap(lambda j: randomness.normal(key, j, j))(pulls)
    return jnp.sum(order), jnp.sum(normals)

  programs = [
    jax.jit(jax.vmap(f)).lower(keys).compile() for f in (whole, only_draws)
  ]
  runs = [
    lambda _, p=program: jax.block_until_ready(p(keys)) for program in programs
  ]
  for run in runs:
    run(0)
  whole_taken, draws_taken = map(statistics.median, timing.alternate(runs, 9))
  work = f'B3, N={env.num_arms}, T={budget}'
  yield timing.measured(
    f'{work}: share of random numbers in the time',
    *(100 * draws_taken / whole_taken, '%'),
    note=f'{draws} normal numbers and the order of entry',
  )
  moved = (programs[0].cost_analysis() or {}).get('bytes accessed')
  if moved is not None:
    yield timing.measured(
      f'{work}: bytes that the program accesses, by the count of XLA',
      *(moved / whole_taken / 1e9, 'GB/s'),
    )


def hashes() -> Iterator[Row]:
  """Keyed random words: the hash of this package against JAX's generators."""
  num = 2**18
  counters = jnp.arange(num, dtype=jnp.int32)

  def ours(key):
    return jax.vmap(lambda i: randomness.words(key, i, i))(counters)

  def theirs(key):
    def draw(i):
      own = jax.random.fold_in(jax.random.fold_in(key, i), i)
      return jax.random.bits(own, (2,), jnp.uint32)

    return jax.vmap(draw)(counters)

  def side(draw, implementation):
    program = jax.jit(draw)

    def run(seed):
      key = jax.random.key(seed, impl=implementation)
      return jax.block_until_ready(program(key))

    version = f'{implementation}, jax {jax.__version__}'
    return Side(run, num // 1000, version)

  for implementation in ('threefry2x32', 'rbg'):
    yield timing.compare(
      '1000 pairs of random words, each keyed by two counters',
      side(ours, 'threefry2x32'),
      side(theirs, implementation),
      _fair_bits,
      unit='us',
      repeats=9,
    )


def _fair_bits(*results) -> str:
  """Checks that each of the 32 bits is set in half of the words."""
  worst = 0.0
  for result in results:
    words = np.asarray(result).ravel()
    for bit in range(32):
      share = np.mean((words >> np.uint32(bit)) & 1)
      worst = max(worst, 2 * np.sqrt(words.size) * abs(share - 0.5))
  if worst > 4.5:
    raise timing.DisagreementError(f'a bit is off by {worst:.1f} sigma.')
  return f'all bits are fair: within {worst:.1f} sigma'


def _status_mib(field: str) -> float:
  found = re.search(rf'{field}:\s+(\d+) kB', _STATUS.read_text())
  assert found
  return int(found[1]) / 1024
