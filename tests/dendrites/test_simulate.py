"""Runs: closed forms of the cable, options that must not matter, bad input."""

import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import absltest
from jax.experimental import checkify

from jaxlab import dendrites
from jaxlab.dendrites import channels

STICK = [('soma', 20.0, 20.0, None), ('dend', 400.0, 2.0, ('soma', 1.0))]
DT = 0.025


def stick(active=False):
  tree = dendrites.discretize(
    dendrites.from_cylinders(STICK), nseg={'soma': 1, 'dend': 5}
  )
  leak = channels.Leak(g=1e-4, e=-65.0)
  placed = [('all', leak), ('soma', channels.HH)] if active else [('all', leak)]
  return dendrites.cell(tree, placed)


def point(**leak):
  tree = dendrites.discretize(
    dendrites.from_cylinders([('soma', 20.0, 20.0, None)]), nseg=1
  )
  return dendrites.cell(tree, [('all', channels.Leak(**leak))])


def run(net, stimuli=(), t_max=5.0, **options):
  params = dendrites.init_params(net)
  batch = options.pop('batch', 1)
  v0 = options.pop('v0', -65.0)
  state = dendrites.init_state(net, params, v0, batch=batch, dt=DT)
  return dendrites.simulate(net, params, state, stimuli, t_max, DT, **options)


@pytest.fixture
def x64():
  with jax.enable_x64(True):
    yield


class Variants(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True, with_pmap=True)
  def test_step(self):
    net = dendrites.network(point(g=1e-4, e=-65.0))
    params = dendrites.init_params(net)
    state = dendrites.init_state(net, params, -60.0)

    @self.variant
    def step(params, state):
      return dendrites.step(net, params, state, dt=DT)[0].v

    # C / dt (v' - v) = -g (v' - e), with C / g = 10 ms.
    expected = -65.0 + 5.0 / (1 + DT / 10.0)
    np.testing.assert_allclose(step(params, state), expected, rtol=1e-6)


def test_membrane_relaxes_with_its_time_constant(x64):
  net = dendrites.network(stick())
  errors = []
  for secondorder in (0, 2):
    recording, _ = run(net, v0=-55.0, t_max=20.0, secondorder=secondorder)
    expected = -65.0 + 10.0 * np.exp(-np.asarray(recording.t) / 10.0)
    errors.append(np.abs(recording.v[:, 0, 0] - expected).max())
  assert errors[0] < 1e-2
  # One halving of an order-2 method is worth many of an order-1 method.
  assert errors[1] < 2e-6


def test_far_synapses_act_later_and_less(x64):
  cell = stick()
  kind = dendrites.ExpSyn(tau=1.0, e=0.0)
  peaks, times = [], []
  for x in (0.1, 0.5, 0.9):
    node = cell.node('dend', x)
    net = dendrites.network(
      cell, [dendrites.synapse(kind, node, 1e-4, due=[1.0])]
    )
    v = np.asarray(run(net, t_max=20.0)[0].v[:, 0, 0])
    peaks.append(v.max() + 65.0)
    times.append(v.argmax() * DT)
  assert peaks[0] > peaks[1] > peaks[2] > 0
  assert times[0] < times[1] < times[2]


def test_reciprocity_of_transfer_resistances(x64):
  """The steady voltage here for a current there is that the other way round."""
  cell = stick()
  net = dendrites.network(cell)
  ends = 0, cell.node('dend', 0.9)
  found = []
  for here, there in (ends, ends[::-1]):
    clamp = dendrites.current_clamp(here, 0.0, 1e9, 0.01)
    recording, _ = run(net, [clamp], 200.0, record=[there], every=8000)
    found.append(float(recording.v[-1, 0, 0]))
  assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_batch_columns_and_vmap_are_single_runs():
  net = dendrites.network(stick(active=True))
  amplitudes = jnp.array([0.3, 0.6, 1.0])
  params = dendrites.init_params(net)

  def one(amplitude, batch=1):
    state = dendrites.init_state(net, params, batch=batch)
    clamp = dendrites.current_clamp(0, 0.5, 2.0, amplitude)
    return dendrites.simulate(net, params, state, [clamp], 5.0, DT)[0].v

  single = jnp.stack([one(a)[:, 0, 0] for a in amplitudes], axis=1)
  np.testing.assert_allclose(one(amplitudes, 3)[:, 0], single, atol=2e-3)
  mapped = jax.vmap(one)(amplitudes)[..., 0, 0]
  np.testing.assert_allclose(mapped.T, single, atol=2e-3)


def test_tiles_are_the_run():
  net = dendrites.network(stick(active=True))
  params = dendrites.init_params(net)
  state = dendrites.init_state(net, params, batch=6)
  clamp = dendrites.current_clamp(0, 0.2, 1.0, jnp.linspace(0.1, 1.0, 6))

  def simulate(tile):
    return dendrites.simulate(
      net, params, state, [clamp], 1.0, DT, tile=tile, record_spikes=True
    )

  chex.assert_trees_all_close(simulate(2), simulate(0), atol=1e-3)
  with pytest.raises(ValueError, match='tile = 4'):
    simulate(4)


def test_copies_and_forests_are_single_cells(x64):
  """Three equal cells and two others behave as each does alone."""
  cells = [stick(), stick(active=True), point(g=3e-4, e=-60.0)]
  order = [cells[k] for k in (1, 0, 1, 2, 1)]
  net = dendrites.network(order)
  assert [g.count for g in net.groups] == [3, 1]
  clamps = [
    dendrites.current_clamp((i, 0), 0.5, 2.0, 0.1 * (i + 1)) for i in range(5)
  ]
  together = run(net, clamps)[0].v[..., 0]
  for i, cell in enumerate(order):
    alone = dendrites.network(cell)
    clamp = dendrites.current_clamp(0, 0.5, 2.0, 0.1 * (i + 1))
    np.testing.assert_allclose(
      together[:, i], run(alone, [clamp])[0].v[:, 0, 0], rtol=0, atol=1e-9
    )


def test_equal_channels_on_two_places_keep_all_nodes():
  tree = stick().tree
  placed = [(p, channels.Leak(g=2e-4, e=-65.0)) for p in ('all', 'soma')]
  (placement,) = dendrites.cell(tree, placed).placements
  assert placement.nodes == tuple(range(tree.n))


def test_rows_are_where_they_say():
  net = dendrites.network([stick(), point(g=1e-4), stick()])
  for index, cell in enumerate(net.cells):
    rows = net.cell_rows(index)
    assert rows.tolist() == [net.row((index, i)) for i in range(cell.n)]
    assert [net.where(r) for r in rows] == [(index, i) for i in range(cell.n)]
  assert sorted(r for i in range(3) for r in net.cell_rows(i)) == list(
    range(net.n)
  )


@pytest.mark.parametrize('gap', ['explicit', 'implicit'])
def test_gap_junction_equals_the_coupled_ode(x64, gap):
  """Two leaky points: the difference of voltages decays at (g + 2 gap) / C."""
  cell = point(g=1e-4, e=-65.0)
  area = float(cell.tree.area[0])
  junction = dendrites.gap_junctions(0, 1, 2e-3)
  net = dendrites.network([cell, cell], gaps=[junction])
  recording, _ = run(net, v0=jnp.array([[-60.0], [-70.0]]), t_max=10.0, gap=gap)
  v = np.asarray(recording.v[..., 0])
  np.testing.assert_allclose(v.sum(axis=1), -130.0, atol=1e-9)
  rate = (1e-6 * area + 2 * 2e-3) / (1e-5 * area)
  expected = 10.0 * np.exp(-rate * np.asarray(recording.t))
  np.testing.assert_allclose(v[:, 0] - v[:, 1], expected, atol=2e-2)


def test_strong_gap_junctions_are_reported(x64):
  cell = point(g=1e-4, e=-65.0)
  junction = dendrites.gap_junctions(0, 1, 1.0)
  net = dendrites.network([cell, cell], gaps=[junction])
  v0 = jnp.array([[-60.0], [-70.0]])
  with pytest.warns(UserWarning, match="gap='implicit'"):
    run(net, v0=v0)
  params = dendrites.init_params(net)

  def simulate(params):
    state = dendrites.init_state(net, params, v0)
    return dendrites.simulate(
      net, params, state, (), 1.0, DT, gap='implicit', check='nan'
    )[0].v

  error, _ = checkify.checkify(simulate)(params)
  assert 'did not converge' in error.get()


def test_graded_synapse_settles_where_currents_cancel(x64):
  kind = dendrites.GradedSyn(gbar=1e-3, e=0.0, v_th=-60.0, delta=5.0, k=0.5)
  cell = point(g=1e-4, e=-65.0)
  net = dendrites.network([cell, cell], [dendrites.connect(kind, 0, 1, 0, 2.0)])
  v = np.asarray(run(net, t_max=200.0)[0].v[-1, :, 0])
  share = 1 / (1 + np.exp((-60.0 + 65.0) / 5.0))
  leak, g = 1e-6 * float(cell.tree.area[0]), 2.0 * 1e-3 * share
  assert v[0] == pytest.approx(-65.0)
  assert v[1] == pytest.approx(-65.0 * leak / (leak + g), rel=1e-6)


def test_nmda_is_blocked_at_rest(x64):
  from jaxlab.dendrites.synapses import magnesium_block

  # Jahr and Stevens: 1 / (1 + 0.28 exp(4.03)) at -65 mV, 1 / 1.28 at 0 mV.
  assert magnesium_block(0.0, 1.0) == pytest.approx(1 / 1.28)
  kind = dendrites.AMPA_NMDA()
  state = dict.fromkeys(kind.states, jnp.zeros((1, 1)))
  p = kind.defaults()
  state = kind.receive(state, jnp.full((1, 1), 1e-3), p)
  for _ in range(200):
    state = kind.update(state, jnp.zeros((1, 1)), 0.1, p)
  v = jnp.full((1, 1), -30.0)
  g, ge = kind.conductance(state, v, p)
  fast = state['b'] - state['a']
  slow = (state['nb'] - state['na']) * magnesium_block(-30.0, 1.0)
  np.testing.assert_allclose(g * v - ge, (fast + slow) * -30.0, rtol=1e-12)


@pytest.mark.parametrize('remat', ['none', 7, 'binomial:6'])
def test_storing_fewer_states_changes_nothing(x64, remat):
  net = dendrites.network(stick(active=True))
  params = dendrites.init_params(net)

  def loss(params, remat):
    state = dendrites.init_state(net, params)
    clamp = dendrites.current_clamp(0, 0.2, 2.0, 1.0)
    recording, _ = dendrites.simulate(
      net, params, state, [clamp], dt=DT, steps=50, remat=remat
    )
    return jnp.mean(recording.v**2)

  expected = jax.grad(loss)(params, 'sqrt')
  chex.assert_trees_all_close(
    jax.grad(loss)(params, remat), expected, rtol=1e-9, atol=1e-12
  )


def test_other_solvers_agree_and_the_default_is_no_kernel():
  net = dendrites.network(stick(active=True))
  params = dendrites.init_params(net)

  def voltage(params, solver=None):
    state = dendrites.init_state(net, params)
    clamp = dendrites.current_clamp(0, 0.1, 1.0, 1.0)
    return dendrites.simulate(
      net, params, state, [clamp], dt=DT, steps=20, solver=solver
    )[0].v

  for solver in ('interpret', 'xla_steps'):
    np.testing.assert_allclose(
      voltage(params, solver), voltage(params), atol=1e-3
    )
  assert 'pallas_call' not in str(jax.make_jaxpr(voltage)(params))


def test_the_step_may_be_traced():
  net = dendrites.network(point(g=1e-4, e=-65.0))
  params = dendrites.init_params(net)

  @jax.jit
  def final(dt):
    state = dendrites.init_state(net, params, -55.0)
    return dendrites.simulate(net, params, state, dt=dt, steps=10)[0].v[-1]

  # Ten implicit steps of a membrane with a time constant of 10 ms.
  np.testing.assert_allclose(final(0.1), -65.0 + 10.0 / 1.01**10, rtol=1e-6)
  with pytest.raises(ValueError, match='give steps='):
    jax.jit(
      lambda dt: dendrites.simulate(
        net, params, dendrites.init_state(net, params), (), 1.0, dt
      )
    )(0.1)


def test_samples_and_probes():
  net = dendrites.network(stick(active=True))
  probe = dendrites.Probe('HH', 'n', 0)
  clamp = dendrites.current_clamp(0, 0.2, 2.0, 1.0)
  dense, _ = run(net, [clamp], record=[0, probe])
  sparse, _ = run(net, [clamp], record=[0, probe], every=20)
  np.testing.assert_array_equal(dense.v[::20], sparse.v)
  np.testing.assert_array_equal(dense.probes[::20], sparse.probes)
  # Hodgkin and Huxley's n at rest.
  assert float(dense.probes[0, 0, 0]) == pytest.approx(0.3177, abs=1e-4)


def test_two_halves_of_a_run_are_the_run():
  net = dendrites.network(stick(active=True))
  params = dendrites.init_params(net)
  state = dendrites.init_state(net, params)
  current = dendrites.Injection([0], jnp.full((1, 1), 0.4))
  whole, _ = dendrites.simulate(net, params, state, [current], 4.0, DT)
  first, middle = dendrites.simulate(net, params, state, [current], 2.0, DT)
  second, _ = dendrites.simulate(net, params, middle, [current], 2.0, DT)
  np.testing.assert_array_equal(whole.v[:81], first.v)
  np.testing.assert_array_equal(whole.v[80:], second.v)
  np.testing.assert_allclose(second.t[0], 2.0, rtol=1e-6)


def test_times_count_from_the_start_of_the_state():
  cell = stick(active=True)
  kind = dendrites.ExpSyn(tau=1.0, e=0.0)
  net = dendrites.network(cell, [dendrites.synapse(kind, 0, 0.05, [1.0])])
  params = dendrites.init_params(net)
  start = dendrites.init_state(net, params)
  clamp = dendrites.current_clamp(0, 4.5, 1.0, 0.5)
  whole, _ = dendrites.simulate(net, params, start, clamp, 8.0, DT)
  first, middle = dendrites.simulate(net, params, start, clamp, 4.0, DT)
  second, _ = dendrites.simulate(net, params, middle, clamp, 4.0, DT)
  np.testing.assert_array_equal(whole.v[160:], second.v)
  np.testing.assert_array_equal(whole.v[:161], first.v)


def test_a_voltage_that_is_not_finite_is_named():
  net = dendrites.network([stick(), stick()])
  params = dendrites.init_params(net)
  params['channels']['Leak']['g'] = (
    params['channels']['Leak']['g'].at[3].set(jnp.nan)
  )

  def simulate(params):
    state = dendrites.init_state(net, params)
    return dendrites.simulate(net, params, state, (), 1.0, DT, check='nan')[0].v

  error, _ = checkify.checkify(simulate)(params)
  cell, node = net.where(3)
  assert re.search(f'cell {cell}, node .* at 0.02', error.get())
  assert node >= 0


@pytest.mark.parametrize(
  ('options', 'match'),
  [
    ({'t_max': 0.001}, 'makes no step'),
    ({'every': 0}, 'every = 0'),
    ({'window': 0}, 'window = 0'),
    ({'stimuli': [3.0]}, '3.0 is no stimulus'),
    (
      {'stimuli': dendrites.current_clamp(0, 0.0, 1.0, jnp.ones(4))},
      r'amp has the shape \(4,\)',
    ),
    ({'remat': 'all'}, 'remat'),
    ({'gap': 'half'}, 'gap'),
    ({'secondorder': 1}, 'secondorder'),
    ({'surrogate': 'step'}, 'surrogate'),
    ({'record': [99]}, 'node 99 of cell 0 is outside 0..5'),
    ({'record': [dendrites.Probe('HH', 'm', 0)]}, 'HH.m is not known'),
  ],
)
def test_bad_options(options, match):
  with pytest.raises(ValueError, match=match):
    run(dendrites.network(stick()), **options)


def test_bad_steps_events_and_shapes():
  cell = stick()
  net = dendrites.network(cell)
  params = dendrites.init_params(net)
  state = dendrites.init_state(net, params)
  with pytest.raises(ValueError, match=r'dt = -0.1 ms'):
    dendrites.simulate(net, params, state, (), 1.0, -0.1)
  with pytest.raises(ValueError, match=r'current has the shape \(2, 1\)'):
    run(net, [dendrites.Injection([0], jnp.ones((2, 1)))])
  late = dendrites.synapse(dendrites.ExpSyn(), 0, 1e-3, due=[9.0])
  with pytest.raises(ValueError, match=r'event at 9.0 ms is outside'):
    run(dendrites.network(cell, [late]))
  short = dendrites.connect(dendrites.ExpSyn(), 0, 1, 0, 1e-3, 0.01)
  with pytest.raises(ValueError, match='below one step'):
    run(dendrites.network([cell, cell], [short]))
  two = dendrites.network([cell, cell])
  with pytest.raises(ValueError, match='which of the 2 cells'):
    run(two, record=[0])
  with pytest.raises(ValueError, match='cell 5 is outside'):
    run(two, record=[(5, 0)])


def test_bad_parts():
  cell = stick()
  with pytest.raises(ValueError, match='conductance'):
    channels.Leak(g=-1.0)
  with pytest.raises(ValueError, match="place 'axom' is unknown"):
    dendrites.cell(cell.tree, [('axom', channels.HH)])
  with pytest.raises(ValueError, match='tau1'):
    dendrites.Exp2Syn(tau1=3.0, tau2=2.0)
  with pytest.raises(ValueError, match='weight'):
    dendrites.connect(dendrites.ExpSyn(), 0, 1, 0, -1.0)
  with pytest.raises(ValueError, match='itself'):
    dendrites.gap_junctions(1, 1, 1e-3)
  with pytest.raises(ValueError, match='whole numbers'):
    dendrites.connect(dendrites.ExpSyn(), -1, 0)
  with pytest.raises(ValueError, match='list of Connections'):
    dendrites.network(cell, dendrites.connect(dendrites.ExpSyn(), 0, 0))
  with pytest.raises(ValueError, match='pairs such as'):
    dendrites.cell(cell.tree, [('soma', 'HH')])
  with pytest.raises(ValueError, match='v0 has the shape'):
    net = dendrites.network(cell)
    dendrites.init_state(net, dendrites.init_params(net), jnp.ones(3))
  with pytest.raises(ValueError, match='no cells'):
    dendrites.network([])
  warm = dendrites.cell(cell.tree, [('all', channels.HH)], celsius=20.0)
  with pytest.raises(ValueError, match='temperatures'):
    dendrites.network([cell, warm])


if __name__ == '__main__':
  absltest.main()
