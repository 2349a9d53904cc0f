"""Time of the solver against scores and groups, one instance and many at once.

Timings differ from run to run; a resumed run keeps the ones it has. The solver
does the same work whether or not an instance has a feasible rule.
"""

import functools
import statistics
import time
from collections.abc import Callable

import jax
import numpy as np

from jaxlab import errors, parallel, plots, stats
from jaxlab.fairness import experiment_records as records
from jaxlab.fairness.grouping import make_groups
from jaxlab.fairness.instances import random_groups
from jaxlab.fairness.sufficiency import optimal_sufficient
from jaxlab.fairness.types import GroupScores
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress

_SOURCE = 'This implementation'


def run(config, workdir) -> None:
  """Times single instances of growing size, then a batch."""
  _check(config)
  cases = [(k, m) for k in config.groups for m in config.sizes]
  solvers = functools.cache(lambda: [_solver(config, *case) for case in cases])
  rounds = []
  with Progress('timing the solver', config.repeats + 1) as progress:
    for repeat in range(config.repeats):

      def measure():
        return {'seconds': [_typical(f, config.seconds) for f in solvers()]}

      rounds.append(workdir.cached(f'round-{repeat}', measure)['seconds'])
      progress.advance()
    batch = workdir.cached('batch', lambda: _time_batch(config))['seconds']
    progress.advance()
  shape = config.repeats, len(config.groups), len(config.sizes)
  _record(config, workdir, np.reshape(rounds, shape))
  _record_batch(config, workdir, batch)


def _check(config) -> None:
  records.check_positive(
    config,
    *('groups', 'sizes', 'slope_from', 'limit_size', 'limit_ms', 'repeats'),
    *('seconds', 'batch', 'batch_size'),
  )
  records.check_rising(config, 'sizes')
  if config.repeats < 2:
    raise errors.UserError(
      f'config.repeats must be at least 2, got {config.repeats}: an interval '
      'needs two rounds.'
    )
  if sum(m >= config.slope_from for m in config.sizes) < 2:
    raise errors.UserError(
      f'config.slope_from is {config.slope_from}, but a slope needs two of '
      f'config.sizes, {config.sizes}, from there on.'
    )
  for field, value in ('sizes', config.limit_size), ('groups', 2):
    if value not in config[field]:
      raise errors.UserError(
        f'config.{field} must hold {value}, got {config[field]}: a claim is '
        'about that one.'
      )


def _solver(config, num_groups: int, m: int) -> Callable[[], object]:
  """A call of the solver, compiled, on groups of exactly m scores."""
  gs = _random_instance(config.seed, num_groups, m)

  def call():
    return jax.block_until_ready(optimal_sufficient(gs))

  call()
  return call


def _random_instance(seed: int, num_groups: int, m: int) -> GroupScores:
  rng = np.random.default_rng((seed, num_groups, m))
  group = np.repeat(np.arange(num_groups), m)
  a, b = rng.uniform(1, 3, (2, num_groups))
  mass = rng.exponential(size=group.size)
  return make_groups(rng.beta(a[group], b[group]), group, mass)


def _typical(work: Callable[[], object], least: float) -> float:
  """Median seconds of as many calls as take `least` seconds, or of one."""
  taken: list[float] = []
  while sum(taken) < least:
    start = time.perf_counter()
    work()
    taken.append(time.perf_counter() - start)
  return statistics.median(taken)


def _time_batch(config) -> dict[str, list[float]]:
  """Seconds of `repeats` calls on a batch spread over all devices."""
  draw = functools.partial(
    random_groups,
    num_groups=2,
    max_atoms=config.batch_size,
    least=config.batch_size,
    most=config.batch_size,
  )
  keys = parallel.replication_keys(jax.random.key(config.seed), config.batch)
  gs = jax.block_until_ready(parallel.sharded_vmap(draw)(keys))
  solve = parallel.sharded_vmap(optimal_sufficient, chunk=config.chunk)
  jax.block_until_ready(solve(gs))
  seconds = []
  for _ in range(config.repeats):
    start = time.perf_counter()
    jax.block_until_ready(solve(gs))
    seconds.append(time.perf_counter() - start)
  return {'seconds': seconds}


def _log_slope(x: np.ndarray, y: np.ndarray) -> np.ndarray:
  """`[...]` least-squares slope of log y on log x over the last axis."""
  centred = np.log(x) - np.log(x).mean()
  return np.log(y) @ centred / np.sum(centred**2)


def _record(config, workdir, seconds: np.ndarray) -> None:
  """Writes what single instances took: `[repeats, K, m]` seconds."""
  rows = [
    {
      'groups': num_groups,
      'scores a group': m,
      'ms': 1e3 * float(np.median(seconds[:, k, i])),
      'shortest': 1e3 * float(seconds[:, k, i].min()),
      'longest': 1e3 * float(seconds[:, k, i].max()),
      'ns a score': 1e9 * float(np.median(seconds[:, k, i])) / num_groups / m,
    }
    for k, num_groups in enumerate(config.groups)
    for i, m in enumerate(config.sizes)
  ]
  workdir.save_table(
    'time',
    rows,
    f'Time of the optimum; medians and ranges of {config.repeats} rounds of '
    'warm calls, float64.',
  )
  workdir.save_figure(
    'time',
    _figure(config, seconds),
    'Time of the optimum against the number of scores of a group.',
  )
  largest = seconds[:, :, -1]
  if len(config.groups) > 1:
    slopes = _log_slope(np.asarray(config.groups, float), largest)
    interval = stats.mean_interval(slopes, level=records.LEVEL)
    workdir.headline(
      f'log-log slope of time on groups, m = {config.sizes[-1]}',
      slopes.mean(),
      float(interval.low),
      float(interval.high),
    )
  for claim in _claims(config, seconds):
    workdir.add_claim(claim)


def _figure(config, seconds: np.ndarray):
  sizes = np.asarray(config.sizes, float)
  ms = 1e3 * seconds
  curves = {
    f'K = {num_groups}': (
      np.median(ms[:, k], axis=0),
      ms[:, k].min(axis=0),
      ms[:, k].max(axis=0),
    )
    for k, num_groups in enumerate(config.groups)
  }
  fig = plots.line_with_bands(
    sizes,
    curves,
    xlabel='scores of a group, m',
    ylabel='milliseconds',
    xscale='log',
    yscale='log',
  )
  end = curves[f'K = {config.groups[0]}'][0][-1]
  fig.axes[0].plot(sizes, end * sizes / sizes[-1], ':', color='0.45')
  return fig


def _claims(config, seconds: np.ndarray) -> list[Claim]:
  sizes = np.asarray(config.sizes, float)
  tail = sizes >= config.slope_from
  parts = []
  for k, num_groups in enumerate(config.groups):
    slopes = _log_slope(sizes[tail], seconds[:, k, tail])
    low, high = stats.mean_interval(slopes, level=records.LEVEL)
    parts.append(
      Claim(
        f'log-log slope of time on scores, K = {num_groups}',
        _SOURCE,
        slopes.mean(),
        float(low),
        float(high),
        config.slope_below,
        '<',
        'log-log slope',
        f'{config.repeats} rounds over m = {sizes[tail][0]:g} .. '
        f'{sizes[-1]:g}, 95 % t interval over rounds',
      )
    )
  k, i = config.groups.index(2), config.sizes.index(config.limit_size)
  ms = 1e3 * seconds[:, k, i]
  low, high = stats.mean_interval(ms, level=records.LEVEL)
  # One slope can hide a bend, so the note gives those between neighbours.
  median = np.median(seconds, axis=0)
  local = np.diff(np.log(median)) / np.diff(np.log(sizes))
  bends = '; '.join(
    f'K = {num_groups}: ' + ', '.join(f'{slope:.2f}' for slope in slopes)
    for num_groups, slopes in zip(config.groups, local, strict=True)
  )
  return [
    Claim.all_of(
      'Time grows almost linearly with the scores of a group '
      f'(slope < {config.slope_below:g})',
      _SOURCE,
      parts,
      note=f'slopes between neighbouring sizes: {bends}',
    ),
    Claim(
      f'Two groups of {config.limit_size} scores take less than '
      f'{config.limit_ms:g} ms',
      _SOURCE,
      ms.mean(),
      float(low),
      float(high),
      config.limit_ms,
      '<',
      'ms',
      f'{config.repeats} rounds, 95 % t interval over rounds; all cores of '
      'the machine allowed',
    ),
  ]


def _record_batch(config, workdir, seconds) -> None:
  rates = config.batch / np.asarray(seconds)
  interval = stats.mean_interval(rates, level=records.LEVEL)
  workdir.headline(
    f'instances a second, K = 2, m = {config.batch_size}, {config.batch} at '
    'once',
    rates.mean(),
    float(interval.low),
    float(interval.high),
    '1/s',
  )
