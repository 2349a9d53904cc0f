"""The dense steps and the solver's steps are the same."""

import functools

import jax
import numpy as np
import pytest

from jaxlab import dendrites
from jaxlab.dendrites import channels, dense

DT, STEPS = 0.025, 160
CYLINDERS = [
  ('soma', 20.0, 20.0, None),
  ('dend', 150.0, 2.0, ('soma', 1.0)),
  ('apic1', 100.0, 1.5, ('dend', 1.0)),
  ('apic2', 80.0, 1.0, ('dend', 1.0)),
]


@pytest.fixture(autouse=True)
def x64():
  with jax.enable_x64(True):
    yield


def branched(nseg):
  """Three half-segments meet where it forks: one node has no membrane."""
  tree = dendrites.discretize(dendrites.from_cylinders(CYLINDERS), nseg=nseg)
  leak = channels.Leak(g=1e-4, e=-65.0)
  return dendrites.cell(tree, [('soma', channels.HH), ('all', leak)])


@functools.partial(jax.jit, static_argnums=0)
def both(net, params, v0, amplitude):
  """`[T, n]` voltages of the dense steps, and of the solver's."""
  # A step of current into node 0 of cell 0.
  when = 0.3, 1.0
  plain = dense.simulate(
    net, params, v0, [(net.row((0, 0)), *when, amplitude)], STEPS, DT
  )
  recording, _ = dendrites.simulate(
    net,
    params,
    dendrites.init_state(net, params, v0),
    [dendrites.current_clamp((0, 0), *when, amplitude)],
    dt=DT,
    steps=STEPS,
    record=[net.where(row) for row in range(net.n)],
  )
  return plain, recording.v[1:, :, 0]


def test_a_branched_cell_with_synapses():
  cell = branched(2)
  assert not cell.tree.is_segment.all()
  rising = dendrites.Exp2Syn(tau1=0.3, tau2=2.0, e=0.0)
  falling = dendrites.ExpSyn(tau=1.5, e=-80.0)
  net = dendrites.network(
    cell,
    [
      dendrites.synapse(rising, cell.node('apic2', 0.9), 4e-3, due=[0.5, 2.0]),
      dendrites.synapse(rising, cell.node('dend', 0.1), 2e-3, due=[1.0]),
      dendrites.synapse(falling, cell.node('apic1', 0.1), 3e-3, due=[1.5]),
    ],
  )
  params = dendrites.init_params(net)
  geometry = params['geometry']['0']
  scale = 1 + 0.3 * jax.random.uniform(jax.random.key(0), (net.n, 1))
  params['geometry']['0'] = {**geometry, 'radius': scale, 'Ra': 2 * scale}
  expected, found = map(np.asarray, both(net, params, -65.0, 1.5))
  np.testing.assert_allclose(found, expected, atol=1e-9)
  # It fired, and the tips did something else.
  assert expected[:, 0].max() > 0
  assert np.ptp(expected, axis=1).max() > 10


def test_two_cells_in_one_system():
  cells = [branched(1), branched({'soma': 1, 'dend': 3})]
  kind = dendrites.Exp2Syn(tau1=0.3, tau2=2.0, e=0.0)
  net = dendrites.network(
    cells,
    [dendrites.synapse(kind, (1, cells[1].node('dend', 0.5)), 5e-3, due=[0.5])],
  )
  params = dendrites.init_params(net)
  expected, found = map(np.asarray, both(net, params, -60.0, 0.2))
  np.testing.assert_allclose(found, expected, atol=1e-9)
  somata = [net.row((i, 0)) for i in range(2)]
  assert np.abs(np.diff(expected[:, somata])).max() > 1
