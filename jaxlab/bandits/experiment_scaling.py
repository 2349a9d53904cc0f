"""Time and memory of simulated Box Thirding against the size of the problem.

Timings differ from run to run; a resumed run keeps the ones it has.
"""

import ctypes
import functools
import math
import pathlib
import time
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import numpy as np

from jaxlab import errors, stats
from jaxlab.bandits import envs, plots, schedule
from jaxlab.bandits import experiment_records as records
from jaxlab.bandits.box_thirding import box_thirding
from jaxlab.bandits.simulate import simulate
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress

_PROCESS = pathlib.Path('/proc/self')


class Case(NamedTuple):
  """One size of the problem.

  Attributes:
    num_arms: N.
    budget: T.
    replications: R.
  """

  num_arms: int
  budget: int
  replications: int

  @property
  def entered(self) -> int:
    """The number of arms c0 that enter."""
    return schedule.b3_schedule(self.budget, self.num_arms).entered


class Measured(NamedTuple):
  """What was measured of K cases.

  Attributes:
    cases: the K cases.
    seconds: `[repeats, K]` wall time of a whole simulation, compiled before.
    peak_bytes: `[K]` growth of the resident memory at its peak; nan where the
      system does not tell.
  """

  cases: list[Case]
  seconds: np.ndarray
  peak_bytes: np.ndarray


def run(config, workdir) -> None:
  """Measures simulations of growing pools and of growing numbers of runs."""
  records.check_positive(
    config,
    'num_arms',
    'replications',
    'arms_replications',
    'budget_share',
    'repeats',
    'max_bytes',
    'slope_tolerance',
  )
  if config.repeats < 2 or len(config.num_arms) < 2:
    raise errors.UserError(
      'config.repeats and the length of config.num_arms must be at least 2, '
      f'got {config.repeats} and {config.num_arms}.'
    )
  by_arms = [
    _case(config, num, config.arms_replications) for num in config.num_arms
  ]
  by_replications = [
    _case(config, config.middle_arms, count) for count in config.replications
  ]
  steps = 2 * (config.repeats + 1)
  with Progress('scaling', steps) as progress:
    arms = _measure(config, workdir, progress, 'arms', by_arms)
    replications = _measure(
      config, workdir, progress, 'replications', by_replications
    )
  _record(config, workdir, arms, replications)


def log_slope(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  """`[...]` least-squares slope of log y on log x over the last axis.

  Args:
    x: `[K]` positive numbers.
    y: `[..., K]` positive numbers.
  """
  centred = np.log(x) - np.log(x).mean()
  return np.log(y) @ centred / np.sum(centred**2)


def peak_growth(work: Callable[[], object]) -> float:
  """By how many bytes the resident memory grows at most during `work`.

  Linux only: elsewhere, or where the peak cannot be reset, nan.
  """
  try:
    # Memory that was freed but kept would hide part of the growth.
    ctypes.CDLL(None).malloc_trim(0)
    (_PROCESS / 'clear_refs').write_text('5')
    before = _status_bytes('VmRSS')
    work()
    return float(_status_bytes('VmHWM') - before)
  except (OSError, AttributeError, KeyError):
    return math.nan


def _status_bytes(field: str) -> int:
  lines = (_PROCESS / 'status').read_text().splitlines()
  fields = dict(line.split(':', 1) for line in lines if ':' in line)
  return 1024 * int(fields[field].split()[0])


def _case(config, num_arms: int, replications: int) -> Case:
  budget = max(1, round(config.budget_share * num_arms))
  return Case(int(num_arms), budget, int(replications))


def _simulation(config, case: Case) -> Callable[[], object]:
  mu = (1 - np.arange(case.num_arms) / case.num_arms).astype(np.float32)
  return functools.partial(
    simulate,
    jax.random.key(config.seed),
    box_thirding(),
    envs.gaussian(mu, 1.0),
    budget=case.budget,
    replications=case.replications,
    max_bytes=config.max_bytes,
  )


def _measure(config, workdir, progress, name: str, cases) -> Measured:
  """All cases in turn, again and again, so that load hits them alike."""

  @functools.lru_cache(maxsize=None, typed=True)
  def compiled() -> list[Callable[[], object]]:
    works = [_simulation(config, case) for case in cases]
    for work in works:
      work()
    return works

  def peaks():
    return {'bytes': [peak_growth(work) for work in compiled()]}

  def round_of_timings():
    seconds = []
    for work in compiled():
      start = time.perf_counter()
      work()
      seconds.append(time.perf_counter() - start)
    return {'seconds': seconds}

  peak_bytes = workdir.cached(records.unit_name(name, 'peak'), peaks)['bytes']
  progress.advance()
  rounds = []
  for repeat in range(config.repeats):
    unit = records.unit_name(name, f'round {repeat}')
    rounds.append(workdir.cached(unit, round_of_timings)['seconds'])
    progress.advance()
  return Measured(list(cases), np.stack(rounds), peak_bytes)


def _record(config, workdir, arms: Measured, replications: Measured) -> None:
  share = f'T = {config.budget_share:g} N'
  workdir.save_table(
    'arms',
    _rows(arms),
    f'Time and memory against the size of the pool, {share}; medians and '
    'ranges of warm runs.',
  )
  workdir.save_table(
    'replications',
    _rows(replications),
    'Time and memory against the number of replications, '
    f'N = {config.middle_arms}, {share}.',
  )
  entered = np.asarray([case.entered for case in arms.cases], float)
  workdir.save_figure(
    'seconds',
    plots.scaling(
      entered,
      {'B3': _curve(1e3 * arms.seconds / arms.cases[0].replications)},
      xlabel='arms that enter, c0',
      ylabel='milliseconds a replication',
      title=f'{share}, {arms.cases[0].replications} replications at once',
    ),
    'Time of a replication against the number of arms that enter it.',
  )
  counts = np.asarray([case.replications for case in replications.cases])
  peak = replications.peak_bytes / 2**20
  workdir.save_figure(
    'memory',
    plots.scaling(
      counts,
      {
        'peak growth': (peak, peak, peak),
        'max_bytes': (np.full(len(counts), config.max_bytes / 2**20),) * 3,
      },
      xlabel='replications',
      ylabel='memory (MiB)',
      slope=None,
      title=f'N = {config.middle_arms}, {share}',
    ),
    'Growth of the resident memory at its peak, and the bound that was asked.',
  )
  largest = arms.cases[-1]
  rates = largest.replications / arms.seconds[:, -1]
  workdir.headline(
    f'replications a second, N = {largest.num_arms}, T = {largest.budget}',
    float(np.median(rates)),
    rates.min(),
    rates.max(),
    '1/s',
  )
  slopes = log_slope(counts, replications.seconds)
  if len(counts) > 1:
    low, high = stats.mean_interval(slopes, level=records.LEVEL)
    workdir.headline(
      'log-log slope of time on replications', slopes.mean(), low, high
    )
  for claim in _claims(config, arms, replications):
    workdir.add_claim(claim)


def _curve(values: np.ndarray):
  """Median and range over repeats."""
  return np.median(values, 0), values.min(0), values.max(0)


def _rows(measured: Measured) -> list[dict]:
  rows = []
  for column, case in enumerate(measured.cases):
    median, low, high = _curve(measured.seconds[:, column])
    rows.append(
      {
        'N': case.num_arms,
        'T': case.budget,
        'c0': case.entered,
        'R': case.replications,
        'seconds': float(median),
        'shortest': float(low),
        'longest': float(high),
        'replications a second': float(case.replications / median),
        'peak MiB': float(measured.peak_bytes[column] / 2**20),
      }
    )
  return rows


def _claims(config, arms: Measured, replications: Measured) -> list[Claim]:
  entered = np.asarray([case.entered for case in arms.cases], float)
  slopes = log_slope(entered, arms.seconds)
  low, high = (
    float(end) for end in stats.mean_interval(slopes, level=records.LEVEL)
  )
  source = 'This implementation'
  sides: list[tuple[Literal['>', '<'], float]] = [
    ('>', 1 - config.slope_tolerance),
    ('<', 1 + config.slope_tolerance),
  ]
  bounds = [
    Claim(
      f'log-log slope of time on c0 {sense} {limit:g}',
      source,
      slopes.mean(),
      low,
      high,
      limit,
      sense,
      '',
      f'{config.repeats} rounds over c0 = {int(entered[0])} .. '
      f'{int(entered[-1])}, 95 % t interval over rounds.',
    )
    for sense, limit in sides
  ]
  # One slope can hide a bend, so the note gives those between neighbours.
  median = np.median(arms.seconds, 0)
  local = np.diff(np.log(median)) / np.diff(np.log(entered))
  bend = ', '.join(f'{slope:.2f}' for slope in local)
  peaks = [*arms.peak_bytes, *replications.peak_bytes]
  cases = [*arms.cases, *replications.cases]
  memory = [
    Claim(
      f'peak memory at N = {case.num_arms}, R = {case.replications}',
      source,
      peak / 2**20,
      peak / 2**20,
      peak / 2**20,
      config.max_bytes / 2**20,
      '<',
      'MiB',
      'Growth of the resident memory over a simulation, compiled before.',
    )
    for case, peak in zip(cases, peaks, strict=True)
  ]
  return [
    Claim.all_of(
      'Time grows linearly with the arms that enter',
      source,
      bounds,
      note=f'Slopes between neighbouring sizes: {bend}.',
    ),
    Claim.all_of('Working memory stays within max_bytes', source, memory),
  ]
