"""What a step costs, forward and with its gradient, beside other simulators."""

import functools
from collections.abc import Callable, Sequence

import jax
import matplotlib
import numpy as np

from jaxlab import data, dendrites, plots
from jaxlab.dendrites import experiment_peers as peers
from jaxlab.dendrites import experiment_timing as timed
from jaxlab.dendrites.experiment_timing import Program, Work
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import check, check_positive

_SOURCE = 'HelioX (ICML 2026), abstract: simulation and scalable training'
_KINDS = 'forward', 'gradient'
_AXES = 'compartments', 'cells', 'steps'
_TOLERANCE = 0.15
_LEVEL = '95 % t interval over turns, CPU time of all threads'


def run(config, workdir) -> None:
  """Times batches, three sweeps and the other simulators."""
  _check(config)
  units: dict[str, Callable[[], dict]] = {
    'batches': lambda: _batches(config),
    **{axis: functools.partial(_sweep, config, axis) for axis in _AXES},
  }
  if config.peers:
    if peers.version('neuron'):
      for batch in config.neuron_cells:
        units[f'neuron-{batch}'] = functools.partial(_neuron, config, batch)
    if peers.version('jaxley'):
      units['jaxley'] = lambda: _jaxley(config)
  found = {}
  with Progress('timings', len(units)) as progress:
    for name, compute in units.items():
      found[name] = workdir.cached(name, compute)
      progress.advance()
  _record(config, workdir, found)


def _check(config) -> None:
  check_positive(
    config,
    *('max_len', 'max_lens', 'batches', 'batch_steps', 'cells', 'steps'),
    *('sweep_cells', 'sweep_steps', 'neuron_cells'),
  )
  check(config, 'repeats', config.repeats > 1, 'at least 2')
  check(
    config,
    'batch_steps',
    len(config.batch_steps) == len(config.batches),
    'as many as config.batches',
  )
  for field in ('max_lens', 'cells', 'steps'):
    check(config, field, len(set(config[field])) > 1, 'two sizes or more')


def _morphology(config) -> dendrites.Morphology:
  return dendrites.parse_swc(data.load('neurons', config.cell).swc)


def _tree(config, max_len: float) -> dendrites.CompartmentTree:
  return dendrites.discretize(_morphology(config), max_len=max_len)


def _work(config, max_len: float, steps: int, batch: int) -> Work:
  return timed.work(timed.equipped(_tree(config, max_len)), steps, batch)


def _both(jobs: Sequence[Work]) -> list[Program]:
  """Each job's forward program, then each one's gradient."""
  jobs = [*jobs, *(job.gradient() for job in jobs)]
  return [timed.program(job) for job in jobs]


def _timed(config, programs: Sequence[Program]) -> dict:
  """`[2, P, K]` ns; `[2, P]` units, seconds of compilation, and bytes."""

  def pairs(values):
    values = np.asarray(values)
    return values.reshape(2, len(programs) // 2, *values.shape[1:])

  return {
    'ns': pairs(timed.cpu_ns(programs, config.repeats)),
    'units': pairs([each.units for each in programs]),
    'compile': pairs([each.compile_seconds for each in programs]),
    'temporary': pairs([each.temporary for each in programs]),
  }


def _batches(config) -> dict:
  pairs = zip(config.batch_steps, config.batches, strict=True)
  jobs = [_work(config, config.max_len, *pair) for pair in pairs]
  return _timed(config, _both(jobs))


def _sweep(config, axis: str) -> dict:
  """One of the three sizes varies, the others stay."""
  if axis == 'compartments':
    trees = [_tree(config, max_len) for max_len in config.max_lens]
    sizes = [tree.n_segments for tree in trees]
    jobs = [
      timed.work(timed.equipped(tree), config.sweep_steps, config.sweep_cells)
      for tree in trees
    ]
  else:
    net = timed.equipped(_tree(config, config.max_len))
    sizes = list(config[axis])
    steps, cells = config.sweep_steps, config.sweep_cells
    sides = [(steps, n) if axis == 'cells' else (n, cells) for n in sizes]
    jobs = [timed.work(net, *side) for side in sides]
  return {'sizes': np.array(sizes), **_timed(config, _both(jobs))}


def _neuron(config, batch: int) -> dict:
  """NEURON with its rate tables, in turns with ours."""
  morph = _morphology(config)
  tree = dendrites.discretize(morph, max_len=config.max_len)
  steps = config.peer_steps
  cells = peers.NeuronCells(morph, tree, batch)
  net = timed.equipped(tree)
  with jax.enable_x64(True):
    exact = timed.program(timed.work(net, steps, batch)).call()
  apart = np.abs(exact - cells.run(steps, tables=False)).max()
  ours = timed.program(timed.work(net, steps, batch))
  theirs = Program(
    functools.partial(cells.run, steps, tables=True), cells.compartments * steps
  )
  return {
    'ns': timed.cpu_ns([ours, theirs], config.repeats),
    'apart': apart,
  }


def _jaxley(config) -> dict:
  """Jaxley on the cell made of cylinders, in turns with ours."""
  morph = _morphology(config)
  tree = dendrites.discretize(morph, max_len=config.max_len)
  cylinders, counts = timed.cylinders(morph, tree)
  tree = dendrites.discretize(cylinders, nseg=counts)
  net, cell = timed.equipped(tree), peers.jaxley_cell(cylinders, tree)
  steps = config.peer_steps
  inner = next(n for n in range(round(steps**0.5), 0, -1) if steps % n == 0)
  ours = timed.work(net, steps, 1)
  programs = [
    timed.program(job)
    for job in (
      *(ours, cell.work(steps), ours.gradient()),
      cell.work(steps, [inner, steps // inner]).gradient(),
    )
  ]
  traces = [np.asarray(each.call())[: steps + 1, 0] for each in programs[:2]]
  spikes = [np.flatnonzero((v[:-1] < 0) & (v[1:] >= 0)) for v in traces]
  late = spikes[0] - spikes[1] if len(spikes[0]) == len(spikes[1]) else np.nan
  return {
    'ns': timed.cpu_ns(programs, config.repeats).reshape(2, 2, -1),
    'apart': np.abs(traces[0] - traces[1]).max(),
    'steps late': np.max(np.abs(late), initial=0),
    'spikes': len(spikes[1]),
    'temporary': [each.temporary for each in programs[2:]],
  }


def _record(config, workdir, found: dict) -> None:
  workdir.save_table(
    'speed',
    [*_own_rows(config, found['batches']), *_peer_rows(config, found)],
    'ns of CPU time of one compartment in one step.',
  )
  sweeps = {axis: found[axis] for axis in _AXES}
  workdir.save_table(
    'scaling',
    [row for axis, each in sweeps.items() for row in _sweep_rows(axis, each)],
    'CPU time of a run when one size varies.',
  )
  workdir.save_figure(
    'speed',
    _bars(config, found),
    'CPU time of one compartment in one step, with 95 % t intervals.',
  )
  workdir.save_figure(
    'scaling',
    _scaling_figure(sweeps),
    'CPU time of a run when one size varies; dotted: proportional.',
  )
  for axis, each in sweeps.items():
    workdir.add_claim(_linear(axis, each))
  workdir.add_claim(_price(config, found['batches']['ns']))
  for claim in _peer_claims(config, found):
    workdir.add_claim(claim)
  for kind, ns in zip(_KINDS, found['batches']['ns'], strict=True):
    mean, low, high = timed.interval(ns[0])
    name = f'{kind}, {config.batches[0]} cells'
    workdir.headline(name, mean, low, high, unit='ns')


def _spread(kind: str, ns: np.ndarray) -> dict[str, float]:
  mean, low, high = timed.interval(ns)
  return {f'{kind} ns': mean, f'{kind} low': low, f'{kind} high': high}


def _own_rows(config, found: dict) -> list[dict]:
  rows = []
  for i, batch in enumerate(config.batches):
    row = {'system': 'jaxlab', 'cells': batch, 'steps': config.batch_steps[i]}
    for j, kind in enumerate(_KINDS):
      row |= _spread(kind, found['ns'][j, i])
      row[f'{kind} compile s'] = found['compile'][j, i]
      row[f'{kind} MiB'] = found['temporary'][j, i] / 2**20
    rows.append(row)
  return rows


def _peer_rows(config, found: dict) -> list[dict]:
  """Rows of the other simulators, also of those that are not installed."""
  if not config.peers:
    return []
  rows: list[dict] = []
  version = peers.version('neuron')
  if version is None:
    rows.append({'system': 'NEURON', 'note': 'not installed'})
  for batch in config.neuron_cells if version else ():
    unit = found[f'neuron-{batch}']
    rows.append(
      {'system': version, 'cells': batch, 'steps': config.peer_steps}
      | _spread('forward', unit['ns'][1])
      | {'note': f'{float(unit["apart"]):.2g} mV from ours in float64'}
    )
  version = peers.version('jaxley')
  if version is None:
    return [*rows, {'system': 'Jaxley', 'note': 'not installed'}]
  unit = found['jaxley']
  note = (
    f'{float(unit["apart"]):.2g} mV from ours on equal cylinders; '
    f'{int(unit["spikes"])} spikes, at most {float(unit["steps late"]):g} '
    'steps apart'
  )
  for i, system in enumerate(('jaxlab, cylinders', version)):
    row = {'system': system, 'cells': 1, 'steps': config.peer_steps}
    for kind, ns in zip(_KINDS, unit['ns'], strict=True):
      row |= _spread(kind, ns[i])
    row['gradient MiB'] = unit['temporary'][i] / 2**20
    rows.append(row | {'note': note if i else ''})
  return rows


def _sweep_rows(axis: str, found: dict) -> list[dict]:
  rows = []
  for i, size in enumerate(found['sizes']):
    row = {'varies': axis, 'size': int(size)}
    for kind, ns in zip(_KINDS, found['ns'], strict=True):
      row |= _spread(kind, ns[i])
    rows.append(row)
  return rows


def _run_ms(found: dict) -> np.ndarray:
  """`[2, P, K]` CPU time of a run."""
  return 1e-6 * found['ns'] * found['units'][..., None]


def _slopes(found: dict) -> np.ndarray:
  """`[2, K]` exponents of the time of a run, of each turn."""
  return timed.slope(found['sizes'], _run_ms(found).swapaxes(0, 1))


def _linear(axis: str, found: dict) -> Claim:
  parts = []
  for kind, slopes in zip(_KINDS, _slopes(found), strict=True):
    bounds = timed.interval(slopes)
    for sense, limit in (('>', 1 - _TOLERANCE), ('<', 1 + _TOLERANCE)):
      parts.append(Claim(kind, _SOURCE, *bounds, limit, sense))  # type: ignore[arg-type]
  return Claim.all_of(
    f'The cost is linear in {axis}: exponent within 15 % of 1, forward and '
    'gradient',
    _SOURCE,
    parts,
    note=f'{_LEVEL}.',
  )


def _price(config, ns: np.ndarray) -> Claim:
  """Gradient over forward."""
  parts = [
    Claim(f'{batch} cells', _SOURCE, *timed.interval(ratio), 5.0, '<', 'x')
    for batch, ratio in zip(config.batches, ns[1] / ns[0], strict=True)
  ]
  return Claim.all_of(
    'A gradient with checkpoints costs at most 5 forward runs',
    _SOURCE,
    parts,
    note=f'{_LEVEL}.',
  )


def _peer_claims(config, found: dict) -> list[Claim]:
  """Ours against the simulators that are installed."""

  def faster(text, pairs):
    parts = [
      Claim(name, _SOURCE, *timed.interval(ns[0] / ns[1]), 1.0, '<', 'x')
      for name, ns in pairs
    ]
    return Claim.all_of(text, _SOURCE, parts, note=f'{_LEVEL}.')

  claims = []
  units = {n: u for n, u in found.items() if n.startswith('neuron-')}
  if units:
    claims.append(
      faster(
        'Steps take less CPU time than those of NEURON',
        [(f'{n.partition("-")[2]} cells', u['ns']) for n, u in units.items()],
      )
    )
  if 'jaxley' in found:
    pairs = zip(_KINDS, found['jaxley']['ns'], strict=True)
    text = 'Steps and gradients take less CPU time than those of Jaxley'
    claims.append(faster(text, list(pairs)))
  return claims


def _bars(config, found: dict):
  """Bars of each system over the number of cells."""
  batches = [*config.batches]
  series: dict[str, np.ndarray] = {
    f'jaxlab {kind}': np.array([timed.interval(x) for x in ns]).T
    for kind, ns in zip(_KINDS, found['batches']['ns'], strict=True)
  }
  empty = np.full((3, len(batches)), np.nan)
  for name, unit in found.items():
    if name.startswith('neuron-') and int(name[7:]) in batches:
      bars = series.setdefault('NEURON forward', empty.copy())
      place = batches.index(int(name[7:]))
      bars[:, place] = timed.interval(unit['ns'][1])
  if 'jaxley' in found and 1 in batches:
    for kind, ns in zip(_KINDS, found['jaxley']['ns'], strict=True):
      series[f'Jaxley {kind}'] = bars = empty.copy()
      bars[:, batches.index(1)] = timed.interval(ns[1])
  return plots.bars_with_intervals(
    [f'{batch} cells' for batch in batches],
    {name: tuple(bars) for name, bars in series.items()},
    ylabel='ns of CPU time per compartment and step',
  )


def _scaling_figure(sweeps: dict[str, dict]):
  """A run's time over each of its sizes, beside a proportional one."""
  with matplotlib.rc_context(plots.STYLE):
    fig, axes = plots.figure(9.0, 3.2, ncols=len(sweeps))
    for axis, (name, found) in zip(axes[0], sweeps.items(), strict=True):
      sizes = found['sizes']
      exponents = _slopes(found).mean(axis=1)
      totals = _run_ms(found).min(axis=2)
      for i, (kind, total) in enumerate(zip(_KINDS, totals, strict=True)):
        label = f'{kind}, exponent {exponents[i]:.2f}'
        axis.plot(sizes, total, 'o-', color=plots.PALETTE[i], label=label)
        proportional = total[0] * sizes / sizes[0]
        axis.plot(sizes, proportional, ':', color=plots.PALETTE[i])
      axis.set(xscale='log', yscale='log', xlabel=f'number of {name}')
      axis.set_xticks(sizes, sizes)
      axis.minorticks_off()
      axis.legend(loc='lower right')
    axes[0, 0].set_ylabel('CPU time of a run (ms)')
  return fig
