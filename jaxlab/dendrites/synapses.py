"""Kinds of synapses: driven by events, or by the voltage of the sender."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.dendrites.channels.types import Parameter
from jaxlab.errors import UserError

Params = Mapping[str, ArrayLike]
State = dict[str, jax.Array]
# A graded synapse's time constant falls to 0 as it saturates.
_MIN_GRADED_TAU = 1e-3


class SynapseType(NamedTuple):
  """A kind of synapse; static and hashable.

  Calling it gives one with other parameters: `ExpSyn(tau=3.)`.

  Attributes:
    name: of the kind.
    parameters: defaults with unit, range and source.
    states: names of the state variables.
    graded: False where events drive it: its states are those of the places it
      sits at, `[T, B]`. True where the voltage of the cell before it does: they
      are those of the cells that send, `[P, B]`.
    receive: (state, amount, p) -> state; `amount` is the sum of the weights, in
      uS, of the events that arrive now. Of no use if graded.
    update: (state, v, dt, p) -> state after dt ms; `v` is that of the sender if
      graded, else of the place.
    conductance: (state, v, p) -> (G, GE) in uS and mV uS at the place if driven
      by events: the current is G v - GE in nA. If graded, (open, 0) with the
      share of open channels of the sender.
    reversal: (p) -> mV; read if graded.
    scale: (p) -> uS that a weight of 1 stands for; read if graded.
  """

  name: str
  parameters: tuple[Parameter, ...]
  states: tuple[str, ...]
  graded: bool
  receive: Callable[..., State]
  update: Callable[..., State]
  conductance: Callable[..., tuple[jax.Array, jax.Array]]
  reversal: Callable[..., ArrayLike] | None = None
  scale: Callable[..., ArrayLike] | None = None

  def __call__(self, **values: float) -> 'SynapseType':
    """The synapse with other parameters.

    Raises:
      UserError: a parameter that it does not have or that makes no sense.
    """
    known = {each.name: each for each in self.parameters}
    for name, value in values.items():
      if name not in known:
        raise UserError(
          f'synapse {self.name!r} has no parameter {name!r}; it has '
          f'{", ".join(known)}.'
        )
      if known[name].unit in ('ms', 'uS') and not value > 0:
        raise UserError(
          f'synapse {self.name!r}: {name} = {value} must be above 0.'
        )
    out = self._replace(
      parameters=tuple(
        each._replace(value=float(values.get(each.name, each.value)))
        for each in self.parameters
      )
    )
    defaults = out.defaults()
    if 'tau1' in defaults and not defaults['tau1'] < defaults['tau2']:
      raise UserError(
        f'synapse {self.name!r}: tau1 = {defaults["tau1"]} ms must be below '
        f'tau2 = {defaults["tau2"]} ms.'
      )
    return out

  def defaults(self) -> dict[str, float]:
    """Parameters by name: a valid `p`."""
    return {each.name: each.value for each in self.parameters}


def _time(name: str, value: float, source: str) -> Parameter:
  return Parameter(name, value, 'ms', 0.01, 1e3, source)


def _reversal(value: float, source: str, name: str = 'e') -> Parameter:
  return Parameter(name, value, 'mV', -100.0, 60.0, source)


def _decayed(x, dt, tau):
  return x * jnp.exp(-dt / tau)


def peak_factor(tau1: ArrayLike, tau2: ArrayLike) -> jax.Array:
  """Factor that makes the peak of the difference of two exponentials 1.

  Args:
    tau1: rise, ms.
    tau2: decay, ms, greater than tau1.

  Returns:
    1 / (exp(-tp / tau2) - exp(-tp / tau1)) at the time tp of the peak.
  """
  tau1, tau2 = jnp.asarray(tau1), jnp.asarray(tau2)
  peak = tau1 * tau2 / (tau2 - tau1) * jnp.log(tau2 / tau1)
  return 1 / (jnp.exp(-peak / tau2) - jnp.exp(-peak / tau1))


def _exp_receive(state, amount, p):
  del p
  return {'g': state['g'] + amount}


def _exp_update(state, v, dt, p):
  del v
  return {'g': _decayed(state['g'], dt, p['tau'])}


def _exp_conductance(state, v, p):
  del v
  return state['g'], state['g'] * p['e']


_NEURON = "NEURON's point process"

ExpSyn = SynapseType(
  name='ExpSyn',
  parameters=(
    _time('tau', 0.1, f'{_NEURON} ExpSyn'),
    _reversal(0.0, f'{_NEURON} ExpSyn'),
  ),
  states=('g',),
  graded=False,
  receive=_exp_receive,
  update=_exp_update,
  conductance=_exp_conductance,
)


def _rise(state, amount, p, rise='a', fall='b', tau1='tau1', tau2='tau2'):
  amount = amount * peak_factor(p[tau1], p[tau2])
  return {rise: state[rise] + amount, fall: state[fall] + amount}


def _two_update(state, v, dt, p):
  del v
  return {
    'a': _decayed(state['a'], dt, p['tau1']),
    'b': _decayed(state['b'], dt, p['tau2']),
  }


def _two_conductance(state, v, p):
  del v
  g = state['b'] - state['a']
  return g, g * p['e']


Exp2Syn = SynapseType(
  name='Exp2Syn',
  parameters=(
    _time('tau1', 0.1, f'{_NEURON} Exp2Syn'),
    _time('tau2', 10.0, f'{_NEURON} Exp2Syn'),
    _reversal(0.0, f'{_NEURON} Exp2Syn'),
  ),
  states=('a', 'b'),
  graded=False,
  receive=_rise,
  update=_two_update,
  conductance=_two_conductance,
)

# Destexhe, Mainen and Sejnowski 1998: fast inhibition.
GABA_A = Exp2Syn(tau1=0.5, tau2=5.0, e=-80.0)._replace(name='GABA_A')


def _nmda_receive(state, amount, p):
  fast = _rise(state, amount, p, 'a', 'b', 'tau1', 'tau2')
  slow = _rise(
    state, amount * p['ratio'], p, 'na', 'nb', 'nmda_tau1', 'nmda_tau2'
  )
  return fast | slow


def _nmda_update(state, v, dt, p):
  del v
  times = {'a': 'tau1', 'b': 'tau2', 'na': 'nmda_tau1', 'nb': 'nmda_tau2'}
  return {
    name: _decayed(state[name], dt, p[tau]) for name, tau in times.items()
  }


def magnesium_block(v: ArrayLike, magnesium: ArrayLike) -> jax.Array:
  """Share of NMDA channels that magnesium leaves open.

  Jahr and Stevens 1990, J. Neurosci. 10: 3178, with 0.28 /mM and 0.062 /mV.

  Args:
    v: mV.
    magnesium: outside concentration, mM.

  Returns:
    1 / (1 + 0.28 [Mg] exp(-0.062 v)).
  """
  outside = jnp.asarray(magnesium)
  return 1 / (1 + 0.28 * outside * jnp.exp(-0.062 * jnp.asarray(v)))


def _nmda_conductance(state, v, p):
  fast, slow = state['b'] - state['a'], state['nb'] - state['na']

  def current(v):
    return (fast + slow * magnesium_block(v, p['mg'])) * (v - p['e'])

  i, slope = jax.jvp(current, (v,), (jnp.ones_like(v),))
  return slope, slope * v - i


_DUAL = 'AMPA and NMDA, Destexhe, Mainen and Sejnowski 1998'

AMPA_NMDA = SynapseType(
  name='AMPA_NMDA',
  parameters=(
    _time('tau1', 0.2, _DUAL),
    _time('tau2', 1.7, _DUAL),
    _time('nmda_tau1', 2.0, _DUAL),
    _time('nmda_tau2', 65.0, _DUAL),
    Parameter('ratio', 0.7, '1', 0.0, 10.0, 'peak of NMDA to that of AMPA'),
    Parameter('mg', 1.0, 'mM', 0.0, 10.0, 'Jahr and Stevens 1990'),
    _reversal(0.0, _DUAL),
  ),
  states=('a', 'b', 'na', 'nb'),
  graded=False,
  receive=_nmda_receive,
  update=_nmda_update,
  conductance=_nmda_conductance,
)

_WORM = 'BAAIWorm, public mechanism files'


def _open(v, p):
  return jax.nn.sigmoid((v - p['v_th']) / p['delta'])


def _graded_update(state, v, dt, p):
  inf = _open(v, p)
  tau = jnp.maximum((1 - inf) / p['k'], _MIN_GRADED_TAU)
  return {'s': inf + (state['s'] - inf) * jnp.exp(-dt / tau)}


def _graded_conductance(state, v, p):
  del v, p
  return state['s'], jnp.zeros_like(state['s'])


GradedSyn = SynapseType(
  name='GradedSyn',
  parameters=(
    Parameter('gbar', 4.9e-4, 'uS', 1e-6, 1e-1, _WORM),
    _reversal(30.0, _WORM),
    Parameter('v_th', -20.0, 'mV', -70.0, 20.0, _WORM),
    Parameter('delta', 5.0, 'mV', 0.5, 30.0, _WORM),
    Parameter('k', 0.5, '1/ms', 0.01, 10.0, _WORM),
  ),
  states=('s',),
  graded=True,
  receive=lambda state, amount, p: state,
  update=_graded_update,
  conductance=_graded_conductance,
  reversal=lambda p: p['e'],
  scale=lambda p: p['gbar'],
)

GradedInhibition = GradedSyn(gbar=2.0e-4, e=-70.0)._replace(
  name='GradedInhibition'
)


def _lag_update(state, v, dt, p):
  inf = _open(v, p)
  return {'s': inf + (state['s'] - inf) * jnp.exp(-dt / p['tau'])}


# As GradedSyn, with a time constant that does not depend on the voltage.
GradedLag = GradedSyn._replace(
  name='GradedLag',
  parameters=(
    *(each for each in GradedSyn.parameters if each.name != 'k'),
    _time('tau', 2.0, 'a constant instead of (1 - s_inf) / k'),
  ),
  update=_lag_update,
)
