"""Parameters and state of a network, as trees of arrays."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.dendrites.channels.types import Ion
from jaxlab.dendrites.groups import spanned
from jaxlab.dendrites.network import Network
from jaxlab.errors import UserError

Params = dict[str, Any]
# Faraday's and the gas constant, C/mol and J/(mol K).
_FARADAY = 96485.33212
_GAS = 8.314462618
_CALCIUM_OUTSIDE = 2.0


class State(NamedTuple):
  """State of a network between two steps.

  Attributes:
    v: `[n, B]` voltage, mV.
    channels: {channel: {state: `[R, B]`, or `[n, B]` if on most rows}}.
    synapses: {synapse: {state: `[T, B]`, or `[U, B]` if graded}}.
    spikes: `[D, N, B]` ring buffer of the cells' spikes; D is 0 where no cell
      sends events.
    step: int32, number of steps taken.
  """

  v: jax.Array
  channels: dict[str, dict[str, jax.Array]]
  synapses: dict[str, dict[str, jax.Array]]
  spikes: jax.Array
  step: jax.Array


def init_params(net: Network, dtype: Any = None) -> Params:
  """The parameters of a network, at their defaults.

  Args:
    net: the network.
    dtype: of the arrays; JAX's default float if None.

  Returns:
    {'channels': {name: {parameter: `[R, 1]`}},
    'geometry': {'0': {'radius', 'Ra': `[n, 1]` factors of the measured ones,
    'cm': `[n, 1]` uF/cm2}, ...} for each group of `net.groups`,
    'synapses': {name: {'weight': `[C]`, parameter: scalar}},
    'gaps': `[J]` uS}.
  """
  dtype = dtype or jnp.result_type(float)

  def column(values):
    return jnp.asarray(np.asarray(values), dtype)[:, None]

  params: Params = {
    'channels': {
      name: {key: column(x) for key, x in mechanism.defaults.items()}
      for name, mechanism in net.mechanisms.items()
    },
    'geometry': {
      str(i): {
        'radius': jnp.ones((group.tree.n, 1), dtype),
        'Ra': jnp.ones((group.tree.n, 1), dtype),
        'cm': column(group.cm),
      }
      for i, group in enumerate(net.groups)
    },
    'synapses': {
      name: {
        'weight': jnp.asarray(group.weight, dtype),
        **{k: jnp.asarray(x, dtype) for k, x in group.kind.defaults().items()},
      }
      for name, group in net.synapses.items()
    },
  }
  if net.junctions is not None:
    params['gaps'] = jnp.asarray(net.junctions.conductance, dtype)
  return params


def init_state(
  net: Network,
  params: Params,
  v0: ArrayLike = -65.0,
  *,
  batch: int = 1,
  dt: float = 0.025,
) -> State:
  """A network at rest: voltages `v0`, gates at their steady state.

  Args:
    net: the network.
    params: of `init_params`.
    v0: mV; a scalar, `[n, 1]` or `[n, B]`.
    batch: B, the number of runs side by side.
    dt: step in ms that delays are counted in; as in `simulate`.

  Returns:
    The state.

  Raises:
    ValueError: dt that is not positive, or a delay shorter than half of it.
  """
  depth = buffer_depth(net, dt)
  if not isinstance(batch, int) or batch < 1:
    raise UserError(f'init_state: batch = {batch} must be 1 or more runs.')
  if jnp.shape(v0) not in ((), (net.n, 1), (net.n, batch)):
    raise UserError(
      f'init_state: v0 has the shape {jnp.shape(v0)}; give a number, '
      f'{(net.n, 1)} or {(net.n, batch)}.'
    )
  return _rest(net, params, v0, batch, depth)


@functools.partial(jax.jit, static_argnums=(0, 3, 4))
def _rest(net, params, v0, batch, depth) -> State:
  dtype = jax.tree.leaves(params)[0].dtype
  v = jnp.broadcast_to(jnp.asarray(v0, dtype), (net.n, batch))
  ion = Ion(celsius=net.celsius)
  given = span_params(net, params)
  channels = {
    name: mechanism.channel.init(mechanism.span.take(v), given[name], ion)
    for name, mechanism in net.mechanisms.items()
  }
  # Channels that read calcium start from that of the pools.
  calcium = ions(net, channels, v.dtype, batch)
  for name, mechanism in net.mechanisms.items():
    if calcium is not None and mechanism.channel.pool is None:
      rows = mechanism.span
      channels[name] = mechanism.channel.init(
        rows.take(v), given[name], ion_at(net, calcium, rows)
      )
  synapses = {
    name: dict.fromkeys(
      group.kind.states,
      jnp.zeros(
        (len(group.sender if group.kind.graded else group.rows.indices), batch),
        dtype,
      ),
    )
    for name, group in net.synapses.items()
  }
  return State(
    v=v,
    channels=channels,
    synapses=synapses,
    spikes=jnp.zeros((depth, len(net.cells) if depth else 0, batch), dtype),
    step=jnp.zeros((), jnp.int32),
  )


def span_params(net: Network, params: Params) -> dict[str, Params]:
  """{channel: {parameter: values on the channel's span}}."""
  return {
    name: {
      k: spanned(mechanism, x) for k, x in params['channels'][name].items()
    }
    for name, mechanism in net.mechanisms.items()
  }


def buffer_depth(net: Network, dt: float) -> int:
  """Steps that spikes are kept for: the longest delay and one.

  Raises:
    ValueError: dt that is not positive, or a delay shorter than half of it.
  """
  if not net.spiking:
    return 0
  longest = 0
  for name, group in net.synapses.items():
    if group.kind.graded or not len(group.delay):
      continue
    steps = np.round(group.delay / check_dt(dt))
    if steps.min() < 1:
      raise UserError(
        f'synapse {name!r}: delay {group.delay.min():g} ms is below one step '
        f'of {dt:g} ms; lengthen it or shorten dt.'
      )
    longest = max(longest, int(steps.max()))
  return longest + 1


def check_dt(dt: ArrayLike) -> ArrayLike:
  """Refuses a step that is not a positive number.

  Raises:
    ValueError: dt <= 0 or NaN, where its value is known.
  """
  if not isinstance(dt, jax.core.Tracer) and not np.all(np.asarray(dt) > 0):
    raise UserError(f'dt = {dt} ms must be above 0.')
  return dt


def ions(net: Network, channels, dtype, batch: int) -> jax.Array | None:
  """`[n, B]` calcium inside, mM; None where no channel keeps count of it."""
  rest = Ion().ca_in
  calcium = None
  for name, mechanism in net.mechanisms.items():
    if mechanism.channel.pool is not None:
      if calcium is None:
        calcium = jnp.full((net.n, batch), rest, dtype)
      pool = channels[name][mechanism.channel.pool]
      calcium = mechanism.rows.add(calcium, pool - rest)
  return calcium


def ion_at(net: Network, calcium, rows, current=None) -> Ion:
  """What a channel on `rows` sees; e_ca is Nernst's potential."""
  if calcium is None:
    return Ion(celsius=net.celsius)
  inside = rows.take(calcium)
  slope = 1e3 * _GAS * (net.celsius + 273.15) / (2 * _FARADAY)
  e_ca = slope * jnp.log(_CALCIUM_OUTSIDE / jnp.maximum(inside, 1e-12))
  i_ca = 0.0 if current is None else rows.take(current)
  return Ion(net.celsius, inside, e_ca, i_ca)
