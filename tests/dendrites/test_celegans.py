"""The worm's circuits: made-up neurons, closed forms, the published data."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import absltest
from jax.flatten_util import ravel_pytree
from scipy.spatial.distance import cdist
from scipy.special import expit

from jaxlab import dendrites, errors
from jaxlab.data import neurons
from jaxlab.dendrites import celegans
from jaxlab.dendrites.celegans import Wiring
from jaxlab.dendrites.simulate import simulate

# A soma of 20 x 10 um, and a neurite of 60 x 2 um at its end.
SWC = '1 1 0 {y} 0 5 -1\n2 1 20 {y} 0 5 1\n3 2 20 {y} 0 1 2\n4 2 80 {y} 0 1 3\n'
ROW = {
  **{'soma.Ra': 100.0, 'soma.cm': 2.0, 'soma.gpas': 5e-4, 'soma.epas': -60.0},
  **{'neurite.Ra': 300.0, 'neurite.cm': 1.0},
  **{'neurite.gpas': 1e-4, 'neurite.epas': -70.0},
}
NAMES = ('A', 'B', 'C', 'D')
WIRING = Wiring(
  NAMES,
  pre=np.array([0, 0, 1, 2, 3]),
  post=np.array([1, 2, 2, 0, 3]),
  gap=np.array([[0, 1], [1, 3], [2, 3]]),
)


def made_up(y=0.0, nseg=(1, 3), **changed):
  return celegans.neuron('A', SWC.format(y=y), {**ROW, **changed}, nseg)


def point(epas):
  """Nearly one compartment: what leaks through the neurite does not count."""
  row = {**ROW, 'soma.epas': epas, 'neurite.epas': epas, 'neurite.gpas': 5e-4}
  return celegans.neuron('A', SWC.format(y=0), {**row, 'neurite.Ra': 1e-3})


@pytest.fixture(scope='module')
def worm():
  try:
    return neurons.load_worm()
  except errors.MissingDataError as missing:
    pytest.skip(str(missing))


def worm_cells(worm, names):
  return [
    celegans.neuron(
      worm.names[i],
      worm.swc[i],
      {name: float(column[i]) for name, column in worm.params.items()},
      worm.nseg[i],
    )
    for i in celegans.indices(worm.names, names)
  ]


def test_parts_have_their_own_resistivity_and_capacitance():
  cell = made_up()
  tree = cell.tree
  # MOhm of a cylinder: 0.01 Ra L / (pi r^2).
  own = 0.01 * 300 * np.array([10, 20, 20]) / np.pi
  soma = 0.01 * 100 * 10 / (25 * np.pi)
  np.testing.assert_allclose(
    tree.resistance, [0, own[0] + soma, *own[1:]], rtol=1e-12
  )
  assert cell.cm == (2.0, 1.0, 1.0, 1.0)
  np.testing.assert_allclose(tree.area, np.pi * np.array([200, 40, 40, 40]))
  assert made_up(**{'neurite.Ra': 100.0}).tree.Ra == 100


def test_channels_sit_on_the_soma():
  cell = made_up(**{'soma.gbegl19': 1e-4, 'soma.gbkcnl': 2e-4, 'soma.gbirk': 0})
  placed = {p.channel.name: (p.nodes, p.channel) for p in cell.placements}
  assert set(placed) == {'Leak', 'egl19', 'kcnl', 'cainternm'}
  for name in ('egl19', 'kcnl', 'cainternm'):
    assert placed[name][0] == (0,)
  assert placed['egl19'][1].defaults()['g'] == 1e-4
  leaks = {
    p.nodes: p.channel.defaults()
    for p in cell.placements
    if p.channel.name == 'Leak'
  }
  assert leaks == {
    (0,): {'g': 5e-4, 'e': -60.0},
    (1, 2, 3): {'g': 1e-4, 'e': -70.0},
  }


@pytest.mark.parametrize(
  ('change', 'nseg', 'match'),
  [
    ({'soma.cm': np.nan}, None, "'A' has no value of 'soma.cm'"),
    ({'soma.gbfoo': 1.0}, None, "'soma.gbfoo' is no known density"),
    ({'neurite.gbegl19': 1.0}, None, 'no known density'),
    ({}, (1, 2, 3), '3 numbers of segments for 2 sections'),
  ],
)
def test_refuses_rows_that_are_not_right(change, nseg, match):
  with pytest.raises(errors.UserError, match=match):
    made_up(nseg=nseg, **change)
  missing = {k: v for k, v in ROW.items() if k != 'neurite.epas'}
  with pytest.raises(errors.UserError, match=r"no value of 'neurite\.epas'"):
    celegans.neuron('B', SWC.format(y=0), missing)


def test_subcircuit_is_the_induced_one():
  found = celegans.select(WIRING, ('D', 'B', 'A'))

  def named(wiring, a, b):
    return {
      (wiring.names[i], wiring.names[j]) for i, j in zip(a, b, strict=True)
    }

  assert named(found, found.pre, found.post) == {('A', 'B'), ('D', 'D')}
  assert {frozenset(pair) for pair in named(found, *found.gap.T)} == {
    frozenset('AB'),
    frozenset('BD'),
  }
  assert (found.gap[:, 0] < found.gap[:, 1]).all()
  with pytest.raises(errors.UserError, match="neuron 'Z' is not among the 4"):
    celegans.select(WIRING, ('A', 'Z'))
  with pytest.raises(errors.UserError, match="'A' is named twice"):
    celegans.select(WIRING, ('A', 'B', 'A'))


def test_contacts():
  cells = [made_up(0.0), made_up(30.0, (3, 5)), made_up(-8.0, (1, 7))]
  pairs = np.array([[0, 1], [1, 2], [2, 0], [1, 1]])
  nodes = celegans.contacts(cells, pairs)
  for (a, b), (i, j) in zip(pairs, nodes, strict=True):
    distance = cdist(cells[a].tree.xyz, cells[b].tree.xyz)
    assert distance[i, j] == distance.min()
  sources = [cell.source for cell in cells]
  soma = celegans.contacts(cells, pairs, 'soma')
  np.testing.assert_array_equal(soma, np.array(sources)[pairs])
  many = np.tile([[0, 2]], (400, 1))
  drawn, again, other = (
    celegans.contacts(cells, many, 'random', jax.random.key(k))
    for k in (0, 0, 1)
  )
  np.testing.assert_array_equal(drawn, again)
  assert (drawn != other).any()
  for side, cell in ((0, cells[0]), (1, cells[2])):
    assert set(drawn[:, side]) == set(np.flatnonzero(cell.tree.is_segment))
  with pytest.raises(errors.UserError, match="place = 'axon'"):
    celegans.contacts(cells, pairs, 'axon')


def test_signs_belong_to_senders():
  for n in (10, 302):
    drawn = celegans.draw_inhibitory(jax.random.key(0), n)
    assert drawn.sum() == round(0.3 * n)
  other = celegans.draw_inhibitory(jax.random.key(1), 302)
  assert (drawn != other).any()
  cells = [made_up(10.0 * i) for i in range(4)]
  weight = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
  inhibits = np.array([True, False, True, False])
  net = celegans.circuit(cells, WIRING, inhibits, chemical=weight)
  groups = net.synapses
  assert groups['GradedInhibition'].sender.tolist() == [0, 2]
  assert groups['GradedInhibition'].weight.tolist() == [1, 2, 4]
  assert groups['GradedSyn'].sender.tolist() == [1, 3]
  assert groups['GradedSyn'].weight.tolist() == [3, 5]
  np.testing.assert_array_equal(net.junctions.conductance, [5e-4] * 3)


@pytest.mark.parametrize(
  ('given', 'match'),
  [
    ({'chemical': 0.05}, r'chemical weight 0.05 is outside its range \[0.1'),
    ({'chemical': [1, 1, 1, 1, np.nan]}, 'chemical weight nan'),
    ({'electrical': 2e-3}, r'gap junction 0.002 is outside'),
    ({'inhibitory': [True]}, '4 cells and 1 signs for 4 names'),
  ],
)
def test_refuses_weights_outside_their_range(given, match):
  cells = [made_up(10.0 * i) for i in range(4)]
  given = {'inhibitory': np.zeros(4, bool), **given}
  with pytest.raises(errors.UserError, match=match):
    celegans.circuit(cells, WIRING, **given)


def steady(wiring, inhibits, resting, **weights):
  """Somatic voltages of point neurons after a second."""
  cells = [point(e) for e in resting]
  net = celegans.circuit(cells, wiring, inhibits, place='soma', **weights)
  params = dendrites.init_params(net)
  state = dendrites.init_state(net, params, v0=-60.0)
  rec, _ = simulate(net, params, state, t_max=1000.0, dt=1.0)
  return np.asarray(rec.v)[-1, :, 0]


@pytest.mark.parametrize(
  ('inhibits', 'gbar', 'e'), [(False, 4.9e-4, 30), (True, 2e-4, -70)]
)
def test_graded_synapse_meets_the_closed_form(inhibits, gbar, e):
  wiring = Wiring(
    ('A', 'B'), np.array([0]), np.array([1]), np.zeros((0, 2), int)
  )
  with jax.enable_x64(True):
    v = steady(wiring, [inhibits, False], [-18.0, -60.0], chemical=2.0)
  leak = 5e-4 * 320 * np.pi * 1e-2  # uS of the whole membrane
  g = 2 * gbar * expit((v[0] + 20) / 5)
  np.testing.assert_allclose(v[0], -18, atol=1e-6)
  np.testing.assert_allclose(v[1], (leak * -60 + g * e) / (leak + g), atol=0.01)


def test_gap_junction_meets_the_closed_form():
  none = np.zeros(0, int)
  wiring = Wiring(('A', 'B'), none, none, np.array([[0, 1]]))
  with jax.enable_x64(True):
    v = steady(wiring, [False, False], [-40.0, -70.0], electrical=1e-3)
  leak = 5e-4 * 320 * np.pi * 1e-2
  system = [[leak + 1e-3, -1e-3], [-1e-3, leak + 1e-3]]
  want = np.linalg.solve(system, [-40 * leak, -70 * leak])
  np.testing.assert_allclose(v, want, atol=0.01)


def test_gradient_of_weights_meets_central_differences():
  cells = [
    made_up(20.0 * i, (1, 1), **{'soma.gbegl19': 1e-3, 'soma.gbkcnl': 1e-3})
    for i in range(2)
  ]
  wiring = Wiring(
    ('A', 'B'), np.array([0, 1]), np.array([1, 0]), np.array([[0, 1]])
  )
  net = celegans.circuit(cells, wiring, [True, False])
  with jax.enable_x64(True):
    params = dendrites.init_params(net)
    state = dendrites.init_state(net, params, v0=-22.0)

    @jax.jit
    def loss(free):
      weights = celegans.bounded(free)
      both = celegans.with_weights(params, weights)
      rec, _ = simulate(net, both, state, dt=0.1, steps=50)
      return celegans.trace_loss(rec.v[..., 0], -30.0)

    free = celegans.unbounded(celegans.weights_of(params))
    flat, shape = ravel_pytree(free)
    gradient = ravel_pytree(jax.grad(loss)(free))[0]
    assert len(gradient) == 3
    h = 1e-4
    want = [
      (loss(shape(flat + h * unit)) - loss(shape(flat - h * unit))) / (2 * h)
      for unit in jnp.eye(3)
    ]
    assert np.abs(want).min() > 1e-6
    np.testing.assert_allclose(gradient, want, rtol=1e-5)


class WeightsTest(chex.TestCase):
  """The maps and the losses, with and without jit."""

  @chex.variants(with_jit=True, without_jit=True)
  def test_bounds(self):
    x = jnp.array([-30.0, -2.0, 0.0, 1.0, 30.0])
    free = {'synapses': {'GradedSyn': x}, 'gaps': x}
    found = self.variant(celegans.bounded)(free)
    np.testing.assert_allclose(
      found['synapses']['GradedSyn'], 0.1 + 9.9 * expit(x), rtol=1e-6
    )
    np.testing.assert_allclose(found['gaps'], 1e-4 + 9e-4 * expit(x), rtol=1e-6)
    back = celegans.unbounded(jax.tree.map(lambda w: w[1:4], found))
    np.testing.assert_allclose(back['gaps'], x[1:4], atol=1e-5)
    np.testing.assert_allclose(back['synapses']['GradedSyn'], x[1:4], atol=1e-5)

  @chex.variants(with_jit=True, without_jit=True)
  def test_correlations(self):
    v = np.random.default_rng(0).normal(size=(40, 5))
    v[:, 1] += v[:, 0]
    found = self.variant(lambda v: celegans.correlations(v, floor=0.0))(v)
    np.testing.assert_allclose(found, np.corrcoef(v.T), atol=1e-5)
    w = np.random.default_rng(1).normal(size=(40, 5))
    both = np.corrcoef(v.T) - np.corrcoef(w.T)
    loss = self.variant(celegans.correlation_loss)(100 * v, 100 * w)
    np.testing.assert_allclose(loss, np.mean(both**2), rtol=1e-4)

  @chex.variants(with_jit=True, without_jit=True)
  def test_a_neuron_at_rest_correlates_with_none(self):
    v = np.random.default_rng(0).normal(size=(40, 3))
    v[:, 1] = -65.0
    target = jnp.asarray(v[:, ::-1])

    def loss(x):
      return celegans.correlation_loss(x, target)

    gradient = self.variant(jax.grad(loss))(jnp.asarray(v))
    assert np.isfinite(gradient).all()
    np.testing.assert_allclose(celegans.correlations(v)[1], 0, atol=1e-4)


def test_drawn_weights_fill_their_ranges():
  like = {'synapses': {'GradedSyn': jnp.zeros(4000)}, 'gaps': jnp.zeros(4000)}
  drawn = celegans.draw_weights(jax.random.key(0), like)
  for w, low, high in (
    (drawn['synapses']['GradedSyn'], 0.1, 10.0),
    (drawn['gaps'], 1e-4, 1e-3),
  ):
    share = (np.asarray(w) - low) / (high - low)
    assert 0 < share.min() < 0.03
    assert 0.97 < share.max() < 1
    np.testing.assert_allclose(share.mean(), 0.5, atol=0.02)


def test_whole_worm(worm):
  wiring = Wiring(worm.names, worm.pre, worm.post, worm.gap)
  inhibits = celegans.draw_inhibitory(jax.random.key(0), 302)
  net = celegans.circuit(worm_cells(worm, worm.names), wiring, inhibits)
  assert (len(net.cells), net.n_segments, net.n) == (302, 15910, 16646)
  assert len(net.groups) == 1
  assert sum(len(g.weight) for g in net.synapses.values()) == 3709
  assert len(net.junctions.conductance) == 1091
  # Each segment leaks, and what is gated sits on somata.
  assert len(net.mechanisms['Leak'].rows.indices) == 15910
  somata = {
    net.row((i, node))
    for i, cell in enumerate(net.cells)
    for node in cell.tree.nodes('soma').tolist()
  }
  for name, mechanism in net.mechanisms.items():
    assert name == 'Leak' or somata >= set(mechanism.rows.indices)


def test_neuron_rests_where_it_leaks(worm):
  """Without channels a cell relaxes to the leak's potential."""
  (i,) = celegans.indices(worm.names, ['AVAL'])
  row = {
    name: float(column[i]) * ('gb' not in name)
    for name, column in worm.params.items()
  }
  cell = celegans.neuron('AVAL', worm.swc[i], row, worm.nseg[i])
  net = dendrites.network(cell)
  with jax.enable_x64(True):
    params = dendrites.init_params(net)
    state = dendrites.init_state(net, params, v0=-65.0)
    rec, _ = simulate(net, params, state, t_max=200.0, dt=1.0, record=[0, 20])
  tau = row['soma.cm'] / row['soma.gpas'] * 1e-3
  t = np.asarray(rec.t)
  ratio = np.power(1 + 1.0 / tau, -t)  # of the implicit rule
  want = row['soma.epas'] + (-65.0 - row['soma.epas']) * ratio
  np.testing.assert_allclose(rec.v[..., 0], np.stack([want] * 2, 1), rtol=1e-9)


if __name__ == '__main__':
  absltest.main()
