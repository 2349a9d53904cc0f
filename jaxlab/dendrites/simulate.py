"""Runs of a network: what a caller says, checked."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.dendrites import stimuli as driving
from jaxlab.dendrites.loop import Plan, Recording, run
from jaxlab.dendrites.network import Address, Network
from jaxlab.dendrites.remat import Remat, chosen
from jaxlab.dendrites.spikes import SURROGATES
from jaxlab.dendrites.state import Params, State, buffer_depth, check_dt
from jaxlab.dendrites.step import Inputs, Options, Output, advance, prepare
from jaxlab.errors import UserError

Stimulus = driving.CurrentClamp | driving.Injection | driving.Events


# Columns whose states stay in a core's cache.
_CACHE_COLUMNS = 64
_NO_INPUTS = Inputs()
_DEFAULTS = Options()


class Probe(NamedTuple):
  """A state variable to record.

  Attributes:
    channel: name of the channel, 'HH'.
    state: name of its state, 'm'.
    node: node of the only cell, or (cell, node).
  """

  channel: str
  state: str
  node: Address


def step(
  net: Network,
  params: Params,
  state: State,
  inputs: Inputs = _NO_INPUTS,
  dt: ArrayLike = 0.025,
  *,
  options: Options = _DEFAULTS,
) -> tuple[State, Output]:
  """Takes one step.

  Args:
    net: the network.
    params: of `init_params`.
    state: of `init_state`, or of a step before.
    inputs: currents and events of this step.
    dt: ms; may be traced.
    options: how the step is taken.

  Returns:
    The state after the step, and the cells that fired.
  """
  dt = jnp.asarray(check_dt(dt), state.v.dtype)
  prepared = prepare(net, params, dt, options)
  current = inputs.current
  return advance(
    net,
    params,
    prepared,
    state,
    inputs.arrivals,
    None if current is None else lambda rhs: rhs + current,
    dt,
    options,
  )


def simulate(
  net: Network,
  params: Params,
  state: State,
  stimuli: Sequence[Stimulus] = (),
  t_max: float = 100.0,
  dt: ArrayLike = 0.025,
  *,
  record: Sequence[Address | Probe] | None = None,
  every: int = 1,
  steps: int | None = None,
  secondorder: int = 0,
  remat: Remat = 'auto',
  window: int | None = None,
  gap: str = 'explicit',
  surrogate: str = 'superspike',
  beta: float = 1.0,
  record_spikes: bool = False,
  check: str | None = None,
  solver: str | None = None,
  tile: int | None = None,
) -> tuple[Recording, State]:
  """Simulates a network.

  Differentiable once, in both modes, to every number in `params`, `state` and
  the stimuli. Long runs store the state at about sqrt(T) of the T steps and
  compute the others again on the way back (`remat`). Runs side by side are
  columns of the state (`init_state(batch=B)`); `vmap` works too, at more cost.

  Args:
    net: the network.
    params: of `init_params`, or of `make_trainable`.
    state: of `init_state`, or of a run before.
    stimuli: of `current_clamp`, `Injection` and `Events`. Times, also those of
      `synapse(due=...)`, count from when `init_state` made the state; arrays
      over steps hold the steps of this call.
    t_max: duration in ms; the number of steps is round(t_max / dt).
    dt: step in ms; may be traced if `steps` is given.
    record: nodes whose voltage is recorded, and probes; the first node of each
      cell if None.
    every: steps between samples.
    steps: T, instead of `t_max`.
    secondorder: 0 implicit Euler, 2 Crank-Nicolson (as in NEURON).
    remat: 'none' keeps what the way back needs of every step; 'sqrt' stores
      the state now and then, about sqrt(T) times, and computes the steps
      between again; a number is that of the steps between stored states;
      'binomial:K' stores about K states, at the price of further repetitions;
      'auto' is 'none' while that fits a core's cache, else 'sqrt'.
    window: steps after which gradients are cut (truncated backpropagation);
      None for never.
    gap: 'explicit' takes the partner's voltage before the step, as NEURON's
      fixed step does; 'implicit' repeats the solve with the new one.
    surrogate: gradient of a spike: 'superspike', 'sigmoid', 'triangle', 'none'.
    beta: its sharpness, 1/mV.
    record_spikes: whether to record in which steps each cell fired.
    check: 'nan' adds a `checkify` check that voltages stay finite, which names
      cell, node and time: `error, out = checkify.checkify(run)(params)` and
      `error.throw()`, where `run` calls `simulate`.
    solver: implementation of the tree solve; None for the fastest here.
    tile: runs that are simulated together, a divisor of B, one tile after the
      other; 0 for all at once, None for what is fastest here.

  Returns:
    The recording, and the state at the end.

  Raises:
    ValueError: dt or t_max that are not positive, an unknown option, recorded
      nodes or stimuli that do not exist, events outside the run, or arrays of
      another batch or number of steps than the run's.
  """
  steps = _steps(t_max, dt, steps)
  stimuli = _stimuli(stimuli)
  options = Options(
    secondorder, gap, surrogate, float(beta), solver, check == 'nan'
  )
  _check(net, state, dt, every, options, check, remat, window)
  _check_events(net, state, steps, dt)
  _warn_of_gaps(net, params, dt, gap)
  rows, probes = _targets(net, record)
  clamps = [s for s in stimuli if isinstance(s, driving.CurrentClamp)]
  injections = [s for s in stimuli if isinstance(s, driving.Injection)]
  events = [s.arrivals for s in stimuli if isinstance(s, driving.Events)]
  plan = Plan(
    rows=rows,
    probes=probes,
    steps=steps,
    every=int(every),
    remat=chosen(remat, (state.v, state.channels, state.synapses), steps),
    window=window,
    spikes=record_spikes,
    options=options,
    injected=(
      tuple(net.row(c.node) for c in clamps),
      *(tuple(net.rows(s.nodes).tolist()) for s in injections),
    ),
    tile=_tile(tile, state.v.shape[1], check),
  )
  _check_shapes(net, state, plan, clamps, injections, events)
  given = (
    [c._replace(node=0) for c in clamps],
    [s.current for s in injections],
    events,
  )
  return run(net, plan, params, state, given, dt)


def _steps(t_max, dt, steps) -> int:
  check_dt(dt)
  given = steps is not None
  if steps is None:
    if isinstance(dt, jax.core.Tracer):
      raise UserError('simulate: dt is traced; give steps= instead of t_max.')
    steps = round(float(t_max) / float(dt))
  if steps < 1:
    said = f'steps = {steps}' if given else f't_max = {t_max} ms, dt = {dt} ms'
    raise UserError(f'simulate: {said} makes no step; lengthen the run.')
  return int(steps)


def _stimuli(stimuli) -> list[Stimulus]:
  """The stimuli, of which one alone may come without a list."""
  kinds = (driving.CurrentClamp, driving.Injection, driving.Events)
  given = [stimuli] if isinstance(stimuli, kinds) else list(stimuli)
  for each in given:
    if not isinstance(each, kinds):
      raise UserError(
        f'simulate: {each!r} is no stimulus; give current_clamp(...), '
        'Injection(...) or Events(...).'
      )
  return given


def _tile(tile, batch: int, check) -> int:
  """Columns of a tile; 0 where all go together."""
  if tile is None:
    many = batch > _CACHE_COLUMNS and batch % _CACHE_COLUMNS == 0
    on_cpu = jax.default_backend() == 'cpu'
    tile = _CACHE_COLUMNS if many and on_cpu and check is None else 0
  if tile and (tile < 0 or batch % tile):
    raise UserError(
      f'simulate: tile = {tile} does not divide the {batch} runs side by side.'
    )
  return 0 if tile == batch else int(tile)


def _check(net, state, dt, every, options, check, remat, window):
  choices = (
    ('secondorder', options.secondorder, (0, 2)),
    ('gap', options.gap, ('explicit', 'implicit')),
    ('surrogate', options.surrogate, SURROGATES),
    ('check', check, (None, 'nan')),
  )
  for name, value, known in choices:
    if value not in known:
      raise UserError(
        f'simulate: {name} = {value!r} is not known; take one of '
        f'{", ".join(map(repr, known))}.'
      )
  if window is not None and (not isinstance(window, int) or window < 1):
    raise UserError(
      f'simulate: window = {window} must be a number of steps, or None.'
    )
  if not isinstance(every, int) or every < 1:
    raise UserError(f'simulate: every = {every} must be 1 or more steps.')
  good = remat in ('auto', 'sqrt', 'none') or (
    isinstance(remat, int) and remat > 0
  )
  if isinstance(remat, str) and remat.startswith('binomial:'):
    good = remat.partition(':')[2].isdigit() and remat != 'binomial:0'
  if not good:
    raise UserError(
      f"simulate: remat = {remat!r} is not known; take 'auto', 'sqrt', "
      "'none', a number of steps or 'binomial:<number of stored states>'."
    )
  if net.spiking and not isinstance(dt, jax.core.Tracer):
    depth = buffer_depth(net, float(dt))
    if state.spikes.shape[0] != depth:
      raise UserError(
        f'simulate: the state keeps {state.spikes.shape[0]} steps of spikes, '
        f'dt = {float(dt):g} ms needs {depth}; give init_state the same dt.'
      )


def _check_events(net, state, steps, dt):
  known = not any(isinstance(x, jax.core.Tracer) for x in (dt, state.step))
  if known and net.due:
    driving.check_due(net.due, int(state.step) + steps, float(dt))


def _warn_of_gaps(net, params, dt, gap):
  """Warns where an explicit gap current moves a node too far in a step."""
  known = not any(
    isinstance(x, jax.core.Tracer) for x in [*jax.tree.leaves(params), dt]
  )
  if net.junctions is None or gap != 'explicit' or not known:
    return
  prepared = prepare(net, params, dt, Options())
  links, rows = net.junctions.links, net.junctions.rows
  total = links.apply(prepared.gaps, jnp.ones((links.n_sources, 1)))
  share = float(jnp.max(total / rows.take(prepared.capacity)))
  if share > 0.5:
    warnings.warn(
      f'gap junctions: g dt / C is {share:.2g}, above 0.5; shorten dt or take '
      "gap='implicit'.",
      stacklevel=3,
    )


def _check_shapes(net, state, plan, clamps, injections, events):
  batch = state.v.shape[-1]
  for clamp in clamps:
    shape = jnp.shape(clamp.amplitude)
    if shape not in ((), (1,), (batch,)):
      raise UserError(
        f'current_clamp: amp has the shape {shape}; give a number or '
        f'{(batch,)}, one for each of the runs side by side.'
      )
  if state.v.shape[0] != net.n:
    raise UserError(
      f'simulate: the state has {state.v.shape[0]} rows, the network {net.n}; '
      'make it with init_state of this network.'
    )
  for rows, injection in zip(plan.injected[1:], injections, strict=True):
    shape = jnp.shape(injection.current)
    ends = {(len(rows), batch), (len(rows), 1)}
    timed = len(shape) == 3 and shape[0] == plan.steps
    if shape not in ends and not (timed and shape[1:] in ends):
      raise UserError(
        f'Injection: current has the shape {shape}; for {len(rows)} nodes, '
        f'{batch} runs and {plan.steps} steps give {(len(rows), batch)} or '
        f'{(plan.steps, len(rows), batch)}.'
      )
  for arrivals in events:
    want = (plan.steps, len(net.due))
    good = jnp.shape(arrivals) in [(*want, 1), (*want, batch)]
    if not net.due or not good:
      raise UserError(
        f'Events: arrivals have the shape {jnp.shape(arrivals)}; give '
        f'{(*want, batch)}: steps, synapses placed by `synapse`, runs.'
      )


def _targets(net, record):
  if record is None:
    record = [(i, cell.source) for i, cell in enumerate(net.cells)]
  rows, probes = [], []
  for target in record:
    if not isinstance(target, Probe):
      rows.append(net.row(target))
      continue
    mechanism = net.mechanisms.get(target.channel)
    if mechanism is None or target.state not in mechanism.channel.states:
      known = [
        f'{name}.{state}'
        for name, each in net.mechanisms.items()
        for state in each.channel.states
      ]
      raise UserError(
        f'record: {target.channel}.{target.state} is not known; known: '
        f'{", ".join(known)}.'
      )
    row = net.row(target.node)
    if row not in mechanism.rows.indices:
      raise UserError(
        f'record: there is no {target.channel} at node {target.node}.'
      )
    place = mechanism.span.indices.index(row)
    probes.append((target.channel, target.state, place))
  return tuple(rows), tuple(probes)
