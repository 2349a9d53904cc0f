"""How near graphs with a target census come to it, at the same degrees."""

import functools
from collections.abc import Callable

import jax
import numpy as np

from jaxlab import plots as charts
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.motifs import catalog
from jaxlab.motifs import experiment_records as records
from jaxlab.motifs.anneal import anneal
from jaxlab.motifs.nulls import count_graphs
from jaxlab.motifs.rewiring import rewire
from jaxlab.motifs.targets import most_triples
from jaxlab.motifs.tile import tile
from jaxlab.motifs.types import InfeasibleTarget

# Target -> shares of the three layers among the placed motifs.
TARGETS = {
  'layer 1': (1, 0, 0),
  'layer 2': (0, 1, 0),
  'layer 3': (0, 0, 1),
  'mixture': (1 / 3, 1 / 3, 1 / 3),
}
_IMPOSSIBLE = 'all triples 300'
_SOURCE = 'Metropolis search; Karrer & Newman 2010 for placed copies'


def run(config, workdir) -> None:
  """Anneals rewired graphs back to a census, and asks for the impossible."""
  records.check_names(config, 'targets', tuple(TARGETS))
  records.check_positive(config, 'num_nodes', 'num_edges', 'moves')
  records.check_seeds(config)
  names = [*config.targets, _IMPOSSIBLE]
  found: dict = {name: [] for name in names}
  total = (len(names) + 1) * config.seeds
  with Progress('searching for graphs', total) as progress:
    for name, units in found.items():
      for seed in range(config.seeds):
        unit = functools.partial(_unit, config, name, seed)
        units.append(workdir.cached(f'{name.replace(" ", "-")}-{seed}', unit))
        progress.advance()
    asked = []
    for seed in range(config.seeds):
      unit = functools.partial(_requests, config, seed)
      asked.append(workdir.cached(f'requests-{seed}', unit)['refused'])
      progress.advance()
  _record(config, workdir, found, np.stack(asked))


def _unit(config, name: str, seed: int) -> dict:
  """One search: from a rewired graph back to the census of the original."""
  key = records.key_of(config.seed, name, seed)
  tile_key, rewire_key, anneal_key = jax.random.split(key, 3)
  shares = TARGETS.get(name, TARGETS['mixture'])
  A, _ = tile(
    tile_key,
    catalog.layer_shares(shares),
    num_nodes=config.num_nodes,
    num_edges=config.num_edges,
  )
  start = rewire(rewire_key, A, 'degree')
  target, before = count_graphs(np.stack([A, start]))
  if name == _IMPOSSIBLE:
    target = np.zeros(13, np.int64)
    target[catalog.NAMES.index('300')] = most_triples(config.num_nodes)
  result = anneal(anneal_key, start, target, n_iter=config.moves)
  reached = np.asarray(result.A)
  counts = count_graphs(reached[None])[0]
  degrees = [
    np.concatenate([graph.sum(0), graph.sum(1)])
    for graph in (np.asarray(A).astype(int), reached.astype(int))
  ]
  total = np.abs(target).sum()
  return {
    'target': target,
    'reached': counts,
    'start_error': np.abs(before - target).sum() / total,
    'error': np.abs(counts - target).sum() / total,
    'degree_gap': np.abs(degrees[0] - degrees[1]).max(),
    'count_gap': np.abs(np.asarray(result.census) - counts).max(),
    'acceptance': result.acceptance,
    'edges': reached.sum(),
  }


def _possible(config) -> dict[str, dict]:
  """Requests that `tile` can meet, by name: what to ask for."""
  room = {'num_nodes': config.num_nodes}
  edges = config.num_edges
  return {
    name: {'q_or_motif': catalog.layer_shares(shares), 'num_edges': edges}
    | room
    for name, shares in TARGETS.items()
  }


def _hopeless(config) -> dict[str, dict]:
  """Requests that no graph meets, by name."""
  size = config.num_nodes
  return {
    'more copies than triples without a common dyad': {
      'q_or_motif': '300',
      'num_nodes': size,
      'copies': most_triples(size) + 1,
    },
    'more edges than ordered pairs': {
      'q_or_motif': '300',
      'num_nodes': size,
      'num_edges': 6 * size * size,
    },
    'edges that are no multiple': {
      'q_or_motif': '030C',
      'num_nodes': size,
      'num_edges': 3 * size + 1,
    },
  }


def _requests(config, seed: int) -> dict:
  """Which requests are refused: the possible ones, then the others."""
  key = records.key_of(config.seed, 'requests', seed)
  asked = (_possible(config) | _hopeless(config)).values()
  return {'refused': [_is_refused(tile, key, request) for request in asked]}


def _is_refused(make: Callable, key: jax.Array, request: dict) -> bool:
  try:
    make(key, **request)
  except InfeasibleTarget:
    return True
  return False


def _record(config, workdir, found: dict, refused: np.ndarray) -> None:
  rows = []
  for name, units in found.items():
    row: dict = {'target': name, 'edges': int(units[0]['edges'])}
    for title, field in (
      ('error of the start', 'start_error'),
      ('error reached', 'error'),
      ('acceptance', 'acceptance'),
    ):
      values = np.array([unit[field] for unit in units])
      row |= records.with_interval(title, values)
    rows.append(
      row | {'largest degree gap': max(int(u['degree_gap']) for u in units)}
    )
  workdir.save_table(
    'fidelity',
    rows,
    'Relative error of the census, sum |c - t| / sum t, before and after '
    f'{config.moves} attempted swaps; means over {config.seeds} seeds.',
  )
  census = [
    {
      'target': name,
      'motif': motif,
      'asked': float(np.mean([u['target'][m] for u in units])),
      'reached': float(np.mean([u['reached'][m] for u in units])),
    }
    for name, units in found.items()
    for m, motif in enumerate(catalog.NAMES)
  ]
  workdir.save_table('census', census, 'Mean counts asked for and reached.')
  requests = [*_possible(config), *_hopeless(config)]
  workdir.save_table(
    'requests',
    [
      {'request': name, 'refused': float(share), 'possible': name in TARGETS}
      for name, share in zip(requests, refused.mean(axis=0), strict=True)
    ],
    'Share of requests for placed copies that were refused as infeasible.',
  )
  series = {}
  for title, field in (('start', 'start_error'), ('reached', 'error')):
    errors = [np.array([u[field] for u in units]) for units in found.values()]
    columns = [records.with_interval('x', each).values() for each in errors]
    mean, low, high = np.array([list(c) for c in columns]).T
    series[title] = (mean, low, high)
  workdir.save_figure(
    'errors',
    charts.bars_with_intervals(
      list(found), series, ylabel='relative census error'
    ),
    'Error of the census of the rewired start and of the graph reached.',
  )
  for claim in _claims(config, found, refused):
    workdir.add_claim(claim)


def _claims(config, found: dict, refused: np.ndarray) -> list[Claim]:
  def mean(name, field, threshold, sense):
    return records.mean_claim(
      name,
      np.array([float(unit[field]) for unit in found[name]]),
      threshold=threshold,
      sense=sense,
      source=_SOURCE,
    )

  feasible = list(config.targets)
  right = refused.copy()
  right[:, : len(TARGETS)] = ~refused[:, : len(TARGETS)]
  return [
    Claim.all_of(
      'Feasible targets are reached within 5 %',
      _SOURCE,
      [mean(name, 'error', 0.05, '<') for name in feasible],
    ),
    Claim.all_of(
      'Their degree-preserving random graphs are further away than that',
      _SOURCE,
      [mean(name, 'start_error', 0.05, '>') for name in feasible],
    ),
    Claim.all_of(
      'All in- and out-degrees are those of the original graph',
      _SOURCE,
      [mean(name, 'degree_gap', 0.5, '<') for name in found],
    ),
    Claim.all_of(
      'A target that the degrees do not allow is reported as missed',
      _SOURCE,
      [mean(_IMPOSSIBLE, 'error', 0.05, '>')],
    ),
    records.share_claim(
      'Requests are refused if and only if no graph meets them (over 85 %)',
      right,
      threshold=0.85,
      sense='>',
      source=_SOURCE,
    ),
  ]
