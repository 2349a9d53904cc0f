"""Where the eigenvalues of a random network lie, from its short cycles.

A matrix with independent entries has its eigenvalues in a disc of radius
`g = ||W|| / sqrt(N)`. Correlated 2-cycles make it an ellipse (Sommers et al.
1988), correlated 3-cycles a hypotrochoid (Aceituno, Rogers, Schomerus 2019):

    z(t) = g e^(it) + sum_l  tr(W^l) / (N g^(l-1))  e^(-i(l-1)t)
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.motifs.models import as_float


def spectral_curve(
  W: ArrayLike, orders: Sequence[int] = (2, 3), *, num_points: int = 360
) -> jax.Array:
  """Boundary of the eigenvalues' support by the cycles of some lengths.

  Args:
    W: `[N, N]` weights, with entries of mean 0.
    orders: cycle lengths l that are taken into account, static.
    num_points: points of the curve, static.

  Returns:
    `[num_points]` complex points, counterclockwise from `t = 0`.
  """
  W = as_float(W)
  size = W.shape[0]
  g = jnp.sqrt(jnp.sum(W**2) / size)
  scale = jnp.where(g > 0, g, 1)
  t = jnp.linspace(0, 2 * jnp.pi, num_points, endpoint=False, dtype=W.dtype)
  curve = g * jnp.exp(1j * t)
  power, reached = W, 1
  for order in sorted(orders):
    for _ in range(order - reached):
      power = power @ W
    reached = order
    share = jnp.trace(power) / (size * scale ** (order - 1))
    curve = curve + share * jnp.exp(-1j * (order - 1) * t)
  return curve


def elliptic_curve(W: ArrayLike, *, num_points: int = 360) -> jax.Array:
  """The ellipse of the 2-cycles, `[num_points]` complex."""
  return spectral_curve(W, (2,), num_points=num_points)


def hypotrochoid_curve(W: ArrayLike, *, num_points: int = 360) -> jax.Array:
  """The hypotrochoid of the 3-cycles, `[num_points]` complex."""
  return spectral_curve(W, (3,), num_points=num_points)


def share_inside(
  eigenvalues: ArrayLike, curve: ArrayLike, *, slack: ArrayLike = 0.05
) -> jax.Array:
  """Share of the eigenvalues inside a curve around 0.

  Args:
    eigenvalues: `[N]` complex.
    curve: `[P]` complex points of a curve that each ray from 0 meets once.
    slack: by how much the curve is widened, relative to itself.

  Returns:
    The share.
  """
  eigenvalues, curve = jnp.asarray(eigenvalues), jnp.asarray(curve)
  order = jnp.argsort(jnp.angle(curve))
  radius = jnp.interp(
    jnp.angle(eigenvalues),
    jnp.angle(curve)[order],
    jnp.abs(curve)[order],
    period=2 * jnp.pi,
  )
  return jnp.mean(jnp.abs(eigenvalues) <= (1 + slack) * radius)
