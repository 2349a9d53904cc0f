"""Gradients matched along a path to the ability of all responses.

A subset S of an examinee's items is good if the gradients of its loss are
those of all items Q at points between the current estimate and the ability
that all responses give. Gradients are compared as they move an estimate:

    newton: H_S(theta)^-1 (g_S + theta) - H_Q(theta)^-1 (g_Q + theta)
    mean:   g_S / |S| - g_Q / |Q|

where g is the sum of the gradients of the items' losses and H the Fisher
information plus the precision of the prior N(0, I). The mean form is an
ablation: it prefers items that look like the average item.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import models
from jaxlab.adaptive_testing.estimate import map_newton
from jaxlab.adaptive_testing.gradients import (
  grown_values,
  newton_step,
  path_gradients,
  subset_value,
)
from jaxlab.adaptive_testing.types import Bank
from jaxlab.errors import UserError

PATHS = ('linear', 'teacher', 'student', 'full')
FULL_SPACE = (-4.0, 4.0)  # the ends of the path 'full'
_DAMPING = 0.5  # share of a Newton step that the teacher takes
_MOST_ITEMS = 20  # of an enumeration
_RATE = 0.1  # of the student's gradient descent
_INNER_STEPS = 10


def path_points(
  bank: Bank,
  y: ArrayLike,
  theta0: ArrayLike,
  *,
  num_points: int,
  kind: str = 'linear',
  mask: ArrayLike | None = None,
  target: ArrayLike | None = None,
  subset_mask: ArrayLike | None = None,
  rate: ArrayLike = _RATE,
  inner_steps: int = _INNER_STEPS,
) -> jax.Array:
  """Points on the path from an estimate to the ability of all responses.

  Args:
    bank: of n items.
    y: `[..., n]` all responses.
    theta0: `[..., *latent]` the current estimate, where paths start.
    num_points: K, at least 2.
    kind: 'linear', equally spaced with both ends; 'teacher', damped Newton
      steps on the loss of all responses, the last point being the ability;
      'student', gradient descent on the loss of the subset, whose first point
      is one step behind `theta0`; 'full', the same points from -4 to 4 for
      everybody (for D > 1 on the diagonal).
    mask: `[..., n]`, not 0 where there is a response; None for all.
    target: `[..., *latent]` the ability of all responses; None to estimate it.
    subset_mask: `[..., n]` share of each item in the subset of the student,
      through which its path can be differentiated.
    rate: of the student, per gradient of the mean loss.
    inner_steps: of the student after its first.

  Returns:
    `[K, ..., *latent]`.

  Raises:
    UserError: an unknown kind, fewer than 2 points, a student without subset.
  """
  if kind not in PATHS:
    raise UserError(f'path {kind!r} is unknown: use one of {PATHS}.')
  if num_points < 2:
    raise UserError(f'num_points is {num_points}: a path has at least 2.')
  theta0 = jnp.asarray(theta0)
  if kind == 'full':
    points = jnp.linspace(*FULL_SPACE, num_points, dtype=theta0.dtype)
    points = points.reshape(-1, *(1 for _ in theta0.shape))
    return jnp.broadcast_to(points, (num_points, *theta0.shape))
  if kind == 'student':
    if subset_mask is None:
      raise UserError("path 'student' is that of a subset: give subset_mask.")
    return _student(
      bank, y, theta0, subset_mask, mask, rate, inner_steps, num_points
    )
  if target is None:
    target = map_newton(bank, y, mask)
  if kind == 'teacher':
    return _teacher(bank, y, theta0, mask, jnp.asarray(target), num_points)
  share = jnp.linspace(0, 1, num_points, dtype=theta0.dtype)
  share = share.reshape(-1, *(1 for _ in theta0.shape))
  return theta0 + share * (target - theta0)


def match_value(
  bank: Bank,
  y: ArrayLike,
  subset_mask: ArrayLike,
  points: ArrayLike,
  match: str = 'newton',
  *,
  mask: ArrayLike | None = None,
  diagonal: bool = False,
) -> jax.Array:
  """How far the gradients of a subset are from those of all items.

  Args:
    bank: of n items.
    y: `[..., n]` all responses.
    subset_mask: `[..., n]` share of each item in the subset, 0 or 1 or, where
      one differentiates, between.
    points: `[K, ..., *latent]`, from `path_points`.
    match: 'newton' or 'mean'.
    mask: `[..., n]`, not 0 where there is a response; None for all.
    diagonal: whether the Newton form takes the diagonal of the information
      for D > 1.

  Returns:
    `[...]` mean over the points of squared lengths, 0 at best.

  Raises:
    UserError: an unknown match.
  """
  found = path_gradients(bank, y, points, mask=mask, diagonal=diagonal)
  subset = jnp.asarray(subset_mask).astype(found.items.dtype)
  return subset_value(found, subset, match, diagonal=diagonal)


def candidate_values(
  bank: Bank,
  y: ArrayLike,
  subset_mask: ArrayLike,
  points: ArrayLike,
  match: str = 'newton',
  *,
  mask: ArrayLike | None = None,
  diagonal: bool = False,
) -> jax.Array:
  """`match_value` of the subset with each further item.

  An item changes the gradient by its own and the information by a matrix of
  rank one, so that all values cost about as much as one.

  Args:
    bank: of n items.
    y: `[..., n]` all responses.
    subset_mask: `[..., n]`, not 0 for the items of the subset.
    points: `[K, ..., *latent]`.
    match: 'newton' or 'mean'.
    mask: `[..., n]`, not 0 where there is a response; None for all.
    diagonal: as for `match_value`.

  Returns:
    `[..., n]`; infinite for items of the subset and masked ones.
  """
  found = path_gradients(bank, y, points, mask=mask, diagonal=diagonal)
  inside = jnp.asarray(subset_mask) != 0
  open_items = ~inside if mask is None else ~inside & (jnp.asarray(mask) != 0)
  values = grown_values(found, inside, match, diagonal=diagonal)
  return jnp.where(open_items, values, jnp.inf)


def best_subset(
  bank: Bank,
  y: ArrayLike,
  test_length: int,
  points: ArrayLike,
  match: str = 'newton',
) -> tuple[np.ndarray, jax.Array]:
  """The best of all subsets of each examinee, by enumeration.

  Args:
    bank: of n <= 20 items.
    y: `[..., n]` all responses.
    test_length: T, size of the subset.
    points: `[K, ..., *latent]`.
    match: 'newton' or 'mean'.

  Returns:
    Items `[..., T]` in rising order (the first of several subsets), and their
    values `[...]`.

  Raises:
    UserError: more than 20 items, or T not in [1, n].
  """
  n = bank.num_items
  if n > _MOST_ITEMS:
    raise UserError(
      f'the bank has {n} items: subsets can be enumerated up to {_MOST_ITEMS}.'
    )
  _check_length(test_length, n)
  subsets = np.array(list(itertools.combinations(range(n), test_length)))
  masks = np.zeros((len(subsets), n), bool)
  np.put_along_axis(masks, subsets, True, axis=1)
  best, value = _best_of(bank, y, points, masks, match)
  return subsets[np.asarray(best)], value


@functools.partial(jax.jit, static_argnames='match')
def _best_of(bank, y, points, masks, match):
  """Which of the subsets `[S, n]` is the best, and its value, each `[...]`."""
  y = jnp.asarray(y)
  found = path_gradients(bank, y, points)

  def better(best, subset):
    number, at, least = best
    mask = jnp.broadcast_to(subset.astype(found.items.dtype), y.shape)
    value = subset_value(found, mask, match)
    at = jnp.where(value < least, number, at)
    return (number + 1, at, jnp.minimum(value, least)), None

  start = jnp.full(y.shape[:-1], jnp.inf, found.items.dtype)
  nothing = jnp.zeros(y.shape[:-1], jnp.int32)
  (_, at, value), _ = jax.lax.scan(
    better, (jnp.int32(0), nothing, start), masks
  )
  return at, value


def greedy_subset(
  bank: Bank,
  y: ArrayLike,
  test_length: int,
  points: ArrayLike,
  match: str = 'newton',
) -> tuple[jax.Array, jax.Array]:
  """The subset that grows by the item with the smallest value.

  Args:
    bank: of n items.
    y: `[..., n]` all responses.
    test_length: T, size of the subset.
    points: `[K, ..., *latent]`.
    match: 'newton' or 'mean'.

  Returns:
    Items `[..., T]` in the order of picking, and values `[...]`.

  Raises:
    UserError: T not in [1, n].
  """
  n = bank.num_items
  _check_length(test_length, n)
  found = path_gradients(bank, y, points)

  def pick(subset, _):
    values = grown_values(found, subset, match)
    item = jnp.argmin(jnp.where(subset, jnp.inf, values), axis=-1)
    return subset | jax.nn.one_hot(item, n, dtype=bool), item

  empty = jnp.zeros(jnp.shape(y), bool)
  subset, items = jax.lax.scan(pick, empty, length=test_length)
  subset = subset.astype(found.items.dtype)
  return jnp.moveaxis(items, 0, -1), subset_value(found, subset, match)


def _teacher(bank, y, theta0, mask, target, num_points):
  def step(theta, _):
    found = path_gradients(bank, y, theta[None], mask=mask)
    everything = jnp.ones(jnp.shape(y), found.items.dtype)
    move = _DAMPING * newton_step(found, everything, False)[0]
    length = jnp.linalg.norm(move, axis=-1, keepdims=True)
    move = move / jnp.maximum(length, 1)
    return theta - move.reshape(theta.shape), theta

  _, path = jax.lax.scan(step, theta0, length=num_points - 1)
  return jnp.concatenate([path, target[None]])


def _student(bank, y, theta0, subset_mask, mask, rate, inner_steps, num_points):
  subset = jnp.asarray(subset_mask).astype(theta0.dtype)
  size = jnp.maximum(jnp.sum(subset, axis=-1), 1)
  latent = tuple(1 for _ in bank.latent_shape)
  size = size.reshape(*size.shape, *latent)
  subset = subset.reshape(*subset.shape, *latent)

  def step(theta, _):
    grads = models.item_grads(bank, theta, y, mask)
    pull = jnp.sum(subset * grads, axis=-1 - len(latent)) + theta
    theta = theta - rate * pull / size
    return theta, theta

  _, path = jax.lax.scan(step, theta0, length=inner_steps + 1)
  chosen = np.round(np.linspace(0, inner_steps, num_points)).astype(int)
  return path[chosen]


def _check_length(test_length: int, num_items: int) -> None:
  if not 1 <= test_length <= num_items:
    raise UserError(
      f'test_length is {test_length}: give 1 to {num_items}, the items of the '
      'bank.'
    )
