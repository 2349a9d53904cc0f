"""The loop over the steps of a run: inputs, recordings, tiles."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify

from jaxlab.dendrites import stimuli as driving
from jaxlab.dendrites.network import Network
from jaxlab.dendrites.remat import Remat, checkpointing_scan, windowed
from jaxlab.dendrites.step import Options, advance, prepare
from jaxlab.errors import UserError


class Recording(NamedTuple):
  """What a run recorded, at S samples; the first is the start.

  Attributes:
    t: `[S]` ms.
    v: `[S, R, B]` voltage of the nodes in `record`, mV.
    probes: `[S, Q, B]` of the probes in `record`.
    spikes: `[T, N, B]` 1 in each step in which a cell fired; None unless asked.
  """

  t: jax.Array
  v: jax.Array
  probes: jax.Array
  spikes: jax.Array | None

  def spike_free_fraction(self) -> jax.Array:
    """Share of steps in which no cell fired; needs `record_spikes`."""
    if self.spikes is None:
      raise UserError('no spikes were recorded; simulate with record_spikes.')
    return jnp.mean(~jnp.any(self.spikes > 0, axis=(1, 2)))


class Plan(NamedTuple):
  """What of a run is static."""

  rows: tuple[int, ...]
  probes: tuple[tuple[str, str, int], ...]
  steps: int
  every: int
  remat: Remat
  window: int | None
  spikes: bool
  options: Options
  injected: tuple[tuple[int, ...], ...]
  tile: int


@functools.partial(jax.jit, static_argnums=(0, 1))
def run(net: Network, plan: Plan, params, state, given, dt):
  """Runs a plan; `given` holds clamps, injected currents and events."""
  dt = jnp.asarray(dt, state.v.dtype)
  prepared = prepare(net, params, dt, plan.options)
  batch = state.v.shape[1]

  def part(leaves):
    own, shared = iter(leaves), iter(common)
    rebuilt = [next(own if mapped else shared) for mapped in is_mapped]
    state, given = jax.tree.unflatten(structure, rebuilt)
    return _loop(net, plan, params, prepared, state, given, dt)

  if not plan.tile:
    return _loop(net, plan, params, prepared, state, given, dt)
  leaves, structure = jax.tree.flatten((state, given))
  leaves = [jnp.asarray(x) for x in leaves]
  is_mapped = [x.shape[-1:] == (batch,) for x in leaves]
  common = [x for x, m in zip(leaves, is_mapped, strict=True) if not m]
  columns = [x for x, m in zip(leaves, is_mapped, strict=True) if m]
  # Tiles whose state stays in the cache, one after the other.
  tiles = [
    jnp.moveaxis(x.reshape(*x.shape[:-1], batch // plan.tile, plan.tile), -2, 0)
    for x in columns
  ]
  recording, end = jax.lax.map(part, tiles)

  def join(x):
    return jnp.moveaxis(x, 0, -2).reshape(*x.shape[1:-1], batch)

  joined = jax.tree.map(join, recording._replace(t=None))
  recording = joined._replace(t=recording.t[0])
  step = end.step[0]
  end = jax.tree.map(join, end._replace(step=None))
  return recording, end._replace(step=step)


def _loop(net, plan, params, prepared, state, given, dt):
  """The steps of a run, for columns that go together."""
  dtype = state.v.dtype
  start = state.step
  constant, series = _inputs(net, plan, given, start, dt, dtype)

  def observe(state):
    v = state.v[np.array(plan.rows, np.int32)]
    probes = [state.channels[c][s][i] for c, s, i in plan.probes]
    return v, jnp.stack(probes) if probes else jnp.zeros((0, v.shape[1]), dtype)

  def body(state, x):
    k, now = x
    inject, arrivals = _inputs_of(plan, constant, now, start + k, dt)
    state, out = advance(
      net, params, prepared, state, arrivals, inject, dt, plan.options
    )
    if plan.options.check:
      _check_finite(net, state.v, (start + k + 1) * dt)
    return state, (*observe(state), out.spikes if plan.spikes else None)

  first = observe(state)
  xs = (jnp.arange(plan.steps), series)
  scan = checkpointing_scan(plan.remat, plan.steps)
  if plan.window is not None:
    scan = windowed(scan, plan.window)
  state, (v, probes, fired) = scan(body, state, xs, plan.steps)
  keep = slice(plan.every - 1, None, plan.every)
  samples = jnp.arange(plan.steps // plan.every + 1) * plan.every
  return Recording(
    t=(start + samples).astype(dtype) * dt,
    v=jnp.concatenate([first[0][None], v[keep]]),
    probes=jnp.concatenate([first[1][None], probes[keep]]),
    spikes=fired,
  ), state


def _inputs(net, plan, given, start, dt, dtype):
  """Constant inputs, and those that differ from step to step."""
  clamps, injections, events = given
  arrivals = None
  if net.due:
    arrivals = driving.arrivals(net.due, plan.steps, dt, start).astype(dtype)
    for more in events:
      arrivals = arrivals + more.astype(dtype)
  fixed = [c.astype(dtype) if c.ndim == 2 else None for c in injections]
  moving = [c.astype(dtype) if c.ndim == 3 else None for c in injections]
  return (clamps, fixed), (moving, arrivals)


def _inputs_of(plan, constant, now, k, dt):
  """What adds the currents of step k of all, and the events of that step."""
  (clamps, fixed), (moving, arrivals) = constant, now
  middle = (k + 0.5) * dt

  def inject(rhs):
    for row, clamp in zip(plan.injected[0], clamps, strict=True):
      current = driving.clamp_current(clamp, middle)
      rhs = rhs.at[row].add(current.astype(rhs.dtype))
    for rows, a, b in zip(plan.injected[1:], fixed, moving, strict=True):
      current = (b if a is None else a).astype(rhs.dtype)
      full = jnp.broadcast_to(current, (len(rows), rhs.shape[1]))
      index = rows[0] if len(rows) == 1 else np.array(rows)
      rhs = rhs.at[index].add(full[0] if len(rows) == 1 else full)
    return rhs

  return inject, arrivals


def _check_finite(net, v, time):
  bad = ~jnp.all(jnp.isfinite(v), axis=1)
  row = jnp.argmax(bad)
  table = np.zeros((net.n, 2), np.int32)
  for index, cell in enumerate(net.cells):
    table[net.cell_rows(index)] = np.stack(
      [np.full(cell.n, index), np.arange(cell.n)], axis=1
    )
  where = jnp.asarray(table)[row]
  checkify.check(
    ~jnp.any(bad),
    'voltage is not finite in cell {cell}, node {node} at {time} ms; shorten '
    'dt or check the parameters there.',
    cell=where[0],
    node=where[1],
    time=time,
  )
