"""The squid axon's sodium, potassium and leak currents.

Hodgkin and Huxley 1952, J. Physiol. 117: 500-544, with the voltage counted
from outside and the rest at -65 mV. This is the channel that most simulations
spend their time in: of its six rates five are powers of exp(v / 10) and
exp(v / 80), which leaves three exponentials for the rates and three for the
step.
"""

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.dendrites.channels.rates import linoid, q10
from jaxlab.dendrites.channels.types import (
  Channel,
  Curves,
  Ion,
  Params,
  State,
  at_rest,
  conductance,
  voltage,
)

_SOURCE = 'Hodgkin and Huxley 1952, J. Physiol. 117: 500-544'
Rates = tuple[jax.Array, jax.Array]


def rates(v: ArrayLike) -> dict[str, Rates]:
  """(alpha, beta) of m, h and n in 1/ms at 6.3 degrees Celsius.

  Args:
    v: `[...]` voltage, mV.

  Returns:
    {gate: (alpha, beta)}, each `[...]`; smooth at -40 and -55 mV.
  """
  z = jnp.asarray(v) + 65.0
  a = jnp.exp(z * (-1 / 80))
  a4 = jnp.square(jnp.square(a))
  q = jnp.exp(z * -0.1)
  alpha_m = linoid(z * 0.1 - 2.5, 1 - math.exp(2.5) * q)
  alpha_n = 0.1 * linoid(z * 0.1 - 1.0, 1 - math.exp(1.0) * q)
  return {
    'm': (alpha_m, 4 * jnp.exp(z * (-1 / 18))),
    'h': (0.07 * a4, 1 / (1 + math.exp(3.0) * q)),
    'n': (alpha_n, 0.125 * a),
  }


def _steady(v: ArrayLike, p: Params, ion: Ion) -> Curves:
  del p
  phi = q10(ion.celsius, 6.3, 3.0)
  return {
    gate: (alpha / (alpha + beta), 1 / (phi * (alpha + beta)))
    for gate, (alpha, beta) in rates(v).items()
  }


def _update(
  state: State, v: jax.Array, dt: jax.Array | float, p: Params, ion: Ion
) -> State:
  del p
  step = -dt * q10(ion.celsius, 6.3, 3.0)
  new = {}
  for gate, (alpha, beta) in rates(v).items():
    total = alpha + beta
    decay = jnp.exp(step * total)
    new[gate] = state[gate] * decay + alpha * ((1 - decay) / total)
  return new


def _current(
  state: State, v: jax.Array, p: Params, ion: Ion
) -> tuple[jax.Array, jax.Array]:
  del v, ion
  m, h, n = state['m'], state['h'], state['n']
  g_na = p['g_na'] * (m * m * m * h)
  g_k = p['g_k'] * jnp.square(n * n)
  g_l = jnp.asarray(p['g_l'])
  return g_na + g_k + g_l, g_na * p['e_na'] + g_k * p['e_k'] + g_l * p['e_l']


HH = Channel(
  name='HH',
  parameters=(
    conductance(0.12, _SOURCE, name='g_na', high=1.2),
    conductance(0.036, _SOURCE, name='g_k', high=0.36),
    conductance(0.0003, _SOURCE, name='g_l', high=0.003),
    voltage('e_na', 50.0, _SOURCE),
    voltage('e_k', -77.0, _SOURCE),
    voltage('e_l', -54.3, _SOURCE),
  ),
  states=('m', 'h', 'n'),
  init=lambda v, p, ion: at_rest(_steady(v, p, ion), v),
  update=_update,
  current=_current,
  steady=_steady,
  source=_SOURCE,
)
