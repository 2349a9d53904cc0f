"""What the structural half of this family takes and returns."""

from typing import NamedTuple

import jax
import numpy as np

from jaxlab.errors import UserError


class InfeasibleTarget(UserError):
  """No graph of the asked size holds what was asked for."""


class Motif(NamedTuple):
  """One of the 13 connected directed graphs on three nodes.

  Attributes:
    name: Holland-Leinhardt name: mutual, asymmetric and null dyads, and a
      letter (Down, Up, Cyclic, Transitive) where these do not decide.
    edges: pairs (i, j): an edge from node i to node j.
  """

  name: str
  edges: tuple[tuple[int, int], ...]


class Placements(NamedTuple):
  """Motif copies that were placed in a graph; no two share a dyad.

  Attributes:
    motif: `[n]` int32: index of the motif in `MOTIFS`.
    nodes: `[n, 3]` int32: the node at each position of the motif's adjacency.
  """

  motif: jax.Array
  nodes: jax.Array


class Estimate(NamedTuple):
  """Counts estimated from a sample.

  Attributes:
    counts: `[13]` float: estimated number of instances.
    std_error: `[13]` float: standard errors.
  """

  counts: jax.Array
  std_error: jax.Array


class NullResult(NamedTuple):
  """A statistic beside its distribution under a null model.

  Attributes:
    observed: `[...]` float64: the statistic of the graph, `[13]` for counts.
    mean: `[...]` float64: mean over the replicas.
    std: `[...]` float64: standard deviation over the replicas.
    z: `[...]` float64: (observed - mean) / std; nan where `degenerate`.
    p_emp: `[...]` float64: (1 + replicas at or above observed) / (1 + R).
    p_low: `[...]` float64: the same for replicas at or below observed.
    profile: `[...]` float64: z over its Euclidean norm; nan where
      `degenerate`.
    degenerate: `[...]` bool: all replicas have the same value.
    acceptance: mean share of attempted moves that were made; 1 for the models
      that are drawn directly.
    autocorrelation: `[10]` float64: mean correlation of the adjacency matrix
      with the observed one after each tenth of a chain; it is level where the
      chain has forgotten its start. Zeros for directly drawn models.
  """

  observed: np.ndarray
  mean: np.ndarray
  std: np.ndarray
  z: np.ndarray
  p_emp: np.ndarray
  p_low: np.ndarray
  profile: np.ndarray
  degenerate: np.ndarray
  acceptance: float
  autocorrelation: np.ndarray
