"""The tree solve alone: one node, once down and once up the tree."""

import importlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy
import scipy.linalg

from benchmarks import cpu_time, timing
from benchmarks.cpu_time import Row
from jaxlab.dendrites import experiment_peers as peers
from jaxlab.dendrites import experiment_timing as timed
from jaxlab.dendrites.experiment_timing import Program, Work
from kernels_pallas.tree_solver import make_schedule, tree_solve

_UNIT = cpu_time.UNIT
_SIZES = 500, 2000, 8000
_NODES_A_CALL = 400_000  # a call of the program takes milliseconds


class System(NamedTuple):
  """A symmetric, diagonally dominant matrix of a tree.

  Attributes:
    parent: `[n]` parents; -1 at the root.
    diag: `[n, B]` diagonal.
    lower: `[n, 1]` entries to the parents.
    rhs: `[n, B]` right side.
  """

  parent: np.ndarray
  diag: jax.Array
  lower: jax.Array
  rhs: jax.Array


def rows(parent: np.ndarray, quick: bool) -> Iterator[Row]:
  """Rows of a cell's tree, then of longer and longer ones."""
  repeats = 7 if quick else 15
  for batch in (1, 64) if quick else (1, 8, 64, 1024):
    yield from cell_rows(system(parent, batch), repeats)
  for batch in (1,) if quick else (1, 64):
    yield from scaling_rows(batch, repeats)
  yield chain_row(8000, repeats)
  yield from host_rows()


def system(parent: np.ndarray, batch: int, dtype: Any = np.float32) -> System:
  """A random system of a tree.

  Its rows sum to 1, so that the largest eigenvalue of its inverse is 1: what is
  solved again and again neither grows nor shrinks.
  """
  rng = np.random.default_rng(0)
  n = len(parent)
  child = np.flatnonzero(parent >= 0)
  lower = np.zeros((n, 1))
  lower[child] = -rng.uniform(0.5, 1.5, (len(child), 1))
  diag = 1 - lower
  np.add.at(diag, parent[child], -lower[child])
  arrays = np.tile(diag, batch), lower, 1 + rng.normal(size=(n, batch))
  return System(parent, *(jnp.asarray(a, dtype) for a in arrays))


def random_tree(n: int) -> np.ndarray:
  """Parents of a tree that branches at every fifth node or so."""
  rng = np.random.default_rng(0)
  back = np.where(rng.random(n) < 0.2, rng.integers(1, 50, n), 1)
  return np.maximum(np.arange(n) - back, 0) - (np.arange(n) == 0)


def _times(given: System) -> int:
  return max(1, _NODES_A_CALL // given.rhs.size)


def forward(given: System, solve: Any = None) -> Work:
  """Solves again and again, each time for the last solution."""
  solve = solve or _solver(given.parent)
  times = _times(given)

  def run(diag, rest):
    lower, rhs = rest
    return jax.lax.fori_loop(0, times, lambda _, x: solve(diag, lower, x), rhs)

  rest: Any = (given.lower, given.rhs)
  return Work(run, (given.diag, rest), given.rhs.size * times)


def backward(given: System) -> Work:
  """The way back of a solve, again and again, with all three gradients."""
  _, pull = jax.vjp(_solver(given.parent), *given[1:])
  times = _times(given)

  def run(pull, start):
    def body(_, carry):
      # The gradient to the right side is the next cotangent.
      return pull(carry[2])

    return jax.lax.fori_loop(0, times, body, start)

  start: Any = given[1:]
  return Work(run, (pull, start), given.rhs.size * times)


def _solver(parent: np.ndarray) -> Any:
  schedule = make_schedule(parent, 'hines')
  return lambda diag, lower, rhs: tree_solve(diag, lower, None, rhs, schedule)


def jaxley_solver(parent: np.ndarray) -> Any:
  """Jaxley's solve with its schedule for CPUs, of one node a level."""
  make = importlib.import_module('jaxley.solver_voltage')._make_dhs_solve
  edges = np.stack([np.arange(1, len(parent)), parent[1:]], axis=1)
  solve = make(
    {
      'node_order_grouped': edges[:, None].astype(np.int32),
      'all_children': edges[:, 0],
      'all_parents': edges[:, 1],
    },
    *(False, len(parent)),
  )

  def single(diag, lower, rhs):
    # Its arrays have one node more, which edges that are not there point to.
    diag = jnp.append(diag, 1)
    lower, rhs = jnp.append(lower, 0), jnp.append(rhs, 0)
    return solve(diag, lower, lower, rhs)[:-1]

  def run(diag, lower, rhs):
    if rhs.shape[1] == 1:
      return single(diag[:, 0], lower[:, 0], rhs[:, 0])[:, None]
    return jax.vmap(single, (1, None, 1), 1)(diag, lower[:, 0], rhs)

  return run


def cell_rows(given: System, repeats: int) -> Iterator[Row]:
  """A cell's tree: forward beside Jaxley, backward beside forward."""
  batch = given.rhs.shape[1]
  name = f'B = {batch}, {len(given.parent)} nodes'
  ours = timed.program(forward(given))
  limit = {1: 15}.get(batch, 3 if batch >= 64 else None)
  goal = cpu_time.up_to(limit) if limit else None
  back = timed.program(backward(given))
  taken = timed.cpu_ns([ours, back], repeats).min(axis=1)
  yield timing.measured(
    f'Tree solve, {name}', float(taken[0]), _UNIT, goal=goal
  )
  yield cpu_time.against(
    *(f'Tree solve, way back, {name}', taken[1], taken[0]),
    'jaxlab, the solve itself',
    goal=cpu_time.at_most(1),
  )
  work = f'Tree solve beside Jaxley, {name}'
  goal = {1: cpu_time.at_most(1), 64: cpu_time.at_most(0.6)}.get(batch)
  version = peers.version('jaxley')
  if version is None:
    yield timing.unmeasured(
      *(work, 'jaxley: not installed', _UNIT),
      goal=goal,
      note='pip install jaxley',
    )
    return
  other = jaxley_solver(given.parent)
  agree = cpu_time.within(1e-5, 'solutions')
  theirs = timed.program(forward(given, other))
  yield cpu_time.compare(
    *(work, ours, theirs, f'{version}, its solve'),
    lambda *_: agree(_solver(given.parent)(*given[1:]), other(*given[1:])),
    goal=goal,
    repeats=repeats,
  )


def scaling_rows(batch: int, repeats: int) -> Iterator[Row]:
  """Does the time of a solve grow no faster than the tree?"""
  for name, make in (('', forward), (' of the way back', backward)):
    systems = [system(random_tree(n), batch) for n in _SIZES]
    programs = [timed.program(make(given)) for given in systems]
    taken = timed.cpu_ns(programs, repeats).min(axis=1)
    exponent = timed.slope(_SIZES, taken * np.asarray(_SIZES))
    each = ', '.join(f'{t:.3g}' for t in taken)
    yield timing.measured(
      f'Tree solve, B = {batch}: exponent of the time{name} over {_SIZES[0]} '
      f'to {_SIZES[-1]} nodes',
      *(float(exponent), ''),
      goal=cpu_time.up_to(1.1, ''),
      note=f'{each} ns a node',
    )


def chain_row(n: int, repeats: int) -> Row:
  """An unbranched cable, which LAPACK solves as a banded matrix."""
  with jax.enable_x64(True):
    given = system(np.arange(n) - 1, 1, np.float64)
    diag, lower, rhs = (np.asarray(a)[:, 0] for a in given[1:])
    bands = np.stack([lower, diag, np.append(lower[1:], 0)])
    solve = jax.jit(_solver(given.parent))
    solve(*given[1:])
    return cpu_time.compare(
      f'Tree solve, chain of {n} nodes, B = 1, float64',
      Program(lambda: np.asarray(solve(*given[1:]))[:, 0], n),
      Program(lambda: scipy.linalg.solve_banded((1, 1), bands, rhs), n),
      f'SciPy {scipy.__version__} solve_banded',
      cpu_time.within(1e-10, 'solutions'),
      repeats=repeats,
    )


def host_rows() -> Iterator[Row]:
  """What is done once: compiling, and making a schedule."""
  given = system(random_tree(5000), 64)
  compiled = timed.program(forward(given))
  yield timing.measured(
    'Tree solve, compile 5000 nodes, B = 64',
    *(compiled.compile_seconds, 's'),
    goal=timing.below(3, 's'),
  )
  parent = random_tree(20_000)
  for kind in ('hines', 'dhs', 'contract'):
    start = time.process_time()
    make_schedule(parent, kind)
    yield timing.measured(
      f'Tree schedule {kind!r}, 20,000 nodes', time.process_time() - start, 's'
    )
