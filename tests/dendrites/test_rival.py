"""The runs in NEURON that ours are compared with, against closed forms."""

import sys

import numpy as np
import pytest

from jaxlab import dendrites, errors
from jaxlab.dendrites import rival
from jaxlab.dendrites.rival import Drive

G, E, CM, RA = 1e-4, -65.0, 1.0, 100.0  # S/cm2, mV, uF/cm2, ohm cm
TAU = CM * 1e-3 / G  # ms
PASSIVE = {'pas': {'g': G, 'e': E}}
BALL = [('soma', 20.0, 20.0, None)]
FOREVER = 1e9


@pytest.fixture(scope='module')
def h():
  pytest.importorskip('neuron', reason='needs the package neuron')
  return rival.neuron()


def build(h, cylinders, nseg, channels):
  morph = dendrites.from_cylinders(cylinders)
  tree = dendrites.discretize(morph, nseg=nseg, Ra=RA)
  return rival.build(h, morph, tree, channels)


@pytest.fixture(scope='module')
def ball(h):
  return build(h, BALL, 1, {'all': PASSIVE})


def siemens(length, diameter):
  """Leak of a cylinder of these um."""
  return G * np.pi * length * diameter * 1e-8


@pytest.mark.parametrize('secondorder', [0, 2])
def test_ball_charges_as_a_resistor_and_a_capacitor(h, ball, secondorder):
  dt, steps, amplitude = 0.5, 400, 0.01
  drive = Drive(clamps=(('soma', 0.5, 0.0, FOREVER, amplitude),))
  v = rival.run(
    *(h, ball, drive, [('soma', 0.5)], steps, dt), secondorder=secondorder
  )
  assert v.shape == (steps + 1, 1)
  # 1 nA / 1 S = 1e-6 mV.
  reached = amplitude * 1e-6 / siemens(20.0, 20.0)
  assert reached == pytest.approx(7.9577, rel=1e-4)
  if secondorder:
    factor = (1 - dt / (2 * TAU)) / (1 + dt / (2 * TAU))
  else:
    factor = 1 / (1 + dt / TAU)
  expected = E + reached * (1 - factor ** np.arange(steps + 1))
  np.testing.assert_allclose(v[:, 0], expected, atol=1e-9)
  assert (v[-1, 0] - E) / amplitude == pytest.approx(795.77, rel=1e-4)


def test_current_flows_from_delay_for_its_duration(h, ball):
  drive = Drive(clamps=(('soma', 0.5, 2.0, 3.0, 0.01),))
  v = rival.run(h, ball, drive, [('soma', 0.5)], 20, 0.5)[:, 0]
  np.testing.assert_allclose(v[:5], E, atol=1e-12)
  assert (np.diff(v[4:11]) > 0).all()
  assert (np.diff(v[10:]) < 0).all()


def test_start_voltage_decays(h, ball):
  v = rival.run(h, ball, Drive(), [('soma', 0.5)], 40, 0.5, v_init=-55.0)
  expected = E + 10.0 * (1 + 0.5 / TAU) ** -np.arange(41.0)
  np.testing.assert_allclose(v[:, 0], expected, atol=1e-9)


def test_sections_are_joined_where_they_belong(h):
  """A dendrite at each end of the ball: the cable's input conductances add."""
  length, diameter = 400.0, 2.0
  cylinders = [
    *BALL,
    ('dend[0]', length, diameter, ('soma', 1.0)),
    ('dend[1]', length, diameter, ('dend[0]', 1.0)),
    ('axon', length, diameter, ('soma', 0.0)),
  ]
  nseg = {'soma': 1, 'dend[0]': 81, 'dend[1]': 81, 'axon': 81}
  sections = build(h, cylinders, nseg, {'all': PASSIVE})
  assert {name: s.nseg for name, s in sections.items()} == nseg
  drive = Drive(clamps=(('soma', 0.5, 0.0, FOREVER, 0.01),))
  places = [('soma', 0.5), ('dend[1]', 1.0)]
  v = rival.run(h, sections, drive, places, 30, 1e3)[-1] - E
  area = np.pi * (diameter * 1e-4) ** 2 / 4
  infinite = np.sqrt(G * np.pi * diameter * 1e-4 * area / RA)
  space = np.sqrt(diameter * 1e-4 / (4 * G * RA)) * 1e4
  inputs = siemens(20.0, 20.0) + infinite * (
    np.tanh(2 * length / space) + np.tanh(length / space)
  )
  # The axial resistance of the ball itself is left out of the closed form.
  assert v[0] == pytest.approx(0.01 * 1e-6 / inputs, rel=2e-3)
  tip = v[0] / np.cosh(2 * length / space)
  assert v[1] == pytest.approx(tip, rel=5e-3)


def test_synapses_open_at_their_times(h, ball):
  tau1, tau2, weight, dt = 0.3, 2.0, 1e-5, 0.025
  drive = Drive(synapses=(('soma', 0.5, tau1, tau2, 0.0, weight, (1.0, 5.0)),))
  v = rival.run(h, ball, drive, [('soma', 0.5)], 400, dt)[:, 0]
  np.testing.assert_allclose(v[: round(1.0 / dt)], E, atol=1e-9)
  peak = tau1 * tau2 / (tau2 - tau1) * np.log(tau2 / tau1)
  factor = weight / (np.exp(-peak / tau2) - np.exp(-peak / tau1))
  t = np.arange(401) * dt
  driven = np.zeros(401)
  for due in (1.0, 5.0):
    s = np.maximum(t - due, 0)
    for sign, tau in ((1, tau2), (-1, tau1)):
      # The response of the membrane to exp(-s / tau).
      rate = 1 / (1 / TAU - 1 / tau)
      driven += sign * rate * (np.exp(-s / tau) - np.exp(-s / TAU))
  # Its reversal is so far that the current (nA) hardly depends on the voltage.
  capacity = CM * np.pi * 20.0**2 * 1e-8 * 1e3  # nF
  rise = factor * (0.0 - E) / capacity * driven
  np.testing.assert_allclose(v - E, rise, atol=0.03 * rise.max())


def test_places_get_their_channels(h):
  channels = {
    'soma': {'hh': {'gnabar': 0.1}},
    'basal': PASSIVE,
    'apic': {'pas': {'g': 3e-4}},
  }
  cylinders = [
    *BALL,
    ('dend', 50.0, 2.0, ('soma', 1.0)),
    ('apic', 50.0, 2.0, ('soma', 0.0)),
  ]
  made = build(h, cylinders, 1, channels)
  assert made['soma'].gnabar_hh == 0.1
  assert made['soma'].gkbar_hh == 0.036
  assert made['dend'].g_pas == G
  assert made['apic'].g_pas == 3e-4
  found = {
    name: {m for m in ('hh', 'pas') if section.has_membrane(m)}
    for name, section in made.items()
  }
  assert found == {'soma': {'hh'}, 'dend': {'pas'}, 'apic': {'pas'}}


def test_its_absence_is_said_in_one_line(monkeypatch):
  monkeypatch.setitem(sys.modules, 'neuron', None)
  with pytest.raises(errors.UserError, match='NEURON is not installed') as say:
    rival.neuron()
  assert '\n' not in str(say.value)
  assert 'jaxlab[neuron]' in str(say.value)
