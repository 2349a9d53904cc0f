"""The common boundary of two groups, walked from edge to edge.

One pass over the edges of both groups in `m0 + m1` sequential steps, after
Benger and Ligett 2026. `optimal_sufficient` computes the same curve for any
number of groups without a walk and is faster; this is the curve itself.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.fairness.checks import check_costs
from jaxlab.fairness.domain import feasible_limits
from jaxlab.fairness.envelope import Edges, Pieces, group_edges, lower_for
from jaxlab.fairness.objective import (
  crossing_ppv,
  loss_objective,
  stationary_ppv,
)
from jaxlab.fairness.quadratic import safe_divide, tolerance
from jaxlab.fairness.types import INFEASIBLE, GroupScores


class Trace(NamedTuple):
  """The curve q = Q(p) in n pieces from the largest PPV to the smallest.

  Pieces without extent have `left == right`. Where the positive rate of the
  active group is mu, `p = slope + above / mu`, `q = slope - below / (1 - mu)`.

  Attributes:
    left: `[n]` float: PPV at the lower end.
    right: `[n]` float: PPV at the upper end.
    group: `[n]` int32: the group whose boundary is active, 0 or 1.
    edge: `[n]` int32: the number of its edge, that is of its score.
    slope: `[n]` float: that score.
    above: `[n]` float: intercept of the edge from the left.
    below: `[n]` float: intercept from the right.
    pi: `[n]` float: base rate of the active group.
  """

  left: jax.Array
  right: jax.Array
  group: jax.Array
  edge: jax.Array
  slope: jax.Array
  above: jax.Array
  below: jax.Array
  pi: jax.Array

  def lower(self, p: jax.Array) -> jax.Array:
    """FOR `[n]` of each piece at PPV p, scalar or `[n]`."""
    return lower_for(self.pieces(), p)[0][0]

  def pieces(self) -> Pieces:
    """The pieces as the edges of a single group."""
    return Pieces(
      self.slope[None],
      self.above[None],
      self.below[None],
      self.pi[None],
      self.left,
      self.right,
    )


@jax.jit
def trace_boundary(gs: GroupScores) -> Trace:
  """Walks the common boundary of two groups.

  Args:
    gs: `[2, m]` groups.

  Returns:
    The `Trace` of `6 m` pieces: each pair of edges can cross twice. All are
    without extent where the groups share no PPV.

  Raises:
    UserError: if there are not two groups.
  """
  if gs.scores.ndim != 2 or gs.scores.shape[0] != 2:
    raise UserError(
      f'trace_boundary needs two groups, got scores of shape '
      f'{gs.scores.shape}; use optimal_sufficient'
    )
  edges = group_edges(gs)
  hi = jnp.min(edges.top)
  lo = jnp.minimum(jnp.max(edges.pi), hi)
  m = gs.scores.shape[1]

  def step(
    state: tuple[jax.Array, jax.Array], _: None
  ) -> tuple[tuple[jax.Array, jax.Array], Trace]:
    position, right = state
    edge = jnp.minimum(position, m - 1)
    ends = edges.ppv[jnp.arange(2), edge]
    ends = jnp.where(position < m, ends, -jnp.inf)
    left = jnp.clip(jnp.max(ends), lo, right)
    following = position + (ends == jnp.max(ends))
    return (following, left), _split(edges, edge, left, right)

  vertical = jnp.sum(edges.above == 0, axis=-1)
  start = jnp.minimum(vertical, m - 1)
  _, parts = jax.lax.scan(step, (start, hi), length=2 * m)
  return jax.tree.map(jnp.ravel, parts)


def _split(
  edges: Edges, edge: jax.Array, left: jax.Array, right: jax.Array
) -> Trace:
  """The at most three pieces between `left` and `right`, from the right."""
  row = np.arange(2)
  piece = Pieces(
    edges.slope[row, edge][:, None],
    edges.above[row, edge][:, None],
    edges.below[row, edge][:, None],
    edges.pi[:, None],
    left[None],
    right[None],
  )
  cuts = crossing_ppv(piece, row[:1], row[1:])[:, 0]
  cuts = jnp.where((cuts > left) & (cuts < right), cuts, left)
  high, low = jnp.max(cuts), jnp.min(cuts)
  lefts = jnp.stack([high, low, left])
  rights = jnp.stack([right, high, low])
  lower, _ = lower_for(piece, (lefts + rights) / 2)
  group = jnp.argmax(lower, axis=0).astype(jnp.int32)
  slope, above, below, pi = (x[group, 0] for x in piece[:4])
  return Trace(lefts, rights, group, edge[group], slope, above, below, pi)


def trace_optimum(
  gs: GroupScores,
  trace: Trace,
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """The cheapest point of a traced boundary.

  Args:
    gs: the two groups `[2, m]`.
    trace: their boundary.
    cost_fp: scalar > 0: cost of a false positive.
    cost_fn: scalar > 0: cost of a false negative.

  Returns:
    PPV, FOR and loss; nan where no point is feasible.

  Raises:
    UserError: for a bad cost.
  """
  check_costs(cost_fp, cost_fn)
  return _optimum(gs, trace, cost_fp, cost_fn)


@jax.jit
def _optimum(
  gs: GroupScores, trace: Trace, cost_fp: jax.Array, cost_fn: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
  edges = group_edges(gs)
  limits = feasible_limits(edges)
  slack = tolerance(edges.pi.dtype)
  cap = limits.qcap
  base = jnp.sum(gs.weight * edges.pi)
  objective = loss_objective(base, cost_fp, cost_fn)
  # Beyond the point where a piece meets the largest FOR nothing is feasible.
  meets = (
    trace.pi
    + trace.below
    + safe_divide(trace.below * trace.above, trace.slope - trace.below - cap)
  )
  meets = jnp.clip(meets, trace.left, trace.right)
  right = jnp.where(trace.lower(trace.right) > cap, meets, trace.right)
  extends = trace.right > trace.left
  feasible = extends & (trace.lower(trace.left) <= cap + slack)
  inner = stationary_ppv(objective, trace.pieces())[0]
  inner = jnp.where((inner > trace.left) & (inner < right), inner, right)
  p = jnp.stack([trace.left, inner, right])
  q = jax.vmap(trace.lower)(p)
  top = jnp.max(jnp.where(feasible, right, limits.lo))
  ends = jnp.stack([limits.lo, top])
  p = jnp.append(jnp.where(feasible, p, jnp.nan), ends)
  q = jnp.append(q, jnp.stack([limits.q_at_lo, cap]))
  loss = objective(p, q, p - q)
  best = jnp.argmin(jnp.where(jnp.isnan(loss), jnp.inf, loss))
  exists = limits.status != INFEASIBLE
  p, q, loss = (jnp.where(exists, x[best], jnp.nan) for x in (p, q, loss))
  return p, q, loss
