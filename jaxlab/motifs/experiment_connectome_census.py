"""Motif counts of connectomes beside those of random graphs."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import data, stats
from jaxlab import plots as charts
from jaxlab.data import connectome
from jaxlab.harness.claims import Claim
from jaxlab.harness.progress import Progress
from jaxlab.motifs import catalog, plots, wiring
from jaxlab.motifs import experiment_records as records
from jaxlab.motifs.dyads import check_adjacency
from jaxlab.motifs.nulls import count_graphs, null_census

_RANDOM = 'random'
_MILO = 'Milo et al. 2002; Sporns & Koetter 2004'
_FEED_FORWARD, _RING = catalog.NAMES.index('030T'), catalog.NAMES.index('030C')


def run(config, workdir) -> None:
  """Counts motifs, and compares them with a null model, graph by graph."""
  _check(config)
  graphs = {name: _graph(name) for name in config.graphs}
  base = graphs[config.graphs[0]]
  key = records.key_of(config.seed, _RANDOM)
  for index in range(config.random_graphs):
    graphs[f'{_RANDOM}-{index}'] = np.asarray(
      wiring.random_adjacency(
        jax.random.fold_in(key, index), len(base), int(base.sum())
      )
    )
  found = {}
  with Progress('null models', len(graphs)) as progress:
    for name, A in graphs.items():
      found[name] = workdir.cached(
        name, functools.partial(_unit, config, name, A)
      )
      progress.advance()
  _record(config, workdir, found)


def _check(config) -> None:
  records.check_names(config, 'graphs', connectome.SPLITS)
  records.check_positive(config, 'replicas')
  for name in (*config.graphs, _RANDOM):
    records.check(
      config,
      'swaps_an_edge',
      config.swaps_an_edge.get(name, 0) > 0,
      f'positive for {name}',
    )
  records.check_seeds(config, 'replicas')
  records.check_seeds(config, 'random_graphs')


def _graph(name: str) -> np.ndarray:
  """A connectome's bool adjacency matrix without loops."""
  graph = connectome.adjacency(data.load('connectome', name))
  return np.asarray(check_adjacency(graph).A)


def _unit(config, name: str, A: np.ndarray) -> dict:
  """The counts of a graph and where they lie in the null distribution."""
  edges = int(A.sum())
  result = null_census(
    records.key_of(config.seed, name),
    jnp.asarray(A),
    config.null,
    config.replicas,
    config.swaps_an_edge[name.partition('-')[0]] * edges,
  )
  return {
    'nodes': len(A),
    'edges': edges,
    'counts': count_graphs(A[None])[0],
    **{
      field: getattr(result, field)
      for field in ('mean', 'std', 'z', 'p_emp', 'p_low', 'profile')
    },
    'acceptance': result.acceptance,
    'autocorrelation': result.autocorrelation,
  }


def _record(config, workdir, found: dict) -> None:
  rows = [
    {
      'graph': name,
      'nodes': int(unit['nodes']),
      'edges': int(unit['edges']),
      'motif': motif,
      'count': int(unit['counts'][m]),
      'null mean': float(unit['mean'][m]),
      'null std': float(unit['std'][m]),
      'z': float(unit['z'][m]),
      'p above': float(unit['p_emp'][m]),
      'p below': float(unit['p_low'][m]),
    }
    for name, unit in found.items()
    for m, motif in enumerate(catalog.NAMES)
  ]
  workdir.save_table(
    'census',
    rows,
    f'Motif counts beside {config.replicas} graphs of the null model '
    f'{config.null}.',
  )
  chains = [
    {
      'graph': name,
      'acceptance': float(unit['acceptance']),
      **{
        f'memory {10 * (i + 1)} %': float(value)
        for i, value in enumerate(unit['autocorrelation'])
      },
    }
    for name, unit in found.items()
  ]
  workdir.save_table(
    'chains',
    chains,
    'Share of attempted swaps that were made, and the correlation with the '
    'start along the chains.',
  )
  real = {name: found[name] for name in config.graphs}
  first = {f'{_RANDOM}-0': found[f'{_RANDOM}-0']}
  workdir.save_figure(
    'profiles',
    plots.z_profile({n: u['profile'] for n, u in (real | first).items()}),
    'Significance profiles: z-scores over their norm.',
  )
  workdir.save_figure(
    'z_scores',
    charts.heatmap(
      np.stack([unit['z'] for unit in (real | first).values()]),
      list(real | first),
      catalog.NAMES,
      label='z',
      text_format='{:.1f}',
    ),
    f'z-scores against {config.null}.',
  )
  for claim in _claims(config, found):
    workdir.add_claim(claim)


def _z_claim(name: str, unit: dict, motif: int, threshold, sense) -> Claim:
  """On a z-score; the interval is for the null's mean and deviation.

  They are those of R replicas, so that z has the variance
  `1 / R + z^2 / (2 (R - 1))` where the null distribution is normal.
  """
  z, replicas = float(unit['z'][motif]), int(unit['replicas'])
  half = 1.96 * (1 / replicas + z**2 / (2 * (replicas - 1))) ** 0.5
  note = f'p above {unit["p_emp"][motif]:.3g}, below {unit["p_low"][motif]:.3g}'
  return Claim(name, _MILO, z, z - half, z + half, threshold, sense, 'z', note)


def _p_claim(name: str, unit: dict, motif: int) -> Claim:
  """That few graphs of the null model have as many instances."""
  replicas = int(unit['replicas'])
  count = round(float(unit['p_emp'][motif]) * (replicas + 1)) - 1
  interval = stats.clopper_pearson_interval(
    count, replicas, level=records.LEVEL
  )
  return Claim(
    name,
    _MILO,
    count / replicas,
    float(interval.low),
    float(interval.high),
    0.05,
    '<',
    'p',
    f'{count} of {replicas} graphs',
  )


def _claims(config, found: dict) -> list[Claim]:
  units = {
    name: {**unit, 'replicas': config.replicas} for name, unit in found.items()
  }
  claims = [
    claim
    for species, graphs in config.species.items()
    if set(graphs) <= set(units)
    for claim in _species_claims(species, {n: units[n] for n in graphs})
  ]
  off = [
    _count_claim(name, found[name], config.counts[name])
    for name in config.graphs
    if name in config.counts
  ]
  random = [u for n, u in found.items() if n.startswith(f'{_RANDOM}-')]
  z = np.stack([unit['z'][[_FEED_FORWARD, _RING]] for unit in random])
  control = [
    records.mean_claim(
      f'{motif}, {side}',
      sign * z[:, i],
      threshold=2,
      sense='<',
      unit='z',
      source=_MILO,
    )
    for i, motif in enumerate(('030T', '030C'))
    for side, sign in (('above', 1), ('below', -1))
  ]
  return [
    Claim.all_of(
      'Counts are exact', 'Holland & Leinhardt 1976 (networkx 3.6.1)', off
    ),
    *claims,
    Claim.all_of(
      'Random graphs with as many nodes and edges show neither (|z| < 2)',
      _MILO,
      control,
    ),
  ]


def _species_claims(species: str, units: dict) -> list[Claim]:
  """That a species has too many feed-forward loops, and not of rings."""
  return [
    Claim.all_of(
      f'{species}: the feed-forward loop 030T is over-represented (z > 2)',
      _MILO,
      [_z_claim(n, u, _FEED_FORWARD, 2, '>') for n, u in units.items()],
    ),
    Claim.all_of(
      f'{species}: so many 030T are rare in the null model (p < 0.05)',
      _MILO,
      [_p_claim(n, u, _FEED_FORWARD) for n, u in units.items()],
    ),
    Claim.all_of(
      f'{species}: the ring 030C is not over-represented (z < 2)',
      _MILO,
      [_z_claim(n, u, _RING, 2, '<') for n, u in units.items()],
    ),
  ]


def _count_claim(name: str, unit: dict, counts) -> Claim:
  """That the 13 counts are those of another program, to the last digit."""
  gap = np.abs(unit['counts'] - np.asarray(counts)).max()
  return Claim(
    name,
    'networkx',
    gap,
    gap,
    gap,
    0.5,
    '<',
    'instances',
    'largest difference of a count; nothing is drawn, so a point',
  )
