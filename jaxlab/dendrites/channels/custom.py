"""A user's own channel in five lines.

kdr = channel_from_rates(
  'kdr',
  {'n': (lambda v: 0.01 * vtrap(-(v + 55), 10),
         lambda v: 0.125 * jnp.exp(-(v + 65) / 80), 4)},
  g=0.036, e=-77.0,
)
"""

import math
from collections.abc import Callable, Mapping

import jax

from jaxlab.dendrites.channels.types import (
  Channel,
  Parameter,
  conductance,
  gated,
  voltage,
)
from jaxlab.errors import UserError

VoltageFunction = Callable[[jax.Array], jax.Array]
Gates = Mapping[str, tuple[VoltageFunction, VoltageFunction, int]]


def channel_from_steady_states(
  name: str,
  gates: Gates,
  *,
  g: float,
  e: float,
  ion_current: str | None = None,
) -> Channel:
  """The channel I = g prod(gate^power) (v - e) of steady states and taus.

  Args:
    name: of the channel.
    gates: {gate: (steady state(v), time constant(v) in ms, power)}; v in mV.
    g: default conductance density, S/cm2.
    e: default reversal potential, mV.
    ion_current: 'ca' where calcium carries the current.

  Returns:
    A channel with the parameters `g` and `e`. Two channels are equal only if
    they were made by one call: keep it, and call it for other defaults.

  Raises:
    UserError: no gate, a power below 1, or a conductance below 0.
  """
  if not gates:
    raise UserError(f'channel {name!r} has no gate; use Leak(g=..., e=...).')
  for gate, (_, _, power) in gates.items():
    if power < 1:
      raise UserError(
        f'channel {name!r}: gate {gate!r} has power {power}; it must be >= 1.'
      )

  def curves(v, p, ion):
    del p, ion
    return {gate: (inf(v), tau(v)) for gate, (inf, tau, _) in gates.items()}

  def opening(state):
    return math.prod(state[gate] ** gates[gate][2] for gate in gates)

  parameters: tuple[Parameter, ...] = (
    conductance(g, 'given by the user'),
    voltage('e', e, 'given by the user'),
  )
  channel = gated(
    name,
    parameters,
    curves,
    opening,
    states=tuple(gates),
    ion_current=ion_current,
  )
  return channel(g=g)


def channel_from_rates(
  name: str,
  gates: Gates,
  *,
  g: float,
  e: float,
  ion_current: str | None = None,
) -> Channel:
  """The same as `channel_from_steady_states`, of opening and closing rates.

  Args:
    name: of the channel.
    gates: {gate: (alpha(v) in 1/ms, beta(v) in 1/ms, power)}; v in mV.
      `vtrap` makes rates that are smooth at their removable singularities.
    g: default conductance density, S/cm2.
    e: default reversal potential, mV.
    ion_current: 'ca' where calcium carries the current.

  Returns:
    The channel with steady states alpha / (alpha + beta) and time constants
    1 / (alpha + beta).

  Raises:
    UserError: no gate, a power below 1, or a conductance below 0.
  """

  def relaxing(alpha, beta, power):
    return (
      lambda v: alpha(v) / (alpha(v) + beta(v)),
      lambda v: 1 / (alpha(v) + beta(v)),
      power,
    )

  return channel_from_steady_states(
    name,
    {gate: relaxing(*rates) for gate, rates in gates.items()},
    g=g,
    e=e,
    ion_current=ion_current,
  )
