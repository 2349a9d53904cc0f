"""Losses and gaps as functions of PPV and FOR, and where they are stationary.

With `X = 1 / (p - q)`, `Y = p X` and `Z = p q X` every objective here is
`x X + y Y + z Z + const`: on an edge of the boundary, a quadratic in the
positive rate divided by a linear function of it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.fairness.envelope import Edges, Pieces
from jaxlab.fairness.quadratic import roots, safe_divide, safe_sqrt


class Objective(NamedTuple):
  """The coefficients `x X + y Y + z Z + const`, scalars."""

  x: jax.Array
  y: jax.Array
  z: jax.Array
  const: jax.Array

  def __call__(self, p: jax.Array, q: jax.Array, gap: jax.Array) -> jax.Array:
    """The value at PPV p and FOR q with `gap = p - q`; inf at gap 0."""
    return (
      safe_divide(self.x + p * (self.y + self.z * q), gap, jnp.inf) + self.const
    )


def combine(
  first: Objective,
  second: Objective,
  a: jax.Array | float,
  b: jax.Array | float,
) -> Objective:
  """The objective `a first + b second`."""
  return Objective(*(a * f + b * s for f, s in zip(first, second, strict=True)))


def loss_objective(
  pooled: jax.Array, cost_fp: jax.Array, cost_fn: jax.Array
) -> Objective:
  """The expected cost of a rule in a population of base rate `pooled`."""
  total = cost_fp + cost_fn
  return Objective(
    cost_fp * pooled,
    -cost_fp - total * pooled,
    jnp.asarray(total, pooled.dtype),
    cost_fp + cost_fn * pooled,
  )


def gap_objectives(edges: Edges) -> tuple[Objective, Objective]:
  """The largest TPR gap and the largest FPR gap between groups."""
  low, high = jnp.min(edges.pi), jnp.max(edges.pi)
  zero = jnp.zeros_like(low)
  tpr = safe_divide(high - low, low * high)
  fpr = safe_divide(high - low, (1 - low) * (1 - high))
  return (
    Objective(zero, zero, tpr, zero),
    Objective(fpr, -2 * fpr, fpr, fpr),
  )


def _numerator(
  objective: Objective, piece: Pieces
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """The quadratic `n0 + n1 mu + n2 mu^2` over `c + (d - c) mu`, no const."""
  x, y, z, _ = objective
  s, c, d = piece.slope, piece.above, piece.below
  n0 = c * (y + z * (s - d))
  n1 = x + y * (s - c) + z * s * (s - d - c)
  return n0, n1, -x - s * (y + z * s)


def stationary_ppv(objective: Objective, piece: Pieces) -> jax.Array:
  """Where the objective is stationary along each edge.

  With D = c + (d - c) mu the condition is a quadratic in D without a linear
  term, so one root at most has D > 0.

  Returns:
    `[K, n]` PPV; of no meaning where there is none.
  """
  n0, n1, n2 = _numerator(objective, piece)
  c, e = piece.above, piece.below - piece.above
  turn = e * n0 - n1 * c
  d = safe_sqrt(c * c + e * safe_divide(turn, n2))
  # mu = turn / (n2 (d + c)) and p = s + c / mu.
  return piece.slope + safe_divide(c * n2 * (d + c), turn)


def equal_ppv(
  first: Objective, second: Objective, piece: Pieces
) -> tuple[jax.Array, jax.Array]:
  """Where two objectives agree along each edge: two `[K, n]` PPVs."""
  difference = combine(first, second, 1, -1)
  n0, n1, n2 = _numerator(difference, piece)
  c, e = piece.above, piece.below - piece.above
  mu = roots(n2, n1 + difference.const * e, n0 + difference.const * c)
  return (
    piece.slope + safe_divide(c, mu[0]),
    piece.slope + safe_divide(c, mu[1]),
  )


def crossing_ppv(
  piece: Pieces, first: np.ndarray, second: np.ndarray
) -> jax.Array:
  """Where the edges of two groups cross.

  Args:
    piece: the edges, `[K, n]`.
    first: `[L]` the first group of each pair.
    second: `[L]` the second.

  Returns:
    `[2 L, n]` PPV; of no meaning where there is none.
  """
  alpha = piece.slope - piece.below
  kappa = piece.below * piece.above
  t = piece.pi + piece.below
  (a, b), (ka, kb), (ta, tb) = (
    (rows[first], rows[second]) for rows in (alpha, kappa, t)
  )
  both = roots(a - b, kb - ka - (a - b) * (tb - ta), ka * (tb - ta))
  return jnp.concatenate([ta + z for z in both])
