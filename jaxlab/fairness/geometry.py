"""The boundary of each group and the pairs (PPV, FOR) that all can have."""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.fairness.domain import feasible_limits
from jaxlab.fairness.envelope import group_edges, lower_for_at
from jaxlab.fairness.quadratic import safe_divide, tolerance
from jaxlab.fairness.types import (
  INFEASIBLE,
  Boundary,
  GroupScores,
  InfeasibleError,
  Solution,
)

_NO_RULE = (
  'the rule is infeasible: no decisions in these groups meet its criterion; '
  'choose another criterion or merge groups'
)


class Region(NamedTuple):
  """The feasible PPVs and FORs, to draw and to read off.

  Attributes:
    polygons: `[K, n+2, 2]` float: (PPV, FOR) around the region of each group,
      from its base rate along the lower boundary and back on top.
    intersection: `[n+2, 2]` float: likewise for all groups at once; nan where
      it is empty.
    breakpoints: `[K, m]` float: the PPVs at which a boundary has a kink,
      falling from the highest score to the base rate.
    lo: scalar: the smallest common PPV, the highest base rate.
    hi: scalar: the lowest of the highest scores.
    pmax: scalar: the largest feasible PPV; nan where there is none.
    qcap: scalar: the largest common FOR, the lowest base rate.
    q_at_lo: scalar: the lowest FOR that all can have as the PPV falls to `lo`;
      nan where `lo > hi`.
    status: int32: `OK`, `INFEASIBLE` or `TRIVIAL`.
  """

  polygons: jax.Array
  intersection: jax.Array
  breakpoints: jax.Array
  lo: jax.Array
  hi: jax.Array
  pmax: jax.Array
  qcap: jax.Array
  q_at_lo: jax.Array
  status: jax.Array


def over_instances(solve: Callable, gs: GroupScores):
  """`solve(gs)`, mapped over whatever axes `gs` has before `[K, m]`."""
  for _ in range(gs.scores.ndim - 2):
    solve = jax.vmap(solve)
  return solve(gs)


def group_boundary(gs: GroupScores) -> Boundary:
  """The upper edge of `(P(R=1), P(R=1, Y=1))` of each group.

  Args:
    gs: `[..., K, m]` groups.

  Returns:
    The `Boundary` with leading axes `[..., K]`.
  """
  edges = group_edges(gs)
  zero = jnp.zeros_like(edges.pi)[..., None]
  rest = jnp.cumsum(gs.mass[..., ::-1], axis=-1)[..., ::-1]
  is_last = jnp.concatenate([rest[..., 1:], zero], axis=-1) <= 0
  taken = jnp.where(is_last, 1, jnp.cumsum(gs.mass, axis=-1))
  positive = jnp.cumsum(gs.mass * edges.slope, axis=-1)
  positive = jnp.where(is_last, edges.pi[..., None], positive)
  return Boundary(
    M=jnp.concatenate([zero, taken], axis=-1),
    N=jnp.concatenate([zero, positive], axis=-1),
    P=jnp.concatenate([edges.top[..., None], edges.ppv], axis=-1),
    c=edges.above,
    pi=edges.pi,
  )


def for_lower(boundary: Boundary, p: jax.Array) -> jax.Array:
  """The lowest FOR that each group can have together with PPV p.

  Args:
    boundary: with leading axes `[K]` or none.
    p: `[...]` float.

  Returns:
    `[K, ...]` (or `[...]`) float: nan outside (base rate, highest score].
  """
  if boundary.pi.ndim:
    return jax.vmap(for_lower, in_axes=(0, None))(boundary, p)
  m = boundary.c.shape[0]
  vertical = jnp.sum(boundary.c == 0)
  edge = jnp.searchsorted(-boundary.P[1:], -p)
  edge = jnp.clip(edge, vertical, m - 1)
  before, positive = boundary.M[edge], boundary.N[edge]
  c, end = boundary.c[edge], edge + 1
  slope = safe_divide(positive - c, before, boundary.P[0])
  rest, rest_positive = 1 - boundary.M[end], boundary.pi - boundary.N[end]
  d = jnp.maximum(slope * rest - rest_positive, 0)
  free = jnp.where(d > 0, p - boundary.pi - d, 1.0)
  q = slope - d * safe_divide(p - slope, free)
  highest = boundary.P[0] + tolerance(q.dtype)
  return jnp.where((p > boundary.pi) & (p <= highest), q, jnp.nan)


def feasible_region(gs: GroupScores, n_points: int = 256) -> Region:
  """The feasible (PPV, FOR) of each group and of all together.

  Args:
    gs: `[..., K, m]` groups.
    n_points: points on the curved side of each polygon.

  Returns:
    The `Region`; exact but for the polygons' straight sides between points.
  """
  return over_instances(functools.partial(_region, n_points=n_points), gs)


@functools.partial(jax.jit, static_argnames='n_points')
def _region(gs: GroupScores, n_points: int) -> Region:
  edges = group_edges(gs)
  limits = feasible_limits(edges)
  share = jnp.linspace(0, 1, n_points, dtype=edges.pi.dtype)

  def polygon(start, stop, cap, lower):
    p = start + (stop - start) * share
    p = jnp.concatenate([p, jnp.stack([stop, start])])
    q = jnp.concatenate([lower(p[:-2]), jnp.stack([cap, cap])])
    return jnp.stack([p, q], axis=-1)

  def of_group(row):
    one = jax.tree.map(lambda x: x[None], row)
    return polygon(
      row.pi, row.top, row.pi, lambda p: lower_for_at(one, p)[0][0]
    )

  together = polygon(
    limits.lo,
    limits.pmax,
    limits.qcap,
    lambda p: jnp.max(lower_for_at(edges, p)[0], axis=0),
  )
  return Region(
    polygons=jax.vmap(of_group)(edges),
    intersection=jnp.where(limits.status != INFEASIBLE, together, jnp.nan),
    breakpoints=edges.ppv,
    **limits._asdict(),
  )


def require_feasible(
  solution: Solution, gs: GroupScores, names: Sequence[str] | None = None
) -> Solution:
  """Returns the solution, or says on the host why there is none.

  Args:
    solution: of one instance, or of several.
    gs: the groups `[..., K, m]` that it is for.
    names: of the groups, for the message; by default their numbers.

  Raises:
    InfeasibleError: if the status is `INFEASIBLE`, anywhere.
  """
  missing = np.asarray(solution.status) == INFEASIBLE
  if not missing.any():
    return solution
  names = names or [f'group {k}' for k in range(gs.scores.shape[-2])]
  place = np.unravel_index(missing.argmax(), missing.shape)
  where = f'instance {", ".join(map(str, place))}: ' if place else ''
  if np.ndim(solution.ppv) > missing.ndim:  # it is not about equal PPV and FOR
    raise InfeasibleError(f'{where}{_NO_RULE}')
  axes = gs.scores.ndim - 2
  one = jax.tree.map(lambda x: x[place[:axes]], gs)
  raise InfeasibleError(where + _why_infeasible(one, names))


def _why_infeasible(gs: GroupScores, names: Sequence[str]) -> str:
  """What keeps one instance from having a common PPV and FOR."""
  region = feasible_region(gs, n_points=2)
  if int(region.status) != INFEASIBLE:
    return _NO_RULE
  edges = group_edges(gs)
  pi, top = np.asarray(edges.pi), np.asarray(edges.top)
  high, low = names[int(pi.argmax())], names[int(pi.argmin())]
  if region.lo > region.hi:
    reason = (
      f'the PPV must be at least lo = {region.lo:.6g}, the base rate of {high},'
      f' and at most hi = {region.hi:.6g}, the highest score of '
      f'{names[int(top.argmin())]}, but lo > hi (the FOR, at most qcap = '
      f'{region.qcap:.6g}, the base rate of {low})'
    )
  else:
    reason = (
      f'the PPV must lie in [lo, hi] = [{region.lo:.6g}, {region.hi:.6g}] and '
      f'the FOR in [Q(lo), qcap] = [{region.q_at_lo:.6g}, {region.qcap:.6g}], '
      f'but Q(lo) > qcap; lo is the base rate of {high} and qcap that of {low}'
    )
  return (
    f'no rule gives every group the same PPV and the same FOR: {reason}; use '
    "vacuous='allow', soften the constraint or merge groups"
  )
