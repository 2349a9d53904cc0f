"""Channels of a layer 5 pyramidal neuron.

Hay et al. 2011, PLoS Computational Biology 7(7): e1002107, whose model files
fix the temperature at 34 degrees Celsius: the rates of channels measured at
21 degrees are multiplied by 2.3^1.3. Default densities are the soma's (Im:
the apical dendrite's). Calcium channels drive towards `ion.e_ca`, SK_E2
reads `ion.ca_in`, CaDynamics_E2 integrates `ion.i_ca`.
"""

import jax
import jax.numpy as jnp

from jaxlab.dendrites.channels.pools import FARADAY, calcium_pool
from jaxlab.dendrites.channels.rates import bell, boltzmann, vtrap
from jaxlab.dendrites.channels.types import (
  Channel,
  Parameter,
  conductance,
  gated,
  voltage,
)

_SOURCE = 'Hay et al. 2011, PLoS Comput. Biol. 7(7): e1002107'
_WARMER = 2.3 ** ((34 - 21) / 10)
_E_NA = voltage('e', 50.0, _SOURCE)
_E_K = voltage('e', -85.0, _SOURCE)
# Corrects the voltages of Korngreen and Sakmann for the liquid junction.
_JUNCTION = 10.0


def _calcium_reversal(p, ion):
  del p
  return ion.e_ca


def _pair(value: float, high: float, e: Parameter) -> tuple[Parameter, ...]:
  return conductance(value, _SOURCE, high=high), e


def _sodium_m(v, half, slope):
  """Activation rates of Colbert and Pan: both branches are linoid."""
  alpha = 0.182 * vtrap(half - v, slope)
  beta = 0.124 * vtrap(v - half, slope)
  return alpha, beta


def _natg(v, p, ion):
  del ion
  alpha, beta = _sodium_m(v, -38 + p['shift_m'], p['slope_m'])
  half, slope = -66 + p['shift_h'], p['slope_h']
  opening = 0.015 * vtrap(v - half, slope)
  closing = 0.015 * vtrap(half - v, slope)
  return {
    'm': (alpha / (alpha + beta), 1 / (_WARMER * (alpha + beta))),
    'h': (opening / (opening + closing), 1 / (_WARMER * (opening + closing))),
  }


def _nap(v, p, ion):
  del p, ion
  alpha, beta = _sodium_m(v, -38.0, 6.0)
  h_rate = 2.88e-6 * vtrap(v + 17, 4.63) + 6.94e-6 * vtrap(-64.4 - v, 2.63)
  return {
    'm': (boltzmann(v, -52.6, 4.6), 6 / (_WARMER * (alpha + beta))),
    'h': (boltzmann(v, -48.8, -10.0), 1 / (_WARMER * h_rate)),
  }


def _k_pst(v, p, ion):
  del p, ion
  u = v + _JUNCTION
  rising = 175.03 * jnp.exp(0.026 * jnp.minimum(u, -50.0))
  falling = 13 * jnp.exp(-0.026 * jnp.maximum(u, -50.0))
  m_tau = 1.25 + jnp.where(u < -50, rising, falling)
  h_tau = 360 + (1010 + 24 * (u + 55)) * bell(u, -75.0, 48.0)
  return {
    'm': (boltzmann(u, -1.0, 12.0), m_tau / _WARMER),
    'h': (boltzmann(u, -54.0, -11.0), h_tau / _WARMER),
  }


def _k_tst(v, p, ion):
  del p, ion
  u = v + _JUNCTION
  return {
    'm': (
      boltzmann(u, 0.0, 19.0),
      (0.34 + 0.92 * bell(u, -71.0, 59.0)) / _WARMER,
    ),
    'h': (
      boltzmann(u, -66.0, -10.0),
      (8 + 49 * bell(u, -73.0, 23.0)) / _WARMER,
    ),
  }


def _kv3(v, p, ion):
  del ion
  u = v - p['shift']
  return {'m': (boltzmann(u, 18.7, 9.7), 4 * boltzmann(u, -46.56, 44.14))}


def _sk(v, p, ion):
  del v
  # 1 / (1 + (k / ca)^4.8) without a power that overflows.
  calcium = jnp.log(jnp.maximum(ion.ca_in, 1e-7))
  return {'z': (jax.nn.sigmoid(4.8 * (calcium - jnp.log(p['k_ca']))), 1.0)}


def _im(v, p, ion):
  del p, ion
  rate = 2 * 3.3e-3 * jnp.cosh((v + 35) / 10)
  return {'m': (boltzmann(v, -35.0, 5.0), 1 / (_WARMER * rate))}


def _ih(v, p, ion):
  del p, ion
  alpha = 0.00643 * vtrap(v + 154.9, 11.9)
  total = alpha + 0.193 * jnp.exp(v / 33.1)
  return {'m': (alpha / total, 1 / total)}


def _ca_hva(v, p, ion):
  del p, ion
  m_alpha = 0.055 * vtrap(-27 - v, 3.8)
  m_total = m_alpha + 0.94 * jnp.exp((-75 - v) / 17)
  h_alpha = 0.000457 * jnp.exp((-13 - v) / 50)
  h_total = h_alpha + 0.0065 * boltzmann(v, -15.0, 28.0)
  return {
    'm': (m_alpha / m_total, 1 / m_total),
    'h': (h_alpha / h_total, 1 / h_total),
  }


def _ca_lva(v, p, ion):
  del p, ion
  return {
    'm': (
      boltzmann(v, -40.0, 6.0),
      (5 + 20 * boltzmann(v, -35.0, -5.0)) / _WARMER,
    ),
    'h': (
      boltzmann(v, -90.0, -6.4),
      (20 + 50 * boltzmann(v, -50.0, -7.0)) / _WARMER,
    ),
  }


def _cubed(state):
  m = state['m']
  return m * m * m * state['h']


def _squared(state):
  return state['m'] * state['m'] * state['h']


def _first(state):
  return state['m']


_SLOPE = Parameter('slope_m', 6.0, 'mV', 1.0, 20.0, _SOURCE)

NaTg = gated(
  'NaTg',
  (
    *_pair(2.04, 10.0, _E_NA),
    voltage('shift_m', 0.0, _SOURCE),
    voltage('shift_h', 0.0, _SOURCE),
    _SLOPE,
    _SLOPE._replace(name='slope_h'),
  ),
  _natg,
  _cubed,
  states=('m', 'h'),
  source=(
    f'{_SOURCE} (NaTa_t); Colbert and Pan 2002, Nat. Neurosci. 5: 533-538. '
    'shift_m = shift_h = 6 is NaTs2_t.'
  ),
)
Nap = gated(
  'Nap',
  _pair(0.00172, 0.1, _E_NA),
  _nap,
  _cubed,
  states=('m', 'h'),
  source=f'{_SOURCE} (Nap_Et2); Magistretti and Alonso 1999',
)
K_Pst = gated(
  'K_Pst',
  _pair(0.00223, 1.0, _E_K),
  _k_pst,
  _squared,
  states=('m', 'h'),
  source=f'{_SOURCE}; Korngreen and Sakmann 2000, J. Physiol. 525: 621-639',
)
K_Tst = gated(
  'K_Tst',
  _pair(0.0812, 1.0, _E_K),
  _k_tst,
  lambda s: jnp.square(s['m'] * s['m']) * s['h'],
  states=('m', 'h'),
  source=f'{_SOURCE}; Korngreen and Sakmann 2000, J. Physiol. 525: 621-639',
)
Kv3_1 = gated(
  'Kv3_1',
  (*_pair(0.693, 3.0, _E_K), voltage('shift', 0.0, _SOURCE)),
  _kv3,
  _first,
  states=('m',),
  source=f'{_SOURCE} (SKv3_1); Rettig et al. 1992, EMBO J. 11: 2473-2486',
)
SKv3_1 = Kv3_1._replace(name='SKv3_1')
SK_E2 = gated(
  'SK_E2',
  (
    *_pair(0.0441, 1.0, _E_K),
    Parameter('k_ca', 0.00043, 'mM', 1e-5, 0.1, _SOURCE),
  ),
  _sk,
  lambda s: s['z'],
  states=('z',),
  source=f'{_SOURCE}; Kohler et al. 1996, Science 273: 1709-1714',
)
Im = gated(
  'Im',
  _pair(6.75e-5, 0.01, _E_K),
  _im,
  _first,
  states=('m',),
  source=f'{_SOURCE}; Adams et al. 1982',
)
Ih = gated(
  'Ih',
  _pair(2e-4, 0.01, voltage('e', -45.0, _SOURCE)),
  _ih,
  _first,
  states=('m',),
  source=f'{_SOURCE}; Kole et al. 2006, J. Neurosci. 26: 1677-1687',
)
Ca_HVA = gated(
  'Ca_HVA',
  (conductance(0.000992, _SOURCE, high=0.1),),
  _ca_hva,
  _squared,
  states=('m', 'h'),
  reversal=_calcium_reversal,
  ion_current='ca',
  source=f'{_SOURCE}; Reuveni et al. 1993, J. Neurosci. 13: 4609-4621',
)
Ca_LVA = gated(
  'Ca_LVA',
  (conductance(0.00343, _SOURCE, high=0.1),),
  _ca_lva,
  _squared,
  states=('m', 'h'),
  reversal=_calcium_reversal,
  ion_current='ca',
  source=f'{_SOURCE} (Ca_LVAst); Avery and Johnston 1996, Randall 1997',
)


def _influx(v, p, ion):
  """mM/ms into a shell of depth um; 10000 um are a cm."""
  del v
  return -1e4 * ion.i_ca * p['gamma'] / (2 * FARADAY * p['depth'])


CaDynamics_E2: Channel = calcium_pool(
  'CaDynamics_E2',
  (
    Parameter('gamma', 0.000501, '1', 1e-5, 0.05, _SOURCE),
    Parameter('tau', 460.0, 'ms', 20.0, 1000.0, _SOURCE),
    Parameter('depth', 0.1, 'um', 0.01, 10.0, _SOURCE),
    Parameter('rest', 1e-4, 'mM', 1e-5, 1e-2, _SOURCE),
  ),
  _influx,
  source=f'{_SOURCE}; Destexhe et al. 1994',
)
