"""The same neurons in NEURON, where it is installed."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxlab.dendrites.compartments import CompartmentTree
from jaxlab.dendrites.morphology import Morphology
from jaxlab.errors import UserError


class Drive(NamedTuple):
  """What drives a cell.

  Attributes:
    clamps: (section, x, delay ms, duration ms, nA) of current clamps.
    synapses: (section, x, tau1 ms, tau2 ms, e mV, weight uS, times ms) of
      synapses with two exponentials.
  """

  clamps: tuple[tuple[Any, ...], ...] = ()
  synapses: tuple[tuple[Any, ...], ...] = ()


def neuron() -> Any:
  """NEURON's interpreter, set up as the runs here need it.

  Raises:
    UserError: it is not installed.
  """
  try:
    h = importlib.import_module('neuron').h
  except ImportError:
    raise UserError(
      "NEURON is not installed; `pip install 'jaxlab[neuron]'` brings it."
    ) from None
  h.load_file('stdrun.hoc')
  # Exact rates instead of interpolated tables.
  h.usetable_hh = 0
  h.celsius = 6.3
  h.CVode().active(0)
  return h


def build(
  h: Any,
  morph: Morphology,
  tree: CompartmentTree,
  channels: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> dict[str, Any]:
  """Makes a cell of a morphology.

  Args:
    h: of `neuron`.
    morph: the neuron.
    tree: its division, for the number of segments.
    channels: {region or 'all': {'hh' or 'pas': {parameter: value}}}.

  Returns:
    The sections by name; they live as long as this does.
  """
  sections = {}
  for i, section in enumerate(morph.sections):
    made = h.Section(name=section.name.replace('[', '_').replace(']', ''))
    made.pt3dclear()
    for x, y, z, radius in section.points:
      made.pt3dadd(float(x), float(y), float(z), float(2 * radius))
    made.nseg = int((tree.section == i).sum())
    made.Ra, made.cm = tree.Ra, 1.0
    for place in ('all', section.region, section.name):
      for mechanism, values in channels.get(place, {}).items():
        made.insert(mechanism)
        for key, value in values.items():
          setattr(made, f'{key}_{mechanism}', value)
    sections[section.name] = made
  for section in morph.sections:
    if section.parent >= 0:
      above = sections[morph.sections[section.parent].name]
      sections[section.name].connect(above(section.parent_x), 0)
  return sections


def run(
  h: Any,
  sections: Mapping[str, Any],
  drive: Drive,
  record: Sequence[tuple[str, float]],
  steps: int,
  dt: float,
  *,
  v_init: float = -65.0,
  secondorder: int = 0,
) -> np.ndarray:
  """Simulates a cell.

  Args:
    h: of `neuron`.
    sections: of `build`.
    drive: clamps and synapses.
    record: places whose voltage is recorded.
    steps: T.
    dt: ms.
    v_init: mV.
    secondorder: 0 implicit Euler, 2 Crank-Nicolson.

  Returns:
    `[T + 1, R]` voltage after each step, mV; the first is `v_init`.
  """
  kept: list[Any] = []
  for section, x, delay, duration, amplitude in drive.clamps:
    clamp = h.IClamp(sections[section](x))
    clamp.delay, clamp.dur, clamp.amp = delay, duration, amplitude
    kept.append(clamp)
  links = []
  for section, x, tau1, tau2, e, weight, times in drive.synapses:
    synapse = h.Exp2Syn(sections[section](x))
    synapse.tau1, synapse.tau2, synapse.e = tau1, tau2, e
    link = h.NetCon(None, synapse)
    link.weight[0] = weight
    links.append((link, times))
    kept.append(synapse)
  vectors = [h.Vector().record(sections[s](x)._ref_v) for s, x in record]
  h.secondorder, h.dt = secondorder, dt
  h.finitialize(v_init)
  for link, times in links:
    for time in times:
      link.event(float(time))
  h.fcurrent()
  for _ in range(steps):
    h.fadvance()
  return np.stack([np.array(v) for v in vectors], axis=1)
