"""The published equations of all channels, written out in NumPy.

Each entry of `ORACLES` is (curves(v, ca), open fraction(state), reversal
potential); curves gives {state: (steady state, time constant)}, voltages in
mV, times in ms, calcium in mM.
"""

import numpy as np
from numpy import exp
from scipy.special import exprel

GRID = np.arange(-100.0, 61.0)
E_CA = 132.4579341637009
Q34 = 2.3**1.3


def lin(a, x, y):
  """a x / (1 - exp(-x / y)), through SciPy's (exp(x) - 1) / x."""
  return a * y / exprel(-x / y)


def ab(alpha, beta, q=1.0):
  return alpha / (alpha + beta), 1 / (alpha + beta) / q


def hh(v, ca):
  return {
    'm': ab(lin(0.1, v + 40, 10), 4 * exp(-(v + 65) / 18)),
    'h': ab(0.07 * exp(-(v + 65) / 20), 1 / (exp(-(v + 35) / 10) + 1)),
    'n': ab(lin(0.01, v + 55, 10), 0.125 * exp(-(v + 65) / 80)),
  }


def na(v, ca):
  u = v + 55
  return {
    'm': ab(lin(0.32, u - 13, 4), lin(0.28, 40 - u, 5)),
    'h': ab(0.128 * exp(-(u - 17) / 18), 4 / (1 + exp(-(u - 40) / 5))),
  }


def k(v, ca):
  u = v + 55
  return {'n': ab(lin(0.032, u - 15, 5), 0.5 * exp(-(u - 10) / 40))}


def km(v, ca):
  tau = 1000 / (3.3 * exp((v + 35) / 20) + exp(-(v + 35) / 20))
  return {'p': (1 / (1 + exp(-(v + 35) / 10)), tau)}


def reuveni(v):
  return (
    ab(lin(-0.055, -v - 27, -3.8), 0.94 * exp((-75 - v) / 17)),
    ab(0.000457 * exp((-13 - v) / 50), 0.0065 / (exp((-15 - v) / 28) + 1)),
  )


def cal(v, ca):
  return dict(zip('qr', reuveni(v), strict=True))


def ca_hva(v, ca):
  return dict(zip('mh', reuveni(v), strict=True))


def cat(v, ca):
  tau = 30.8 + (211.4 + exp((v + 115.2) / 5)) / (1 + exp((v + 86) / 3.2))
  return {'u': (1 / (1 + exp((v + 83) / 4)), tau / 3**1.2)}


def natg(v, ca):
  return {
    'm': ab(lin(0.182, v + 38, 6), lin(0.124, -v - 38, 6), Q34),
    'h': ab(lin(-0.015, v + 66, -6), lin(-0.015, -v - 66, -6), Q34),
  }


def nap(v, ca):
  m_tau = 6 * natg(v, ca)['m'][1]
  h_alpha = lin(-2.88e-6, v + 17, -4.63)
  h_beta = lin(6.94e-6, v + 64.4, 2.63)
  return {
    'm': (1 / (1 + exp(-(v + 52.6) / 4.6)), m_tau),
    'h': (1 / (1 + exp((v + 48.8) / 10)), 1 / (h_alpha + h_beta) / Q34),
  }


def k_pst(v, ca):
  u = v + 10
  m_tau = [
    1.25 + 175.03 * exp(x * 0.026) if x < -50 else 1.25 + 13 * exp(-x * 0.026)
    for x in u
  ]
  h_tau = 360 + (1010 + 24 * (u + 55)) * exp(-(((u + 75) / 48) ** 2))
  return {
    'm': (1 / (1 + exp(-(u + 1) / 12)), np.array(m_tau) / Q34),
    'h': (1 / (1 + exp((u + 54) / 11)), h_tau / Q34),
  }


def k_tst(v, ca):
  u = v + 10
  return {
    'm': (
      1 / (1 + exp(-u / 19)),
      (0.34 + 0.92 * exp(-(((u + 71) / 59) ** 2))) / Q34,
    ),
    'h': (
      1 / (1 + exp((u + 66) / 10)),
      (8 + 49 * exp(-(((u + 73) / 23) ** 2))) / Q34,
    ),
  }


def kv3(v, ca):
  tau = 0.2 * 20 / (1 + exp((v + 46.56) / -44.14))
  return {'m': (1 / (1 + exp((v - 18.7) / -9.7)), tau)}


def sk(v, ca):
  return {'z': (1 / (1 + (0.00043 / ca) ** 4.8), 1.0)}


def im(v, ca):
  alpha = 3.3e-3 * exp(2.5 * 0.04 * (v + 35))
  return {'m': ab(alpha, 3.3e-3 * exp(-2.5 * 0.04 * (v + 35)), Q34)}


def ih(v, ca):
  alpha = lin(-0.001 * 6.43, v + 154.9, -11.9)
  return {'m': ab(alpha, 0.001 * 193 * exp(v / 33.1))}


def ca_lva(v, ca):
  u = v + 10
  return {
    'm': (
      1 / (1 + exp((u + 30) / -6)),
      (5 + 20 / (1 + exp((u + 25) / 5))) / Q34,
    ),
    'h': (
      1 / (1 + exp((u + 80) / 6.4)),
      (20 + 50 / (1 + exp((u + 40) / 7))) / Q34,
    ),
  }


def egl19(v, ca):
  h = (1.43 / (1 + exp(-(v - 24.9) / 12)) + 0.14) * (
    5.96 / (1 + exp((v + 20.5) / 8.1)) + 0.6
  )
  return {
    'm': (
      1 / (1 + exp(-(v - 5.6) / 7.5)),
      2.9 * exp(-(((v - 5.2) / 6) ** 2))
      + 1.9 * exp(-(((v - 1.4) / 30) ** 2))
      + 2.3,
    ),
    'h': (
      h,
      0.4
      * (
        44.6 / (1 + exp((v + 23) / 5))
        + 36.4 / (1 + exp((v - 28.7) / 3.7))
        + 43.1
      ),
    ),
  }


def unc2(v, ca):
  return {
    'm': (
      1 / (1 + exp(-(v + 12.2) / 4)),
      1.5 / (exp(-(v + 8.2) / 9.1) + exp((v + 8.2) / 15.4)) + 0.1,
    ),
    'h': (
      1 / (1 + exp((v + 52.5) / 5.6)),
      83.8 / (1 + exp((v - 52.9) / 3.5)) + 72.1 / (1 + exp(-(v - 23.9) / 3.6)),
    ),
  }


def cca1(v, ca):
  return {
    'm': (
      1 / (1 + exp(-(v + 43.32) / 7.6)),
      40 / (1 + exp((v + 62.5) / 12.6)) + 0.7,
    ),
    'h': (
      1 / (1 + exp((v + 58) / 7)),
      280 / (1 + exp((v + 60.7) / 8.5)) + 19.8,
    ),
  }


def shl1(v, ca):
  m_tau = 13.8 / (exp(-(v + 17.5) / 12.9) + exp((v + 3.7) / 6.5)) + 1.9
  h = 1 / (1 + exp((v + 33.1) / 8.3))
  return {
    'm': (1 / (1 + exp(-(v - 11.2) / 14.1)), 0.4 * m_tau),
    'hf': (h, 0.08 * (539.2 / (1 + exp((v + 28.2) / 4.9)) + 27.3)),
    'hs': (h, 0.3 * (8422 / (1 + exp((v + 37.7) / 6.4)) + 118.9)),
  }


def shk1(v, ca):
  m_tau = 26.6 / (exp(-(v + 33.7) / 15.8) + exp((v + 33.7) / 15.4)) + 2
  return {
    'm': (1 / (1 + exp(-(v - 20.4) / 7.7)), m_tau),
    'h': (1 / (1 + exp((v + 7) / 5.8)), 1400.0),
  }


def kvs1(v, ca):
  return {
    'm': (
      1 / (1 + exp(-(v - 57.1) / 25)),
      30 / (1 + exp((v - 18.1) / 20)) + 1,
    ),
    'h': (
      1 / (1 + exp((v - 47.3) / 11.1)),
      88.5 / (1 + exp((v - 50) / 15)) + 53.4,
    ),
  }


def egl2(v, ca):
  tau = 1845.8 / (1 + exp((v + 122.6) / 13.8)) + 1517.74
  return {'m': (1 / (1 + exp(-(v + 6.9) / 14.9)), tau)}


def egl36(v, ca):
  m = 1 / (1 + exp(-(v - 63) / 28.5))
  return {'mf': (m, 13.0), 'mm': (m, 63.0), 'ms': (m, 355.0)}


def kqt3(v, ca):
  m = 1 / (1 + exp(-(v + 12.6726) / 15.8008))
  slow = (
    5503
    - 5345.4 / (1 + 10 ** (-0.02827 * (-23.9 - v)))
    - 4590.6 / (1 + 10 ** (-0.0357 * (14.15 + v)))
  )
  return {
    'mf': (m, 395.3 / (1 + ((v + 38.1) / 33.59) ** 2)),
    'ms': (m, slow),
    'w': (
      0.49 + 0.51 / (1 + exp((v + 1.084) / 28.78)),
      0.544 + 29.2 / (1 + ((v + 48.09) / 48.83) ** 2),
    ),
    's': (0.34 + 0.66 / (1 + exp((v + 45.3) / 12.3)), 5e5),
  }


def irk(v, ca):
  tau = 17.1 / (exp(-(v + 17.8) / 20.3) + exp((v + 43.4) / 11.2)) + 3.8
  return {'m': (1 / (1 + exp((v + 82) / 13)), tau)}


def kcnl(v, ca):
  return {'m': (ca / (3.3e-4 + ca), 6.3)}


def nothing(v, ca):
  return {}


def bk(partner, wyx, wxy, wom, wop, kxy, nxy, kyx, nyx):
  """A BK channel at the steady state of its calcium channel."""

  def curves(v, ca):
    gates = partner(v, ca)
    m_inf, m_tau = gates['m']
    inside = 0.04 * (60 - v) * 1e9 / (8 * np.pi * 0.013 * 250 * 96485)
    inside = inside * exp(-0.013 / np.sqrt(250 / (500 * 30)))
    inside = np.where(v < 60, inside, 1e-4)
    alpha = m_inf / m_tau
    beta = 1 / m_tau - alpha
    wm, wp = wom * exp(-wyx * v), wop * exp(-wxy * v)
    kom = wm / (1 + (inside / kyx) ** nyx)
    kop = wp / (1 + (kxy / inside) ** nxy)
    kcm = wm / (1 + (0.05 / kyx) ** nyx)
    speed = (kop + kom) * (kcm + alpha) + beta * kcm
    total = alpha + beta + kcm
    return {
      'm': (m_inf * kop * total / speed, total / speed),
      'mcav': gates['m'],
      'hcav': gates['h'],
    }

  return curves


SLO1 = 0.013, -0.028, 3.15, 0.16, 55.73, 1.3, 34.34, 1e-4
SLO2 = 0.019, -0.024, 0.9, 0.027, 93.45, 1.84, 3294.55, 1e-5

ORACLES = {
  'Leak': (nothing, lambda s: 1, -70),
  'Na': (na, lambda s: s['m'] ** 3 * s['h'], 50),
  'K': (k, lambda s: s['n'] ** 4, -90),
  'Km': (km, lambda s: s['p'], -90),
  'CaL': (cal, lambda s: s['q'] ** 2 * s['r'], 120),
  'NaTg': (natg, lambda s: s['m'] ** 3 * s['h'], 50),
  'Nap': (nap, lambda s: s['m'] ** 3 * s['h'], 50),
  'K_Pst': (k_pst, lambda s: s['m'] ** 2 * s['h'], -85),
  'K_Tst': (k_tst, lambda s: s['m'] ** 4 * s['h'], -85),
  'SKv3_1': (kv3, lambda s: s['m'], -85),
  'Kv3_1': (kv3, lambda s: s['m'], -85),
  'SK_E2': (sk, lambda s: s['z'], -85),
  'Im': (im, lambda s: s['m'], -85),
  'Ih': (ih, lambda s: s['m'], -45),
  'Ca_HVA': (ca_hva, lambda s: s['m'] ** 2 * s['h'], E_CA),
  'Ca_LVA': (ca_lva, lambda s: s['m'] ** 2 * s['h'], E_CA),
  'shl1': (
    shl1,
    lambda s: s['m'] ** 3 * (0.7 * s['hf'] + 0.3 * s['hs']),
    -80,
  ),
  'shk1': (shk1, lambda s: s['m'] * s['h'], -80),
  'kvs1': (kvs1, lambda s: s['m'] * s['h'], -80),
  'egl2': (egl2, lambda s: s['m'], -80),
  'egl36': (
    egl36,
    lambda s: 0.33 * s['mf'] + 0.36 * s['mm'] + 0.39 * s['ms'],
    -80,
  ),
  'kqt3': (
    kqt3,
    lambda s: (0.3 * s['mf'] + 0.7 * s['ms']) * s['w'] * s['s'],
    -80,
  ),
  'egl19': (egl19, lambda s: s['m'] * s['h'], 60),
  'unc2': (unc2, lambda s: s['m'] * s['h'], 60),
  'cca1': (cca1, lambda s: s['m'] ** 2 * s['h'], 60),
  'slo1_egl19': (bk(egl19, *SLO1), lambda s: s['m'] * s['hcav'], -80),
  'slo1_unc2': (bk(unc2, *SLO1), lambda s: s['m'] * s['hcav'], -80),
  'slo2_egl19': (bk(egl19, *SLO2), lambda s: s['m'] * s['hcav'], -80),
  'slo2_unc2': (bk(unc2, *SLO2), lambda s: s['m'] * s['hcav'], -80),
  'kcnl': (kcnl, lambda s: s['m'], -80),
  'nca': (nothing, lambda s: 1, 30),
  'irk': (irk, lambda s: s['m'], -80),
}
