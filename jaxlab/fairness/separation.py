"""The sufficient rule that is closest to separation (equalized odds).

The largest TPR gap between groups is `A p q / (p - q)` and the largest FPR
gap `B (1 - p)(1 - q) / (p - q)`, where A and B depend on the base rates. Both
fall in the PPV p and rise in the FOR q, so they are least on the lower
boundary of the feasible set.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.fairness.checks import (
  check_choice,
  check_not_negative,
  check_value,
  is_traced,
)
from jaxlab.fairness.envelope import Edges, group_edges
from jaxlab.fairness.geometry import over_instances
from jaxlab.fairness.objective import (
  Objective,
  combine,
  gap_objectives,
  loss_objective,
)
from jaxlab.fairness.quadratic import tolerance
from jaxlab.fairness.solution import are_costs, build_solution
from jaxlab.fairness.sufficiency import check_modes
from jaxlab.fairness.types import GroupScores, Solution
from jaxlab.fairness.vacuous import solve_within

NORMS = ('sum', 'max', 'label_weighted')
TIE_BREAKS = ('loss', 'ppv')


def min_separation(
  gs: GroupScores,
  *,
  norm: str = 'sum',
  tpr_weight: ArrayLike = 1.0,
  fpr_weight: ArrayLike = 1.0,
  tie_break: str = 'loss',
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
  vacuous: str = 'closure',
  realize: str = 'mixture',
  rate_floor: ArrayLike = 1e-3,
) -> Solution:
  """The rule of equal PPV and FOR with the least deviation from separation.

  A reversed rule has the gaps of the rule that it reverses, so none is better.

  Args:
    gs: `[..., K, m]` groups; leading axes are instances.
    norm: `sum` is `tpr_weight` times the TPR gap plus `fpr_weight` times the
      FPR gap; `max` the larger gap; `label_weighted` weights the gaps by
      P(Y=1) and P(Y=0).
    tpr_weight: scalar >= 0, for `sum`.
    fpr_weight: scalar >= 0, for `sum`; not both 0.
    tie_break: what decides between rules of equal separation, as with equal
      base rates or a single group: `loss`, or `ppv` (the largest).
    cost_fp: scalar > 0: cost of a false positive, for the reported loss.
    cost_fn: scalar > 0: cost of a false negative.
    vacuous: as in `optimal_sufficient`.
    realize: as in `optimal_sufficient`.
    rate_floor: as in `optimal_sufficient`.

  Returns:
    The `Solution`, `[...]`.

  Raises:
    UserError: for an unknown mode, a bad cost or a bad weight.
  """
  check_modes(cost_fp, cost_fn, vacuous, realize, rate_floor)
  check_choice('norm', norm, NORMS)
  check_choice('tie_break', tie_break, TIE_BREAKS)
  check_not_negative(tpr_weight=tpr_weight, fpr_weight=fpr_weight)
  if norm == 'sum' and not is_traced(tpr_weight):
    check_value(
      'fpr_weight',
      fpr_weight,
      lambda x: x + np.asarray(tpr_weight) > 0,
      'positive where tpr_weight is 0',
    )
  solve = functools.partial(
    _closest, norm=norm, tie_break=tie_break, vacuous=vacuous, realize=realize
  )
  return over_instances(
    lambda one: solve(
      one, (tpr_weight, fpr_weight), (cost_fp, cost_fn), rate_floor
    ),
    gs,
  )


def pareto_front(
  gs: GroupScores,
  lambdas: jax.Array,
  *,
  norm: str = 'sum',
  cost_fp: ArrayLike = 1.0,
  cost_fn: ArrayLike = 1.0,
  realize: str = 'mixture',
) -> Solution:
  """Trades loss against separation among rules of equal PPV and FOR.

  For each lambda the exact minimum of `(1 - lambda) loss + lambda separation`.

  Args:
    gs: `[..., K, m]` groups; leading axes are instances.
    lambdas: `[L]` float in [0, 1].
    norm: `sum` (of the two gaps) or `label_weighted`.
    cost_fp: scalar > 0: cost of a false positive.
    cost_fn: scalar > 0: cost of a false negative.
    realize: as in `optimal_sufficient`.

  Returns:
    The `Solution`, `[..., L]`.

  Raises:
    UserError: for an unknown norm, a bad cost or a lambda outside [0, 1].
  """
  check_modes(cost_fp, cost_fn, 'closure', realize, 1e-3)
  check_choice('norm', norm, ('sum', 'label_weighted'))
  check_value(
    'lambdas', lambdas, lambda x: (x >= 0) & (x <= 1), 'in [0, 1]', ndim=1
  )
  lambdas = jnp.asarray(lambdas)
  solve = functools.partial(_traded, norm=norm, realize=realize)
  return over_instances(lambda one: solve(one, lambdas, (cost_fp, cost_fn)), gs)


def _deviation(
  edges: Edges,
  pooled: jax.Array,
  weights: tuple[jax.Array, jax.Array],
  norm: str,
) -> tuple[Objective, ...]:
  """The deviation from separation, the largest of what is returned."""
  gaps = gap_objectives(edges)
  if norm == 'max':
    return gaps
  if norm == 'label_weighted':
    weights = pooled, 1 - pooled
  return (combine(*gaps, *weights),)


def _or_loss(
  edges: Edges, deviation: tuple[Objective, ...], loss: Objective
) -> tuple[Objective, ...]:
  """The loss instead where equal base rates make every deviation 0."""
  spread = jnp.max(edges.pi) - jnp.min(edges.pi)
  is_equal = spread <= tolerance(edges.pi.dtype)
  return tuple(
    jax.tree.map(lambda x, y: jnp.where(is_equal, x, y), loss, objective)
    for objective in deviation
  )


@functools.partial(
  jax.jit, static_argnames=('norm', 'tie_break', 'vacuous', 'realize')
)
def _closest(
  gs: GroupScores,
  weights: tuple[jax.Array, jax.Array],
  costs: tuple[jax.Array, jax.Array],
  rate_floor: jax.Array,
  *,
  norm: str,
  tie_break: str,
  vacuous: str,
  realize: str,
) -> Solution:
  edges = group_edges(gs)
  pooled = jnp.sum(gs.weight * edges.pi)
  loss = loss_objective(pooled, *costs)
  deviation = _deviation(edges, pooled, weights, norm)
  if tie_break == 'loss':
    deviation = _or_loss(edges, deviation, loss)
  found = solve_within(
    gs,
    edges,
    deviation,
    loss if tie_break == 'loss' else None,
    costs,
    vacuous=vacuous,
    floor=rate_floor,
  )
  feasible = found.feasible & are_costs(costs)
  return build_solution(
    gs, edges, found.rates, feasible, found.status, costs, realize
  )


@functools.partial(jax.jit, static_argnames=('norm', 'realize'))
def _traded(
  gs: GroupScores,
  lambdas: jax.Array,
  costs: tuple[jax.Array, jax.Array],
  *,
  norm: str,
  realize: str,
) -> Solution:
  edges = group_edges(gs)
  pooled = jnp.sum(gs.weight * edges.pi)
  loss = loss_objective(pooled, *costs)
  one = jnp.ones_like(pooled)
  deviation = _deviation(edges, pooled, (one, one), norm)
  (gaps,) = _or_loss(edges, deviation, loss)

  def at(weight: jax.Array) -> Solution:
    found = solve_within(
      gs,
      edges,
      (combine(loss, gaps, 1 - weight, weight),),
      loss,
      costs,
      vacuous='closure',
      floor=0.0,
    )
    feasible = found.feasible & are_costs(costs)
    return build_solution(
      gs, edges, found.rates, feasible, found.status, costs, realize
    )

  return jax.vmap(at)(lambdas)
