"""Does a circuit of the worm run stably, train, and fit in memory?"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlab import data, errors
from jaxlab.dendrites import celegans, memory
from jaxlab.dendrites import experiment_celegans_report as report
from jaxlab.dendrites.network import Network
from jaxlab.dendrites.simulate import simulate
from jaxlab.dendrites.state import Params, State, init_params, init_state
from jaxlab.dendrites.stimuli import current_clamp
from jaxlab.harness import learners, training
from jaxlab.harness.progress import Progress, note

LOSSES = {
  'traces': celegans.trace_loss,
  'correlations': celegans.correlation_loss,
}
_BUDGET = 1000.0  # ms of the whole worm that the budget is for
# Buffers are allotted before what these leave out.
_QUICKLY: dict[str, Any] = {
  'xla_backend_optimization_level': 0,
  'xla_llvm_disable_expensive_passes': True,
}
_POSITIVE = (
  *('t_max', 'window', 'dt', 'every', 'updates', 'learning_rate'),
  *('amplitude', 'onset', 'spacing', 'duration'),
)


class Study(NamedTuple):
  """A circuit and what its runs share.

  Attributes:
    worm: the whole animal.
    chosen: `[N]` neurons of the circuit among those of the worm.
    inhibits: `[302]` bool, of the whole worm.
    net: the circuit's network.
    params: of the network; its weights are replaced.
    start: state in which each run starts.
    driven: neurons of the circuit that get current.
    targets: neurons of the circuit whose voltage is the goal.
  """

  worm: Any
  chosen: np.ndarray
  inhibits: np.ndarray
  net: Network
  params: Params
  start: State
  driven: np.ndarray
  targets: np.ndarray


def run(config, workdir) -> None:
  """Simulates and trains the circuit, and counts the bytes of both."""
  _check(config)
  study = _study(config)
  for line in study.worm.report:
    note(line)
  window = jax.jit(functools.partial(_window, config, study))
  teachers = [
    celegans.draw_weights(key, celegans.weights_of(study.params))
    for key in jax.random.split(_key(config, 'teacher'), config.seeds)
  ]
  long = _long_run(config, workdir, study, window, teachers[0])
  trained = _train(config, workdir, study, window, teachers)
  rows, runs = _judge(config, study, window, trained)
  found = report.Found(
    neurons=_neurons(study, long['v']),
    targets=study.targets,
    long=long,
    trained=trained,
    members=_members(config),
    rows=rows,
    runs=runs,
    memory=_memory(config, workdir, study),
  )
  report.record(config, workdir, found)
  for claim in report.claims(config, found):
    workdir.add_claim(claim)


def _check(config) -> None:
  for field in _POSITIVE:
    value = config[field]
    if not (isinstance(value, int | float) and 0 < value < math.inf):
      raise errors.UserError(f'config.{field} must be positive, got {value}.')
  if not isinstance(config.seeds, int) or config.seeds < 2:
    raise errors.UserError(
      f'config.seeds must be 2 or more, got {config.seeds}.'
    )
  unknown = [goal for goal in config.goals if goal not in LOSSES]
  if unknown or not config.goals:
    raise errors.UserError(
      f'config.goals is {config.goals}; take some of {", ".join(LOSSES)}.'
    )
  windows = config.t_max / config.window
  if abs(windows - round(windows)) > 1e-9 or windows < 1:
    raise errors.UserError(
      f'config.t_max = {config.t_max} ms must be a multiple of config.window ='
      f' {config.window} ms.'
    )


def _key(config, name: str) -> jax.Array:
  names = ('signs', 'places', 'teacher', 'training')
  return jax.random.fold_in(jax.random.key(config.seed), names.index(name))


def _study(config) -> Study:
  worm = data.load('neurons')
  names = config.neurons or worm.names
  if config.inhibitory:
    inhibits = np.zeros(len(worm.names), bool)
    inhibits[celegans.indices(worm.names, config.inhibitory)] = True
  else:
    inhibits = celegans.draw_inhibitory(
      _key(config, 'signs'), len(worm.names), config.inhibitory_fraction
    )
  chosen = celegans.indices(worm.names, names)
  net = _network(config, worm, chosen, inhibits)
  params = init_params(net)
  rest = jax.jit(functools.partial(init_state, net, v0=config.v0))
  return Study(
    worm=worm,
    chosen=chosen,
    inhibits=inhibits,
    net=net,
    params=params,
    start=rest(params),
    driven=celegans.indices(names, config.driven),
    targets=celegans.indices(names, config.targets or names),
  )


def _network(config, worm, chosen, inhibits) -> Network:
  wiring = celegans.Wiring(worm.names, worm.pre, worm.post, worm.gap)
  cells = [
    celegans.neuron(
      worm.names[i],
      worm.swc[i],
      {name: float(column[i]) for name, column in worm.params.items()},
      worm.nseg[i],
      config.max_len or None,
    )
    for i in chosen
  ]
  return celegans.circuit(
    cells,
    celegans.select(wiring, [worm.names[i] for i in chosen]),
    inhibits[chosen],
    place=config.place,
    key=_key(config, 'places'),
  )


def _onsets(config, study: Study, held_out: bool = False) -> jax.Array:
  """Onsets of the currents in ms; in the held-out stimulus in reverse order."""
  order = jnp.arange(len(study.driven), dtype=study.start.v.dtype)
  order = order[::-1] if held_out else order
  return config.onset + config.spacing * order


def _simulate(config, study: Study, weights, state, onsets, record):
  """A window of the circuit, from whose begin onsets count."""
  begin = state.step * config.dt
  clamps = [
    current_clamp(
      (int(i), study.net.cells[i].source),
      begin + onset,
      config.duration,
      config.amplitude,
    )
    for i, onset in zip(study.driven, onsets, strict=True)
  ]
  params = celegans.with_weights(study.params, weights)
  return simulate(
    study.net, params, state, clamps, config.window, config.dt, record=record
  )


def _window(config, study: Study, weights, state, onsets):
  """Somatic traces `[S, N]`, and the extremes over all nodes and steps."""
  cells = study.net.cells
  everywhere = [(i, n) for i, cell in enumerate(cells) for n in range(cell.n)]
  rec, state = _simulate(config, study, weights, state, onsets, everywhere)
  first = np.cumsum([0, *(cell.n for cell in cells[:-1])])
  somata = first + [cell.source for cell in cells]
  v = rec.v[..., 0]
  return {
    'v': v[:: config.every, somata],
    'low': jnp.min(v),
    'high': jnp.max(v),
    'state': state,
  }


def _long_run(config, workdir, study, window, weights) -> dict[str, np.ndarray]:
  """`t_max` ms, window by window; each begins with the same stimulus."""
  leaves, structure = jax.tree.flatten(study.start)
  found: list[dict[str, np.ndarray]] = []
  number = round(config.t_max / config.window)
  with Progress('simulating windows', number) as progress:
    for k in range(number):

      def compute(leaves=leaves):
        state = jax.tree.unflatten(structure, map(jnp.asarray, leaves))
        out = window(weights, state, _onsets(config, study))
        ends = jax.tree.leaves(out.pop('state'))
        return {**out, **{f'state{i}': x for i, x in enumerate(ends)}}

      found.append(workdir.cached(f'window-{k}', compute))
      leaves = [found[-1][f'state{i}'] for i in range(len(leaves))]
      progress.advance()
  return {
    'v': np.concatenate(
      [found[0]['v'][:1], *(each['v'][1:] for each in found)]
    ),
    'low': np.min([each['low'] for each in found]),
    'high': np.max([each['high'] for each in found]),
  }


def _members(config) -> list[tuple[str, int]]:
  """Goal and seed of each of the P members that train side by side."""
  return [(goal, seed) for goal in config.goals for seed in range(config.seeds)]


def _train(config, workdir, study: Study, window, teachers) -> report.Trained:
  onsets = _onsets(config, study)
  members = _members(config)
  taught = [window(t, study.start, onsets)['v'] for t in teachers]
  hyper = {
    'target': jnp.stack([taught[seed] for _, seed in members]),
    'goal': jnp.array([list(LOSSES).index(goal) for goal, _ in members]),
  }
  state = training.fit(
    workdir,
    _learner(config, study),
    lambda key: (),
    num_steps=config.updates,
    key=_key(config, 'training'),
    hyper=hyper,
    population=len(members),
    log_every=1,
    checkpoint_every=10,
  )
  return report.Trained(
    teacher=_stacked([teachers[seed] for _, seed in members]),
    before=jax.vmap(celegans.bounded)(state.extra['start']),
    after=jax.vmap(celegans.bounded)(state.params),
    curve=np.asarray(state.extra['curve']),
  )


def _learner(config, study: Study) -> learners.Learner:
  """Descends to a target through the weights alone."""

  def init(key):
    weights = celegans.draw_weights(key, celegans.weights_of(study.params))
    free = celegans.unbounded(weights)
    extra = {
      'start': free,
      'curve': jnp.zeros(config.updates, study.start.v.dtype),
      'done': jnp.int32(0),
    }
    return free, extra

  def loss(free, batch, key, hyper, *, extra):
    del batch, key
    value = _loss(config, study, celegans.bounded(free), hyper)
    curve = extra['curve'].at[extra['done']].set(value)
    return value, ({}, {**extra, 'curve': curve, 'done': extra['done'] + 1})

  optimizer = optax.adam(config.learning_rate)
  return learners.gradient_learner(init, loss, optimizer, has_extra=True)


def _loss(config, study: Study, weights, hyper: Mapping[str, jax.Array]):
  record = [(int(i), study.net.cells[i].source) for i in study.targets]
  rec, _ = _simulate(
    config, study, weights, study.start, _onsets(config, study), record
  )
  v = rec.v[:: config.every, :, 0]
  target = hyper['target'][:, study.targets]
  values = jnp.stack([loss(v, target) for loss in LOSSES.values()])
  return values[hyper['goal']]


def _stacked(trees: list[Any]) -> Any:
  return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _judge(
  config, study: Study, window: Callable[..., Any], trained: report.Trained
) -> tuple[list[dict[str, Any]], list[dict[str, np.ndarray]]]:
  """Rows of the table of training, and the runs that they are of."""
  rows: list[dict[str, Any]] = []
  runs: list[dict[str, np.ndarray]] = []
  taught: dict[tuple[int, bool], dict[str, np.ndarray]] = {}

  def run(weights, m, held_out):
    weights = jax.tree.map(lambda x: x[m], weights)
    out = window(weights, study.start, _onsets(config, study, held_out))
    runs.append({k: np.asarray(out[k]) for k in ('v', 'low', 'high')})
    return runs[-1]

  for m, (goal, seed) in enumerate(_members(config)):
    row: dict[str, Any] = {'goal': goal, 'seed': seed}
    for held_out, label in ((False, 'loss'), (True, 'held-out loss')):
      if (seed, held_out) not in taught:
        taught[seed, held_out] = run(trained.teacher, m, held_out)
      target = taught[seed, held_out]['v'][:, study.targets]
      for name in ('before', 'after'):
        v = run(getattr(trained, name), m, held_out)['v'][:, study.targets]
        row[f'{label} {name}'] = float(
          LOSSES[goal](jnp.asarray(v), jnp.asarray(target))
        )
    row['halvings'] = math.log2(row['loss before'] / row['loss after'])
    for name in ('before', 'after'):
      row[f'weights to teacher {name}'] = _weight_correlation(trained, name, m)
    rows.append(row)
  return rows, runs


def _weight_correlation(
  trained: report.Trained, name: str, member: int
) -> float:
  """Correlation of chemical weights with those of the teacher."""
  both = [
    np.concatenate(
      [w[member] for w in jax.tree.leaves(weights['synapses'])] or [np.zeros(0)]
    )
    for weights in (getattr(trained, name), trained.teacher)
  ]
  return float(np.corrcoef(np.stack(both))[0, 1])


def _memory(config, workdir, study: Study) -> list[dict[str, Any]]:
  """Planned and measured bytes of the gradient, in rows of a table."""
  steps = round(config.window / config.dt)

  def measure():
    hyper = {
      'target': jnp.zeros((steps // config.every + 1, len(study.chosen))),
      'goal': jnp.int32(0),
    }
    gradient = jax.jit(jax.grad(functools.partial(_loss, config, study)))
    weights = celegans.weights_of(study.params)
    compiled = gradient.lower(weights, hyper).compile(compiler_options=_QUICKLY)
    found = compiled.memory_analysis()
    if found is None:
      return {'bytes': math.nan}
    return {
      'bytes': found.temp_size_in_bytes
      + found.argument_size_in_bytes
      + found.output_size_in_bytes
    }

  measured = float(workdir.cached('memory', measure)['bytes'])
  whole = _network(
    config, study.worm, np.arange(len(study.worm.names)), study.inhibits
  )
  rows = []
  for label, net, count, seen in (
    ('this circuit', study.net, steps, measured),
    ('whole worm', whole, round(_BUDGET / config.dt), math.nan),
  ):
    plan = memory.memory_plan(net, count, config.dt)
    parts = {f'{k} MiB': x / 2**20 for k, x in plan._asdict().items()}
    rows.append(
      {'circuit': label, 'neurons': len(net.cells), 'nodes': net.n}
      | {'steps': count, **parts, 'planned MiB': plan.total / 2**20}
      | {'measured MiB': seen / 2**20}
    )
    note(f'{label}: the plan is {plan.total / memory.GIB:.4f} GiB.')
  return rows


def _neurons(study: Study, v: np.ndarray) -> list[dict[str, Any]]:
  """Rows of the table of neurons, with the range of their `[S, N]` voltage."""
  return [
    {
      'neuron': study.worm.names[i],
      'kind': study.worm.kinds[i],
      'inhibits': bool(study.inhibits[i]),
      'segments': cell.tree.n_segments,
      'lowest mV': float(trace.min()),
      'highest mV': float(trace.max()),
    }
    for i, cell, trace in zip(study.chosen, study.net.cells, v.T, strict=True)
  ]
