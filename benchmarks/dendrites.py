"""Steps of neurons and their gradients: python -m benchmarks.dendrites.

A CA1 pyramidal cell in 444 compartments with Hodgkin-Huxley channels
everywhere, in float32 and on one core; times are of one compartment in one
step. NEURON and Jaxley take part where they are installed. Rows of the solve
alone are in `dendrites_solve`.
"""

import functools
import sys
from collections.abc import Iterator

import jax
import numpy as np

from benchmarks import cpu_time, dendrites_solve, timing
from benchmarks.cpu_time import Goal, Row
from jaxlab import data, dendrites
from jaxlab.dendrites import experiment_peers as peers
from jaxlab.dendrites import experiment_timing as timed
from jaxlab.dendrites.experiment_timing import Program, Work
from jaxlab.errors import MissingDataError

_MAX_LEN = 40.0
_STEPS = {1: 400, 64: 100, 1024: 40}
_UNIT = cpu_time.UNIT
_OURS = 'jaxlab, forward'
# NEURON's cells run one after the other: a thousand cost what 64 cost each.
_MOST_COPIES = 64


@functools.cache
def _neuron() -> tuple[dendrites.Morphology, dendrites.CompartmentTree]:
  morph = dendrites.parse_swc(data.load('neurons', 'ca1_n120').swc)
  return morph, dendrites.discretize(morph, max_len=_MAX_LEN)


@functools.cache
def _work(batch: int) -> Work:
  return timed.work(timed.equipped(_neuron()[1]), _STEPS[batch], batch)


@functools.cache
def _forward(batch: int) -> Program:
  return timed.program(_work(batch))


@functools.cache
def _gradient(batch: int) -> Program:
  return timed.program(_work(batch).gradient())


def rows(quick: bool) -> Iterator[Row]:
  """Yields the rows, with fewer and smaller instances if `quick`."""
  try:
    _neuron()
  except MissingDataError as missing:
    yield timing.unmeasured('all of the family', str(missing), _UNIT)
    return
  with cpu_time.one_core():
    yield from _rows(quick)


def _rows(quick: bool) -> Iterator[Row]:
  batches = (1, 64) if quick else (1, 64, 1024)
  repeats = 5 if quick else 15
  yield from beside_neuron(batches, repeats)
  yield from beside_jaxley(repeats)
  yield from own_gradient(batches, repeats)
  yield from compile_times()
  yield from mapped(repeats)
  yield from dendrites_solve.rows(_neuron()[1].parent, quick)


def beside_neuron(batches: tuple[int, ...], repeats: int) -> Iterator[Row]:
  """Forward steps."""
  version = peers.version('neuron')
  for batch in batches:
    work = f'Forward, {batch} cells' if batch > 1 else 'Forward, 1 cell'
    goal = cpu_time.at_most(0.2 if batch == 1 else 0.1)
    if version is None:
      yield _absent(work, 'neuron', goal)
      continue
    copies, steps = min(batch, _MOST_COPIES), _STEPS[batch]
    cells = peers.NeuronCells(*_neuron(), copies)
    try:
      note = _same_traces(cells, copies, steps)
    except timing.DisagreementError as error:
      note = f'{timing.DIFFER}: {error}'
    if copies < batch:
      note += f'; NEURON has {copies} of the {batch} cells'
    peer = Program(
      functools.partial(cells.run, steps, tables=True),
      cells.compartments * steps,
    )
    row = cpu_time.compare(
      *(work, _forward(batch), peer, f'{version}, rate tables on'),
      goal=goal,
      repeats=min(repeats, 7),
    )
    yield row._replace(note=note)


def _same_traces(cells: peers.NeuronCells, copies: int, steps: int) -> str:
  """Compares with exact rates, in float64."""
  expected = cells.run(steps, tables=False)
  with jax.enable_x64(True):
    work = timed.work(timed.equipped(_neuron()[1]), steps, copies)
    found = timed.program(work).call()
  agree = cpu_time.within(1e-3, 'float64 voltages at exact rates, in mV,')
  return agree(found, expected)


def beside_jaxley(repeats: int) -> Iterator[Row]:
  """Forward steps, gradient and its memory, on the cell made of cylinders."""
  names = (
    'Forward',
    'Gradient',
    "Gradient with remat='sqrt'",
    "Memory of the gradient with remat='sqrt'",
  )
  works = [f'{name}, 1 cell of cylinders' for name in names]
  bar = cpu_time.at_most(0.35)
  goals = [None, bar, bar, cpu_time.at_most(1, 'memory')]
  version = peers.version('jaxley')
  if version is None:
    for work, goal in zip(works, goals, strict=True):
      yield _absent(work, 'jaxley', goal)
    return
  morph, counts = timed.cylinders(*_neuron())
  tree = dendrites.discretize(morph, nseg=counts)
  steps = _STEPS[1]
  ours = timed.work(timed.equipped(tree), steps, 1)
  cell = peers.jaxley_cell(morph, tree)
  root = round(steps**0.5)
  forward = timed.program(ours), timed.program(cell.work(steps))
  theirs = timed.program(cell.work(steps, [root, steps // root]).gradient())
  net = timed.equipped(tree)
  gradients = [
    timed.program(timed.work(net, steps, 1, remat=remat).gradient())
    for remat in ('auto', 'sqrt')
  ]
  # Its gates step before its voltage: half a step apart from ours.
  agree = cpu_time.within(0.5, 'voltages, in mV,')
  yield cpu_time.compare(
    *(works[0], *forward, version, agree), goal=goals[0], repeats=repeats
  )
  for work, goal, gradient in zip(
    works[1:], goals[1:], gradients, strict=False
  ):
    row = cpu_time.compare(
      *(work, gradient, theirs, f'{version}, two levels of checkpoints'),
      _same_gradient,
      goal=goal,
      repeats=repeats,
    )
    memory = f'{gradient.temporary / 2**20:.1f} MiB'
    yield row._replace(note=f'{row.note}; {memory}')
  ours_mib, their_mib = (
    each.temporary / 2**20 for each in (gradients[1], theirs)
  )
  yield cpu_time.against(
    works[3],
    ours_mib,
    their_mib,
    version,
    unit='MiB',
    goal=goals[3],
    note='temporary buffers of the compiled program',
  )


def _same_gradient(found, expected) -> str:
  """Conductances are one a cell there, and one a compartment here."""
  ours = {name: float(g.sum()) for name, g in found[1][0]['HH'].items()}
  theirs = {k: float(g[0]) for each in expected[1][0] for k, g in each.items()}
  pairs = [
    (ours['g_na'], theirs['HH_gNa']),
    (ours['g_k'], theirs['HH_gK']),
    (ours['g_l'], theirs['HH_gLeak']),
    (float(found[1][1][0]), float(expected[1][1][0])),
  ]
  worst = max(abs(a / b - 1) for a, b in pairs)
  text = f'4 derivatives differ by at most {worst:.1e} of their size'
  if not worst <= 0.02:
    raise timing.DisagreementError(text)
  return f'{text}; ours has one for each parameter and compartment'


def own_gradient(batches: tuple[int, ...], repeats: int) -> Iterator[Row]:
  """The gradient beside the forward run of the same cells."""
  for batch in batches:
    programs = _gradient(batch), _forward(batch)
    name = f'Gradient, {batch} cell{"s" if batch > 1 else ""}'
    yield cpu_time.compare(
      *(name, *programs, _OURS),
      goal=Goal('<= 5x forward', lambda _, ratio: bool(ratio and ratio <= 5)),
      repeats=repeats,
    )


def compile_times() -> Iterator[Row]:
  """Compilation of 64 cells."""
  for name, made in (('forward', _forward), ('gradient', _gradient)):
    yield timing.measured(
      f'Compile 64 cells, {name}',
      *(made(64).compile_seconds, 's'),
      goal=timing.below(10, 's'),
    )


def mapped(repeats: int) -> Iterator[Row]:
  """Cells under `vmap` beside columns of one state."""
  together = timed.mapped(timed.equipped(_neuron()[1]), _STEPS[64], 64)
  for name, ours, peer in (
    ('Forward', together, _forward(64)),
    ('Gradient', together.gradient(), _gradient(64)),
  ):
    row = cpu_time.compare(
      *(f'{name}, 64 cells by vmap', timed.program(ours), peer),
      'jaxlab, 64 columns of one state',
      _same_first,
      goal=cpu_time.at_most(1.3),
      repeats=repeats,
    )
    yield row


def _same_first(found, expected) -> str:
  """Compares voltages, or losses."""
  a, b = (np.asarray(jax.tree.leaves(x)[0]) for x in (found, expected))
  return cpu_time.within(1e-4 * np.abs(b).max(), 'voltages or losses')(a, b)


def _absent(work: str, package: str, goal: Goal | None) -> Row:
  return timing.unmeasured(
    *(work, f'{package}: not installed', _UNIT),
    goal=goal,
    note=f'pip install {package}',
  )


if __name__ == '__main__':
  from benchmarks.__main__ import main

  sys.exit(main(['dendrites', *sys.argv[1:]]))
