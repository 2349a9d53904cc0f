"""From a PPV and a FOR to the rule and everything it does."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.fairness.domain import Limits
from jaxlab.fairness.envelope import Edges, lower_for_at
from jaxlab.fairness.quadratic import safe_divide, tolerance
from jaxlab.fairness.realize import realize
from jaxlab.fairness.solver import Point
from jaxlab.fairness.types import INFEASIBLE, TRIVIAL, GroupScores, Solution


class Rates(NamedTuple):
  """A pair of rates and the positive rates that it needs.

  Attributes:
    p: scalar PPV.
    q: scalar FOR.
    mu: `[K]` positive rate.
    pooled: scalar positive rate of everybody.
  """

  p: jax.Array
  q: jax.Array
  mu: jax.Array
  pooled: jax.Array


def separation_gaps(
  tpr: jax.Array, fpr: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """How far a rule is from equal TPR and FPR.

  Each gap is the largest absolute difference over pairs of groups.

  Args:
    tpr: `[..., K]` true positive rate of each group.
    fpr: `[..., K]` false positive rate.

  Returns:
    `[...]` the sum of the two gaps, and the larger of them.
  """
  gaps = jnp.ptp(tpr, axis=-1), jnp.ptp(fpr, axis=-1)
  return gaps[0] + gaps[1], jnp.maximum(*gaps)


def rates_at(
  gs: GroupScores,
  edges: Edges,
  limits: Limits,
  point: Point,
  costs: tuple[jax.Array, jax.Array],
  floor: jax.Array | float = 0.0,
) -> Rates:
  """The positive rates that give the point; the point itself if F is one.

  Where PPV and FOR are the same number the rates are free: all groups get the
  cheaper constant, `floor` away from 0 or 1.
  """
  slack = tolerance(edges.pi.dtype)
  base = jnp.sum(gs.weight * edges.pi)
  is_trivial = limits.status == TRIVIAL
  alike = is_trivial & (jnp.abs(limits.lo - limits.qcap) <= slack)
  gap = jnp.where(alike, 1, point.gap)
  constant = jnp.where(
    costs[0] * (1 - base) < costs[1] * base, 1 - floor, floor
  )

  def rate(pi: jax.Array) -> jax.Array:
    mu = jnp.clip(jnp.where(alike, constant, (pi - point.q) / gap), 0, 1)
    return jnp.where(mu < slack, 0, jnp.where(mu > 1 - slack, 1, mu))

  mu = rate(edges.pi)
  pooled = jnp.where(alike, constant, (base - point.q) / gap)
  return Rates(point.p, point.q, mu, pooled)


def is_degenerate(rates: Rates) -> jax.Array:
  """Whether some group is all positive or all negative."""
  return jnp.any((rates.mu <= 0) | (rates.mu >= 1))


def are_costs(costs: tuple[jax.Array, jax.Array]) -> jax.Array:
  """Whether both costs are positive and finite."""
  fp, fn = costs
  return (fp > 0) & (fn > 0) & jnp.isfinite(fp) & jnp.isfinite(fn)


def expected_loss(
  rates: Rates, costs: tuple[jax.Array, jax.Array]
) -> jax.Array:
  """The cost of false positives and false negatives per person."""
  false_positive = (1 - rates.p) * rates.pooled
  false_negative = rates.q * (1 - rates.pooled)
  return costs[0] * false_positive + costs[1] * false_negative


def build_solution(
  gs: GroupScores,
  edges: Edges,
  rates: Rates,
  feasible: jax.Array,
  status: jax.Array,
  costs: tuple[jax.Array, jax.Array],
  how: str,
) -> Solution:
  """The rule with these rates; nan where there is none."""
  p, q, mu, _ = rates
  tpr = safe_divide(p * mu, edges.pi, jnp.nan)
  fpr = safe_divide((1 - p) * mu, 1 - edges.pi, jnp.nan)
  # A reversed rule is an informative one with its decisions swapped.
  is_reversed = p < q
  high, low = jnp.maximum(p, q), jnp.minimum(p, q)
  rate = jnp.where(is_reversed, 1 - mu, mu)
  rho = realize(gs.scores, gs.mass, rate, high * rate, how=how)
  rho = jnp.where(is_reversed, 1 - rho, rho)
  loss = expected_loss(rates, costs)

  def hidden(value: jax.Array, otherwise: float = jnp.nan) -> jax.Array:
    return jnp.where(feasible, value, otherwise)

  return Solution(
    ppv=hidden(p),
    for_=hidden(q),
    loss=hidden(loss),
    tpr_gap=hidden(jnp.ptp(tpr)),
    fpr_gap=hidden(jnp.ptp(fpr)),
    selection_rate=hidden(mu),
    rho=hidden(rho),
    active_group=hidden(_active_group(edges, high, low), -1).astype(jnp.int32),
    status=hidden(status, INFEASIBLE).astype(jnp.int32),
    degenerate=feasible & is_degenerate(rates),
  )


def _active_group(edges: Edges, p: jax.Array, q: jax.Array) -> jax.Array:
  """The group on whose boundary (p, q) lies; -1 if there is none."""
  slack = tolerance(edges.pi.dtype)
  lower = lower_for_at(edges, p[None])[0][:, 0]
  on_curve = (jnp.abs(lower - q) <= slack) & (p <= edges.top + slack)
  on_edge = jnp.abs(edges.top - p) <= slack
  found = jnp.where(jnp.any(on_curve), on_curve, on_edge)
  return jnp.where(jnp.any(found), jnp.argmax(found), -1)
