"""What a generator is asked for, checked before any work."""

import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import catalog
from jaxlab.motifs.types import InfeasibleTarget

_SUM_TOLERANCE = 1e-6


def check_target(
  num_nodes: int | None = None,
  num_edges: int | None = None,
  q: ArrayLike | None = None,
) -> bool:
  """Checks the size of a graph and its motif shares; runs on the host.

  Args:
    num_nodes: N, at least 3.
    num_edges: E, at most N (N-1).
    q: `[13]` non-negative shares that sum to 1.

  Returns:
    True.

  Raises:
    InfeasibleTarget: if there is no room for the edges.
    UserError: if a number is negative, N below 3 or q no distribution.
  """
  if num_nodes is not None and num_nodes < 3:
    raise UserError(f'num_nodes={num_nodes}, but motifs need at least 3 nodes')
  if num_edges is not None and num_edges < 0:
    raise UserError(f'num_edges={num_edges} is negative; give 0 or more')
  if q is not None:
    checked_shares(q)
  if num_nodes is not None and num_edges is not None:
    room = num_nodes * (num_nodes - 1)
    if num_edges > room:
      raise InfeasibleTarget(
        f'{num_edges} edges do not fit: {num_nodes} nodes have {room} ordered '
        'pairs'
      )
  return True


def checked_shares(q: ArrayLike) -> np.ndarray:
  """Returns `[13]` float64 shares, or the error that says what is wrong."""
  shares = np.asarray(q, np.float64)
  if shares.shape != (13,):
    raise UserError(
      f'q has shape {shares.shape}; give one share for each of the 13 motifs'
    )
  if not (shares >= 0).all():
    motif = int(np.argmin(np.nan_to_num(shares, nan=-np.inf)))
    raise UserError(
      f'q[{motif}] = {shares[motif]} ({catalog.NAMES[motif]}) is negative or '
      'nan; shares are 0 or more'
    )
  if abs(shares.sum() - 1) > _SUM_TOLERANCE:
    raise UserError(
      f'the shares q sum to {shares.sum():.8g}, not 1; divide by their sum'
    )
  return shares


def shares_of(q_or_motif: ArrayLike | str) -> np.ndarray:
  """Returns `[13]` shares: those given, or all for one motif by name."""
  if isinstance(q_or_motif, str):
    return np.eye(13)[catalog.motif_index(q_or_motif)]
  return checked_shares(q_or_motif)


def apportion(q: np.ndarray, copies: int) -> np.ndarray:
  """Splits a number of copies by shares: `[13]` int64, largest remainders."""
  ideal = q * copies
  counts = np.floor(ideal).astype(np.int64)
  order = np.argsort(counts - ideal, kind='stable')
  counts[order[: copies - counts.sum()]] += 1
  return counts


def copies_with_edges(q: np.ndarray, num_edges: int) -> np.ndarray:
  """Numbers of copies with exactly E edges that are closest to the shares.

  Args:
    q: `[13]` shares.
    num_edges: E.

  Returns:
    `[13]` int64 numbers; least squared distance to the ideal among those that
    differ from it by few copies.

  Raises:
    InfeasibleTarget: if no such numbers have E edges.
  """
  ideal = num_edges * q / (q @ catalog.NUM_EDGES)
  base = np.maximum(np.floor(ideal).astype(np.int64) - 2, 0)
  missing = int(num_edges - base @ catalog.NUM_EDGES)
  # best[e]: squared distance and additions whose edges sum to e.
  best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
  for motif in np.flatnonzero(q):
    size = int(catalog.NUM_EDGES[motif])
    further: dict[int, tuple[float, tuple[int, ...]]] = {}
    for edges, (distance, added) in best.items():
      for more in range((missing - edges) // size + 1):
        cost = distance + (base[motif] + more - ideal[motif]) ** 2
        total = edges + more * size
        if total not in further or cost < further[total][0]:
          further[total] = cost, (*added, more)
    best = further
  if missing not in best:
    names = ', '.join(catalog.NAMES[m] for m in np.flatnonzero(q))
    raise InfeasibleTarget(
      f'num_edges={num_edges} is no sum of the edges of copies of {names}; '
      f'take {max(best) + num_edges - missing} or add a motif'
    )
  base[np.flatnonzero(q)] += np.array(best[missing][1])
  return base


def most_triples(num_nodes: int) -> int:
  """The most triples of N nodes no two of which share a dyad.

  Source: Schönheim (1966), Spencer (1968): the maximum packing of triples.
  """
  bound = num_nodes * ((num_nodes - 1) // 2) // 3
  return bound - (num_nodes % 6 == 5)
