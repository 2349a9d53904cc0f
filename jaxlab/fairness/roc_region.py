"""What the rules of each group reach, as points of three planes.

A rule of group a is a point (mu, nu) = (P(R=1), P(R=1, Y=1)); its upper edge
accepts the highest scores first. The same edge is the ROC curve in (FPR, TPR),
and its crossings with lines of constant PPV or FOR bound the rates that a group
can have. All functions take `GroupScores` of one instance; `vmap` adds more.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.fairness.types import GroupScores


class UpperEdge(NamedTuple):
  """Vertices of the upper edge; vertex k accepts the k highest scores.

  Attributes:
    M: `[K, m+1]` float: P(R=1), from 0 to 1.
    N: `[K, m+1]` float: P(R=1, Y=1), from 0 to the base rate.
    F: `[K, m+1]` float: P(R=1, Y=0).
    M_left: `[K, m+1]` float: P(R=0), without cancellation.
    N_left: `[K, m+1]` float: P(R=0, Y=1).
    scores: `[K, m]` float: slopes of the edges.
    mass: `[K, m]` float: their widths.
    pi: `[K]` float: base rates.
  """

  M: jax.Array
  N: jax.Array
  F: jax.Array
  M_left: jax.Array
  N_left: jax.Array
  scores: jax.Array
  mass: jax.Array
  pi: jax.Array


def upper_edge(gs: GroupScores) -> UpperEdge:
  """The upper edge of each group."""
  s, w = gs.scores, gs.mass

  def before(x):
    return jnp.pad(jnp.cumsum(x, axis=-1), ((0, 0), (1, 0)))

  def after(x):
    return before(x[..., ::-1])[..., ::-1]

  N = before(w * s)
  return UpperEdge(
    M=before(w),
    N=N,
    F=before(w * (1 - s)),
    M_left=after(w),
    N_left=after(w * s),
    scores=s,
    mass=w,
    pi=N[:, -1],
  )


def polyline(
  x: ArrayLike, X: jax.Array, Y: jax.Array, *, steps: str = 'low'
) -> jax.Array:
  """Height at x of rising polylines, one a group.

  Args:
    x: `[K, ...]` abscissae, clipped to the polyline.
    X: `[K, m+1]` non-decreasing abscissae of the vertices.
    Y: `[K, m+1]` non-decreasing ordinates.
    steps: 'low' or 'high': which end of a vertical piece to take.

  Returns:
    `[K, ...]` ordinates.
  """
  side = {'low': 'left', 'high': 'right'}[steps]

  def one(x, X, Y):
    x = jnp.clip(x, X[0], X[-1])
    end = jnp.clip(jnp.searchsorted(X, x, side=side), 1, X.size - 1)
    begin = end - 1
    width = X[end] - X[begin]
    flat = float(steps == 'high')  # a vertical piece at either end
    share = jnp.where(
      width > 0, (x - X[begin]) / jnp.where(width > 0, width, 1), flat
    )
    return Y[begin] + share * (Y[end] - Y[begin])

  return jax.vmap(one)(jnp.asarray(x), X, Y)


def edge_on_ppv(edge: UpperEdge, p: ArrayLike) -> jax.Array:
  """Largest P(R=1) at which each group can have PPV p or more.

  Args:
    edge: upper edges.
    p: `[K, ...]` PPV.

  Returns:
    `[K, ...]`: 1 where p is at most the base rate, 0 where it exceeds the top
    score.
  """

  def one(p, M, N, s, w):
    above = jnp.where(M > 0, N / jnp.where(M > 0, M, 1), s[0])
    above = above.at[1].set(s[0])  # N / M may round below it
    last = jnp.searchsorted(-above, -p, side='right') - 1
    begin = jnp.clip(last, 0, s.size - 1)
    slack = p - s[begin]
    step = (N[begin] - p * M[begin]) / jnp.where(slack > 0, slack, 1)
    inside = M[begin] + jnp.clip(step, 0, w[begin])
    return jnp.where(last < 0, 0, jnp.where(last >= s.size, M[-1], inside))

  return jax.vmap(one)(jnp.asarray(p), edge.M, edge.N, edge.scores, edge.mass)


def edge_on_for(edge: UpperEdge, q: ArrayLike) -> jax.Array:
  """Smallest P(R=1) at which each group can have FOR q or less.

  Args:
    edge: upper edges.
    q: `[K, ...]` false omission rate.

  Returns:
    `[K, ...]`: 0 where q is at least the base rate, 1 where it is below the
    lowest score.
  """

  def one(q, M, M_left, N_left, s, w):
    left = jnp.where(
      M_left > 0, N_left / jnp.where(M_left > 0, M_left, 1), s[-1]
    )
    end = jnp.searchsorted(-left, -q, side='left')
    begin = jnp.clip(end - 1, 0, s.size - 1)
    slack = s[begin] - q
    step = (N_left[begin] - q * M_left[begin]) / jnp.where(slack > 0, slack, 1)
    inside = M[begin] + jnp.clip(step, 0, w[begin])
    return jnp.where(end == 0, 0, jnp.where(end > s.size, M[-1], inside))

  return jax.vmap(one)(
    jnp.asarray(q),
    edge.M,
    edge.M_left,
    edge.N_left,
    edge.scores,
    edge.mass,
  )


def lowest_for(edge: UpperEdge, p: ArrayLike) -> jax.Array:
  """Lowest FOR that each group can have together with PPV p.

  Args:
    edge: upper edges.
    p: `[K, ...]` PPV; values outside (base rate, top score] count as the
      nearer end.

  Returns:
    `[K, ...]`, between the lowest score and the base rate.
  """
  mu = edge_on_ppv(edge, p)
  nu = polyline(mu, edge.M, edge.N)
  total, pi, lowest = (
    x.reshape((-1,) + (1,) * (mu.ndim - 1))
    for x in (edge.M[:, -1], edge.pi, edge.scores[:, -1])
  )
  left = total - mu
  ratio = (pi - nu) / jnp.where(left > 0, left, 1)
  return jnp.where(left > 0, jnp.maximum(ratio, lowest), lowest)


def soft_threshold(gs: GroupScores, mu: ArrayLike) -> jax.Array:
  """The rule that accepts the share mu of each group with the highest scores.

  Args:
    gs: score distributions.
    mu: `[K]` shares to accept.

  Returns:
    `[K, m]` rule with at most one fractional atom a group.
  """
  taken = jnp.cumsum(gs.mass, axis=-1) - gs.mass
  room = jnp.where(gs.mass > 0, gs.mass, 1)
  return jnp.clip((jnp.asarray(mu)[:, None] - taken) / room, 0, 1)
