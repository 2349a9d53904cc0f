"""What becomes of groups that are all positive or all negative.

Such a group has no FOR or no PPV of its own. `closure` takes these rules as
limits of others, `forbid` refuses them, and `allow` admits more of them: a
rate that is undefined need not be equal to anything.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.fairness.domain import (
  Domain,
  Limits,
  closed_domain,
  cut_domain,
  exempt_domain,
  feasible_limits,
)
from jaxlab.fairness.envelope import Edges
from jaxlab.fairness.objective import Objective
from jaxlab.fairness.solution import Rates, is_degenerate, rates_at
from jaxlab.fairness.solver import minimise
from jaxlab.fairness.types import INFEASIBLE, OK, TRIVIAL, GroupScores

VACUOUS = ('closure', 'forbid', 'allow')


class Found(NamedTuple):
  """An optimum and where it was looked for.

  Attributes:
    rates: the optimum; of no meaning where nothing is feasible.
    limits: of the feasible set.
    domain: where it was looked for.
    feasible: bool: whether there is an optimum.
    status: int32.
  """

  rates: Rates
  limits: Limits
  domain: Domain
  feasible: jax.Array
  status: jax.Array


def solve_within(
  gs: GroupScores,
  edges: Edges,
  objectives: tuple[Objective, ...],
  second: Objective | None,
  costs: tuple[jax.Array, jax.Array],
  *,
  vacuous: str,
  floor: jax.Array | float,
) -> Found:
  """The optimum under one reading of undefined rates.

  Args:
    gs: `[K, m]` groups.
    edges: of these groups.
    objectives: what to minimise, see `solver.minimise`.
    second: decides between equals.
    costs: of a false positive and of a false negative.
    vacuous: one of `VACUOUS`.
    floor: with `forbid`, how far from 0 and 1 the positive rates stay when
      the optimum would otherwise be reached in the limit only.

  Returns:
    What was `Found`.
  """
  limits = feasible_limits(edges)
  domain = closed_domain(limits)
  if vacuous == 'allow':
    domain = exempt_domain(edges, limits)
  point = minimise(edges, domain, objectives, second)
  keep_off = floor if vacuous == 'forbid' else 0.0
  rates = rates_at(gs, edges, limits, point, costs, keep_off)
  feasible = domain.has_curve | jnp.any(domain.valid)
  status = jnp.where(feasible, limits.status, INFEASIBLE)
  if vacuous == 'allow':
    is_more = jnp.any(domain.valid[-3:-1])
    opened = jnp.where(is_more, OK, TRIVIAL)
    status = jnp.where(feasible & (limits.status == INFEASIBLE), opened, status)
  if vacuous == 'forbid':
    cut = cut_domain(edges, limits, jnp.asarray(floor, edges.pi.dtype))
    inner = minimise(edges, cut, objectives, second)
    inner_rates = rates_at(gs, edges, limits, inner, costs, floor)
    is_limit = is_degenerate(rates)
    rates = jax.tree.map(
      lambda x, y: jnp.where(is_limit, x, y), inner_rates, rates
    )
    feasible &= ~is_limit | cut.has_curve | jnp.any(cut.valid)
  return Found(rates, limits, domain, feasible, status)
