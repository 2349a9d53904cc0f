"""Rows in CPU time: the least of several turns, in ns per unit of work.

Steps of neurons take microseconds and are timed on one core, where CPU time
is far steadier than the clock on a machine that does other things too.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax.extend
import numpy as np

from benchmarks import timing
from benchmarks.timing import Goal, Row
from jaxlab.dendrites.experiment_timing import Program, cpu_ns

UNIT = 'ns CPU'


@contextlib.contextmanager
def one_core() -> Iterator[None]:
  """Keeps programs to one core, where the system can do that.

  XLA divides even small loops among the threads of its pool, and handing them
  over costs as much as they do. The pool has a thread for each core and device
  that there is when the backend starts: it is started anew, which ends what
  arrays hold.
  """
  if not hasattr(os, 'sched_setaffinity'):
    yield
    return
  cores = os.sched_getaffinity(0)
  devices: int = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
  _restart({min(cores)}, 1)
  try:
    yield
  finally:
    _restart(cores, devices)


def _restart(cores: set[int], devices: int) -> None:
  os.sched_setaffinity(0, cores)
  jax.extend.backend.clear_backends()
  jax.config.update('jax_num_cpu_devices', devices)


def at_most(times: float, what: str = 'time') -> Goal:
  """Ours takes at most `times` what the peer takes."""
  return Goal(
    f'<= {times:g}x its {what}', lambda _, ratio: bool(ratio and ratio <= times)
  )


def up_to(limit: float, unit: str = UNIT) -> Goal:
  """Ours is at most `limit`."""
  return Goal(f'<= {limit:g} {unit}'.strip(), lambda ours, _: ours <= limit)


def compare(
  work: str,
  ours: Program,
  peer: Program,
  version: str,
  agree: Callable[[Any, Any], str] | None = None,
  *,
  goal: Goal | None = None,
  repeats: int = 7,
) -> Row:
  """Times two programs in turns, once their results agree.

  Args:
    work: what a unit of work is.
    ours: this package's program.
    peer: the other one.
    version: its name and version.
    agree: `(our result, peer's result) -> note`; raises `DisagreementError`.
    goal: what is aimed at.
    repeats: number of turns.
  """
  note = ''
  if agree:
    try:
      note = agree(ours.call(), peer.call())
    except timing.DisagreementError as error:
      text = goal.text if goal else ''
      return Row(
        *(work, None, None, UNIT, None, text, False, version),
        timing.machine(),
        f'{timing.DIFFER}: {error}',
      )
  ours_ns, peer_ns = cpu_ns([ours, peer], repeats).min(axis=1)
  return against(work, ours_ns, peer_ns, version, goal=goal, note=note)


def against(
  work: str,
  ours: float,
  peer: float,
  version: str,
  *,
  unit: str = UNIT,
  goal: Goal | None = None,
  note: str = '',
) -> Row:
  """A row of two numbers that were measured side by side."""
  ratio = float(ours / peer)
  return Row(
    *(work, float(ours), float(peer), unit, ratio),
    goal.text if goal else '',
    goal.is_met(ours, ratio) if goal else None,
    *(version, timing.machine(), note),
  )


def within(tolerance: float, what: str) -> Callable[[Any, Any], str]:
  """A check that arrays differ by at most `tolerance`."""

  def agree(found, expected) -> str:
    worst = float(np.abs(np.asarray(found) - np.asarray(expected)).max())
    text = f'{what} differ by at most {worst:.1e}'
    if not worst <= tolerance:
      raise timing.DisagreementError(text)
    return text

  return agree
