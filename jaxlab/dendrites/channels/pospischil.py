"""Channels of minimal models of cortical and thalamic neurons.

Pospischil et al. 2008, Biological Cybernetics 99: 427-441, at 36 degrees
Celsius. Default densities are those of the regular spiking cell in the
authors' model files (CaL: intrinsically bursting, CaT: low threshold).
"""

import jax.numpy as jnp

from jaxlab.dendrites.channels.passive import Leak as _Leak
from jaxlab.dendrites.channels.rates import boltzmann, exponential_step, vtrap
from jaxlab.dendrites.channels.types import (
  Channel,
  Parameter,
  at_rest,
  conductance,
  gated,
  voltage,
)

_SOURCE = 'Pospischil et al. 2008, Biol. Cybern. 99: 427-441'
_E_K = voltage('e', -90.0, _SOURCE)
_E_CA = voltage('e', 120.0, _SOURCE)
_THRESHOLD = voltage('v_t', -55.0, _SOURCE)
# 3^((36 - 24) / 10): from 24 to 36 degrees Celsius.
_CAT_SPEED = 3**1.2


def _relaxing(alpha, beta):
  return alpha / (alpha + beta), 1 / (alpha + beta)


def _na(v, p, ion):
  del ion
  u = v - p['v_t']
  return {
    'm': _relaxing(0.32 * vtrap(13 - u, 4.0), 0.28 * vtrap(u - 40, 5.0)),
    'h': _relaxing(0.128 * jnp.exp((17 - u) / 18), 4 * boltzmann(u, 40.0, 5.0)),
  }


def _k(v, p, ion):
  del ion
  u = v - p['v_t']
  return {
    'n': _relaxing(0.032 * vtrap(15 - u, 5.0), 0.5 * jnp.exp((10 - u) / 40))
  }


def _km(v, p, ion):
  del ion
  u = (v + 35) / 20
  tau = p['tau_max'] / (3.3 * jnp.exp(u) + jnp.exp(-u))
  return {'p': (boltzmann(v, -35.0, 10.0), tau)}


def _cal(v, p, ion):
  del p, ion
  return {
    'q': _relaxing(0.055 * vtrap(-27 - v, 3.8), 0.94 * jnp.exp((-75 - v) / 17)),
    'r': _relaxing(
      0.000457 * jnp.exp((-13 - v) / 50), 0.0065 * boltzmann(v, -15.0, 28.0)
    ),
  }


def _cat(v, p, ion):
  del ion
  u = v + p['v_x']
  slow = 211.4 + jnp.exp((u + 113.2) / 5)
  tau = (30.8 + slow * boltzmann(u, -84.0, -3.2)) / _CAT_SPEED
  return {'u': (boltzmann(u, -81.0, -4.0), tau)}


def _cat_current(state, v, p, ion):
  """The activation s(v) is instantaneous, so the slope has a term s'(v)."""
  del ion
  s = boltzmann(v + p['v_x'], -57.0, 6.2)
  g = p['g'] * s * s * state['u']
  drive = v - p['e']
  slope = g * (1 + 2 * (1 - s) / 6.2 * drive)
  return slope, slope * v - g * drive


def _cat_update(state, v, dt, p, ion):
  inf, tau = _cat(v, p, ion)['u']
  return {'u': exponential_step(state['u'], inf, tau, dt)}


Leak = _Leak(g=1e-4, e=-70.0)

Na = gated(
  'Na',
  (
    conductance(0.05, _SOURCE),
    voltage('e', 50.0, _SOURCE),
    _THRESHOLD,
  ),
  _na,
  lambda s: s['m'] * s['m'] * s['m'] * s['h'],
  states=('m', 'h'),
  source=_SOURCE,
)

K = gated(
  'K',
  (conductance(0.005, _SOURCE, high=0.1), _E_K, _THRESHOLD),
  _k,
  lambda s: jnp.square(s['n'] * s['n']),
  states=('n',),
  source=_SOURCE,
)

Km = gated(
  'Km',
  (
    conductance(7e-5, _SOURCE, high=0.01),
    _E_K,
    Parameter('tau_max', 1000.0, 'ms', 10.0, 1e4, _SOURCE),
  ),
  _km,
  lambda s: s['p'],
  states=('p',),
  source=f'{_SOURCE}; Yamada et al. 1989',
)

CaL = gated(
  'CaL',
  (conductance(1e-4, _SOURCE, high=0.01), _E_CA),
  _cal,
  lambda s: s['q'] * s['q'] * s['r'],
  states=('q', 'r'),
  ion_current='ca',
  source=f'{_SOURCE}; Reuveni et al. 1993, J. Neurosci. 13: 4609-4621',
)

CaT = Channel(
  name='CaT',
  parameters=(
    conductance(4e-4, _SOURCE, high=0.01),
    _E_CA,
    voltage('v_x', 2.0, _SOURCE),
  ),
  states=('u',),
  init=lambda v, p, ion: at_rest(_cat(v, p, ion), v),
  update=_cat_update,
  current=_cat_current,
  steady=_cat,
  ion_current='ca',
  source=(
    f'{_SOURCE}; time constant as in Destexhe et al. 1996, J. Neurophysiol. '
    '76: 2049-2070, (30.8 + (211.4 + ..) / (1 + ..)) / 3^1.2. The 2008 paper '
    'prints 3.7 (1 + ..) under the whole sum, which tends to 0 with v.'
  ),
)
