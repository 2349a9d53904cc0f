"""One implicit step of the cable equation, with everything attached to it."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.experimental import checkify

from jaxlab.dendrites import spikes as spiking
from jaxlab.dendrites.channels.types import Ion
from jaxlab.dendrites.groups import Group
from jaxlab.dendrites.network import Network
from jaxlab.dendrites.state import Params, State, ion_at, ions, span_params
from kernels_pallas.tree_solver import tree_solve

# uF/cm2 times um2 in nF; S/cm2 times um2 in uS; ohm cm times 1/um in MOhm.
_TO_NF = 1e-5
_TO_US = 1e-2
_MAX_GAP_SWEEPS = 3
# mV between the last two sweeps.
_GAP_TOLERANCE = 1e-3


class Options(NamedTuple):
  """How a step is taken; static.

  Attributes:
    secondorder: 0 implicit Euler, 2 Crank-Nicolson.
    gap: 'explicit' or 'implicit' current through gap junctions.
    surrogate: gradient of a spike.
    beta: its sharpness, 1/mV.
    implementation: of the tree solver.
    check: whether implicit gap currents must have converged (`checkify`).
  """

  secondorder: int = 0
  gap: str = 'explicit'
  surrogate: str = 'superspike'
  beta: float = 1.0
  implementation: str | None = None
  check: bool = False


class Prepared(NamedTuple):
  """What steps share; computed once for a run.

  Attributes:
    channels: {channel: {parameter: values on the channel's span}}.
    scales: {channel: `[span, 1]` factor from S/cm2 to uS; 0 where it is not}.
    capacity: `[n, 1]` capacitance over the implicit step, uS.
    couplings: for each group `[n_g, 1]` conductance to the parent, uS.
    leaving: `[n, 1]` sum of a row's axial and gap conductances, uS.
    synapses: {name: weights as `Links` takes them}.
    gaps: weights of the junctions, or None.
    thresholds: `[N, 1]` mV.
  """

  channels: dict[str, Params]
  scales: dict[str, jax.Array]
  capacity: jax.Array
  couplings: tuple[jax.Array, ...]
  leaving: jax.Array
  synapses: dict[str, jax.Array]
  gaps: jax.Array | None
  thresholds: jax.Array


class Inputs(NamedTuple):
  """What reaches a network in one step.

  Attributes:
    current: `[n, B]` or `[n, 1]` nA at the step's midpoint; None for none.
    arrivals: `[S, B]` or `[S, 1]` events for the synapses that `synapse`
      placed; None for none.
  """

  current: jax.Array | None = None
  arrivals: jax.Array | None = None


class Output(NamedTuple):
  """What a step lets out besides the state.

  Attributes:
    spikes: `[N, B]` 1 where a cell's voltage rose through its threshold.
  """

  spikes: jax.Array


def axial(group: Group, geometry: Params) -> tuple[jax.Array, jax.Array]:
  """Areas and couplings of a group's nodes.

  A segment whose radius is scaled by r has r times the area and 1 / r^2 times
  the axial resistance.

  Args:
    group: the cells.
    geometry: {'radius', 'Ra': `[n, 1]` factors}.

  Returns:
    `[n, 1]` areas in um2, and `[n, 1]` conductances to the parents in uS; 0 at
    roots.
  """
  tree = group.tree
  radius, dtype = geometry['radius'], geometry['radius'].dtype
  above = np.maximum(tree.parent, 0)
  halves = jnp.asarray(tree.halves, dtype)
  own = halves[:, :1] * geometry['Ra'] / jnp.square(radius)
  other = halves[:, 1:] * geometry['Ra'][above] / jnp.square(radius[above])
  child = jnp.asarray(tree.parent >= 0)[:, None]
  coupling = jnp.where(child, 1 / jnp.where(child, own + other, 1), 0)
  return jnp.asarray(tree.area, dtype)[:, None] * radius, coupling


def prepare(
  net: Network, params: Params, dt: jax.Array, options: Options
) -> Prepared:
  """Computes what the steps of a run share."""
  areas: list[jax.Array] = []
  capacities: list[jax.Array] = []
  couplings: list[jax.Array] = []
  leaving: list[jax.Array] = []
  step = dt / 2 if options.secondorder == 2 else dt
  for i, group in enumerate(net.groups):
    geometry = params['geometry'][str(i)]
    area, coupling = axial(group, geometry)
    above = np.maximum(group.tree.parent, 0)
    total = coupling + jnp.zeros_like(coupling).at[above].add(coupling)
    couplings.append(coupling)
    for values, out in (
      (area, areas),
      (_TO_NF * geometry['cm'] * area / step, capacities),
      (total, leaving),
    ):
      out.append(jnp.repeat(values, group.count, axis=0))
  leave = jnp.concatenate(leaving)
  gaps = None
  if net.junctions is not None:
    links = net.junctions.links
    gaps = links.prepare(jnp.tile(params['gaps'], 2))
    ones = jnp.ones((links.n_sources, 1), gaps.dtype)
    leave = net.junctions.rows.add(leave, links.apply(gaps, ones))
  thresholds = np.zeros((len(net.cells), 1))
  for synapse in net.synapses.values():
    thresholds[synapse.sender, 0] = synapse.threshold
  area = jnp.concatenate(areas)
  return Prepared(
    channels=span_params(net, params),
    scales={
      name: _TO_US * mechanism.span.take(jnp.asarray(mechanism.mask) * area)
      for name, mechanism in net.mechanisms.items()
    },
    capacity=jnp.concatenate(capacities),
    couplings=tuple(couplings),
    leaving=leave,
    synapses={
      name: group.links.prepare(_weights(group.kind, params['synapses'][name]))
      for name, group in net.synapses.items()
    },
    gaps=gaps,
    thresholds=jnp.asarray(thresholds, leave.dtype),
  )


def advance(
  net: Network,
  params: Params,
  prepared: Prepared,
  state: State,
  arrivals: jax.Array | None,
  inject: Callable[[jax.Array], jax.Array] | None,
  dt: jax.Array,
  options: Options,
) -> tuple[State, Output]:
  """Takes one step of dt ms.

  Args:
    net: the network.
    params: of `init_params`.
    prepared: of `prepare`.
    state: before the step.
    arrivals: as in `Inputs`.
    inject: adds currents at the step's midpoint to the `[n, B]` right side, nA.
    dt: ms.
    options: how.

  Returns:
    The state after the step, and which cells fired.
  """
  synapses = _deliver(net, params, prepared, state, arrivals, dt)
  assemble = jax.checkpoint(
    functools.partial(_assemble, net), prevent_cse=False
  )
  diag, rhs, calcium_current = assemble(
    params, prepared, state.v, state.channels, synapses
  )
  rhs = rhs if inject is None else inject(rhs)
  v = _voltage(net, prepared, diag, rhs, state.v, options)
  if options.secondorder == 2:
    v = _extrapolate(net, prepared, v, state.v)
  channels = _update_channels(net, prepared, state, v, calcium_current, dt)
  synapses = _update_synapses(net, params, synapses, v, dt)
  rows = net.source_rows
  fired = spiking.crossings(
    state.v[rows],
    v[rows],
    prepared.thresholds,
    surrogate=options.surrogate,
    beta=options.beta,
  )
  count = state.step + 1
  buffer = state.spikes
  if buffer.shape[0]:
    buffer = spiking.push(buffer, fired, count)
  return State(v, channels, synapses, buffer, count), Output(fired)


def _weights(kind, p):
  return p['weight'] * kind.scale(p) if kind.graded else p['weight']


def _deliver(net, params, prepared, state, arrivals, dt):
  """Adds the events that arrive at the begin of the step."""
  out = dict(state.synapses)
  for name, group in net.synapses.items():
    if group.kind.graded:
      continue
    p, old = params['synapses'][name], state.synapses[name]
    batch = state.v.shape[1]
    parts = []
    if len(group.sender):
      delay = jnp.round(jnp.asarray(group.delay) / dt).astype(jnp.int32)
      parts.append(spiking.due(state.spikes, group.sender, delay, state.step))
    if len(group.external):
      number = len(group.external)
      shape = (number, batch)
      given = jnp.zeros(shape, state.v.dtype)
      if arrivals is not None:
        given = jnp.broadcast_to(arrivals[group.external], shape)
      parts.append(given.astype(state.v.dtype))
    arrived = jnp.concatenate(parts)

    def deliver(old, arrived, group=group, name=name, p=p):
      amount = group.links.apply(prepared.synapses[name], arrived)
      return group.kind.receive(old, amount, p)

    # Most steps bring nothing; under vmap this becomes a select.
    out[name] = jax.lax.cond(
      jnp.any(arrived != 0), deliver, lambda old, _: old, old, arrived
    )
  return out


def _assemble(net, params, prepared, v, channels, synapses):
  """Diagonal and right side of the step, without stimuli."""
  diag = jnp.broadcast_to(prepared.capacity + prepared.leaving, v.shape)
  rhs = prepared.capacity * v
  calcium = ions(net, channels, v.dtype, v.shape[1])
  calcium_current = None if calcium is None else jnp.zeros_like(v)
  for name, mechanism in net.mechanisms.items():
    channel, rows = mechanism.channel, mechanism.span
    if channel.pool is not None:
      continue
    here, scale = rows.take(v), prepared.scales[name]
    g, ge = channel.current(
      channels[name],
      here,
      prepared.channels[name],
      ion_at(net, calcium, rows),
    )
    diag = rows.add(diag, scale * g)
    rhs = rows.add(rhs, scale * ge)
    if calcium is not None and channel.ion_current == 'ca':
      on = rows.take(jnp.asarray(mechanism.mask, v.dtype))
      calcium_current = rows.add(calcium_current, on * (g * here - ge))
  for name, group in net.synapses.items():
    g, ge = _synaptic(group, params['synapses'][name], prepared.synapses[name])(
      synapses[name], group.rows.take(v)
    )
    diag, rhs = group.rows.add(diag, g), group.rows.add(rhs, ge)
  if prepared.gaps is not None:
    junctions = net.junctions
    partners = junctions.links.apply(prepared.gaps, junctions.rows.take(v))
    rhs = junctions.rows.add(rhs, partners)
  return diag, rhs, calcium_current


def _synaptic(group, p, weights):
  def conductance(state, v):
    g, ge = group.kind.conductance(state, v, p)
    if group.kind.graded:
      g = group.links.apply(weights, g)
      ge = g * group.kind.reversal(p)
    return g, ge

  return conductance


def _voltage(net, prepared, diag, rhs, old, options):
  """Solves for the voltage at the end of the implicit step."""
  solve = functools.partial(_solve, net, prepared, diag, options)
  v = solve(rhs)
  if prepared.gaps is None or options.gap == 'explicit':
    return v
  rows, links = net.junctions.rows, net.junctions.links
  before = links.apply(prepared.gaps, rows.take(old))
  for _ in range(_MAX_GAP_SWEEPS):
    last = v
    change = links.apply(prepared.gaps, rows.take(v)) - before
    v = solve(rows.add(rhs, change))
  if options.check:
    checkify.check(
      jnp.max(jnp.abs(v - last)) < _GAP_TOLERANCE,
      'implicit gap junctions did not converge: voltages still moved by {move} '
      'mV; shorten dt or weaken the junctions.',
      move=jnp.max(jnp.abs(v - last)),
    )
  return v


def _solve(net, prepared, diag, options, rhs):
  parts = []
  for group, coupling in zip(net.groups, prepared.couplings, strict=True):
    shape = (group.tree.n, -1)
    x = tree_solve(
      diag[group.offset : group.stop].reshape(shape),
      -coupling,
      None,
      rhs[group.offset : group.stop].reshape(shape),
      group.schedule,
      implementation=options.implementation,
    )
    parts.append(x.reshape(group.stop - group.offset, rhs.shape[1]))
  return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _extrapolate(net, prepared, middle, old):
  """From the voltage in the middle of a step to its end.

  Points without capacitance take the mean of their neighbours, weighted by the
  conductances to them.
  """
  v = 2 * middle - old
  parts = []
  for group, coupling in zip(net.groups, prepared.couplings, strict=True):
    here = v[group.offset : group.stop]
    bare = np.flatnonzero(~group.tree.is_segment)
    if len(bare):
      shape = (group.tree.n, group.count, -1)
      cells, g = here.reshape(shape), coupling[:, :, None]
      above = np.maximum(group.tree.parent, 0)
      flow = g * cells[above]
      total = jnp.broadcast_to(g, (len(g), 1, 1))
      flow = flow.at[above].add(g * cells)
      total = total.at[above].add(g)
      cells = cells.at[bare].set(flow[bare] / total[bare])
      here = cells.reshape(here.shape)
    parts.append(here)
  return parts[0] if len(parts) == 1 else jnp.concatenate(parts)


def _update_channels(net, prepared, state, v, calcium_current, dt):
  calcium = ions(net, state.channels, v.dtype, v.shape[1])
  out = {}
  for name, mechanism in net.mechanisms.items():
    channel, old = mechanism.channel, state.channels[name]
    if not channel.states:
      out[name] = old
      continue
    rows = mechanism.span
    p = {k: prepared.channels[name][k] for k in mechanism.kinetic}
    ion = ion_at(net, calcium, rows, calcium_current)
    here = rows.take(v)
    if channel.separable:
      # The temperature stays a Python number: XLA folds what depends on it.
      rest = (dt, p, ion[1:])
      out[name] = _separable(channel, net.celsius, old, here, rest)
    else:
      out[name] = channel.update(old, here, dt, p, ion)
  return out


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _separable(channel, celsius, state, v, rest):
  """Update of states that do not read each other.

  Its derivatives to the states and the voltage are one number each, computed on
  the way: the way back holds no exponential.
  """
  return _updated(channel, celsius, state, v, rest)


def _updated(channel, celsius, state, v, rest):
  dt, p, ion = rest
  return channel.update(state, v, dt, p, Ion(celsius, *ion))


def _separable_jvp(channel, celsius, primals, tangents):
  state, v, rest = primals
  d_state, d_v, d_rest = tangents
  update = functools.partial(_updated, channel, celsius)
  if not all(_is_zero(t) for t in jax.tree.leaves(d_rest, is_leaf=_is_zero)):
    known = jax.tree.map(_instantiate, tangents, is_leaf=_is_zero)
    return jax.jvp(update, primals, tuple(known))
  ones = jax.tree.map(jnp.ones_like, state)
  new, to_v = jax.jvp(
    lambda v: update(state, v, rest), (v,), (jnp.ones_like(v),)
  )
  _, to_state = jax.jvp(lambda s: update(s, v, rest), (state,), (ones,))
  return new, {
    key: _times(to_state[key], d_state[key]) + _times(to_v[key], d_v)
    for key in new
  }


_separable.defjvp(_separable_jvp, symbolic_zeros=True)


def _is_zero(tangent: Any) -> bool:
  return isinstance(tangent, SymbolicZero)


def _instantiate(tangent):
  if _is_zero(tangent):
    return jnp.zeros(tangent.shape, tangent.dtype)
  return tangent


def _times(slope, tangent):
  if _is_zero(tangent):
    return jnp.zeros_like(slope)
  return slope * tangent


def _update_synapses(net, params, synapses, v, dt):
  out = {}
  for name, group in net.synapses.items():
    if group.kind.graded:
      here = v[net.source_rows[group.sender]]
    else:
      here = group.rows.take(v)
    p = params['synapses'][name]
    out[name] = group.kind.update(synapses[name], here, dt, p)
  return out
