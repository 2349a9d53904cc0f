"""One of the two rates of sufficiency equal in all groups, the other free."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.fairness.checks import check_costs
from jaxlab.fairness.metrics import rule_solution
from jaxlab.fairness.roc_region import (
  UpperEdge,
  edge_on_ppv,
  soft_threshold,
  upper_edge,
)
from jaxlab.fairness.types import GroupScores, Solution

_BISECTIONS = 60


def predictive_parity_ppv(
  gs: GroupScores, *, cost_fp: ArrayLike = 1.0, cost_fn: ArrayLike = 1.0
) -> Solution:
  """The best rule with the same PPV in all groups, whatever their FOR.

  Only informative rules, PPV >= base rate, are considered. At a common PPV p
  each group accepts as many as it can if p exceeds
  `tau = cost_fp / (cost_fp + cost_fn)`, nobody otherwise; what that saves,
  `(p - tau) sum_a g_a mu_a(p)`, is a sum of hyperbolas `c / (p - s)` between
  the PPVs of hard thresholds, and has its maximum at one of these or where the
  derivative vanishes. Exact for one and two groups, where the derivative
  changes sign at most once between them; with more groups its sign is looked
  up at 8 points a piece.

  Args:
    gs: calibrated scores.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.

  Returns:
    The optimum; infeasible where the top score of some group is below the
    base rate of another. Where no common PPV pays, nobody is accepted and the
    solution is degenerate.
  """
  check_costs(cost_fp, cost_fn)
  edge = upper_edge(gs)
  low, high = jnp.max(edge.pi), jnp.min(gs.scores[:, 0])
  tau = cost_fp / (cost_fp + cost_fn)

  def accepted(p):
    return edge_on_ppv(
      edge, jnp.broadcast_to(p, (gs.weight.size, *jnp.shape(p)))
    )

  def saving(p):
    shares = jnp.moveaxis(accepted(p), 0, -1)
    return (p - tau) * (shares @ gs.weight)

  ends = _breakpoints(edge, low, high)
  p = jnp.concatenate([ends, _stationary(gs, edge, accepted, ends, tau)])
  best = p[jnp.argmax(saving(p))]
  mu = jnp.where(saving(best) > 0, accepted(best), 0)
  rho = soft_threshold(gs, mu)
  return rule_solution(gs, rho, cost_fp, cost_fn, feasible=low <= high)


def predictive_parity_for(
  gs: GroupScores, *, cost_fp: ArrayLike = 1.0, cost_fn: ArrayLike = 1.0
) -> Solution:
  """The best rule with the same FOR in all groups, whatever their PPV.

  The mirror image of `predictive_parity_ppv`: with both Y and R negated, 1 -
  FOR is the PPV and the costs change places.

  Args:
    gs: calibrated scores.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.

  Returns:
    The optimum; infeasible where the lowest score of some group is above the
    base rate of another. Where no common FOR pays, everybody is accepted.
  """
  check_costs(cost_fp, cost_fn)
  mirrored, order = _mirror(gs)
  solution = predictive_parity_ppv(mirrored, cost_fp=cost_fn, cost_fn=cost_fp)
  rejected = jnp.take_along_axis(solution.rho, order, axis=1)
  return rule_solution(
    gs, 1 - rejected, cost_fp, cost_fn, feasible=solution.status == 0
  )


def _mirror(gs: GroupScores) -> tuple[GroupScores, jax.Array]:
  """The distribution of 1 - S, and the reversal of the atoms `[K, m]`."""
  place = jnp.arange(gs.scores.shape[1])
  order = jnp.maximum(gs.n_atoms[:, None] - 1 - place, 0)
  is_real = place < gs.n_atoms[:, None]
  scores = 1 - jnp.take_along_axis(gs.scores, order, axis=1)
  mass = jnp.where(is_real, jnp.take_along_axis(gs.mass, order, axis=1), 0)
  return gs._replace(scores=scores, mass=mass), order


def _breakpoints(edge: UpperEdge, low: jax.Array, high: jax.Array) -> jax.Array:
  """Sorted PPVs of all hard thresholds, clipped to [low, high], `[n]`."""
  M, N = edge.M[:, 1:], edge.N[:, 1:]
  ppv = N / jnp.where(M > 0, M, 1)
  ends = jnp.concatenate([ppv.ravel(), jnp.stack([low, high])])
  return jnp.sort(jnp.clip(ends, low, jnp.maximum(low, high)))


def _stationary(gs, edge, accepted, ends, tau):
  """Local maxima of the saving between the breakpoints, `[pieces]`."""
  middle = (ends[:-1] + ends[1:]) / 2
  mu = accepted(middle)
  active = jax.vmap(jnp.searchsorted)(edge.M, mu) - 1
  slope = jnp.take_along_axis(
    gs.scores, jnp.clip(active, 0, gs.scores.shape[1] - 1), axis=1
  )
  factor = gs.weight[:, None] * mu * (middle - slope) * (tau - slope)

  def derivative(p):
    distance = p[..., None, :] - slope
    terms = factor / jnp.where(distance == 0, 1, distance) ** 2
    return jnp.sum(terms, axis=-2)

  parts = 1 if gs.weight.size <= 2 else 8
  share = jnp.linspace(0, 1, parts + 1, dtype=ends.dtype)[:, None]
  cuts = ends[:-1] + share * jnp.diff(ends)

  def halve(_, bracket):
    left, right = bracket
    centre = (left + right) / 2
    rises = derivative(centre) > 0
    return jnp.where(rises, centre, left), jnp.where(rises, right, centre)

  left, _ = jax.lax.fori_loop(0, _BISECTIONS, halve, (cuts[:-1], cuts[1:]))
  return left.ravel()
