"""Exact optima under the criteria that sufficiency is compared with.

Each takes the calibrated atoms of one instance, is pure and fixed-shape, and
returns the rule of smallest loss `cost_fp P(R=1, Y=0) + cost_fn P(R=0, Y=1)`.
On the host a bad cost, gap or threshold raises `UserError`.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.fairness.checks import (
  check_costs,
  check_not_negative,
  check_value,
)
from jaxlab.fairness.metrics import rule_solution
from jaxlab.fairness.realize import realize
from jaxlab.fairness.roc_region import (
  polyline,
  soft_threshold,
  upper_edge,
)
from jaxlab.fairness.types import GroupScores, Solution

_MAX_COMBINATIONS = 10**8


def bayes(
  gs: GroupScores, *, cost_fp: ArrayLike = 1.0, cost_fn: ArrayLike = 1.0
) -> Solution:
  """The unconstrained optimum: positive where the expected cost is lower.

  Args:
    gs: calibrated scores.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.

  Returns:
    R = 1 for scores of at least `cost_fp / (cost_fp + cost_fn)`.
  """
  check_costs(cost_fp, cost_fn)
  rho = (cost_fp + cost_fn) * gs.scores >= cost_fp
  return rule_solution(gs, rho.astype(gs.scores.dtype), cost_fp, cost_fn)


def single_threshold(
  gs: GroupScores,
  threshold: ArrayLike,
  *,
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
) -> Solution:
  """One threshold for all groups: R = 1 where the score reaches it.

  Args:
    gs: calibrated scores.
    threshold: scalar.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.
  """
  check_costs(cost_fp, cost_fn)
  check_value('threshold', threshold, lambda x: ~np.isnan(x), 'a number')
  rho = (gs.scores >= threshold).astype(gs.scores.dtype)
  return rule_solution(gs, rho, cost_fp, cost_fn)


def group_thresholds(
  gs: GroupScores,
  *,
  max_gap: ArrayLike,
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
) -> Solution:
  """The best deterministic thresholds, one a group, by exhaustive search.

  Args:
    gs: calibrated scores.
    max_gap: the largest difference allowed between the PPV of two groups, and
      between their FOR. A rate that is undefined in some groups but not in all
      exceeds every limit.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.

  Returns:
    The best of the `(m+1)^K` combinations; infeasible if none keeps the gap.

  Raises:
    UserError: if there are more than 1e8 combinations.
  """
  check_costs(cost_fp, cost_fn)
  check_not_negative(max_gap=max_gap)
  num_groups, m = gs.scores.shape
  if (m + 1) ** num_groups > _MAX_COMBINATIONS:
    raise UserError(
      f'{num_groups} groups of {m} scores have {(m + 1) ** num_groups:.0e} '
      f'combinations of thresholds, more than {_MAX_COMBINATIONS:.0e}; merge '
      f'scores or use optimal_sufficient.'
    )
  edge = upper_edge(gs)
  loss = gs.weight[:, None] * (cost_fp * edge.F + cost_fn * edge.N_left)
  within = _combined_gap(edge.N, edge.M) <= max_gap + _rounding(gs)
  within &= _combined_gap(edge.N_left, edge.M_left) <= max_gap + _rounding(gs)
  total = sum(_along_axes(loss))
  best = jnp.argmin(jnp.where(within, total, jnp.inf))
  kept = jnp.stack(jnp.unravel_index(best, (m + 1,) * num_groups))
  rho = (jnp.arange(m) < kept[:, None]).astype(gs.scores.dtype)
  return rule_solution(gs, rho, cost_fp, cost_fn, feasible=jnp.any(within))


def statistical_parity(
  gs: GroupScores, *, cost_fp: ArrayLike = 1.0, cost_fn: ArrayLike = 1.0
) -> Solution:
  """The best rule with the same P(R=1) in all groups.

  The loss is convex and piecewise linear in that rate: its minimum is at a
  vertex of some group's upper edge.

  Args:
    gs: calibrated scores.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.
  """
  check_costs(cost_fp, cost_fn)
  edge = upper_edge(gs)
  rates = edge.M.ravel()
  hits = gs.weight @ polyline(_for_each_group(rates, gs), edge.M, edge.N)
  best = rates[jnp.argmax((cost_fp + cost_fn) * hits - cost_fp * rates)]
  rho = soft_threshold(gs, jnp.full_like(gs.weight, best))
  return rule_solution(gs, rho, cost_fp, cost_fn)


def equal_opportunity(
  gs: GroupScores, *, cost_fp: ArrayLike = 1.0, cost_fn: ArrayLike = 1.0
) -> Solution:
  """The best rule with the same TPR in all groups (Hardt et al. 2016).

  At a given TPR each group is best on its ROC curve, and the loss is convex
  and piecewise linear in the TPR. A group without positives is left out.

  Args:
    gs: calibrated scores.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.
  """
  check_costs(cost_fp, cost_fn)
  edge = upper_edge(gs)
  rates = (edge.N / _or_one(edge.pi)[:, None]).ravel()
  nu = rates * edge.pi[:, None]
  mu = polyline(nu, edge.N, edge.M)
  net = cost_fp * mu - (cost_fp + cost_fn) * nu
  best = jnp.argmin(gs.weight @ net)
  return rule_solution(gs, soft_threshold(gs, mu[:, best]), cost_fp, cost_fn)


def equalized_odds(
  gs: GroupScores, *, cost_fp: ArrayLike = 1.0, cost_fn: ArrayLike = 1.0
) -> Solution:
  """The best rule with the same TPR and FPR in all groups (Hardt et al. 2016).

  The reachable pairs are what the convex ROC regions have in common. The loss
  falls in the TPR and rises in the FPR, so that the best pair is a vertex of
  the lower envelope of the ROC curves: a vertex of one curve or a crossing of
  two. A group that has only one label is not compared in the other rate.

  Args:
    gs: calibrated scores.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.
  """
  check_costs(cost_fp, cost_fn)
  edge = upper_edge(gs)
  negatives = edge.F[:, -1]
  X = edge.F / _or_one(negatives)[:, None]
  Y = edge.N / _or_one(edge.pi)[:, None]
  free = ((negatives <= 0) | (edge.pi <= 0))[:, None]

  def curves(x):
    y = polyline(_for_each_group(x, gs), X, Y, steps='high')
    return jnp.where(free, 1, y)

  ends = jnp.sort(X.ravel())
  fpr = jnp.concatenate([ends, _crossings(ends, curves(ends))])
  tpr = jnp.min(curves(fpr), axis=0)
  pooled = gs.weight @ edge.pi
  loss = cost_fp * (1 - pooled) * fpr + cost_fn * pooled * (1 - tpr)
  best = jnp.argmin(loss)
  nu = tpr[best] * edge.pi
  mu = nu + fpr[best] * negatives
  rho = realize(gs.scores, gs.mass, mu, nu)
  return rule_solution(gs, rho, cost_fp, cost_fn)


def _crossings(ends: jax.Array, heights: jax.Array) -> jax.Array:
  """Where two of K polylines cross; the left end where they do not.

  Args:
    ends: `[n]` sorted abscissae that hold all vertices.
    heights: `[K, n]`.

  Returns:
    `[K (K-1) / 2 (n-1)]` abscissae.
  """
  a, b = np.triu_indices(heights.shape[0], 1)
  lead = heights[a] - heights[b]
  begin, end = lead[:, :-1], lead[:, 1:]
  crosses = begin * end < 0
  share = begin / jnp.where(crosses, begin - end, 1)
  step = jnp.where(crosses, share, 0) * jnp.diff(ends)
  return (ends[:-1] + step).ravel()


def _combined_gap(part: jax.Array, whole: jax.Array) -> jax.Array:
  """Largest gap of a rate for every combination of thresholds.

  Args:
    part: `[K, m+1]` numerators of the rate at each threshold.
    whole: `[K, m+1]` denominators.

  Returns:
    `[m+1] * K`: 0 where no group defines the rate, inf where only some do.
  """
  defined = whole > 0
  rate = part / jnp.where(defined, whole, 1)
  highest = _along_axes(jnp.where(defined, rate, -jnp.inf))
  lowest = _along_axes(jnp.where(defined, rate, jnp.inf))
  count = sum(_along_axes(defined.astype(jnp.int32)))
  gap = functools.reduce(jnp.maximum, highest)
  gap -= functools.reduce(jnp.minimum, lowest)
  partial = jnp.where(count == 0, 0, jnp.inf)
  return jnp.where(count == len(highest), gap, partial)


def _along_axes(rows: jax.Array) -> list[jax.Array]:
  """Row a of `[K, n]` along axis a of K axes."""
  shapes = np.where(np.eye(len(rows), dtype=bool), -1, 1)
  return [row.reshape(shape) for row, shape in zip(rows, shapes, strict=True)]


def _for_each_group(values: jax.Array, gs: GroupScores) -> jax.Array:
  return jnp.broadcast_to(values, (gs.weight.size, values.size))


def _or_one(x: jax.Array) -> jax.Array:
  return jnp.where(x > 0, x, 1)


def _rounding(gs: GroupScores) -> ArrayLike:
  return 16 * jnp.finfo(gs.scores.dtype).eps
