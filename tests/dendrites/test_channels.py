"""Every channel against its equations, and against solvers of them."""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import constants
from scipy.integrate import solve_ivp

from jaxlab.dendrites import channels
from jaxlab.errors import UserError
from tests.dendrites.curves import E_CA, GRID, ORACLES, hh

ALL = (
  channels.HH,
  *channels.POSPISCHIL,
  *channels.HAY,
  *channels.CELEGANS,
)
POOLS = tuple(each for each in ALL if each.pool)
OHMIC = tuple(each for each in ALL if each.name in ORACLES)
ION = channels.Ion(celsius=6.3, ca_in=3e-4)
DT = 0.4
AT = slice(None, None, 20)  # voltages that are integrated


def named(found):
  return [pytest.param(each, id=each.name) for each in found]


def measure(channel):
  """All that a test needs of a channel, from one compiled function."""

  @jax.jit
  def found(v):
    p = channel.defaults()
    start = channel.init(v, p, ION)
    moved = {name: 0.7 * s + 0.1 for name, s in start.items()}
    if 'mcav' in start:
      moved['mcav'] = start['mcav']

    def current(v):
      G, GE = channel.current(moved, v, p, ION)
      return G * v - GE, (G, GE)

    amount, slope, (G, GE) = jax.jvp(
      current, (v,), (jnp.ones_like(v),), has_aux=True
    )

    def through(v, state):
      return channel.update(state, v, DT, p, ION)

    return {
      'start': start,
      'kept': through(v, start),
      'moved': moved,
      'after': through(v, moved),
      'steady': {
        name: (jnp.broadcast_to(inf, v.shape), jnp.broadcast_to(tau, v.shape))
        for name, (inf, tau) in channel.steady(v, p, ION).items()
      },
      'G': G,
      'GE': GE,
      'current': amount,
      'slope': slope,
      'gradient': jax.jvp(
        lambda v: through(v, moved), (v,), (jnp.ones_like(v),)
      )[1],
    }

  with jax.enable_x64(True):
    result = jax.tree.map(np.asarray, found(jnp.asarray(GRID)))
  return types.SimpleNamespace(**result)


@pytest.fixture(scope='module')
def of():
  return functools.cache(measure)


@pytest.mark.parametrize('channel', named([channels.HH, *OHMIC]))
def test_curves_are_the_published_ones(of, channel):
  curves = hh if channel is channels.HH else ORACLES[channel.name][0]
  found, expected = of(channel).steady, curves(GRID, ION.ca_in)
  assert found.keys() == expected.keys() == set(channel.states)
  for name, (inf, tau) in expected.items():
    np.testing.assert_allclose(found[name][0], inf, rtol=1e-11, err_msg=name)
    np.testing.assert_allclose(
      found[name][1], np.broadcast_to(tau, GRID.shape), rtol=1e-10
    )


@pytest.mark.parametrize('channel', named(OHMIC))
def test_current_is_the_published_one(of, channel):
  result = of(channel)
  _, opening, e = ORACLES[channel.name]
  g = channel.defaults()['g'] * opening(result.moved)
  np.testing.assert_allclose(
    result.G, np.broadcast_to(g, GRID.shape), rtol=1e-12
  )
  np.testing.assert_allclose(result.GE, result.G * e, rtol=1e-12)


def test_current_of_the_squid_axon(of):
  result = of(channels.HH)
  s = result.moved
  parts = [
    (0.12 * s['m'] ** 3 * s['h'], 50),
    (0.036 * s['n'] ** 4, -77),
    (0.0003, -54.3),
  ]
  expected = sum(g * (GRID - e) for g, e in parts)
  np.testing.assert_allclose(result.current, expected, rtol=1e-11, atol=1e-15)
  np.testing.assert_allclose(result.G, sum(g for g, _ in parts), rtol=1e-12)


def test_squid_axon_rests_at_its_known_potential():
  """The steady current changes its sign within 0.1 mV of -65."""
  with jax.enable_x64(True):
    v = jnp.asarray([-65.1, -64.9])
    p = channels.HH.defaults()
    state = channels.HH.init(v, p, channels.Ion())
    G, GE = channels.HH.current(state, v, p, channels.Ion())
    below, above = G * v - GE
    assert below < 0 < above


@pytest.mark.parametrize('channel', named(ALL))
def test_slope_of_current_is_the_conductance(of, channel):
  """G is dI/dV at frozen states, also where activation is instantaneous."""
  result = of(channel)
  np.testing.assert_allclose(result.slope, result.G, rtol=1e-9, atol=1e-18)


def test_instantaneous_activation_of_cat(of):
  result = of(channels.CaT)

  def current(v):
    s = 1 / (1 + np.exp(-(v + 2 + 57) / 6.2))
    return 4e-4 * s**2 * result.moved['u'] * (v - 120)

  np.testing.assert_allclose(result.current, current(GRID), rtol=1e-10)
  step = 1e-3
  slope = (current(GRID + step) - current(GRID - step)) / (2 * step)
  np.testing.assert_allclose(result.G, slope, rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize('channel', named(ALL))
def test_steady_state_is_kept(of, channel):
  result = of(channel)
  for name in channel.states:
    assert result.start[name].shape == GRID.shape
    np.testing.assert_allclose(
      result.kept[name], result.start[name], rtol=1e-13
    )


@pytest.mark.parametrize('channel', named([channels.HH, *OHMIC]))
def test_update_solves_the_equation(of, channel):
  result = of(channel)
  for name, curve in result.steady.items():
    inf, tau, s = curve[0][AT], curve[1][AT], result.moved[name][AT]
    exact = solve_ivp(
      lambda t, s, inf=inf, tau=tau: (inf - s) / tau,
      (0, DT),
      s,
      method='DOP853',
      rtol=1e-11,
      atol=1e-13,
    ).y[:, -1]
    np.testing.assert_allclose(result.after[name][AT], exact, rtol=1e-8)


@pytest.mark.parametrize('channel', named(ALL))
def test_gradients_are_finite_everywhere(of, channel):
  """The grid holds all removable singularities but that of Nap."""
  for slope in of(channel).gradient.values():
    assert np.isfinite(slope).all()


@pytest.mark.parametrize(
  ('name', 'v'), [('Nap', -64.4), ('Ih', -154.9), ('slo1_unc2', 60.0)]
)
def test_gradient_at_singularities_off_the_grid(name, v):
  channel = getattr(channels, name)

  def total(v):
    curves = channel.steady(v, channel.defaults(), ION)
    return sum(inf + 1e-3 * tau for inf, tau in curves.values())

  with jax.enable_x64(True):
    assert np.isfinite(total(v))
    slope = float(jax.grad(total)(v))
    assert np.isfinite(slope)
    if name != 'slo1_unc2':  # its calcium jumps at the reversal potential
      around = (total(v + 1e-4) - total(v - 1e-4)) / 2e-4
      np.testing.assert_allclose(slope, around, rtol=1e-5)


@pytest.mark.parametrize(
  'channel', named([each for each in ALL if each.states])
)
def test_separable_is_told_truly(of, channel):
  """No state's update reads another one where the channel says so."""
  with jax.enable_x64(True):
    v, p = jnp.asarray([-30.0]), channel.defaults()
    state = channel.init(v, p, ION)
    jacobian = jax.jacobian(lambda state: channel.update(state, v, DT, p, ION))(
      state
    )
  crossed = any(np.any(jacobian[a][b]) for a in state for b in state if a != b)
  assert crossed == (not channel.separable)


@pytest.mark.parametrize('channel', named([channels.HH, channels.slo2_unc2]))
def test_follows_dtype_and_broadcasts(channel):
  v = jnp.full((3, 2), -50.0, jnp.float32)
  p = {name: jnp.full((3, 1), x) for name, x in channel.defaults().items()}
  state = channel.init(v, p, channels.Ion())
  state = channel.update(state, v, 0.025, p, channels.Ion())
  G, GE = channel.current(state, v, p, channels.Ion())
  for array in (*state.values(), G, GE):
    assert array.shape == (3, 2)
    assert array.dtype == jnp.float32


def test_temperature_speeds_up_the_squid_axon():
  slow, fast = (
    channels.HH.steady(jnp.asarray(-20.0), {}, channels.Ion(celsius=celsius))
    for celsius in (6.3, 16.3)
  )
  for name in slow:
    np.testing.assert_allclose(slow[name][0], fast[name][0], rtol=1e-6)
    np.testing.assert_allclose(slow[name][1], 3 * fast[name][1], rtol=1e-6)


@pytest.mark.parametrize('channel', named(ALL))
def test_channel_is_static_and_documented(channel):
  assert channel == channel() and hash(channel) == hash(channel())
  assert channel.source
  for parameter in channel.parameters:
    assert parameter.low <= parameter.value <= parameter.high
    assert parameter.unit and parameter.source
  assert dict(channel.params) == channel.defaults()


def test_other_defaults_make_another_channel():
  changed = channels.HH(g_na=0.1)
  assert changed.defaults() == channels.HH.defaults() | {'g_na': 0.1}
  assert changed != channels.HH and changed == channels.HH(g_na=0.1)
  assert channels.Leak(g=1e-4, e=-65.0).defaults() == {'g': 1e-4, 'e': -65.0}


def test_mistakes_are_named():
  with pytest.raises(UserError, match=r"'HH' has no parameter 'gna'.*g_na"):
    channels.HH(gna=0.1)
  with pytest.raises(UserError, match=r'g_na = -0\.1 must be >= 0'):
    channels.HH(g_na=-0.1)
  with pytest.raises(UserError, match='no gate'):
    channels.channel_from_steady_states('x', {}, g=1.0, e=0.0)
  with pytest.raises(UserError, match="'n' has power 0"):
    channels.channel_from_rates('x', {'n': (abs, abs, 0)}, g=1.0, e=0.0)
  with pytest.raises(UserError, match='g = -1'):
    channels.channel_from_rates('x', {'n': (abs, abs, 1)}, g=-1.0, e=0.0)


def test_own_channel_from_rates():
  """The squid axon's potassium channel, written by hand."""
  own = channels.channel_from_rates(
    'kdr',
    {
      'n': (
        lambda v: 0.01 * channels.vtrap(-(v + 55), 10),
        lambda v: 0.125 * jnp.exp(-(v + 65) / 80),
        4,
      )
    },
    g=0.036,
    e=-77.0,
  )
  assert own.states == ('n',) and own.defaults() == {'g': 0.036, 'e': -77.0}
  with jax.enable_x64(True):
    v, p = jnp.asarray(GRID), own.defaults()
    inf, tau = own.steady(v, p, ION)['n']
    state = own.init(v, p, ION)
    G, GE = own.current(state, v, p, ION)
  expected = hh(GRID, None)['n']
  np.testing.assert_allclose(inf, expected[0], rtol=1e-12)
  np.testing.assert_allclose(tau, expected[1], rtol=1e-12)
  np.testing.assert_allclose(G, 0.036 * expected[0] ** 4, rtol=1e-12)
  np.testing.assert_allclose(GE, -77 * np.asarray(G), rtol=1e-12)


def test_own_channel_from_steady_states():
  own = channels.channel_from_steady_states(
    'slow',
    {
      'm': (lambda v: channels.boltzmann(v, -45.0, 7.0), lambda v: 5.0, 1),
      'h': (lambda v: channels.boltzmann(v, -60.0, -5.0), lambda v: 90.0, 2),
    },
    g=0.0036,
    e=-77.0,
    ion_current='ca',
  )
  assert own.ion_current == 'ca'
  state = {'m': jnp.asarray([0.5]), 'h': jnp.asarray([0.25])}
  v, p = jnp.asarray([-45.0]), own.defaults()
  np.testing.assert_allclose(
    own.current(state, v, p, ION)[0], 0.0036 * 0.5 / 16, rtol=1e-6
  )
  after = own.update(state, v, 5.0, p, ION)
  h = 1 / (1 + np.exp(3))
  np.testing.assert_allclose(after['m'], 0.5, rtol=1e-6)
  np.testing.assert_allclose(
    after['h'], h + (0.25 - h) * np.exp(-5 / 90), rtol=1e-6
  )


@pytest.mark.parametrize('pool', named(POOLS))
def test_pool_fills_as_its_equation_says(pool):
  p = pool.defaults()
  ion = channels.Ion(i_ca=-0.02)
  faraday = 96485.33
  influx = {
    'CaDynamics_E2': 0.02 * 1e4 * 0.000501 / (2 * faraday * 0.1),
    'cainternm': 1e-3 * 0.02 * 0.001 / (2 * faraday * 31.16 * 1e-6),
  }[pool.name]
  with jax.enable_x64(True):
    v = jnp.asarray([-20.0])
    state = pool.init(v, p, ion)
    np.testing.assert_allclose(state['ca'], p['rest'])
    end = p['rest'] + p['tau'] * influx
    one = pool.update(state, v, 2.0, p, ion)['ca']
    implicit = (p['rest'] + 2 * (influx + p['rest'] / p['tau'])) / (
      1 + 2 / p['tau']
    )
    np.testing.assert_allclose(one, implicit, rtol=1e-5)
    many = jax.lax.fori_loop(
      0, 2000, lambda _, s: pool.update(s, v, 0.02, p, ion), state
    )['ca']
    exact = end + (p['rest'] - end) * np.exp(-40 / p['tau'])
    np.testing.assert_allclose(many, exact, rtol=1e-4)
    assert float(many[0]) > p['rest']
    G, GE = pool.current(state, v, p, ion)
    assert not G.any() and not GE.any()


def test_worm_pool_takes_nothing_above_the_reversal():
  ion = channels.Ion(i_ca=0.5)
  p = channels.cainternm.defaults()
  inf, _ = channels.cainternm.steady(jnp.asarray([61.0]), p, ion)['ca']
  np.testing.assert_allclose(inf, 5e-5, rtol=1e-6)


def test_calcium_reversal_is_the_nernst_potential():
  thermal = constants.R * 310.15 / (2 * constants.value('Faraday constant'))
  found = channels.calcium_reversal(1e-4, 2.0, 37.0)
  np.testing.assert_allclose(found, 1e3 * thermal * np.log(2e4), rtol=1e-6)


def test_nanodomain_of_a_calcium_channel():
  """Nearly 60 uM at -60 mV, linear in the drive, the floor from 60 mV up."""
  nanodomain = channels.celegans_calcium.nanodomain
  v = jnp.asarray([-60.0, 0.0, 60.0, 80.0])
  found = np.asarray(nanodomain(v))
  # i / (8 pi r D F) exp(-r / lambda), i = 4.8 pA, lambda = 129 nm
  expected = 4.8e-12 / (8 * np.pi * 13e-9 * 250e-12 * 96485) * 1e3
  np.testing.assert_allclose(found[0], expected * np.exp(-13 / 129.0994), 1e-5)
  np.testing.assert_allclose(found[1], found[0] / 2, rtol=1e-6)
  np.testing.assert_allclose(found[2:], 1e-4, rtol=1e-6)


def test_calcium_carriers_are_marked():
  carriers = {each.name for each in ALL if each.ion_current == 'ca'}
  assert carriers == {
    'CaL',
    'CaT',
    'Ca_HVA',
    'Ca_LVA',
    'egl19',
    'unc2',
    'cca1',
  }
  assert {each.name for each in POOLS} == {'CaDynamics_E2', 'cainternm'}
  assert channels.Ion().e_ca == pytest.approx(12.5 * np.log(2 / 5e-5))
  assert channels.Ion().e_ca == E_CA
