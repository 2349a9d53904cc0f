"""The cheapest decision rule that has the same PPV and FOR in every group.

The loss of a rule depends on the common PPV p and FOR q alone, and is least
on the curve q = Q(p) that the groups' boundaries form together, or at the
corner of the largest p and q: `solver.minimise` finds the point in closed
form. After Benger and Ligett 2026, arXiv 2602.07285.
"""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.fairness.branch import BRANCHES, cheaper_branch
from jaxlab.fairness.checks import check_choice, check_costs, check_value
from jaxlab.fairness.envelope import group_edges
from jaxlab.fairness.geometry import over_instances
from jaxlab.fairness.objective import loss_objective
from jaxlab.fairness.realize import REALIZERS
from jaxlab.fairness.solution import are_costs, build_solution
from jaxlab.fairness.types import GroupScores, Solution
from jaxlab.fairness.vacuous import VACUOUS, solve_within


def optimal_sufficient(
  gs: GroupScores,
  *,
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
  vacuous: str = 'closure',
  branch: str = 'informative',
  realize: str = 'mixture',
  rate_floor: ArrayLike = 1e-3,
) -> Solution:
  """The cheapest randomized rule with one PPV and one FOR for all groups.

  Exact in float64; in float32 the loss is good to about 1e-4. The gradient of
  `loss` with respect to scores, masses and costs is that of the optimum, away
  from where another kind of optimum takes over.

  Args:
    gs: `[..., K, m]` groups; leading axes are instances.
    cost_fp: scalar > 0: cost of a false positive.
    cost_fn: scalar > 0: cost of a false negative.
    vacuous: what becomes of groups that are all positive or all negative:
      `closure` takes such rules as limits and marks them `degenerate`,
      `forbid` refuses them, `allow` does not compare the undefined rates.
    branch: `informative` (PPV >= FOR) or `both`.
    realize: `mixture`, `window` or `three_level`, see `realize`; they differ
      in `rho` only.
    rate_floor: scalar in (0, 0.5): with `forbid`, the distance of every
      positive rate from 0 and 1 where the optimum is a limit only.

  Returns:
    The `Solution`, `[...]`. Where nothing is feasible, or a cost in traced
    code is not positive and finite, its numbers are nan and its status is
    `INFEASIBLE`.

  Raises:
    UserError: for an unknown mode, a bad cost or a bad `rate_floor`.
  """
  check_modes(cost_fp, cost_fn, vacuous, realize, rate_floor)
  check_choice('branch', branch, BRANCHES)
  if branch == 'both' and vacuous == 'forbid':
    raise UserError(
      "branch='both' and vacuous='forbid' exclude each other: every optimal "
      'reversed rule makes some group all positive or all negative'
    )
  solve = functools.partial(
    _optimal, vacuous=vacuous, branch=branch, realize=realize
  )
  return over_instances(
    lambda one: solve(one, cost_fp, cost_fn, rate_floor), gs
  )


def check_modes(
  cost_fp: ArrayLike,
  cost_fn: ArrayLike,
  vacuous: str,
  realize: str,
  rate_floor: ArrayLike,
) -> None:
  """Refuses bad costs and modes, as far as they are known on the host.

  Raises:
    UserError: naming the argument and its value.
  """
  check_costs(cost_fp, cost_fn)
  check_choice('vacuous', vacuous, VACUOUS)
  check_choice('realize', realize, tuple(REALIZERS))
  check_value(
    'rate_floor', rate_floor, lambda x: (x > 0) & (x < 0.5), 'in (0, 0.5)'
  )


@functools.partial(jax.jit, static_argnames=('vacuous', 'branch', 'realize'))
def _optimal(
  gs: GroupScores,
  cost_fp: jax.Array,
  cost_fn: jax.Array,
  rate_floor: jax.Array,
  *,
  vacuous: str,
  branch: str,
  realize: str,
) -> Solution:
  edges = group_edges(gs)
  costs = cost_fp, cost_fn
  pooled = jnp.sum(gs.weight * edges.pi)
  found = solve_within(
    gs,
    edges,
    (loss_objective(pooled, *costs),),
    None,
    costs,
    vacuous=vacuous,
    floor=rate_floor,
  )
  rates = found.rates
  if branch == 'both':
    rates = cheaper_branch(gs, edges, found, costs)
  feasible = found.feasible & are_costs(costs)
  return build_solution(
    gs, edges, rates, feasible, found.status, costs, realize
  )
