"""Withholding decisions until the rest have one PPV and one FOR.

A reconstruction of post-processing with deferrals (Canetti et al. 2019, "From
soft classifiers to hard decisions: how fair can we be?") for the setting of
this family: finitely many calibrated scores and a price of deferring.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.fairness.checks import check_costs, check_count, check_not_negative
from jaxlab.fairness.realize import realize
from jaxlab.fairness.roc_region import (
  edge_on_for,
  edge_on_ppv,
  soft_threshold,
  upper_edge,
)
from jaxlab.fairness.search import minimize_on_square
from jaxlab.fairness.types import INFEASIBLE, OK, GroupScores


class Abstention(NamedTuple):
  """A rule that accepts, rejects or withholds.

  Attributes:
    ppv: scalar: `P(Y=1 | accepted)` of every group.
    for_: scalar: `P(Y=1 | rejected)` of every group.
    loss: scalar: costs of the decisions and of those withheld.
    withheld: `[K]` share of each group.
    accept: `[K, m]` probability of acceptance at each score.
    reject: `[K, m]` probability of rejection.
    status: int32 `OK` or `INFEASIBLE` (all numbers are nan).
  """

  ppv: jax.Array
  for_: jax.Array
  loss: jax.Array
  withheld: jax.Array
  accept: jax.Array
  reject: jax.Array
  status: jax.Array


def abstention(
  gs: GroupScores,
  *,
  cost_withheld: ArrayLike = 0.5,
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
  starts: int = 2,
) -> Abstention:
  """Equal PPV and FOR among the decided, at the least cost.

  At PPV p and FOR q a group accepts its top scores down to where their mean is
  p, rejects its lowest up to where theirs is q, and withholds the middle. Where
  the two would overlap, (p, q) is within the group's reach without
  withholding, and it decides on everybody. Every p from the highest base rate
  to the lowest top score and q from the highest bottom score to the lowest
  base rate will do; the price of withholding decides between them, by the
  search of `minimize_on_square`. No more is withheld than (p, q) makes
  necessary, even where withholding would be cheaper than deciding.

  Args:
    gs: calibrated scores.
    cost_withheld: price of a decision withheld, >= 0.
    cost_fp: cost of a false positive, > 0.
    cost_fn: cost of a false negative, > 0.
    starts: local minima that are followed up, static.

  Returns:
    The best rule found, for one instance.
  """
  check_costs(cost_fp, cost_fn)
  check_not_negative(cost_withheld=cost_withheld)
  check_count('starts', starts)
  edge = upper_edge(gs)
  low = jnp.stack([jnp.max(edge.pi), jnp.max(gs.scores[:, -1])])
  high = jnp.stack([jnp.min(gs.scores[:, 0]), jnp.min(edge.pi)])
  tau = cost_fp / (cost_fp + cost_fn)

  def rates(u, v):
    """PPV, FOR, and each group's accepted and not rejected share."""
    u, v = jnp.broadcast_arrays(u, v)
    p = low[0] + u * (high[0] - low[0])
    q = low[1] + v * (high[1] - low[1])
    ps, qs = (jnp.broadcast_to(x, edge.pi.shape + x.shape) for x in (p, q))
    pi = edge.pi.reshape((-1,) + (1,) * p.ndim)
    accepted, kept = edge_on_ppv(edge, ps), edge_on_for(edge, qs)
    shared = (pi - q) / jnp.where(p > q, p - q, 1)
    shared = jnp.clip(jnp.where(p > q, shared, p >= tau), 0, 1)
    overlap = accepted >= kept
    return (
      p,
      q,
      jnp.where(overlap, shared, accepted),
      jnp.where(overlap, shared, kept),
    )

  def loss(u, v):
    p, q, accepted, kept = rates(u, v)
    each = cost_fp * (1 - p) * accepted + cost_fn * q * (1 - kept)
    each += cost_withheld * (kept - accepted)
    return jnp.moveaxis(each, 0, -1) @ gs.weight

  u, v, value = minimize_on_square(loss, gs.scores.dtype, starts=starts)
  p, q, accepted, kept = rates(u, v)
  decided = (kept <= accepted)[:, None]
  whole = realize(gs.scores, gs.mass, accepted, p * accepted)
  accept = jnp.where(decided, whole, soft_threshold(gs, accepted))
  reject = 1 - jnp.where(decided, whole, soft_threshold(gs, kept))
  feasible = jnp.all(low <= high)

  def known(x):
    return jnp.where(feasible, x, jnp.nan)

  return Abstention(
    ppv=known(p),
    for_=known(q),
    loss=known(value),
    withheld=known(kept - accepted),
    accept=known(accept),
    reject=known(reject),
    status=jnp.where(feasible, OK, INFEASIBLE).astype(jnp.int32),
  )
