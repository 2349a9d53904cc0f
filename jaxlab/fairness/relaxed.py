"""Criteria near sufficiency: bounded gaps, equal costs of mixed scores."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.fairness.checks import check_costs, check_count, check_not_negative
from jaxlab.fairness.metrics import rule_solution
from jaxlab.fairness.realize import realize
from jaxlab.fairness.roc_region import (
  UpperEdge,
  edge_on_for,
  edge_on_ppv,
  lowest_for,
  polyline,
  upper_edge,
)
from jaxlab.fairness.search import minimize_on_square
from jaxlab.fairness.types import GroupScores, Solution


def soft_sufficiency(
  gs: GroupScores,
  eps_p: ArrayLike,
  eps_q: ArrayLike,
  *,
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
  starts: int = 2,
) -> Solution:
  """The best rule whose PPVs differ by eps_p and FORs by eps_q at most.

  Some p and q put the PPV of every group in [p, p + eps_p] and its FOR in
  [q, q + eps_q]; given these, the groups separate, and each solves a linear
  program in (P(R=1), P(R=1, Y=1)) whose optimum is known in closed form. Only
  p and q are searched: q along a line for each p, both on a grid first and then
  down to 1e-11 around its best local minima. The rule keeps the gaps to
  rounding whatever the search finds, and its loss is that of the best grid
  point or less. It converges to the optimum as `starts` and with it the grid
  grows, but is not a proof of optimality for a given grid; on random instances
  of five scores 2 and 4 starts agree to 1e-9.

  Only informative rules, PPV >= base rate >= FOR, are considered, and a rate
  that nobody defines is taken as its limit.

  Args:
    gs: calibrated scores.
    eps_p: largest gap of PPV, >= 0.
    eps_q: largest gap of FOR, >= 0.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.
    starts: local minima that are followed up, static; the grids have 9 times as
      many points.

  Returns:
    The best rule found; infeasible where no p and q suit all groups.
  """
  check_costs(cost_fp, cost_fn)
  check_not_negative(eps_p=eps_p, eps_q=eps_q)
  check_count('starts', starts)
  edge = upper_edge(gs)
  tau = cost_fp / (cost_fp + cost_fn)
  low_p = jnp.max(edge.pi) - eps_p
  high_p = jnp.min(gs.scores[:, 0])
  high_q = jnp.min(edge.pi)

  def band(u, v):
    u, v = jnp.broadcast_arrays(u, v)
    p = low_p + u * jnp.maximum(high_p - low_p, 0)
    each = jnp.broadcast_to(p, edge.pi.shape + p.shape)
    low_q = jnp.max(lowest_for(edge, each), axis=0) - eps_q
    feasible = (low_p <= high_p) & (low_q <= high_q)
    return p, low_q + v * (high_q - low_q), feasible

  def loss(u, v):
    p, q, feasible = band(u, v)
    mu, nu = _best_in_band(edge, p, q, p + eps_p, q + eps_q, tau)
    value = jnp.moveaxis(tau * mu - nu, 0, -1) @ gs.weight
    return jnp.where(feasible, value, jnp.inf)

  u, v, value = minimize_on_square(loss, gs.scores.dtype, starts=starts)
  p, q, _ = band(u, v)
  mu, nu = _best_in_band(edge, p, q, p + eps_p, q + eps_q, tau)
  return rule_solution(
    gs,
    realize(gs.scores, gs.mass, mu, nu),
    cost_fp,
    cost_fn,
    feasible=jnp.isfinite(value),
  )


def calibrated_mixing(
  gs: GroupScores, *, fpr_weight: ArrayLike = 0.0, fnr_weight: ArrayLike = 1.0
) -> tuple[jax.Array, jax.Array]:
  """How often each group's score is replaced by its base rate.

  The cost of a score is `fpr_weight E[S | Y=0] + fnr_weight E[1-S | Y=1]`, its
  generalized false positive and false negative rates. Replacing a calibrated
  score by the base rate with a fixed probability keeps it calibrated and
  raises this cost, so that all groups can be brought to that of the worst one
  (Pleiss et al. 2017, "On fairness and calibration").

  Args:
    gs: calibrated scores.
    fpr_weight: >= 0; 1 with `fnr_weight` 0 equalises the generalized FPR.
    fnr_weight: >= 0.

  Returns:
    `[K]` shares in [0, 1], and whether the base rate is costly enough in every
    group to reach the worst one's cost (nan shares where it is not).
  """
  check_not_negative(fpr_weight=fpr_weight, fnr_weight=fnr_weight)
  pi = jnp.sum(gs.mass * gs.scores, axis=1)
  spread = jnp.sum(gs.mass * gs.scores * (1 - gs.scores), axis=1)
  cost = fpr_weight * spread / (1 - pi) + fnr_weight * spread / pi
  trivial = fpr_weight * pi + fnr_weight * (1 - pi)
  target = jnp.max(cost)
  rounding = 16 * jnp.finfo(cost.dtype).eps
  room = trivial - cost
  share = (target - cost) / jnp.where(room > rounding, room, 1)
  feasible = jnp.all(target <= trivial + rounding)
  return jnp.where(feasible, jnp.clip(share, 0, 1), jnp.nan), feasible


def calibrated_eq_odds(
  gs: GroupScores,
  *,
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
  fpr_weight: ArrayLike = 0.0,
  fnr_weight: ArrayLike = 1.0,
) -> Solution:
  """Decisions by calibrated scores of equal cost (Pleiss et al. 2017).

  The mixed score of `calibrated_mixing` is thresholded at
  `cost_fp / (cost_fp + cost_fn)`: a decision follows the person's score, or,
  with the group's share, its base rate.

  Args:
    gs: calibrated scores.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.
    fpr_weight: weight of the generalized FPR in what is equalised.
    fnr_weight: weight of the generalized FNR.

  Returns:
    The rule; infeasible where mixing cannot make the costs equal. The criterion
    equalises costs of scores, not of the decisions.
  """
  check_costs(cost_fp, cost_fn)
  share, feasible = calibrated_mixing(
    gs, fpr_weight=fpr_weight, fnr_weight=fnr_weight
  )
  pi = jnp.sum(gs.mass * gs.scores, axis=1)
  tau = cost_fp / (cost_fp + cost_fn)
  own = gs.scores >= tau
  base = (pi >= tau)[:, None]
  rho = jnp.where(own, 1 - share[:, None], 0) + share[:, None] * base
  return rule_solution(gs, rho, cost_fp, cost_fn, feasible=feasible)


def _best_in_band(
  edge: UpperEdge,
  low_p: jax.Array,
  low_q: jax.Array,
  high_p: jax.Array,
  high_q: jax.Array,
  tau: ArrayLike,
) -> tuple[jax.Array, jax.Array]:
  """Each group's best (mu, nu) with PPV and FOR in given intervals.

  The largest nu at a given mu is `V = min(U, high_p mu, pi - low_q (1 - mu))`,
  concave, and the other two limits bound mu to an interval. `V - tau mu` is
  largest at an end of it or at a vertex of V inside.

  Args:
    edge: upper edges.
    low_p: `[...]` limits of PPV, at most every top score.
    low_q: `[...]` limits of FOR, at most every base rate.
    high_p: `[...]`, at least every base rate.
    high_q: `[...]`, at least every lowest FOR at `low_p`.
    tau: `cost_fp / (cost_fp + cost_fn)`.

  Returns:
    mu and nu, `[K, ...]`.
  """

  def each(x):
    return jnp.broadcast_to(x, edge.pi.shape + jnp.shape(x))

  def lines_meet(p, q):  # of PPV p and FOR q
    return (pi - q) / jnp.where(p > q, p - q, jnp.inf)

  pi = edge.pi.reshape((-1,) + (1,) * jnp.ndim(low_p))
  one = edge.M[:, -1].reshape(pi.shape)
  top = jnp.where(low_p > low_q, lines_meet(low_p, low_q), one)
  most = jnp.minimum(edge_on_ppv(edge, each(low_p)), top)
  least = jnp.maximum(
    edge_on_for(edge, each(high_q)),
    jnp.where(pi > high_q, lines_meet(high_p, high_q), 0),
  )
  threshold = jnp.sum(edge.mass * (edge.scores >= tau), axis=1)
  candidates = jnp.stack(
    [
      jnp.broadcast_to(threshold.reshape(pi.shape), most.shape),
      edge_on_ppv(edge, each(high_p)),
      edge_on_for(edge, each(low_q)),
      jnp.broadcast_to(lines_meet(high_p, low_q), most.shape),
      most,
      least,
    ]
  )
  mu = jnp.clip(candidates, jnp.minimum(least, most), most)
  on_edge = polyline(jnp.moveaxis(mu, 0, -1), edge.M, edge.N)
  nu = jnp.minimum(
    jnp.moveaxis(on_edge, -1, 0),
    jnp.minimum(high_p * mu, pi - low_q * (one - mu)),
  )
  best = jnp.argmax(nu - tau * mu, axis=0)[None]
  return (
    jnp.take_along_axis(mu, best, axis=0)[0],
    jnp.take_along_axis(nu, best, axis=0)[0],
  )
