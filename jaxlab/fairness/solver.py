"""The exact minimum of an objective over the feasible PPVs and FORs.

The minimum lies at a breakpoint of some group, where two groups' boundaries
cross, where the objective is stationary along one of them, or at a corner.
All of these are written down at once, as arrays of one shape, and compared;
nothing is searched for and no grid is laid. The comparison carries no
gradient; the winner is computed once more, with it.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.fairness.domain import Domain
from jaxlab.fairness.envelope import (
  Edges,
  Pieces,
  common_for,
  interval_edges,
  lower_for_at,
  pieces,
)
from jaxlab.fairness.objective import (
  Objective,
  crossing_ppv,
  equal_ppv,
  stationary_ppv,
)
from jaxlab.fairness.quadratic import tolerance

# Beyond so many intervals they are compared block by block, in the caches.
_BLOCKED_FROM = 10_000
_BLOCK = 2048


class Point(NamedTuple):
  """A PPV, a FOR, their distance and the values there; `[...]` each."""

  p: jax.Array
  q: jax.Array
  gap: jax.Array
  value: jax.Array
  second: jax.Array


def minimise(
  edges: Edges,
  domain: Domain,
  objectives: tuple[Objective, ...],
  second: Objective | None = None,
) -> Point:
  """Minimises the largest of the objectives.

  Points whose values are equal up to rounding are told apart by the `second`
  objective, then by the larger PPV, then by the smaller FOR.

  Args:
    edges: of K groups.
    domain: where to look.
    objectives: what to minimise; of several, the largest counts.
    second: decides between equals; must not need candidates of its own.

  Returns:
    The best `Point`, of scalars; of no meaning where the domain is empty.
  """
  index, breakpoint, kind = _best_candidate(
    *jax.lax.stop_gradient((edges, domain, objectives, second))
  )
  piece = pieces(edges, index[:, None], breakpoint[None])
  piece = _clip(piece, domain)
  p = _candidates(piece, objectives)[kind]
  p = jnp.concatenate([p, domain.top[None]])
  lower, gaps = lower_for_at(edges, p)
  q, gap = jnp.max(lower, axis=0), jnp.min(gaps, axis=0)
  q = jnp.concatenate([q, domain.q])
  gap = jnp.concatenate([gap, domain.p - domain.q])
  p = jnp.concatenate([p, domain.p])
  points = _evaluate(p, q, gap, objectives, second)
  valid = jnp.concatenate([jnp.stack([domain.has_curve] * 2), domain.valid])
  best = jax.lax.stop_gradient(_best(points, valid))
  return Point(*(x[best] for x in points))


def _best_candidate(
  edges: Edges,
  domain: Domain,
  objectives: tuple[Objective, ...],
  second: Objective | None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """The best point of the curve: edges, breakpoint and kind of candidate."""
  index = interval_edges(edges.ppv)
  n = index.shape[1]

  def best_of(where: jax.Array) -> tuple[Point, jax.Array, jax.Array]:
    piece = _clip(pieces(edges, index[:, where], where), domain)
    p = _candidates(piece, objectives)
    points = _evaluate(p, *common_for(piece, p), objectives, second)
    valid = (p >= piece.left) & (p <= piece.right)
    best = _best(points, valid)
    kind, place = jnp.divmod(best, len(where))
    winner = Point(*(x.ravel()[best] for x in points))
    return winner, valid.ravel()[best], jnp.stack([where[place], kind])

  if n < _BLOCKED_FROM:
    interval, kind = best_of(jnp.arange(n))[2]
    return index[:, interval], interval, kind
  num_blocks = -(-n // _BLOCK)
  where = jnp.minimum(jnp.arange(num_blocks * _BLOCK), n - 1)
  winners, valid, places = jax.lax.map(best_of, where.reshape(num_blocks, -1))
  interval, kind = places[_best(winners, valid)]
  return index[:, interval], interval, kind


def _clip(piece: Pieces, domain: Domain) -> Pieces:
  """The intervals within the domain; those outside have left > right."""
  return piece._replace(
    left=jnp.maximum(piece.left, domain.bottom),
    right=jnp.minimum(piece.right, domain.top),
  )


def _candidates(piece: Pieces, objectives: tuple[Objective, ...]) -> jax.Array:
  """Where a minimum within each interval may lie: `[C, n]` PPV.

  Those outside their interval are dropped later. A number that is none of
  these points but lies inside does no harm: the curve is feasible there.
  """
  first, second = np.triu_indices(len(piece.slope), k=1)
  found = [piece.left[None]]
  found += [stationary_ppv(objective, piece) for objective in objectives]
  if first.size:
    found.append(crossing_ppv(piece, first, second))
  if len(objectives) == 2:
    found += equal_ppv(*objectives, piece)
  return jnp.concatenate(found)


def _evaluate(
  p: jax.Array,
  q: jax.Array,
  gap: jax.Array,
  objectives: tuple[Objective, ...],
  second: Objective | None,
) -> Point:
  """The values of points of the plane."""
  values = [objective(p, q, gap) for objective in objectives]
  value = values[0] if len(values) == 1 else jnp.maximum(*values)
  return Point(p, q, gap, value, value if second is None else second(p, q, gap))


def _best(points: Point, valid: jax.Array) -> jax.Array:
  """Flat index of the best valid one of `[n]` or `[C, n]` points."""
  slack = tolerance(points.value.dtype)
  points = Point(*map(jnp.atleast_2d, points))
  valid = jnp.atleast_2d(valid)

  def column_least(x: jax.Array) -> jax.Array:
    # Row after row: XLA's reduction over both axes is slower.
    return functools.reduce(jnp.minimum, list(x))

  def ties(value: jax.Array, among: jax.Array) -> jax.Array:
    value = jnp.where(among & ~jnp.isnan(value), value, jnp.inf)
    least = jnp.min(column_least(value))
    return value <= least + slack * jnp.maximum(1, jnp.abs(least))

  tied = ties(points.value, valid)
  if points.second is not points.value:
    tied = tied & ties(points.second, tied)
  tied = tied & ties(-points.p, tied)
  q = jnp.where(tied, points.q, jnp.inf)
  column = jnp.argmin(column_least(q))
  return jnp.argmin(q[:, column]) * q.shape[1] + column
