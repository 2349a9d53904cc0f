"""Gradients of runs: differences, forward mode, another simulator."""

import functools
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import dendrites
from jaxlab.dendrites import channels, spikes

DT, STEPS = 0.025, 120
STICK = [('soma', 20.0, 20.0, None), ('dend', 300.0, 2.0, ('soma', 1.0))]


@pytest.fixture(autouse=True)
def x64():
  with jax.enable_x64(True):
    yield


@functools.cache
def driven():
  """A stick with an active soma, a synapse and a clamp."""
  tree = dendrites.discretize(
    dendrites.from_cylinders(STICK), nseg={'soma': 1, 'dend': 4}
  )
  leak = channels.Leak(g=1e-4, e=-65.0)
  cell = dendrites.cell(tree, [('dend', leak), ('soma', channels.HH)])
  kind = dendrites.Exp2Syn(tau1=0.3, tau2=1.5, e=0.0)
  node = cell.node('dend', 0.6)
  return dendrites.network(
    cell, [dendrites.synapse(kind, node, 2e-3, due=[0.5])]
  )


def trace(params, v0=-65.0):
  net = driven()
  state = dendrites.init_state(net, params, v0)
  clamp = dendrites.current_clamp(0, 0.2, 1.0, 0.8)
  recording, _ = dendrites.simulate(
    net, params, state, [clamp], dt=DT, steps=STEPS
  )
  return recording.v[:, 0, 0]


def loss(params):
  return jnp.mean((trace(params) + 40.0) ** 2) / 100


@pytest.fixture(scope='module')
def gradient():
  with jax.enable_x64(True):
    params = dendrites.init_params(driven())
    return params, jax.jit(jax.grad(loss))(params)


@pytest.mark.parametrize(
  'path',
  [
    ('channels', 'HH', 'g_na'),
    ('channels', 'HH', 'g_k'),
    ('channels', 'HH', 'e_na'),
    ('channels', 'Leak', 'g'),
    ('geometry', '0', 'radius'),
    ('geometry', '0', 'Ra'),
    ('geometry', '0', 'cm'),
    ('synapses', 'Exp2Syn', 'weight'),
    ('synapses', 'Exp2Syn', 'tau2'),
  ],
)
def test_equals_central_differences(gradient, path):
  params, found = gradient
  first = params[path[0]][path[1]][path[2]]
  direction = first * jax.random.uniform(jax.random.key(1), first.shape)

  @jax.jit
  def along(s):
    inner = {**params[path[0]][path[1]], path[2]: first + s * direction}
    middle = {**params[path[0]], path[1]: inner}
    return loss({**params, path[0]: middle})

  steps = [3e-4, 1e-4, 3e-5]
  differences = [
    (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    for h in steps
  ]
  ours = jnp.vdot(found[path[0]][path[1]][path[2]], direction)
  error = min(abs(float(d - ours)) for d in differences)
  assert error < 1e-7 * abs(float(ours)) + 1e-11
  assert abs(float(ours)) > 1e-8


def test_forward_mode_agrees(gradient):
  params, found = gradient
  tangent = jax.tree.map(jnp.ones_like, params)
  _, forward = jax.jvp(loss, (params,), (tangent,))
  backward = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(found))
  np.testing.assert_allclose(forward, backward, rtol=1e-9)


@pytest.mark.parametrize('v0', [-40.0, -55.0])
def test_finite_where_rates_are_singular(v0):
  params = dendrites.init_params(driven())
  found = jax.jit(jax.grad(lambda p, v: trace(p, v).sum(), (0, 1)))(params, v0)
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(found))


def test_a_window_cuts_what_lies_before_it():
  net = driven()
  params = dendrites.init_params(net)

  def final(v0, window):
    state = dendrites.init_state(net, params, v0)
    recording, _ = dendrites.simulate(
      net, params, state, dt=DT, steps=40, window=window
    )
    return recording.v[-1, 0, 0]

  assert float(jax.grad(final)(-60.0, None)) != 0
  assert float(jax.grad(final)(-60.0, 20)) == 0


@pytest.mark.parametrize(
  ('surrogate', 'slope'),
  [
    ('superspike', 1 / 9),
    ('sigmoid', 0.1049935854),
    ('triangle', 0.0),
    ('none', 0.0),
  ],
)
def test_surrogates(surrogate, slope):
  """At 2 mV above the threshold, beta 1/mV."""
  value, found = jax.value_and_grad(spikes.heaviside)(
    jnp.asarray(2.0), surrogate, 1.0
  )
  assert value == 1
  assert found == pytest.approx(slope)


def test_a_spike_carries_its_surrogate():
  """The weight of a synapse behind a spike has a gradient; with none, none."""
  cell = driven().cells[0]
  kind = dendrites.ExpSyn(tau=1.0, e=0.0)
  net = dendrites.network(
    [cell, cell], [dendrites.connect(kind, 0, 1, 0, 1e-3, 0.5)]
  )
  params = dendrites.init_params(net)

  def late(amplitude, surrogate):
    state = dendrites.init_state(net, params, dt=DT)
    clamp = dendrites.current_clamp((0, 0), 0.2, 1.0, amplitude)
    recording, _ = dendrites.simulate(
      net, params, state, [clamp], dt=DT, steps=STEPS, surrogate=surrogate
    )
    return recording.v[-1, 1, 0]

  slopes = [float(jax.grad(late)(1.5, s)) for s in ('superspike', 'none')]
  assert slopes[0] != 0
  assert slopes[1] == 0


def jaxley_gradient(amplitude):
  """Trace and gradient to g_Na of a one-compartment HH cell in Jaxley."""
  import jaxley as jx
  from jaxley.channels import HH

  cell = jx.Cell(jx.Branch(jx.Compartment(), ncomp=1), parents=[-1])
  cell.set('length', 20.0)
  cell.set('radius', 10.0)
  cell.insert(HH())
  cell.set('HH_gLeak', 0.0003)
  cell.set('HH_eLeak', -54.3)
  cell.set('v', -65.0)
  cell.init_states()
  on = (np.arange(STEPS) >= 8) & (np.arange(STEPS) < 48)
  cell.stimulate(jnp.where(on, amplitude, 0.0))
  cell.record('v', verbose=False)
  cell.make_trainable('HH_gNa', verbose=False)
  parameters = cell.get_parameters()

  def run(parameters):
    return jx.integrate(cell, params=parameters, delta_t=DT)[0, : STEPS + 1]

  value = run(parameters)
  slope = jax.grad(lambda p: jnp.mean(run(p)))(parameters)
  return value, slope[0]['HH_gNa'][0]


@pytest.mark.slow
def test_trace_and_gradient_are_jaxleys():
  if importlib.util.find_spec('jaxley') is None:
    pytest.skip('needs the package jaxley')
  theirs, their_slope = jaxley_gradient(0.2)
  tree = dendrites.discretize(
    dendrites.from_cylinders([('soma', 20.0, 20.0, None)]), nseg=1
  )
  net = dendrites.network(dendrites.cell(tree, [('all', channels.HH)]))
  params = dendrites.init_params(net)
  params['channels']['HH']['g_na'] = jnp.full((1, 1), 0.12)

  def run(g):
    inner = {**params['channels']['HH'], 'g_na': g}
    p = {**params, 'channels': {'HH': inner}}
    state = dendrites.init_state(net, p)
    clamp = dendrites.current_clamp(0, 0.2, 1.0, 0.2)
    recording, _ = dendrites.simulate(
      net, p, state, [clamp], dt=DT, steps=STEPS
    )
    return recording.v[:, 0, 0]

  ours = run(params['channels']['HH']['g_na'])
  slope = jax.grad(lambda g: jnp.mean(run(g)))(jnp.full((1, 1), 0.12))[0, 0]
  assert float(ours.max()) > 0
  np.testing.assert_allclose(ours, theirs[: len(ours)], atol=1e-6)
  np.testing.assert_allclose(slope, their_slope, rtol=1e-6)
