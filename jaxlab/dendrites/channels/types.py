"""What a channel is: a table of parameters and pure functions of arrays."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.dendrites.channels.rates import exponential_step
from jaxlab.errors import UserError

Params = Mapping[str, jax.Array | float]
State = dict[str, jax.Array]
# What each state tends to, and its time constant in ms.
Curves = dict[str, tuple[ArrayLike, ArrayLike]]


class Ion(NamedTuple):
  """What a channel sees besides the voltage; each a scalar or per node.

  Attributes:
    celsius: temperature in degrees Celsius; as a Python number it is folded
      into the compiled step.
    ca_in: calcium inside, mM.
    e_ca: calcium reversal potential, mV.
    i_ca: calcium current density, mA/cm2, outward positive; read by pools.
  """

  celsius: ArrayLike = 6.3
  ca_in: ArrayLike = 5e-5
  # 12.5 ln(2 / 5e-5), NEURON's initial value.
  e_ca: ArrayLike = 132.4579341637009
  i_ca: ArrayLike = 0.0


class Parameter(NamedTuple):
  """One parameter of a channel.

  Attributes:
    name: key in the `p` of the channel's functions.
    value: default.
    unit: as text; '1' where there is none.
    low: least sensible value, for bounds in training.
    high: greatest sensible value.
    source: where the default comes from.
  """

  name: str
  value: float
  unit: str
  low: float
  high: float
  source: str


class Channel(NamedTuple):
  """A membrane mechanism; static and hashable, so a jit argument or closure.

  Calling a channel gives one with other defaults: `HH(g_na=0.1)`. All
  functions are pure; `v` is `[...]` in mV, `state` a dict of arrays of the
  shape of v, `p` a dict of scalars or arrays that broadcast against v.

  Attributes:
    name: of the mechanism.
    parameters: defaults with unit, range and source.
    states: names of the state variables.
    init: (v, p, ion) -> state: the gates' steady state at v; the resting
      concentration of a pool.
    update: (state, v, dt, p, ion) -> state after dt ms at voltage v.
    current: (state, v, p, ion) -> (G, GE) in S/cm2 and mV S/cm2: the current
      is G v - GE in mA/cm2, and G its derivative to v at frozen states.
    steady: (v, p, ion) -> {state: (steady state, time constant in ms)}.
    separable: whether the update of each state reads no other state.
    ion_current: the ion that carries the current, 'ca' or None.
    pool: the state that is the concentration of calcium inside in mM, or
      None; such a channel has no current, and integrates `ion.i_ca`.
    source: publication of the equations, and what to know about them.
  """

  name: str
  parameters: tuple[Parameter, ...]
  states: tuple[str, ...]
  init: Callable[..., State]
  update: Callable[..., State]
  current: Callable[..., tuple[jax.Array, jax.Array]]
  steady: Callable[..., Curves]
  separable: bool = True
  ion_current: str | None = None
  pool: str | None = None
  source: str = ''

  def __call__(self, **values: float) -> 'Channel':
    """The channel with other defaults.

    Raises:
      UserError: a parameter that it does not have, or a conductance below 0.
    """
    known = [parameter.name for parameter in self.parameters]
    for name, value in values.items():
      if name not in known:
        raise UserError(
          f'channel {self.name!r} has no parameter {name!r}; it has '
          f'{", ".join(known)}.'
        )
      unit = self.parameters[known.index(name)].unit
      if unit == 'S/cm2' and not value >= 0:
        raise UserError(
          f'channel {self.name!r}: conductance {name} = {value} must be >= 0.'
        )
    parameters = tuple(
      each._replace(value=float(values.get(each.name, each.value)))
      for each in self.parameters
    )
    return self._replace(parameters=parameters)

  @property
  def params(self) -> tuple[tuple[str, float], ...]:
    """Names and defaults."""
    return tuple((each.name, each.value) for each in self.parameters)

  def defaults(self) -> dict[str, float]:
    """Defaults by name: a valid `p`."""
    return dict(self.params)


def conductance(
  value: float, source: str, *, name: str = 'g', high: float = 1.0
) -> Parameter:
  """A conductance density in S/cm2."""
  return Parameter(name, value, 'S/cm2', 0.0, high, source)


def voltage(name: str, value: float, source: str) -> Parameter:
  """A potential in mV, sought within 40 mV of its default."""
  return Parameter(name, value, 'mV', value - 40.0, value + 40.0, source)


def ohmic(
  g: ArrayLike, e: ArrayLike, v: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """(G, GE) of g (v - e), both in the shape of v."""
  g = jnp.broadcast_to(g, jnp.shape(v))
  return g, g * e


def at_rest(curves: Curves, v: ArrayLike) -> State:
  """The steady states of curves, in the shape and dtype of v."""
  v = jnp.asarray(v)
  return {
    name: jnp.broadcast_to(jnp.asarray(inf, v.dtype), v.shape)
    for name, (inf, _) in curves.items()
  }


def gated(
  name: str,
  parameters: tuple[Parameter, ...],
  curves: Callable[[Any, Params, Ion], Curves],
  opening: Callable[[State], ArrayLike],
  *,
  states: tuple[str, ...],
  reversal: Callable[[Params, Ion], ArrayLike] | None = None,
  ion_current: str | None = None,
  source: str = '',
) -> Channel:
  """An ohmic channel whose gates relax independently of each other.

  Args:
    name: of the channel.
    parameters: must hold `g`, and `e` unless `reversal` is given.
    curves: (v, p, ion) -> {gate: (steady state, time constant in ms)}.
    opening: state -> open fraction.
    states: names of the gates.
    reversal: (p, ion) -> reversal potential in mV; by default p['e'].
    ion_current: 'ca' where calcium carries the current.
    source: of the equations.

  Returns:
    The channel: I = g opening(state) (v - reversal).
  """

  def update(state, v, dt, p, ion):
    return {
      gate: exponential_step(state[gate], inf, tau, dt)
      for gate, (inf, tau) in curves(v, p, ion).items()
    }

  def current(state, v, p, ion):
    e = p['e'] if reversal is None else reversal(p, ion)
    return ohmic(p['g'] * opening(state), e, v)

  return Channel(
    name=name,
    parameters=parameters,
    states=states,
    init=lambda v, p, ion: at_rest(curves(v, p, ion), v),
    update=update,
    current=current,
    steady=curves,
    ion_current=ion_current,
    source=source,
  )
