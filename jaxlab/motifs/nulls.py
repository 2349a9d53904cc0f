"""Motif counts beside those of random graphs: z-scores and profiles."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab import parallel
from jaxlab.errors import UserError
from jaxlab.motifs.census import census_limbs, join_limbs
from jaxlab.motifs.dyads import check_adjacency
from jaxlab.motifs.rewiring import Rewired, edge_capacity, rewire, rewired
from jaxlab.motifs.types import NullResult

__all__ = [
  'compare',
  'count_graphs',
  'null_census',
  'null_statistic',
  'rewire',
]

# Chains that run side by side in one loop, and bytes of their graphs at most.
_CHAINS = 64
_CHAIN_BYTES = 1 << 28


def null_census(
  key: jax.Array,
  A: ArrayLike,
  kind: str = 'degree_mutual',
  replicas: int = 100,
  n_swaps: int | None = None,
) -> NullResult:
  """Compares the motif counts of a graph with those of a null model.

  Args:
    key: PRNG key; replica r depends on it and on r alone.
    A: `[N, N]` graph of zeros and ones; loops are ignored.
    kind: a null model of `rewire`.
    replicas: R, at least 2.
    n_swaps: attempted swaps a replica; None is 10 an edge.

  Returns:
    The comparison; fields of counts are `[13]`.

  Raises:
    UserError: if A is no graph, the kind unknown or replicas below 2.
  """
  return null_statistic(key, A, count_graphs, kind, replicas, n_swaps)


def null_statistic(
  key: jax.Array,
  A: ArrayLike,
  statistic: Callable[[jax.Array], np.ndarray],
  kind: str = 'degree_mutual',
  replicas: int = 100,
  n_swaps: int | None = None,
) -> NullResult:
  """Compares any statistic of a graph with its values under a null model.

  Args:
    key: PRNG key.
    A: `[N, N]` graph.
    statistic: function of `[B, N, N]` graphs to `[B, ...]` numbers, called
      from the host.
    kind: a null model of `rewire`.
    replicas: R, at least 2.
    n_swaps: attempted swaps a replica; None is 10 an edge.

  Returns:
    The comparison; its fields have the shape of one value.

  Raises:
    UserError: as `null_census`.
  """
  if replicas < 2:
    raise UserError(f'replicas={replicas} give no spread; take at least 2')
  graph = jnp.asarray(check_adjacency(A).A)
  cap = edge_capacity(graph, kind, n_swaps)
  chunk = int(np.clip(_CHAIN_BYTES // max(graph.size, 1), 1, _CHAINS))
  draw = _drawing(kind, cap, chunk, n_swaps is None)
  # Batches of one size: one program.
  num_batches = -(-replicas // (chunk * jax.device_count()))
  size = -(-replicas // num_batches)
  keys = parallel.replication_keys(key, num_batches * size)
  values, accepted, memory = [], [], []
  for part in keys.reshape(num_batches, size):
    drawn: Rewired = draw(part, graph, jnp.int32(n_swaps or 0))
    values.append(np.asarray(statistic(drawn.A), np.float64))
    accepted.append(np.asarray(drawn.acceptance, np.float64))
    memory.append(np.asarray(drawn.autocorrelation, np.float64))
  return compare(
    np.asarray(statistic(graph[None])[0], np.float64),
    np.concatenate(values)[:replicas],
    float(np.concatenate(accepted)[:replicas].mean()),
    np.concatenate(memory)[:replicas].mean(axis=0),
  )


def count_graphs(graphs: ArrayLike) -> np.ndarray:
  """Returns the `[B, 13]` int64 motif counts of `[B, N, N]` graphs."""
  return join_limbs(_counting()(jnp.asarray(graphs)))


def compare(
  observed: np.ndarray,
  samples: np.ndarray,
  acceptance: float = 1.0,
  autocorrelation: np.ndarray | None = None,
) -> NullResult:
  """Places an observed value in a sample of a null distribution.

  Args:
    observed: `[...]` the statistic of the graph.
    samples: `[R, ...]` its values under the null model.
    acceptance: see `NullResult`.
    autocorrelation: see `NullResult`.
  """
  mean, std = samples.mean(axis=0), samples.std(axis=0, ddof=1)
  degenerate = (samples == samples[0]).all(axis=0)
  spread = np.where(degenerate, np.nan, std)
  z = (observed - mean) / spread
  norm = np.sqrt(np.nansum(z**2))
  above, below = (
    (1 + found.sum(axis=0)) / (1 + len(samples))
    for found in (samples >= observed, samples <= observed)
  )
  return NullResult(
    observed=observed,
    mean=mean,
    std=np.where(degenerate, 0.0, std),
    z=z,
    p_emp=above,
    p_low=below,
    profile=z / norm if norm > 0 else z,
    degenerate=degenerate,
    acceptance=acceptance,
    autocorrelation=np.zeros(10)
    if autocorrelation is None
    else autocorrelation,
  )


@functools.cache
def _drawing(kind: str, cap: int, chunk: int, by_edges: bool):
  """The compiled function that draws graphs on all devices."""

  def draw(key, graph, n_swaps):
    steps = None if by_edges else n_swaps
    return rewired(key, graph, steps, kind=kind, cap=cap)

  return parallel.sharded_vmap(draw, in_axes=(0, None, None), chunk=chunk)


@functools.cache
def _counting():
  # One graph at a time: a batch of products is slower on CPUs.
  return parallel.sharded_vmap(census_limbs, chunk=1)
