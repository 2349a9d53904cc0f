"""Newton's method for many small smooth problems at once, in a box.

Source: Bertsekas, SIAM Journal on Control and Optimization, 1982 (projected
Newton steps). Arrays have the axes `[..., *latent]`; see `types`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import small_matrices

_OVERSHOT = 0.5  # slope behind a step, in slopes before it, that is too much
_LONGEST = 1.0  # step


class _Place(NamedTuple):
  """Where a descent stands.

  Attributes:
    x: `[..., *latent]`.
    slope: `[..., *latent]` there.
    step: `[..., *latent]` Newton step from there.
    radius: `[..., 1 or nothing]` longest step allowed.
  """

  x: jax.Array
  slope: jax.Array
  step: jax.Array
  radius: jax.Array


def descend(
  slope_and_curvature: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
  x: jax.Array,
  *,
  iterations: int,
  bounds: tuple[ArrayLike, ArrayLike] | None = None,
) -> jax.Array:
  """Minimises smooth functions by damped Newton steps.

  Steps have at most length 1 and end at the first bound. One behind which the
  slope is steep upwards has gone too far: it is taken back and shortened by the
  rule of false position.

  Args:
    slope_and_curvature: `x -> ([..., *latent], [..., *latent, *latent])`; the
      curvature must be positive (definite), an approximation will do.
    x: `[..., *latent]` where to start, within the bounds.
    iterations: number of steps.
    bounds: (low, high) of coordinates; None for none.

  Returns:
    `[..., *latent]`.
  """

  def place(x, radius):
    slope, curvature = slope_and_curvature(x)
    if bounds is None:
      step = newton_step(slope, curvature, jnp.zeros(x.shape, bool))
      return _Place(x, slope, step, radius)
    bottom, top = x <= bounds[0], x >= bounds[1]
    held = (bottom & (slope > 0)) | (top & (slope < 0))
    step = newton_step(slope, curvature, held)
    if not scalars:
      # Other coordinates may push one outwards that its slope draws inwards.
      held |= (bottom & (step < 0)) | (top & (step > 0))
      step = newton_step(slope, curvature, held)
    return _Place(x, slope, step, radius)

  def move(here):
    # The floor keeps the derivative of the root finite.
    square = jnp.maximum(dot(here.step, here.step), jnp.finfo(x.dtype).tiny)
    length = jnp.sqrt(square)
    share = jnp.minimum(1, here.radius / length)
    if bounds is None:
      return here.x + share * here.step, share * length
    bound = jnp.where(here.step > 0, bounds[1], bounds[0])
    still = here.step == 0
    room = (bound - here.x) / jnp.where(still, 1, here.step)
    room = jnp.where(still, jnp.inf, room)
    first = room if scalars else jnp.min(room, axis=-1, keepdims=True)
    share = jnp.minimum(share, first)
    ends = jnp.where(room <= share, bound, here.x + share * here.step)
    return ends, share * length

  def advance(here, _):
    trial, length = move(here)
    there = place(trial, jnp.minimum(2 * here.radius, _LONGEST))
    before, after = -dot(here.slope, here.step), dot(there.slope, here.step)
    overshot = after > _OVERSHOT * before
    share = before / jnp.where(overshot, before + after, 1)
    back = here._replace(radius=length * share)
    here = jax.tree.map(lambda a, b: jnp.where(overshot, a, b), back, there)
    return here, None

  slope, curvature = jax.eval_shape(slope_and_curvature, x)
  x = x.astype(slope.dtype)
  scalars = curvature.ndim == slope.ndim

  def dot(left, right):
    product = left * right
    return product if scalars else jnp.sum(product, axis=-1, keepdims=True)

  # The first turn stays where it is: a program that evaluates the functions in
  # one place alone compiles in half the time.
  nowhere = jnp.zeros_like(x)
  start = _Place(x, nowhere, nowhere, jnp.full_like(dot(x, x), _LONGEST))
  return jax.lax.scan(advance, start, length=iterations + 1)[0].x


def newton_step(
  slope: jax.Array, curvature: jax.Array, held: jax.Array
) -> jax.Array:
  """`-curvature^-1 slope` in the coordinates that are not held.

  Args:
    slope: `[..., *latent]`.
    curvature: `[..., *latent, *latent]`.
    held: `[..., *latent]` bool: coordinates that stay.

  Returns:
    `[..., *latent]`.
  """
  slope = jnp.where(held, 0, slope)
  if slope.ndim == curvature.ndim:
    return -slope / curvature
  free = ~held
  both = free[..., :, None] & free[..., None, :]
  curvature = jnp.where(both, curvature, jnp.eye(slope.shape[-1]))
  return -small_matrices.solve(curvature, slope)
