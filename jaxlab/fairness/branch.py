"""Rules whose PPV is below their FOR: they deny those who score high."""

import jax
import jax.numpy as jnp

from jaxlab.fairness.envelope import Edges, lower_for_at
from jaxlab.fairness.quadratic import tolerance
from jaxlab.fairness.solution import Rates, expected_loss, rates_at
from jaxlab.fairness.solver import Point
from jaxlab.fairness.types import GroupScores
from jaxlab.fairness.vacuous import Found

BRANCHES = ('informative', 'both')


def cheaper_branch(
  gs: GroupScores,
  edges: Edges,
  found: Found,
  costs: tuple[jax.Array, jax.Array],
) -> Rates:
  """The cheaper of the best informative and the best reversed rule.

  A reversed rule is an informative one with its decisions swapped. Its loss
  is a constant less the informative loss, which is largest at a corner.

  Args:
    gs: `[K, m]` groups.
    edges: of these groups.
    found: the best informative rule.
    costs: of a false positive and of a false negative.

  Returns:
    The rates of the cheaper one; the informative one where they are equal.
  """
  limits, domain = found.limits, found.domain
  p = jnp.concatenate([domain.bottom[None], domain.p])
  valid = jnp.concatenate([domain.has_curve[None], domain.valid])
  lower, gaps = lower_for_at(edges, domain.bottom[None])
  q = jnp.concatenate([jnp.max(lower, axis=0), domain.q])
  gap = jnp.concatenate([jnp.min(gaps, axis=0), domain.p - domain.q])

  def swapped(point: Point) -> Rates:
    rates = rates_at(gs, edges, limits, point, costs)
    return Rates(rates.q, rates.p, 1 - rates.mu, 1 - rates.pooled)

  corners = jax.vmap(swapped)(Point(p, q, gap, p, p))
  losses = jax.vmap(lambda rates: expected_loss(rates, costs))(corners)
  losses = jnp.where(valid & ~jnp.isnan(losses), losses, jnp.inf)
  best = jnp.argmin(jax.lax.stop_gradient(losses))
  slack = tolerance(losses.dtype)
  is_better = losses[best] < expected_loss(found.rates, costs) - slack
  return jax.tree.map(
    lambda x, y: jnp.where(is_better, x[best], y), corners, found.rates
  )
