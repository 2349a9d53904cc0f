"""Fixed points of the rate model: Newton's method, and which are distinct."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.motifs import models
from jaxlab.motifs.models import MotifParams, as_float, tolerance

SAME_POINT = 1e-3
NEWTON_STEPS = 30


class FixedPoints(NamedTuple):
  """Roots that Newton's method found, one for each start.

  Attributes:
    points: `[K, n]` where each start led.
    found: `[K]` bool; false where Newton's method did not converge.
    first: `[K]` bool; true for the first start that led to its root, so that
      `points[first]` are the distinct ones and `sum(first)` is their number.
    eigenvalues: `[K, n]` complex eigenvalues of the Jacobian there.
    stable: `[K]` bool; found, and all real parts are negative.
  """

  points: jax.Array
  found: jax.Array
  first: jax.Array
  eigenvalues: jax.Array
  stable: jax.Array


def random_starts(
  key: jax.Array, params: MotifParams, num: int, *, scale: ArrayLike = 1.0
) -> jax.Array:
  """States that are uniform in a box around all attractors of a tanh network.

  Args:
    key: PRNG key.
    params: the network.
    num: number of states, static.
    scale: factor on the box.

  Returns:
    `[num, n]` states; unit j lies within `1 + |b_j| + sum_i |W_ji|`.
  """
  W = as_float(params.W)
  bound = 1 + jnp.abs(jnp.asarray(params.b, W.dtype)) + jnp.sum(abs(W), -1)
  unit = jax.random.uniform(key, (num, W.shape[0]), W.dtype, -1, 1)
  return jnp.asarray(scale, W.dtype) * bound * unit


def newton(
  params: MotifParams,
  x: jax.Array,
  *,
  activation: str = 'tanh',
  num_steps: int = NEWTON_STEPS,
) -> tuple[jax.Array, jax.Array]:
  """Newton's method with steps of at most 1, for `x = W phi(x) + b`.

  Args:
    params: the network; time constants play no part.
    x: `[n]` start.
    activation: name of phi.
    num_steps: steps, static.

  Returns:
    `[n]` the last state, and whether the equation holds there to rounding.
  """
  unit = params._replace(tau=1.0)
  identity = jnp.eye(x.shape[0], dtype=x.dtype)

  def residual(x):
    return models.flow(unit, x, activation=activation)

  def refine(_, x):
    J = models.jacobian(unit, x, activation=activation)
    # At a fold the Jacobian is singular: lean on the identity a little.
    ridge = tolerance(x.dtype) ** 2 * identity
    step = jnp.linalg.solve(J + ridge, residual(x))
    step = jnp.where(jnp.all(jnp.isfinite(step)), step, 0)
    largest = jnp.max(jnp.abs(step))
    return x - step / jnp.maximum(largest, 1)

  x = jax.lax.fori_loop(0, num_steps, refine, x)
  size = 1 + jnp.max(jnp.abs(x)) + jnp.max(jnp.sum(jnp.abs(params.W), axis=-1))
  error = jnp.max(jnp.abs(residual(x)))
  return x, error < tolerance(x.dtype) * size


def first_of_each(
  points: jax.Array, valid: jax.Array, *, distance: ArrayLike = SAME_POINT
) -> jax.Array:
  """Marks the first of the points that coincide.

  Args:
    points: `[K, n]` points.
    valid: `[K]` bool; others are not marked and hide no one.
    distance: points whose coordinates all differ by less are the same.

  Returns:
    `[K]` bool.
  """
  gap = jnp.max(jnp.abs(points[:, None] - points[None]), axis=-1)
  same = (gap < distance) & valid[None, :]
  earlier = jnp.tril(same, k=-1)
  return valid & ~jnp.any(earlier, axis=-1)


def describe(
  params: MotifParams,
  points: jax.Array,
  found: jax.Array,
  *,
  activation: str = 'tanh',
) -> FixedPoints:
  """Eigenvalues of `[K, n]` roots, and which of them are distinct."""
  J = jax.vmap(lambda x: models.jacobian(params, x, activation=activation))(
    points
  )
  eigenvalues = jnp.linalg.eigvals(J)
  return FixedPoints(
    points=points,
    found=found,
    first=first_of_each(points, found),
    eigenvalues=eigenvalues,
    stable=found & (jnp.max(eigenvalues.real, axis=-1) < 0),
  )


def fixed_points(
  key: jax.Array,
  params: MotifParams,
  n_starts: int = 64,
  *,
  activation: str = 'tanh',
) -> FixedPoints:
  """Stable and unstable fixed points, from random starts.

  Args:
    key: PRNG key.
    params: the network.
    n_starts: number of starts, static; more starts find more roots.
    activation: name of phi.

  Returns:
    The roots with their eigenvalues.

  Raises:
    UserError: if a `tau` is not positive.
  """
  models.check_time_constants(params.tau)
  params = params._replace(W=as_float(params.W))
  starts = random_starts(key, params, n_starts)
  points, found = jax.vmap(lambda x: newton(params, x, activation=activation))(
    starts
  )
  return describe(params, points, found, activation=activation)
