"""The lower FOR boundary of each group, edge by edge, and what crosses it.

On edge k (score s, mass 1 - t before and t after it) a group's positive rate
mu, PPV p and lowest FOR q satisfy

    p = s + c / mu,  q = s - d / (1 - mu),  c, d >= 0,

where c sums `mass (score - s)` over the atoms above the edge and d sums
`mass (s - score)` over those below. As functions of p:
`q = s - d (p - s) / (p - pi - d)`. Nothing here subtracts close numbers.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.fairness.quadratic import safe_divide, safe_sqrt, tolerance
from jaxlab.fairness.types import GroupScores


class Edges(NamedTuple):
  """The boundary of each of K groups.

  Attributes:
    slope: `[K, m]` float: score s of the edge.
    above: `[K, m]` float: intercept c.
    below: `[K, m]` float: intercept d; 0 on the last edge.
    ppv: `[K, m]` float: PPV where the edge ends, i.e. with its atom taken;
      falls to the base rate.
    for_: `[K, m]` float: lowest FOR there; falls to the lowest score.
    pi: `[K]` float: base rate.
    top: `[K]` float: highest score, the largest PPV.
    bottom: `[K]` float: lowest score, the smallest FOR.
  """

  slope: jax.Array
  above: jax.Array
  below: jax.Array
  ppv: jax.Array
  for_: jax.Array
  pi: jax.Array
  top: jax.Array
  bottom: jax.Array


class Pieces(NamedTuple):
  """One edge of each group, together on n intervals of PPV.

  Attributes:
    slope: `[K, n]` float.
    above: `[K, n]` float.
    below: `[K, n]` float.
    pi: `[K, 1]` float.
    left: `[n]` float: lower end of the interval.
    right: `[n]` float: upper end.
  """

  slope: jax.Array
  above: jax.Array
  below: jax.Array
  pi: jax.Array
  left: jax.Array
  right: jax.Array


class Line(NamedTuple):
  """The falling line `q_factor q = const + p_factor p`, `p_factor <= 0`."""

  q_factor: jax.Array
  const: jax.Array
  p_factor: jax.Array

  def at(self, p: jax.Array) -> jax.Array:
    """FOR on the line at PPV p."""
    return safe_divide(self.const + self.p_factor * p, self.q_factor)


def group_edges(gs: GroupScores) -> Edges:
  """The edges of each group's boundary; atoms of mass 0 change nothing.

  Args:
    gs: K groups; the scores fall along the last axis.

  Returns:
    Their `Edges`.
  """
  present = gs.mass > 0
  top = jnp.max(jnp.where(present, gs.scores, -jnp.inf), axis=-1)
  bottom = jnp.min(jnp.where(present, gs.scores, jnp.inf), axis=-1)
  slope = jnp.clip(gs.scores, bottom[..., None], top[..., None])
  taken = jnp.cumsum(gs.mass, axis=-1)
  rest = _sum_after(gs.mass)
  drop = slope[..., :-1] - slope[..., 1:]
  none = jnp.zeros_like(slope[..., :1])
  above = jnp.concatenate(
    [none, jnp.cumsum(taken[..., :-1] * drop, axis=-1)], axis=-1
  )
  below = _sum_after(jnp.concatenate([none, rest[..., :-1] * drop], axis=-1))
  pi = jnp.sum(gs.mass * slope, axis=-1)
  ppv = safe_divide(jnp.cumsum(gs.mass * slope, axis=-1), taken)
  ppv = jnp.where(above > 0, ppv, top[..., None])
  ppv = jnp.where(rest > 0, ppv, pi[..., None])
  return Edges(
    slope=slope,
    above=above,
    below=below,
    ppv=jnp.clip(ppv, pi[..., None], top[..., None]),
    for_=slope - safe_divide(below, rest, 0.0),
    pi=pi,
    top=top,
    bottom=bottom,
  )


def _sum_after(x: jax.Array) -> jax.Array:
  """Entry k is the sum of the entries after k, exactly 0 at the end."""
  backward = jnp.cumsum(x[..., ::-1], axis=-1)[..., ::-1]
  return jnp.concatenate(
    [backward[..., 1:], jnp.zeros_like(x[..., :1])], axis=-1
  )


def interval_edges(ppv: jax.Array) -> jax.Array:
  """Which edge of each group is active below each breakpoint.

  The n = K m breakpoints are `ppv.ravel()`; interval j lies between
  breakpoint j and the next smaller one.

  Args:
    ppv: `[K, m]` float: `Edges.ppv`.

  Returns:
    `[K, n]` int32: number of breakpoints of the group at or above breakpoint
    j, which is the index of its edge; m where the group has none below.
  """
  num_groups, m = ppv.shape
  flat = ppv.ravel()
  row = m * jnp.arange(num_groups, dtype=jnp.int32)[:, None]

  # Binary search by steps of powers of two: several times as fast on a CPU as
  # sorting the breakpoints or as `jnp.searchsorted`.
  def advance(count: jax.Array, step: jax.Array) -> tuple[jax.Array, None]:
    further = count + step
    last = row + jnp.minimum(further, m) - 1
    at_or_above = flat.at[last].get(mode='promise_in_bounds') >= flat
    return jnp.where((further <= m) & at_or_above, further, count), None

  steps = 1 << np.arange(m.bit_length(), dtype=np.int32)[::-1]
  none = jnp.zeros((num_groups, num_groups * m), jnp.int32)
  return jax.lax.scan(advance, none, jnp.asarray(steps))[0]


def pieces(edges: Edges, index: jax.Array, breakpoint: jax.Array) -> Pieces:
  """The edges and the ends of some of the intervals.

  Args:
    edges: of K groups.
    index: `[K, n]` columns of `interval_edges`.
    breakpoint: `[n]` int32: index into `edges.ppv.ravel()`.

  Returns:
    The `Pieces` of these n intervals.
  """
  m = edges.slope.shape[-1]
  right = edges.ppv.ravel()[breakpoint]
  inside = jnp.minimum(index, m - 1)
  following = jnp.take_along_axis(edges.ppv, inside, axis=-1)
  left = jnp.max(jnp.where(index < m, following, -jnp.inf), axis=0)
  return _gather(edges, index)._replace(
    left=jnp.where(jnp.isfinite(left), left, right), right=right
  )


def _gather(edges: Edges, index: jax.Array) -> Pieces:
  """Edges number `index` `[K, n]`, without ends."""
  # The first edge is vertical (p = top): not a function of p.
  vertical = jnp.sum(edges.above == 0, axis=-1, keepdims=True)
  index = jnp.clip(index, vertical, edges.slope.shape[-1] - 1)
  slope, above, below = (
    jnp.take_along_axis(x, index, axis=-1)
    for x in (edges.slope, edges.above, edges.below)
  )
  end = jnp.full(index.shape[1:], jnp.nan, slope.dtype)
  return Pieces(slope, above, below, edges.pi[:, None], end, end)


def lower_for(piece: Pieces, p: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The lowest FOR of each group at PPV p, and how far it is below p.

  Args:
    piece: the edges, `[K, n]`.
    p: `[n]` or `[K, n]` PPV.

  Returns:
    `q` and `p - q`, each with the shape of `p` broadcast against `[K, n]`.
  """
  # Where d = 0 the edge is the last one and q = s up to p = pi itself.
  denominator = jnp.where(piece.below > 0, p - piece.pi - piece.below, 1.0)
  ratio = safe_divide(piece.below, denominator, jnp.inf)
  lift = p - piece.slope
  return piece.slope - ratio * lift, lift * (1 + ratio)


def common_for(piece: Pieces, p: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The lowest FOR that all groups can have at PPV p, and `p - q`.

  Args:
    piece: the edges, `[K, n]`.
    p: `[..., n]` PPV.

  Returns:
    `q` and `p - q` with the shape of `p`.
  """
  # Group after group: XLA's reduction over a leading axis is 4 times as slow.
  each = [
    lower_for(Pieces(*row, piece.left, piece.right), p)
    for row in zip(*piece[:4], strict=True)
  ]
  q, gap = zip(*each, strict=True)
  return functools.reduce(jnp.maximum, q), functools.reduce(jnp.minimum, gap)


def lower_for_at(edges: Edges, p: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The lowest FOR `[K, n]` of each group, and `p - q`, at any PPV `[n]`.

  Below the base rate and above the top score the nearest edge is continued;
  at the base rate the value is the limit from above.
  """
  index = jnp.sum(edges.ppv[:, :, None] > p, axis=1)
  return lower_for(_gather(edges, index), p)


def reach(edges: Edges, line: Line) -> jax.Array:
  """The smallest PPV at which each group's lowest FOR meets a falling line.

  Args:
    edges: of K groups.
    line: from above the boundary on the left to below it on the right.

  Returns:
    `[K]` float: inf where the boundary stays below the line, -inf where it is
    above it from the start.
  """
  m = edges.slope.shape[-1]
  slack = tolerance(edges.slope.dtype)
  over = line.q_factor * edges.for_ > (
    line.const + line.p_factor * edges.ppv + slack
  )
  count = jnp.sum(over, axis=-1)
  index = count[:, None]
  piece = _gather(edges, index)
  alpha = piece.slope - piece.below
  kappa = piece.below * piece.above
  t = piece.pi + piece.below
  b = line.q_factor * alpha - line.const - line.p_factor * t
  # V z^2 - b z + A kappa = 0 with V <= 0: one root z = p - t is positive.
  root = safe_sqrt(b * b - 4 * line.p_factor * line.q_factor * kappa)
  z = jnp.where(
    b >= 0,
    safe_divide(2 * line.q_factor * kappa, b + root, 0.0),
    safe_divide(b - root, 2 * line.p_factor, 0.0),
  )
  low = jnp.take_along_axis(edges.ppv, jnp.minimum(index, m - 1), axis=-1)
  high = jnp.take_along_axis(edges.ppv, jnp.maximum(index - 1, 0), axis=-1)
  p = jnp.clip(t + z, low, high)[:, 0]
  return jnp.where(count == 0, jnp.inf, jnp.where(count == m, -jnp.inf, p))
