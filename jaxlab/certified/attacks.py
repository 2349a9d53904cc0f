"""Attacks: the upper side of robustness."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax

from jaxlab.certified.interval import (
  Interval,
  as_floats,
  check_labels,
  input_box,
)
from jaxlab.errors import UserError

Objective = Callable[[jax.Array], jax.Array]


def pgd(
  net: Callable[[Any, jax.Array], jax.Array],
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: jax.typing.ArrayLike,
  key: jax.Array,
  *,
  steps: int = 40,
  restarts: int = 1,
  step_size: jax.typing.ArrayLike | None = None,
  clip: tuple[float, float] | None = (0, 1),
  loss: str = 'margin',
) -> jax.Array:
  """Projected gradient descent in the l-infinity ball (Madry et al., 2018).

  Each restart begins at a uniform point of the ball and follows the sign of
  the gradient. Of all points on the way, `x` among them, the one with the
  smallest margin is returned. A strong attack for reports is `steps=100`,
  `restarts=10`, `loss='margin'`; training makes do with 1 to 10 steps of
  `loss='ce'`.

  Args:
    net: `(params, x) -> [B, K]` logits.
    params: its parameters.
    x: `[B, *shape]` examples.
    y: `[B]` labels.
    eps: radius, one or `[B]`; may be traced.
    key: PRNG key of the starting points.
    steps: gradients in each restart.
    restarts: number of starting points.
    step_size: in the units of `x`; by default `2.5 * eps / steps`.
    clip: range of the data; None for no cut.
    loss: what the gradient is of: `'margin'`, the logit of the label minus the
      largest other one, or `'ce'`, minus the cross-entropy.

  Returns:
    `[B, *shape]` the worst points found; gradients do not flow through them.

  Raises:
    UserError: for an unknown loss, a bad radius or data outside `clip`.
  """
  if steps < 0 or restarts < 1:
    raise UserError(
      f'steps = {steps}, restarts = {restarts}: give steps >= 0 and at least '
      'one restart.'
    )
  x = as_floats(x)
  box = input_box(x, eps, clip)
  _check_classes(net, params, x, y)
  eps = jnp.asarray(eps, x.dtype)
  step = 2.5 * eps / max(steps, 1) if step_size is None else step_size
  step = jnp.asarray(step, x.dtype)
  step = step.reshape(step.shape + (1,) * (x.ndim - step.ndim))
  return descend(
    lambda point: margin(net(params, point), y),
    _slope(loss, net, params, y),
    box,
    x,
    key,
    step=step,
    steps=steps,
    restarts=restarts,
  )


def random_corners(
  net: Callable[[Any, jax.Array], jax.Array],
  params: Any,
  x: jax.Array,
  y: jax.Array,
  eps: jax.typing.ArrayLike,
  key: jax.Array,
  *,
  trials: int = 100,
  clip: tuple[float, float] | None = (0, 1),
) -> jax.Array:
  """Tries random corners of the ball; needs no gradient that could be masked.

  Args:
    net: `(params, x) -> [B, K]` logits.
    params: its parameters.
    x: `[B, *shape]` examples.
    y: `[B]` labels.
    eps: radius, one or `[B]`; may be traced.
    key: PRNG key.
    trials: corners for each example.
    clip: range of the data; None for no cut.

  Returns:
    `[B, *shape]` the corners with the smallest margin, or `x` where it is
    smaller still.
  """
  if trials < 1:
    raise UserError(f'trials is {trials}: give at least one.')
  x = as_floats(x)
  lower, upper = input_box(x, eps, clip)
  _check_classes(net, params, x, y)

  def visit(best, key):
    corner = jnp.where(jax.random.bernoulli(key, shape=x.shape), upper, lower)
    return _better(best, corner, margin(net(params, corner), y)), None

  start = (x, margin(net(params, x), y))
  (point, _), _ = jax.lax.scan(visit, start, jax.random.split(key, trials))
  return jax.lax.stop_gradient(point)


def _check_classes(net, params, x, y) -> None:
  """Raises UserError unless there is one class of the network an example."""
  if jnp.shape(y) != x.shape[:1]:
    raise UserError(
      f'labels have shape {jnp.shape(y)}: give one for each of the {len(x)} '
      'examples.'
    )
  check_labels(y, jax.eval_shape(net, params, x).shape[-1])


def margin(logits: jax.Array, y: jax.Array) -> jax.Array:
  """Logit of the label minus the largest other one.

  Args:
    logits: `[B, K]`.
    y: `[B]` labels.

  Returns:
    `[B]`; positive where the label wins.
  """
  own = jax.nn.one_hot(y, logits.shape[-1], dtype=bool)
  rest = jnp.where(own, -jnp.inf, logits).max(axis=-1)
  return jnp.take_along_axis(logits, y[..., None], -1)[..., 0] - rest


def descend(
  value: Objective,
  slope: Objective,
  box: Interval,
  start: jax.Array,
  key: jax.Array,
  *,
  step: jax.Array,
  steps: int,
  restarts: int = 1,
) -> jax.Array:
  """Looks for the points of boxes where a function is smallest.

  Args:
    value: `[B, *shape] -> [B]`, by which points are compared.
    slope: `[B, *shape] -> [B]`, whose gradient is followed downwards.
    box: `[B, *shape]` where to look.
    start: `[B, *shape]` a point of the box, the first candidate.
    key: PRNG key of the starting points.
    step: length of a step, which broadcasts to `[B, *shape]`.
    steps: gradients in each restart.
    restarts: number of starting points.

  Returns:
    `[B, *shape]` the best points; gradients do not flow through them.
  """
  lower, upper = map(jax.lax.stop_gradient, box)
  step = jax.lax.stop_gradient(step)
  gradient = jax.grad(lambda point: slope(point).sum())

  def move(carry, _):
    point, best = carry
    point = point - step * jnp.sign(gradient(point))
    point = jnp.clip(point, lower, upper)
    return (point, _better(best, point, value(point))), None

  def restart(best, key):
    share = jax.random.uniform(key, start.shape, start.dtype)
    point = jnp.clip(lower + share * (upper - lower), lower, upper)
    best = _better(best, point, value(point))
    (_, best), _ = jax.lax.scan(move, (point, best), length=steps)
    return best, None

  start = jax.lax.stop_gradient(start)
  best = (start, value(start))
  (point, _), _ = jax.lax.scan(restart, best, jax.random.split(key, restarts))
  return jax.lax.stop_gradient(point)


def _better(best, point, found):
  """Replaces points of `best` where `found` is smaller."""
  old, value = best
  wins = found < value
  spread = wins.reshape(wins.shape + (1,) * (point.ndim - wins.ndim))
  return jnp.where(spread, point, old), jnp.where(wins, found, value)


def _slope(loss, net, params, y) -> Objective:
  if loss == 'margin':
    return lambda point: margin(net(params, point), y)
  if loss == 'ce':
    return lambda point: (
      -optax.softmax_cross_entropy_with_integer_labels(net(params, point), y)
    )
  raise UserError(f"attack loss {loss!r} is unknown: use 'margin' or 'ce'.")
