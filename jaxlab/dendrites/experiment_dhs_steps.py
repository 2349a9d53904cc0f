"""How many steps the schedules need, against what is possible."""

import functools

import numpy as np

from jaxlab import data, dendrites
from jaxlab.data import neurons
from jaxlab.dendrites import plots
from jaxlab.harness import evidence
from jaxlab.harness.progress import Progress
from jaxlab.harness.settings import check, check_names, check_positive
from kernels_pallas.tree_solver import (
  best_k,
  make_schedule,
  schedule_stats,
  steps_lower_bound,
)

_PAPER = 'Zhang et al. 2023, Nature Communications, dendritic scheduling'
_SHOWN = ('ca1_n120', 'l5pc_with_axon', 'allen_485574832', 'PVDL')


def run(config, workdir) -> None:
  """Schedules every neuron for every number of threads."""
  check_positive(config, 'threads', 'max_len')
  check(config, 'worms', config.worms >= 0, '0 or more')
  check_names(config, 'cells', neurons.RECONSTRUCTIONS)
  found = {}
  worm = data.load('neurons')
  order = sorted(worm.names, key=lambda name: (name != 'PVDL', name))
  names = [*config.cells, *order[: config.worms]]
  with Progress('schedules', len(names)) as progress:
    for name in names:
      unit = functools.partial(_unit, config, worm, name)
      found[name] = workdir.cached(f'steps-{name}', unit)
      progress.advance()
  _record(config, workdir, found)


def _unit(config, worm, name: str) -> dict:
  """Steps, lower bound and use of the threads of one neuron."""
  if name in worm.names:
    text = worm.swc[worm.names.index(name)]
  else:
    text = data.load('neurons', name).swc
  morph = dendrites.parse_swc(text)
  parent = dendrites.discretize(morph, max_len=config.max_len).parent
  steps, bounds, used, level = [], [], [], []
  for k in config.threads:
    schedule = make_schedule(parent, kind='dhs', k=k)
    stats = schedule_stats(schedule)
    steps.append(stats.steps)
    used.append(stats.utilisation)
    bounds.append(steps_lower_bound(parent, k))
    # The same threads without looking ahead: level after level.
    widths = np.bincount(_depths(parent))
    level.append(int(np.ceil(widths / k).sum()))
  return {
    'steps': np.array(steps),
    'bound': np.array(bounds),
    'used': np.array(used),
    'level': np.array(level),
    'nodes': np.array(len(parent)),
    'best_k': np.array(best_k(parent)),
  }


def _depths(parent) -> np.ndarray:
  depth = np.zeros(len(parent), int)
  for i, above in enumerate(parent):
    depth[i] = depth[above] + 1 if above >= 0 else 0
  return depth


def _record(config, workdir, found: dict) -> None:
  columns = [f'k={k}' for k in config.threads]
  rows = [
    {
      'neuron': name,
      'nodes': int(f['nodes']),
      'best k': int(f['best_k']),
      **dict(zip(columns, f['steps'].tolist(), strict=True)),
    }
    for name, f in found.items()
  ]
  workdir.save_table(
    'steps',
    rows,
    f'Steps of the dendritic schedule, compartments of {config.max_len:g} um; '
    'best k: fewest threads within 10 % of the fewest steps.',
  )
  shown = [name for name in _SHOWN if name in found]
  workdir.save_figure(
    'steps',
    plots.slopes(
      np.asarray(config.threads),
      {
        **{name: found[name]['steps'] for name in shown},
        **{f'{shown[0]}, level by level': found[shown[0]]['level']},
      },
      xlabel='threads',
      ylabel='steps',
    ),
    'Steps against threads; a flat end is the height of the tree.',
  )
  steps = np.concatenate([f['steps'] for f in found.values()])
  bound = np.concatenate([f['bound'] for f in found.values()])
  workdir.add_claim(
    evidence.share_claim(
      'The schedule needs as few steps as any can (lower bound)',
      steps == bound,
      threshold=0.99,
      sense='>',
      source=_PAPER,
      note='neurons times numbers of threads',
    )
  )
  serial = np.concatenate(
    [np.full(len(f['steps']), int(f['nodes'])) for f in found.values()]
  )
  workdir.add_claim(
    evidence.share_claim(
      'The schedule never needs more steps than one node after the other',
      steps <= serial,
      threshold=0.99,
      sense='>',
      source=_PAPER,
      note='neurons times numbers of threads',
    )
  )
  first = found[shown[0]]
  workdir.headline(
    f'steps of {shown[0]} with the most threads', float(first['steps'][-1])
  )
  gains = [int(f['nodes']) / f['steps'][-1] for f in found.values()]
  workdir.headline(
    'serial steps over those with the most threads, median neuron',
    float(np.median(gains)),
    unit='x',
  )
