"""The same steps with dense matrices and no derivative written by hand.

Slow, and obviously right: what `simulate` is checked against. One cell, or
several different ones without spikes between them; implicit Euler.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.dendrites import stimuli
from jaxlab.dendrites.channels.types import Ion
from jaxlab.dendrites.network import Network
from jaxlab.dendrites.state import Params, init_state, span_params
from jaxlab.dendrites.step import axial

_TO_NF, _TO_US = 1e-5, 1e-2


def simulate(
  net: Network,
  params: Params,
  v0: float,
  clamps: Sequence[tuple[int, float, float, jax.Array]],
  steps: int,
  dt: float,
) -> jax.Array:
  """Simulates a network of one group, without calcium pools or gap junctions.

  Args:
    net: the network.
    params: of `init_params`.
    v0: voltage at the start, mV.
    clamps: (row, delay ms, duration ms, nA) of current steps.
    steps: T.
    dt: ms.

  Returns:
    `[T, n]` voltages after each step, mV.
  """
  area, matrix = _matrix(net, params)
  geometry = params['geometry']['0']
  capacity = _TO_NF * geometry['cm'][:, 0] * area / dt
  state = init_state(net, params, v0)
  channels = {
    name: {key: value[:, 0] for key, value in states.items()}
    for name, states in state.channels.items()
  }
  synapses = {
    name: {key: value[:, 0] for key, value in states.items()}
    for name, states in state.synapses.items()
  }
  arrivals = stimuli.arrivals(net.due, steps, dt)[..., 0]
  ion = Ion(celsius=net.celsius)
  parameters = {
    name: {key: x[:, 0] for key, x in p.items()}
    for name, p in span_params(net, params).items()
  }

  def step(carry, k):
    v, channels, synapses = carry
    diag, rhs = capacity, capacity * v
    for row, delay, duration, amplitude in clamps:
      clamp = stimuli.CurrentClamp(row, delay, duration, amplitude)
      rhs = rhs.at[row].add(stimuli.clamp_current(clamp, (k + 0.5) * dt)[0])
    moved = {}
    for name, group in net.synapses.items():
      p, rows = params['synapses'][name], np.array(group.rows.indices)
      weights = jnp.zeros((len(rows), group.links.n_sources), v.dtype)
      places = np.array(group.links.target), np.array(group.links.source)
      amount = weights.at[places].add(p['weight']) @ arrivals[k][group.external]
      moved[name] = group.kind.receive(synapses[name], amount, p)
      g, ge = group.kind.conductance(moved[name], v[rows], p)
      diag, rhs = diag.at[rows].add(g), rhs.at[rows].add(ge)
    for name, mechanism in net.mechanisms.items():
      rows = np.array(mechanism.span.indices)
      g, ge = mechanism.channel.current(
        channels[name], v[rows], parameters[name], ion
      )
      scale = _TO_US * (mechanism.mask[:, 0] * area)[rows]
      diag = diag.at[rows].add(scale * g)
      rhs = rhs.at[rows].add(scale * ge)
    v = jnp.linalg.solve(matrix + jnp.diag(diag), rhs)
    channels = {
      name: mechanism.channel.update(
        channels[name],
        v[np.array(mechanism.span.indices)],
        dt,
        parameters[name],
        ion,
      )
      for name, mechanism in net.mechanisms.items()
    }
    synapses = {
      name: group.kind.update(
        moved[name],
        v[np.array(group.rows.indices)],
        dt,
        params['synapses'][name],
      )
      for name, group in net.synapses.items()
    }
    return (v, channels, synapses), v

  start = (state.v[:, 0], channels, synapses)
  return jax.lax.scan(step, start, jnp.arange(steps))[1]


def _matrix(net, params):
  """`[n]` areas and the `[n, n]` matrix of the axial currents, uS."""
  (group,) = net.groups
  area, coupling = axial(group, params['geometry']['0'])
  parent = np.asarray(group.tree.parent)
  child = np.flatnonzero(parent >= 0)
  above, g = parent[child], coupling[child, 0]
  matrix = jnp.zeros((group.tree.n, group.tree.n), area.dtype)
  matrix = matrix.at[child, child].add(g).at[above, above].add(g)
  matrix = matrix.at[child, above].add(-g).at[above, child].add(-g)
  return area[:, 0], matrix
