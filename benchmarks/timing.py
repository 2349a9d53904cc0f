"""Two programs that do the same work, timed in one run, and rows of results.

Both sides are warm, take turns, and count with the median of several turns;
their results are compared before anything is timed.
"""

import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

_PER_SECOND = {'s': 1.0, 'ms': 1e3, 'us': 1e6}
DIFFER = 'results differ'
_CPU_INFO = pathlib.Path('/proc/cpuinfo')


class Row(NamedTuple):
  """One line of a benchmark.

  Attributes:
    work: what is done.
    ours: what it takes here, in `unit`; None if it was not measured.
    peer: what it takes there; None if there is no peer.
    unit: unit of `ours` and `peer`.
    ratio: ours to peer: below 1, ours is the faster one.
    goal: what was aimed at; empty for a mere report.
    met: whether the goal is met; None without a goal or a number.
    peer_version: name and version of the peer, or that it is not installed.
    machine: the machine and how busy it was.
    note: how the results were compared, and what else matters.
  """

  work: str
  ours: float | None
  peer: float | None
  unit: str
  ratio: float | None
  goal: str
  met: bool | None
  peer_version: str
  machine: str
  note: str = ''


class Goal(NamedTuple):
  """What a row aims at.

  Attributes:
    text: how it reads.
    is_met: `(ours, ratio) -> bool`; `ratio` is None without a peer.
  """

  text: str
  is_met: Callable[[float, float | None], bool]


class Side(NamedTuple):
  """One of two programs that do the same work.

  Attributes:
    run: `seed -> result`, returned when the work is done.
    units: how many units of work a call does.
    version: name and version of the program.
  """

  run: Callable[[int], Any]
  units: int
  version: str = ''


class DisagreementError(Exception):
  """Two programs that should do the same work give different results."""


def faster(times: float) -> Goal:
  """Ours takes at most 1/`times` of the peer's time."""
  return Goal(
    f'{times:g}x faster', lambda _, ratio: bool(ratio and ratio * times <= 1)
  )


def below(limit: float, unit: str) -> Goal:
  """Ours is less than `limit`."""
  return Goal(f'< {limit:g} {unit}', lambda ours, _: ours < limit)


def between(low: float, high: float) -> Goal:
  """Ours lies in [low, high]."""
  return Goal(f'{low:g} to {high:g}', lambda ours, _: low <= ours <= high)


def alternate(
  runs: Sequence[Callable[[int], Any]], repeats: int
) -> list[list[float]]:
  """Times programs in turns.

  Args:
    runs: programs, already warm; each is called with the number of the turn.
    repeats: number of turns.

  Returns:
    The seconds of each turn, for each program.
  """
  seconds: list[list[float]] = [[] for _ in runs]
  for turn in range(1, repeats + 1):
    for run, taken in zip(runs, seconds, strict=True):
      start = time.perf_counter()
      run(turn)
      taken.append(time.perf_counter() - start)
  return seconds


def median_seconds(run: Callable[[int], Any], repeats: int) -> float:
  """Seconds of one warm call: called once, then timed `repeats` times."""
  run(0)
  return statistics.median(alternate([run], repeats)[0])


def first_call_seconds(run: Callable[[int], Any]) -> float:
  """Seconds that the first call takes longer than the second: to compile."""
  jax.clear_caches()
  first, second = (alternate([run], 1)[0][0] for _ in range(2))
  return first - second


def compare(
  work: str,
  ours: Side,
  peer: Side,
  agree: Callable[[Any, Any], str],
  *,
  unit: str = 'ms',
  goal: Goal | None = None,
  repeats: int = 5,
) -> Row:
  """Times two programs side by side, once their results agree.

  Args:
    work: what a unit of work is.
    ours: this package's side.
    peer: the other side.
    agree: `(our result, peer's result) -> note`; raises `DisagreementError`.
    unit: 's', 'ms' or 'us' per unit of work.
    goal: what is aimed at.
    repeats: number of turns.

  Returns:
    The row; one without numbers, whose goal is not met, if the results differ.
  """
  try:
    note = agree(ours.run(0), peer.run(0))
  except DisagreementError as error:
    text = goal.text if goal else ''
    return Row(
      *(work, None, None, unit, None, text, False, peer.version, machine()),
      f'{DIFFER}: {error}',
    )
  scale = _PER_SECOND[unit]
  ours_taken, peer_taken = (
    scale * statistics.median(seconds) / side.units
    for seconds, side in zip(
      alternate([ours.run, peer.run], repeats), (ours, peer), strict=True
    )
  )
  return _judged(work, ours_taken, peer_taken, unit, goal, peer.version, note)


def measured(
  work: str,
  ours: float,
  unit: str,
  *,
  goal: Goal | None = None,
  note: str = '',
) -> Row:
  """A row about this package alone."""
  return _judged(work, ours, None, unit, goal, '', note)


def unmeasured(
  work: str, why: str, unit: str, *, goal: Goal | None = None, note: str = ''
) -> Row:
  """A row without numbers, such as for a peer that is not installed.

  Args:
    work: what would have been timed.
    why: stands in the place of the peer's version.
    unit: unit of the numbers that are not there.
    goal: what was aimed at.
    note: the cure.
  """
  text = goal.text if goal else ''
  return Row(*(work, None, None, unit, None, text, None, why, machine(), note))


def machine() -> str:
  """Names the devices, the software and the load of the last minute."""
  device = jax.devices()[0]
  kind = _cpu_name() if device.platform == 'cpu' else device.device_kind
  return (
    f'{len(jax.devices())} {device.platform} device ({kind}), '
    f'{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, '
    f'Python {platform.python_version()}, jax {jax.__version__}'
  )


def _cpu_name() -> str:
  if _CPU_INFO.exists():
    for line in _CPU_INFO.read_text().splitlines():
      if line.startswith('model name'):
        return line.partition(':')[2].strip()
  return platform.processor() or platform.machine()


def _judged(
  work: str,
  ours: float,
  peer: float | None,
  unit: str,
  goal: Goal | None,
  version: str,
  note: str,
) -> Row:
  ratio = None if peer is None else ours / peer
  met = goal.is_met(ours, ratio) if goal else None
  text = goal.text if goal else ''
  return Row(
    *(work, ours, peer, unit, ratio, text, met, version, machine(), note)
  )
