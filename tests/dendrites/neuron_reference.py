"""The same cells in NEURON, as an oracle."""

import importlib.util

import numpy as np
import pytest


def require():
  """NEURON's interpreter; skips where it is not installed."""
  if importlib.util.find_spec('neuron') is None:
    pytest.skip('needs the package neuron')
  from neuron import h

  h.load_file('stdrun.hoc')
  h.usetable_hh = 0
  h.celsius = 6.3
  h.CVode().active(0)
  return h


def ball_and_stick(h, *, active_dendrite=False, segments=9):
  """Soma 20 x 20 um with HH, dendrite 400 x 2 um."""
  soma, dend = h.Section(name='soma'), h.Section(name='dend')
  soma.L = soma.diam = 20
  dend.L, dend.diam, dend.nseg = 400, 2, segments
  dend.connect(soma(1))
  soma.insert('hh')
  dend.insert('hh' if active_dendrite else 'pas')
  for section in (soma, dend):
    section.Ra, section.cm = 100, 1
  if not active_dendrite:
    dend.g_pas, dend.e_pas = 1e-4, -65
  return soma, dend


def equip(sections, max_len):
  """Divides sections and puts HH everywhere."""
  for section in sections:
    section.Ra, section.cm = 100, 1
    section.nseg = max(1, 2 * (int(np.ceil(section.L / max_len)) // 2) + 1)
    section.insert('hh')


def run(h, recorded, t_max, dt, *, v_init=-65.0, secondorder=0):
  """`[T + 1, R]` voltages after each step; the first is `v_init`."""
  vectors = [h.Vector().record(segment._ref_v) for segment in recorded]
  h.secondorder = secondorder
  h.dt, h.steps_per_ms, h.tstop = dt, 1 / dt, t_max
  h.finitialize(v_init)
  h.fcurrent()
  for _ in range(round(t_max / dt)):
    h.fadvance()
  return np.stack([np.array(v) for v in vectors], axis=1)
