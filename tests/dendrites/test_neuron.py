"""Runs agree with NEURON's, step by step."""

import jax
import numpy as np
import pytest

from jaxlab import dendrites
from jaxlab.dendrites import channels
from tests.dendrites import neuron_import, neuron_reference
from tests.golden import Golden

DT = 0.025
STICK = [('soma', 20.0, 20.0, None), ('dend', 400.0, 2.0, ('soma', 1.0))]


@pytest.fixture(autouse=True)
def x64():
  with jax.enable_x64(True):
    yield


@pytest.fixture(scope='module')
def h():
  return neuron_reference.require()


def stick_cell():
  tree = dendrites.discretize(
    dendrites.from_cylinders(STICK), nseg={'soma': 1, 'dend': 9}
  )
  leak = channels.Leak(g=1e-4, e=-65.0)
  return dendrites.cell(tree, [('soma', channels.HH), ('dend', leak)])


@pytest.mark.parametrize('secondorder', [0, 2])
def test_three_cells_with_delays(h, secondorder):
  cells = [neuron_reference.ball_and_stick(h) for _ in range(3)]
  clamp = h.IClamp(cells[0][0](0.5))
  clamp.delay, clamp.dur, clamp.amp = 1, 3, 1.0
  first, second = h.Exp2Syn(cells[1][1](0.5)), h.ExpSyn(cells[2][1](0.2))
  first.tau1, first.tau2, first.e = 0.5, 3, 0
  second.tau, second.e = 2, 0
  links = []
  for cell, target, threshold, delay, weight in (
    (0, first, 0, 2.0, 0.02),
    (1, second, -10, 1.3, 0.03),
    (0, second, 0, 4.51, 0.01),
  ):
    soma = cells[cell][0]
    link = h.NetCon(soma(0.5)._ref_v, target, sec=soma)
    link.threshold, link.delay, link.weight[0] = threshold, delay, weight
    links.append(link)
  places = [*(c[0](0.5) for c in cells), cells[2][1](0.2)]
  expected = neuron_reference.run(h, places, 20, DT, secondorder=secondorder)

  cell = stick_cell()
  at = cell.node('dend', 0.2)
  fast = dendrites.ExpSyn(tau=2.0, e=0.0)
  rising = dendrites.Exp2Syn(tau1=0.5, tau2=3.0, e=0.0)
  net = dendrites.network(
    [cell] * 3,
    [
      dendrites.connect(rising, 0, 1, cell.node('dend', 0.5), 0.02, 2.0),
      dendrites.connect(fast, 1, 2, at, 0.03, 1.3, threshold=-10.0),
      dendrites.connect(fast, 0, 2, at, 0.01, 4.51),
    ],
  )
  params = dendrites.init_params(net)
  recording, _ = dendrites.simulate(
    net,
    params,
    dendrites.init_state(net, params, dt=DT),
    [dendrites.current_clamp((0, 0), 1.0, 3.0, 1.0)],
    20.0,
    DT,
    record=[(0, 0), (1, 0), (2, 0), (2, at)],
    secondorder=secondorder,
    record_spikes=True,
  )
  np.testing.assert_allclose(recording.v[..., 0], expected, rtol=0, atol=1e-6)
  # Each cell fires once, one after the other.
  assert expected[:, :3].max() > 20
  fired = np.argwhere(np.asarray(recording.spikes[..., 0]))
  assert fired[:, 1].tolist() == [0, 1, 2]


def drive_in_neuron(h, sections):
  """The CA1 cell with a clamp and a synapse; its two traces."""
  neuron_reference.equip(sections.values(), 40.0)
  soma, tuft = sections['soma[0]'](0.5), sections['apic[25]'](0.5)
  clamp = h.IClamp(soma)
  clamp.delay, clamp.dur, clamp.amp = 1, 1e9, 1.0
  drive = h.ExpSyn(tuft)
  drive.tau, drive.e = 2, 0
  source = h.NetStim()
  source.start, source.number = 2.0, 1
  link = h.NetCon(source, drive)
  link.delay, link.weight[0] = 0.51, 0.01
  return neuron_reference.run(h, [soma, tuft], 8, DT)


def test_reconstructed_cell(h):
  path = Golden('heliox').data_folder('swc') / 'swc/morph_ca1_n120.swc'
  with neuron_import.imported(path) as (_, sections):
    expected = drive_in_neuron(h, sections)

  tree = dendrites.discretize(dendrites.read_swc(path), max_len=40.0)
  cell = dendrites.cell(tree, [('all', channels.HH)])
  node = cell.node('apic[25]', 0.5)
  kind = dendrites.ExpSyn(tau=2.0, e=0.0)
  net = dendrites.network(
    cell, [dendrites.synapse(kind, node, 0.01, due=[2.51])]
  )
  params = dendrites.init_params(net)
  soma = cell.node('soma[0]', 0.5)
  recording, _ = dendrites.simulate(
    net,
    params,
    dendrites.init_state(net, params),
    [dendrites.current_clamp(soma, 1.0, 1e9, 1.0)],
    8.0,
    DT,
    record=[soma, node],
  )
  # NEURON keeps the points of a file in float32.
  np.testing.assert_allclose(recording.v[..., 0], expected, rtol=0, atol=5e-5)
  assert expected[:, 0].max() > 20
