"""Which pairs of PPV and FOR all groups can have at once."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.fairness.envelope import Edges, Line, lower_for_at, reach
from jaxlab.fairness.quadratic import tolerance
from jaxlab.fairness.types import INFEASIBLE, OK, TRIVIAL


class Limits(NamedTuple):
  """The feasible set `{lo <= p <= pmax, Q(p) <= q <= qcap}`; scalars.

  Attributes:
    lo: the highest base rate.
    hi: the lowest of the highest scores.
    qcap: the lowest base rate.
    q_at_lo: the limit of Q(p) from above at `lo`; nan where `lo > hi`.
    pmax: the largest feasible PPV; nan where there is none.
    status: `OK`, `INFEASIBLE` or `TRIVIAL` (the set is one point).
  """

  lo: jax.Array
  hi: jax.Array
  qcap: jax.Array
  q_at_lo: jax.Array
  pmax: jax.Array
  status: jax.Array


class Domain(NamedTuple):
  """Where an optimum is looked for.

  Attributes:
    bottom: scalar: lower end of the part of the curve q = Q(p) that counts.
    top: scalar: its upper end.
    has_curve: bool: whether there is such a part.
    p: `[E]` float: PPV of further points to compare.
    q: `[E]` float: their FOR.
    valid: `[E]` bool: whether the point may be used.
  """

  bottom: jax.Array
  top: jax.Array
  has_curve: jax.Array
  p: jax.Array
  q: jax.Array
  valid: jax.Array


def feasible_limits(edges: Edges) -> Limits:
  """The extent of the feasible set of K groups.

  Sums that are equal up to rounding count as equal, and the value at `lo` is
  exact: the group of the highest base rate contributes its lowest score.
  """
  slack = tolerance(edges.pi.dtype)
  hi, qcap = jnp.min(edges.top), jnp.min(edges.pi)
  lo = jnp.max(edges.pi)
  q_at_lo = jnp.max(lower_for_at(edges, jnp.minimum(lo, hi)[None])[0])
  ordered = lo <= hi + slack
  feasible = ordered & (q_at_lo <= qcap + slack)
  pmax = jnp.minimum(hi, jnp.min(reach(edges, cap_line(edges, 0.0))))
  pmax = jnp.where(feasible, jnp.maximum(pmax, jnp.minimum(lo, hi)), jnp.nan)
  is_point = (pmax - lo <= slack) & (qcap - q_at_lo <= slack)
  return Limits(
    lo=lo,
    hi=hi,
    qcap=qcap,
    q_at_lo=jnp.where(ordered, q_at_lo, jnp.nan),
    pmax=pmax,
    status=jnp.where(
      feasible, jnp.where(is_point, TRIVIAL, OK), INFEASIBLE
    ).astype(jnp.int32),
  )


def cap_line(edges: Edges, floor: jax.Array | float) -> Line:
  """Where the group of the lowest base rate has positive rate `floor`."""
  floor = jnp.asarray(floor, edges.pi.dtype)
  return Line(1 - floor, jnp.min(edges.pi), -floor)


def base_line(edges: Edges, floor: jax.Array | float) -> Line:
  """Where the group of the highest base rate has negative rate `floor`."""
  floor = jnp.asarray(floor, edges.pi.dtype)
  return Line(floor, jnp.max(edges.pi), floor - 1)


def closed_domain(limits: Limits) -> Domain:
  """The feasible set with its edges: the curve and two corners above it.

  Base rates that are equal up to rounding make p = q of the second corner: it
  has no rates unless it is all there is.
  """
  feasible = limits.status != INFEASIBLE
  apart = limits.lo - limits.qcap > tolerance(limits.lo.dtype)
  has_corner = feasible & (apart | (limits.status == TRIVIAL))
  return Domain(
    bottom=jnp.minimum(limits.lo, limits.hi),
    top=limits.pmax,
    has_curve=feasible,
    p=jnp.stack([limits.pmax, limits.lo]),
    q=jnp.stack([limits.qcap, limits.qcap]),
    valid=jnp.stack([feasible, has_corner]),
  )


def cut_domain(edges: Edges, limits: Limits, floor: jax.Array) -> Domain:
  """The part where every positive rate lies in `[floor, 1 - floor]`.

  Two lines cut the feasible set. Losses are smallest on the curve or at a
  corner: along either line a loss has no interior minimum.
  """
  cap, base = cap_line(edges, floor), base_line(edges, floor)
  feasible = limits.status != INFEASIBLE
  top = jnp.minimum(limits.hi, jnp.min(reach(edges, cap)))
  meets = jnp.min(reach(edges, base))
  gap = (limits.lo - limits.qcap) / (1 - 2 * floor)
  q_corner = limits.qcap - floor * gap
  p_corner = q_corner + gap
  feasible &= p_corner <= top
  apart = limits.lo - limits.qcap > tolerance(edges.pi.dtype)
  return Domain(
    bottom=jnp.minimum(jnp.maximum(limits.lo, meets), top),
    top=top,
    has_curve=feasible & (meets <= top),
    p=jnp.stack([top, p_corner, limits.hi]),
    q=jnp.stack([cap.at(top), q_corner, base.at(limits.hi)]),
    valid=jnp.stack(
      [feasible, feasible & apart, feasible & (meets > limits.hi)]
    ),
  )


def exempt_domain(edges: Edges, limits: Limits) -> Domain:
  """The closed domain and the rules whose undefined rate is not compared.

  The groups of the highest base rate may be all positive whatever their FOR
  would be, those of the lowest all negative whatever their PPV, or both.
  """
  slack = tolerance(edges.pi.dtype)
  lo, qcap = limits.lo, limits.qcap
  highest = edges.pi >= lo - slack
  lowest = edges.pi <= qcap + slack
  q_at_lo = lower_for_at(edges, lo[None])[0][:, 0]
  fits = (edges.top >= lo - slack) & (q_at_lo <= qcap + slack)

  q_positive = jnp.max(jnp.where(highest, -jnp.inf, q_at_lo))
  p_each = jnp.minimum(edges.top, reach(edges, cap_line(edges, 0.0)))
  p_negative = jnp.min(jnp.where(lowest, jnp.inf, jnp.maximum(p_each, lo)))
  unequal = ~jnp.all(highest)
  q_positive = jnp.where(unequal, q_positive, qcap)
  p_negative = jnp.where(unequal, p_negative, lo)
  closed = closed_domain(limits)
  return closed._replace(
    p=jnp.concatenate([closed.p, jnp.stack([lo, p_negative, lo])]),
    q=jnp.concatenate([closed.q, jnp.stack([q_positive, qcap, qcap])]),
    valid=jnp.concatenate(
      [
        closed.valid,
        jnp.stack(
          [
            unequal & jnp.all(highest | fits),
            unequal & jnp.all(lowest | fits),
            unequal & jnp.all(highest | lowest | fits),
          ]
        ),
      ]
    ),
  )
