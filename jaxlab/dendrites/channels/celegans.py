"""Voltage-gated channels of C. elegans neurons.

Nicoletti et al. 2019, PLoS ONE 14(7): e0218738, in the form of the mechanism
files of BAAIWorm (Zhao et al. 2024, Nature Computational Science 4: 978-990),
whose constants are rounded and whose time constants of shl1 are scaled. The
reversal potentials are fixed: calcium 60, potassium -80, sodium 30 mV.
Default densities are the medians of the non-zero somatic densities in
BAAIWorm's table, upper bounds its maxima; neurons differ, so use the table.
Later files of Nicoletti's group have other constants for kvs1, egl2, egl36,
irk and kqt3 (shifts, faster time constants, weights): these are not theirs.
"""

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.dendrites.channels.rates import bell, boltzmann
from jaxlab.dendrites.channels.types import (
  Channel,
  Curves,
  Parameter,
  Params,
  State,
  conductance,
  gated,
  voltage,
)

SOURCE = 'Nicoletti et al. 2019, PLoS ONE 14(7): e0218738, as in BAAIWorm'
_TABLE = "BAAIWorm's table of cell parameters, median of non-zero values"
E_CA, E_K, E_NA = 60.0, -80.0, 30.0


def density(value: float, high: float) -> Parameter:
  """The conductance `g` with its median and maximum over the neurons."""
  return conductance(value, _TABLE, high=high)


def _gate(gate: str, half: float, slope: float) -> tuple[Parameter, ...]:
  """Half-activation and slope (> 0 whether it rises or falls) of a gate."""
  return (
    voltage(f'v_{gate}', half, SOURCE),
    Parameter(f'k_{gate}', slope, 'mV', 1.0, 60.0, SOURCE),
  )


def _rises(v, p, gate):
  return boltzmann(v, p[f'v_{gate}'], p[f'k_{gate}'])


def _falls(v, p, gate):
  return boltzmann(v, p[f'v_{gate}'], -p[f'k_{gate}'])


def egl19_gates(v: ArrayLike, p: Params) -> Curves:
  """The L-type calcium channel; p: v_m, k_m (h has two fixed branches)."""
  h = (1.43 * boltzmann(v, 24.9, 12.0) + 0.14) * (
    5.96 * boltzmann(v, -20.5, -8.1) + 0.6
  )
  m_tau = 2.9 * bell(v, 5.2, 6.0) + 1.9 * bell(v, 1.4, 30.0) + 2.3
  h_tau = 0.4 * (
    44.6 * boltzmann(v, -23.0, -5.0) + 36.4 * boltzmann(v, 28.7, -3.7) + 43.1
  )
  return {'m': (_rises(v, p, 'm'), m_tau), 'h': (h, h_tau)}


def unc2_gates(v: ArrayLike, p: Params) -> Curves:
  """The P/Q-type calcium channel; p: v_m, k_m, v_h, k_h."""
  u = v + 8.2
  m_tau = 1.5 / (jnp.exp(-u / 9.1) + jnp.exp(u / 15.4)) + 0.1
  h_tau = 83.8 * boltzmann(v, 52.9, -3.5) + 72.1 * boltzmann(v, 23.9, 3.6)
  return {
    'm': (_rises(v, p, 'm'), m_tau),
    'h': (_falls(v, p, 'h'), h_tau),
  }


def _egl19(v, p, ion):
  del ion
  return egl19_gates(v, p)


def _unc2(v, p, ion):
  del ion
  return unc2_gates(v, p)


def _cca1(v, p, ion):
  del ion
  return {
    'm': (_rises(v, p, 'm'), 40 * boltzmann(v, -62.5, -12.6) + 0.7),
    'h': (_falls(v, p, 'h'), 280 * boltzmann(v, -60.7, -8.5) + 19.8),
  }


def _shl1(v, p, ion):
  del ion
  m_tau = 13.8 / (jnp.exp(-(v + 17.5) / 12.9) + jnp.exp((v + 3.7) / 6.5)) + 1.9
  fast = 539.2 * boltzmann(v, -28.2, -4.9) + 27.3
  slow = 8422 * boltzmann(v, -37.7, -6.4) + 118.9
  h = _falls(v, p, 'h')
  return {
    'm': (_rises(v, p, 'm'), 0.4 * m_tau),
    'hf': (h, 0.08 * fast),
    'hs': (h, 0.3 * slow),
  }


def _shk1(v, p, ion):
  del ion
  u = v + 33.7
  m_tau = 26.6 / (jnp.exp(-u / 15.8) + jnp.exp(u / 15.4)) + 2
  return {'m': (_rises(v, p, 'm'), m_tau), 'h': (_falls(v, p, 'h'), 1400.0)}


def _kvs1(v, p, ion):
  del ion
  return {
    'm': (_rises(v, p, 'm'), 30 * boltzmann(v, 18.1, -20.0) + 1),
    'h': (_falls(v, p, 'h'), 88.5 * boltzmann(v, 50.0, -15.0) + 53.4),
  }


def _egl2(v, p, ion):
  del ion
  tau = 1845.8 * boltzmann(v, -122.6, -13.8) + 1517.74
  return {'m': (_rises(v, p, 'm'), tau)}


def _egl36(v, p, ion):
  del ion
  m = _rises(v, p, 'm')
  return {'mf': (m, 13.0), 'mm': (m, 63.0), 'ms': (m, 355.0)}


def _kqt3(v, p, ion):
  del ion
  m = _rises(v, p, 'm')
  fast = 395.3 / (1 + jnp.square((v + 38.1) / 33.59))
  ten = math.log(10)
  slow = (
    5503.0
    - 5345.4 * boltzmann(v, -23.9, -1 / (0.02827 * ten))
    - 4590.6 * boltzmann(v, -14.15, 1 / (0.0357 * ten))
  )
  w_tau = 0.544 + 29.2 / (1 + jnp.square((v + 48.09) / 48.83))
  return {
    'mf': (m, fast),
    'ms': (m, slow),
    'w': (0.49 + 0.51 * boltzmann(v, -1.084, -28.78), w_tau),
    's': (0.34 + 0.66 * boltzmann(v, -45.3, -12.3), p['tau_s']),
  }


def _irk(v, p, ion):
  del ion
  tau = 17.1 / (jnp.exp(-(v + 17.8) / 20.3) + jnp.exp((v + 43.4) / 11.2)) + 3.8
  return {'m': (_falls(v, p, 'm'), tau)}


def _nca(v, p, ion):
  del v, p, ion
  return {}


def _worm(
  name: str,
  g: Parameter,
  e: float,
  curves: Callable[..., Curves],
  opening: Callable[[State], ArrayLike],
  *,
  states: tuple[str, ...],
  kinetics: tuple[Parameter, ...] = (),
  note: str = '',
) -> Channel:
  return gated(
    name,
    (g, voltage('e', e, SOURCE), *kinetics),
    curves,
    opening,
    states=states,
    ion_current='ca' if e == E_CA else None,
    source=f'{SOURCE}{note}',
  )


def _m(state):
  return state['m']


def _mh(state):
  return state['m'] * state['h']


EGL19_KINETICS = _gate('m', 5.6, 7.5)
UNC2_KINETICS = (*_gate('m', -12.2, 4.0), *_gate('h', -52.5, 5.6))

egl19 = _worm(
  'egl19',
  density(1e-4, 0.006),
  E_CA,
  _egl19,
  _mh,
  states=('m', 'h'),
  kinetics=EGL19_KINETICS,
)
unc2 = _worm(
  'unc2',
  density(0.001, 0.001),
  E_CA,
  _unc2,
  _mh,
  states=('m', 'h'),
  kinetics=UNC2_KINETICS,
)
cca1 = _worm(
  'cca1',
  density(0.0015, 0.0015),
  E_CA,
  _cca1,
  lambda s: s['m'] * s['m'] * s['h'],
  states=('m', 'h'),
  kinetics=(*_gate('m', -43.32, 7.6), *_gate('h', -58.0, 7.0)),
)
shl1 = _worm(
  'shl1',
  density(0.001, 0.026),
  E_K,
  _shl1,
  lambda s: s['m'] * s['m'] * s['m'] * (0.7 * s['hf'] + 0.3 * s['hs']),
  states=('m', 'hf', 'hs'),
  kinetics=(*_gate('m', 11.2, 14.1), *_gate('h', -33.1, 8.3)),
  note='; time constants times 0.4 (m), 0.08 (hf), 0.3 (hs)',
)
shk1 = _worm(
  'shk1',
  density(0.00047, 0.0055),
  E_K,
  _shk1,
  _mh,
  states=('m', 'h'),
  kinetics=(*_gate('m', 20.4, 7.7), *_gate('h', -7.0, 5.8)),
)
kvs1 = _worm(
  'kvs1',
  density(5e-4, 5e-4),
  E_K,
  _kvs1,
  _mh,
  states=('m', 'h'),
  kinetics=(*_gate('m', 57.1, 25.0), *_gate('h', 47.3, 11.1)),
)
egl2 = _worm(
  'egl2',
  density(0.001, 0.001),
  E_K,
  _egl2,
  _m,
  states=('m',),
  kinetics=_gate('m', -6.9, 14.9),
  note='; Weinshenker et al. 1999, J. Neurosci. 19: 9831-9840',
)
egl36 = _worm(
  'egl36',
  density(0.0012, 0.0046),
  E_K,
  _egl36,
  lambda s: 0.33 * s['mf'] + 0.36 * s['mm'] + 0.39 * s['ms'],
  states=('mf', 'mm', 'ms'),
  kinetics=_gate('m', 63.0, 28.5),
  note=(
    '; Johnstone et al. 1997, Neuron 19: 151-164. The weights sum to 1.08, '
    'as in the source'
  ),
)
kqt3 = _worm(
  'kqt3',
  density(5e-4, 0.022),
  E_K,
  _kqt3,
  lambda s: (0.3 * s['mf'] + 0.7 * s['ms']) * s['w'] * s['s'],
  states=('mf', 'ms', 'w', 's'),
  kinetics=(
    *_gate('m', -12.6726, 15.8008),
    Parameter('tau_s', 5e5, 'ms', 100.0, 1e6, SOURCE),
  ),
  note=(
    "; BAAIWorm drives it towards the cell's potassium potential and starts "
    'mf and ms at 0, here they start at their steady state'
  ),
)
irk = _worm(
  'irk',
  density(0.0011, 0.0011),
  E_K,
  _irk,
  _m,
  states=('m',),
  kinetics=_gate('m', -82.0, 13.0),
)
nca = _worm(
  'nca',
  density(8.5e-5, 7e-4),
  E_NA,
  _nca,
  lambda s: 1.0,
  states=(),
)
