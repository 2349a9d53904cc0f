"""The cells that are timed, in NEURON and in Jaxley."""

import importlib
import importlib.metadata
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.dendrites import rival
from jaxlab.dendrites.compartments import CompartmentTree
from jaxlab.dendrites.experiment_timing import (
  DT,
  FOREVER,
  ONSET,
  Work,
  amplitudes,
)
from jaxlab.dendrites.morphology import Morphology


def version(package: str) -> str | None:
  """Name and version of a package; None if it is not installed."""
  try:
    return f'{package} {importlib.metadata.version(package)}'
  except importlib.metadata.PackageNotFoundError:
    return None


class NeuronCells:
  """Copies of a cell in NEURON, with HH everywhere and a current each.

  NEURON runs all sections that there are: drop one before the next is made.
  """

  def __init__(self, morph: Morphology, tree: CompartmentTree, copies: int):
    """Builds the cells.

    Args:
      morph: the neuron.
      tree: its division.
      copies: B.
    """
    self.compartments = tree.n_segments * copies
    self._h = h = rival.neuron()
    root = next(s.name for s in morph.sections if s.parent < 0)
    self._kept: list[Any] = []
    self._traces: list[Any] = []
    for amplitude in amplitudes(tree, copies):
      sections = rival.build(h, morph, tree, {'all': {'hh': {}}})
      soma = sections[root](0.5)
      clamp = h.IClamp(soma)
      clamp.delay, clamp.dur, clamp.amp = ONSET, FOREVER, float(amplitude)
      self._kept += [sections, clamp]
      self._traces.append(h.Vector().record(soma._ref_v))

  def run(self, steps: int, *, tables: bool) -> np.ndarray:
    """Simulates all cells.

    Args:
      steps: T.
      tables: whether rates are read from tables, as by default, or exact.

    Returns:
      `[T + 1, B]` mV at the somata.
    """
    h = self._h
    h.usetable_hh = int(tables)
    h.secondorder = 0
    h.dt, h.steps_per_ms = DT, 1 / DT
    h.finitialize(-65)
    for _ in range(steps):
      h.fadvance()
    return np.stack([np.array(trace) for trace in self._traces], axis=1)


class JaxleyCell(NamedTuple):
  """A cell of cylinders in Jaxley, with HH everywhere.

  Attributes:
    cell: the cell, which records the voltage at its root.
    params: conductances, one for the whole cell.
    tree: ours, whose cells get the same current.
  """

  cell: Any
  params: list[dict[str, jax.Array]]
  tree: CompartmentTree

  def work(self, steps: int, checkpoints: list[int] | None = None) -> Work:
    """One run, to compare with `experiment_timing.work`.

    Args:
      steps: T.
      checkpoints: steps at each level of checkpointing, whose product is T;
        None for none.
    """
    jaxley = importlib.import_module('jaxley')
    on = np.float32((np.arange(steps) + 0.5) * DT >= ONSET)

    def run(params, currents):
      soma = self.cell.branch(0).comp(0)
      recorded = jaxley.integrate(
        self.cell,
        params=params,
        data_stimuli=soma.data_stimulate(currents * on),
        delta_t=DT,
        checkpoint_lengths=checkpoints,
      )
      return recorded.T

    units = len(self.cell.nodes) * steps
    currents = jnp.asarray(amplitudes(self.tree, 1))
    return Work(run, (self.params, currents), units)


def jaxley_cell(morph: Morphology, tree: CompartmentTree) -> JaxleyCell:
  """Builds a cell of cylinders, one after the other, in Jaxley.

  Args:
    morph: of `experiment_timing.cylinders`.
    tree: its division.
  """
  jaxley = importlib.import_module('jaxley')
  hh = importlib.import_module('jaxley.channels').HH()
  compartment = jaxley.Compartment()
  each = np.bincount(tree.section[tree.is_segment]).tolist()
  branches = {n: jaxley.Branch(compartment, n) for n in set(each)}
  cell = jaxley.Cell(
    [branches[n] for n in each], [s.parent for s in morph.sections]
  )
  lengths = [s.L / n for s, n in zip(morph.sections, each, strict=True)]
  radii = [s.points[0, 3] for s in morph.sections]
  cell.insert(hh)
  values = {
    'length': np.repeat(lengths, each),
    'radius': np.repeat(radii, each),
    'axial_resistivity': 100.0,
    'capacitance': 1.0,
    'v': -65.0,
    'HH_gNa': 0.12,
    'HH_gK': 0.036,
    'HH_gLeak': 3e-4,
    'HH_eNa': 50.0,
    'HH_eK': -77.0,
    'HH_eLeak': -54.3,
  }
  for name, value in values.items():
    cell.set(name, value)
  cell.init_states()
  cell.branch(0).comp(0).record(verbose=False)
  for name in ('HH_gNa', 'HH_gK', 'HH_gLeak'):
    cell.make_trainable(name, verbose=False)
  return JaxleyCell(cell, cell.get_parameters(), tree)
