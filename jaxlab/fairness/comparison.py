"""The methods that are compared with each other, on the same groups."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxlab.fairness import baselines, predictive_parity, relaxed
from jaxlab.fairness.separation import min_separation
from jaxlab.fairness.sufficiency import optimal_sufficient
from jaxlab.fairness.types import GroupScores, Solution

BAYES = 'Bayes'
SUFFICIENT = 'Sufficiency, least loss'
NON_VACUOUS = 'Sufficiency, some of each group accepted'
SEPARATED = 'Sufficiency, closest to separation'

Method = Callable[[GroupScores], Solution]


def methods(
  cost_fp: float = 1.0,
  cost_fn: float = 1.0,
  *,
  tolerance: float = 0.01,
  rate_floor: float = 0.01,
) -> dict[str, Method]:
  """Every method by its name, as a function of the groups.

  Args:
    cost_fp: cost of a false positive.
    cost_fn: cost of a false negative.
    tolerance: PPV and FOR gaps that the relaxed methods allow.
    rate_floor: least share of each group that is accepted, and refused, by the
      rule that must not be vacuous.
  """
  costs = {'cost_fp': cost_fp, 'cost_fn': cost_fn}
  parity = predictive_parity
  found: dict[str, Callable] = {
    BAYES: baselines.bayes,
    SUFFICIENT: optimal_sufficient,
    NON_VACUOUS: functools.partial(
      optimal_sufficient, vacuous='forbid', rate_floor=rate_floor
    ),
    SEPARATED: min_separation,
    'Sufficiency, least larger gap': functools.partial(
      min_separation, norm='max'
    ),
    f'Sufficiency within {tolerance:g}': functools.partial(
      relaxed.soft_sufficiency, eps_p=tolerance, eps_q=tolerance
    ),
    'Equal PPV': parity.predictive_parity_ppv,
    'Equal FOR': parity.predictive_parity_for,
    'Statistical parity': baselines.statistical_parity,
    'Equal opportunity': baselines.equal_opportunity,
    'Equalized odds': baselines.equalized_odds,
    'Calibrated equal FNR': relaxed.calibrated_eq_odds,
  }
  return {
    name: functools.partial(method, **costs) for name, method in found.items()
  }


def randomized_mass(gs: GroupScores, rho: jax.Array) -> jax.Array:
  """Share of people whose decision is drawn by lot.

  Args:
    gs: `[..., K, m]` groups.
    rho: `[..., K, m]` rule.

  Returns:
    `[...]` float.
  """
  drawn = (rho > 0) & (rho < 1)
  return jnp.sum(jnp.where(drawn, gs.mass, 0) * gs.weight[..., None], (-2, -1))


def accuracy(solution: Solution) -> jax.Array:
  """The share of right decisions; costs must be 1."""
  return 1 - solution.loss


def resample_cells(key: jax.Array, cells: jax.Array) -> jax.Array:
  """Draws as many people again, group by group, from where they were seen.

  Args:
    key: PRNG key.
    cells: `[K, ...]` float counts; each group keeps its total.

  Returns:
    Counts of the same shape.
  """
  num_groups = cells.shape[0]
  flat = cells.reshape(num_groups, -1)
  totals = jnp.sum(flat, axis=1)
  shares = flat / totals[:, None]
  keys = jax.random.split(key, num_groups)
  drawn = jax.vmap(jax.random.multinomial)(keys, totals, shares)
  return drawn.reshape(cells.shape).astype(cells.dtype)


def groups_of_cells(
  good: jax.Array, bad: jax.Array, *, pooled: bool = False
) -> GroupScores:
  """Groups whose score is the share of positives in a cell.

  Args:
    good: `[K, m]` number of people with Y = 1 in each cell.
    bad: `[K, m]` number of people with Y = 0.
    pooled: one share a cell for all groups together, else one for each group.

  Returns:
    `GroupScores` of K groups with m atoms each; a cell without people has mass
    0.
  """
  count = good + bad
  if pooled:
    share = jnp.sum(good, 0) / jnp.maximum(jnp.sum(count, 0), 1)
    scores = jnp.broadcast_to(share, good.shape)
  else:
    scores = good / jnp.maximum(count, 1)
  total = jnp.sum(count, axis=1)
  order = jnp.argsort(-scores, axis=1)
  return GroupScores(
    scores=jnp.take_along_axis(scores, order, axis=1),
    mass=jnp.take_along_axis(count / total[:, None], order, axis=1),
    weight=total / jnp.sum(total),
    n_atoms=jnp.full(good.shape[0], good.shape[1], jnp.int32),
  )
