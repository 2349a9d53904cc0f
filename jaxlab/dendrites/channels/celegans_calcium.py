"""Calcium-activated channels of C. elegans neurons, and their pool.

BK channels (slo1, slo2) sit 13 nm from one calcium channel (egl19 or unc2)
and see its nanodomain; kcnl sees the bulk, which cainternm keeps. Equations:
Nicoletti et al. 2019, PLoS ONE 14(7): e0218738, as in BAAIWorm.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.dendrites.channels.celegans import (
  E_CA,
  E_K,
  EGL19_KINETICS,
  SOURCE,
  UNC2_KINETICS,
  density,
  egl19_gates,
  unc2_gates,
)
from jaxlab.dendrites.channels.pools import calcium_pool
from jaxlab.dendrites.channels.rates import exponential_step
from jaxlab.dendrites.channels.types import (
  Channel,
  Curves,
  Parameter,
  Params,
  at_rest,
  gated,
  ohmic,
  voltage,
)

_UNITARY = 0.04  # nS, of an L- or P/Q-type channel
_RADIUS = 0.013  # um, of the nanodomain
_DIFFUSION = 250.0  # um2/s
_BUFFER = 500.0 * 30.0  # 1/s: rate per uM, times total buffer in uM
_CLOSED = 0.05  # uM, where the calcium channel is closed
_FLOOR = 1e-4  # uM, from the reversal potential up
_FARADAY = 96485.0


def nanodomain(v: ArrayLike) -> jax.Array:
  """Calcium at a BK channel while its calcium channel is open.

  Args:
    v: `[...]` voltage, mV.

  Returns:
    `[...]` uM: the buffered profile of a point source (Neher 1998), and
    1e-4 from 60 mV up.
  """
  reach = math.exp(-_RADIUS / math.sqrt(_DIFFUSION / _BUFFER))
  flux = 1e9 / (8 * math.pi * _RADIUS * _DIFFUSION * _FARADAY) * reach
  inward = jnp.asarray(v) < E_CA
  # A harmless drive in the other branch: its powers are differentiated too.
  drive = jnp.where(inward, E_CA - jnp.asarray(v), 1.0)
  return jnp.where(inward, _UNITARY * drive * flux, _FLOOR)


def _bk_gate(v, p, mcav, alpha, tau):
  """Steady state and time constant of a BK channel's gate.

  Its calcium channel opens at alpha, relaxes in tau, and is open to mcav. The
  BK channel opens at `k_open` and closes at `k_shut` while that is open, and
  closes at `k_closed` while it is not.
  """
  beta = 1 / tau - alpha
  ca = nanodomain(v)
  k_open = p['w_plus'] * jnp.exp(p['w_xy'] * v)
  k_open = k_open / (1 + (p['k_xy'] / ca) ** p['n_xy'])
  shut = p['w_minus'] * jnp.exp(-p['w_yx'] * v)
  k_shut = shut / (1 + (ca / p['k_yx']) ** p['n_yx'])
  k_closed = shut / (1 + (_CLOSED / p['k_yx']) ** p['n_yx'])
  total = alpha + beta + k_closed
  speed = (k_open + k_shut) * (k_closed + alpha) + beta * k_closed
  return mcav * k_open * total / speed, total / speed


def _slo(
  name: str,
  g: Parameter,
  calcium_gates: Callable[[ArrayLike, Params], Curves],
  kinetics: tuple[Parameter, ...],
  constants: tuple[Parameter, ...],
) -> Channel:
  """A BK channel m next to a calcium channel with gates mcav and hcav."""

  def curves(v, p, mcav):
    """With mcav=None the calcium channel is at its steady state."""
    partner = calcium_gates(v, p)
    inf, tau = partner['m']
    mcav = inf if mcav is None else mcav
    return {
      'm': _bk_gate(v, p, mcav, inf / tau, tau),
      'hcav': partner['h'],
      'mcav': partner['m'],
    }

  def steady(v, p, ion):
    del ion
    return curves(v, p, None)

  def update(state, v, dt, p, ion):
    del ion
    return {
      gate: exponential_step(state[gate], inf, tau, dt)
      for gate, (inf, tau) in curves(v, p, state['mcav']).items()
    }

  def current(state, v, p, ion):
    del ion
    return ohmic(p['g'] * state['m'] * state['hcav'], p['e'], v)

  return Channel(
    name=name,
    parameters=(g, voltage('e', E_K, SOURCE), *kinetics, *constants),
    states=('m', 'hcav', 'mcav'),
    init=lambda v, p, ion: at_rest(steady(v, p, ion), v),
    update=update,
    current=current,
    steady=steady,
    separable=False,
    source=(
      f'{SOURCE}; BAAIWorm starts slo1 at m = 0, here m starts at its '
      'steady state'
    ),
  )


def _rates(*values: float) -> tuple[Parameter, ...]:
  """The BK channel's rates, their voltage dependence and calcium affinity."""
  names = ['w_yx', 'w_xy', 'w_minus', 'w_plus', 'k_xy', 'n_xy', 'k_yx', 'n_yx']
  units = ['1/mV', '1/mV', '1/ms', '1/ms', 'uM', '1', 'uM', '1']
  return tuple(
    Parameter(name, value, unit, value / 10, value * 10, SOURCE)
    for name, value, unit in zip(names, values, units, strict=True)
  )


_SLO1 = _rates(0.013, 0.028, 3.15, 0.16, 55.73, 1.3, 34.34, 1e-4)
_SLO2 = _rates(0.019, 0.024, 0.9, 0.027, 93.45, 1.84, 3294.55, 1e-5)
_EGL19 = egl19_gates, EGL19_KINETICS
_UNC2 = unc2_gates, UNC2_KINETICS

slo1_egl19 = _slo('slo1_egl19', density(0.00028, 0.00028), *_EGL19, _SLO1)
slo1_unc2 = _slo('slo1_unc2', density(0.004, 0.06), *_UNC2, _SLO1)
slo2_egl19 = _slo('slo2_egl19', density(0.0013, 0.0015), *_EGL19, _SLO2)
slo2_unc2 = _slo('slo2_unc2', density(0.0006, 0.0022), *_UNC2, _SLO2)


def _kcnl(v, p, ion):
  del v
  return {'m': (ion.ca_in / (p['k_ca'] + ion.ca_in), 6.3)}


kcnl = gated(
  'kcnl',
  (
    density(0.00063, 0.005),
    voltage('e', E_K, SOURCE),
    Parameter('k_ca', 3.3e-4, 'mM', 1e-5, 1e-2, SOURCE),
  ),
  _kcnl,
  lambda s: s['m'],
  states=('m',),
  source=SOURCE,
)


def _influx(v, p, ion):
  """mM/ms; a mA/cm2 is 10 pA/um2, and nothing enters above 60 mV."""
  picoamperes = 10 * ion.i_ca * p['area']
  rate = -p['f'] * picoamperes / (2 * _FARADAY * p['volume'] * 1e-6)
  return jnp.where(v <= E_CA, 1e-3 * rate, 0.0)


cainternm = calcium_pool(
  'cainternm',
  (
    Parameter('f', 0.001, '1', 1e-4, 1.0, SOURCE),
    Parameter('tau', 50.0, 'ms', 1.0, 1000.0, SOURCE),
    Parameter('rest', 5e-5, 'mM', 1e-5, 1e-3, SOURCE),
    Parameter('volume', 31.16, 'um3', 1.0, 1e4, SOURCE),
    Parameter('area', 0.1, 'um2', 0.1, 1e4, SOURCE),
  ),
  _influx,
  source=(
    f'{SOURCE}. Nicoletti et al. integrate the total current in pA. BAAIWorm '
    "puts the density's number in mA/cm2 in its place, which is area = 0.1 "
    'um2, the default; give the area of the soma for the total current.'
  ),
)
