"""Calcium pools: a concentration inside that a current fills."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.dendrites.channels.rates import MIN_TAU
from jaxlab.dendrites.channels.types import Channel, Ion, Parameter, Params

_GAS = 8.31446261815324  # J/(mol K)
FARADAY = 96485.33212  # C/mol


def calcium_reversal(
  ca_in: ArrayLike, ca_out: ArrayLike, celsius: ArrayLike
) -> jax.Array:
  """Nernst potential of calcium in mV; concentrations in one unit, > 0."""
  scale = 1e3 * _GAS * (jnp.asarray(celsius) + 273.15) / (2 * FARADAY)
  return scale * jnp.log(jnp.asarray(ca_out) / ca_in)


def calcium_pool(
  name: str,
  parameters: tuple[Parameter, ...],
  influx: Callable[[jax.Array, Params, Ion], ArrayLike],
  *,
  source: str,
) -> Channel:
  """The pool d ca / dt = influx - (ca - rest) / tau.

  Args:
    name: of the pool.
    parameters: must hold `rest` in mM and `tau` in ms.
    influx: (v, p, ion) -> mM/ms.
    source: of the equation.

  Returns:
    A channel without current whose state `ca`, in mM, starts at rest and
    advances by one step of the implicit Euler rule.
  """

  def steady(v, p, ion):
    tau = jnp.maximum(p['tau'], MIN_TAU)
    return {'ca': (p['rest'] + tau * influx(v, p, ion), tau)}

  def update(state, v, dt, p, ion):
    inf, tau = steady(v, p, ion)['ca']
    ratio = dt / tau
    return {'ca': (state['ca'] + ratio * inf) / (1 + ratio)}

  def init(v, p, ion):
    del ion
    return {'ca': jnp.full_like(v, p['rest'])}

  def current(state, v, p, ion):
    del state, p, ion
    return jnp.zeros_like(v), jnp.zeros_like(v)

  return Channel(
    name=name,
    parameters=parameters,
    states=('ca',),
    init=init,
    update=update,
    current=current,
    steady=steady,
    pool='ca',
    source=source,
  )
