"""Losses of Gradient Path Matching.

`candidate_loss` knows the match value of every item that a rule could pick and
needs no gradient through a draw; `gpm_loss` tests examinees by straight-through
picks (Jang et al., 2017) and matches what was picked.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import models, paths, small_matrices
from jaxlab.adaptive_testing.estimate import map_newton
from jaxlab.adaptive_testing.gpm_states import States
from jaxlab.adaptive_testing.posterior import log_posterior, posterior_precision
from jaxlab.adaptive_testing.simulate import initial_state
from jaxlab.adaptive_testing.types import Bank, CatState, Selector
from jaxlab.errors import UserError

_RATE = 0.1  # of the look-ahead step
_SMALL = 1e-2  # length of a finite difference in ability


def time_weights(weights: str | float, test_length: int) -> jax.Array:
  """`[T]` weights of the picks, which sum to 1.

  Args:
    weights: 'linear', growing as 1, 2, ..., T; 'uniform'; or a number gamma
      for `gamma^t`.
    test_length: T.

  Raises:
    UserError: for another word.
  """
  turn = jnp.arange(test_length, dtype=float)
  if isinstance(weights, str):
    if weights not in ('linear', 'uniform'):
      raise UserError(
        f"weights {weights!r}: use 'linear', 'uniform' or a number."
      )
    raw = turn + 1 if weights == 'linear' else jnp.ones_like(turn)
  else:
    raw = jnp.asarray(weights, float) ** turn
  return raw / jnp.sum(raw)


def candidate_values(
  bank: Bank,
  states: States,
  *,
  path: str = 'linear',
  match: str = 'newton',
  num_points: int = 5,
  diagonal: bool = False,
) -> jax.Array:
  """`[B, n]` match values of the asked items with each further one.

  The path of a student depends on the item; the others do not.
  """
  asked, theta = states.cat.asked, states.cat.theta
  settings: dict[str, Any] = {'mask': states.known}
  if path != 'student':
    points = paths.path_points(
      *(bank, states.y, theta),
      num_points=num_points,
      kind=path,
      target=states.target,
      **settings,
    )
    return paths.candidate_values(
      *(bank, states.y, asked, points, match), diagonal=diagonal, **settings
    )

  def grown(item):
    subset = asked | (jnp.arange(bank.num_items) == item)
    points = paths.path_points(
      *(bank, states.y, theta),
      num_points=num_points,
      kind=path,
      subset_mask=subset,
      **settings,
    )
    return paths.match_value(
      *(bank, states.y, subset, points, match), diagonal=diagonal, **settings
    )

  return jax.lax.map(grown, jnp.arange(bank.num_items)).T


def candidate_loss(
  score: jax.Array,
  values: jax.Array,
  available: jax.Array,
  scale: ArrayLike,
  tau: ArrayLike,
) -> jax.Array:
  """Expected match value of a pick by softmax, against a random pick.

  Args:
    score: `[B, n]` of a rule.
    values: `[B, n]` match values of the grown subsets.
    available: `[B, n]` bool, items that may be picked; at least one each.
    scale: `[B]` by which a state's values are divided.
    tau: temperature of the softmax.

  Returns:
    `[B]`, 0 for a rule without preference.
  """
  values = jnp.where(available, values, 0)
  count = jnp.sum(available, axis=-1, keepdims=True)
  gap = values - jnp.sum(values, axis=-1, keepdims=True) / count
  gap = jax.lax.stop_gradient(jnp.where(available, gap, 0))
  chance = jax.nn.softmax(jnp.where(available, score, -jnp.inf) / tau, axis=-1)
  return jnp.sum(chance * gap, axis=-1) / scale


def gpm_loss(
  params: Any,
  key: jax.Array,
  bank: Bank,
  y: ArrayLike,
  *,
  selector: Selector,
  path: str = 'linear',
  match: str = 'newton',
  num_points: int = 5,
  test_length: int = 20,
  mask: ArrayLike | None = None,
  target: ArrayLike | None = None,
  tau: ArrayLike = 1.0,
  weights: str | float = 'linear',
  diagonal: bool = False,
  bptt: bool = False,
  darts: bool = False,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """Match values along tests whose picks are straight-through samples.

  Args:
    params: of the rule; what one differentiates by.
    key: PRNG key.
    bank: of n items.
    y: `[E, n]` all responses.
    selector: the rule.
    path: see `paths.path_points`; 'student' and `darts` differentiate through
      a look-ahead step of the estimate.
    match: see `paths.match_value`.
    num_points: K.
    test_length: T.
    mask: `[E, n]`, not 0 where there is a response; None for all.
    target: `[E, *latent]` abilities from all responses; None to estimate them.
    tau: temperature of the picks.
    weights: of the picks, see `time_weights`.
    diagonal: see `paths.match_value`.
    bptt: whether gradients go back through earlier picks and estimates; else
      each value has the gradient of its newest pick alone.
    darts: whether the path starts one gradient step ahead, and the gradient
      through it is the finite difference of Liu et al., 2019.

  Returns:
    The weighted mean, and `{'match': [T] means, 'error': [T] mean squared
    errors of the estimates before each pick, 'items': [T, E]}`.
  """
  known = jnp.ones(jnp.shape(y), bool)
  known = known if mask is None else jnp.asarray(mask) != 0
  y = jnp.where(known, jnp.asarray(y), 0).astype(float)
  target = map_newton(bank, y, known) if target is None else target
  cat = initial_state(bank, len(y), known, test_length=test_length)
  hold = (lambda x: x) if bptt else jax.lax.stop_gradient

  def step(carry, turn):
    cat, subset = carry
    score_key, pick_key = jax.random.split(jax.random.fold_in(key, turn))
    score = selector.score(params, score_key, bank, cat)
    pick, item = _straight_through(pick_key, score, cat.available, tau)
    subset = hold(subset) + pick
    start = cat.theta
    if darts:
      start = _ahead(bank, y, start, subset)
    points = paths.path_points(
      *(bank, y, start),
      num_points=num_points,
      kind=path,
      mask=known,
      target=target,
      subset_mask=subset,
    )
    value = paths.match_value(
      *(bank, y, subset, points, match), mask=known, diagonal=diagonal
    )
    gap = (cat.theta - target).reshape(len(y), -1)
    error = jnp.mean(jnp.sum(gap**2, axis=-1))
    cat = next_state(bank, y, cat, subset, item, turn, hold)
    return (cat, subset), (jnp.mean(value), error, item)

  start = (cat, jnp.zeros_like(y))
  _, (value, error, items) = jax.lax.scan(step, start, jnp.arange(test_length))
  loss = jnp.sum(time_weights(weights, test_length) * value)
  return loss, {'match': value, 'error': error, 'items': items}


def _straight_through(key, score, available, tau):
  """One-hot picks `[E, n]` with the gradient of a soft pick, and the items."""
  noisy = score + tau * jax.random.gumbel(key, score.shape)
  noisy = jnp.where(available, noisy, -jnp.inf)
  soft = jax.nn.softmax(noisy / tau, axis=-1)
  item = jnp.argmax(noisy, axis=-1)
  hard = jax.nn.one_hot(item, score.shape[-1], dtype=soft.dtype)
  return hard + soft - jax.lax.stop_gradient(soft), item


def _subset_pull(bank: Bank, y, theta, subset) -> jax.Array:
  """Gradient of the loss of a weighted subset and the prior, at `theta`."""
  latent = tuple(1 for _ in bank.latent_shape)
  grads = models.item_grads(bank, theta, y)
  weight = subset.reshape(*subset.shape, *latent)
  return jnp.sum(weight * grads, axis=-1 - len(latent)) + theta


def _descended(bank: Bank, y, theta, subset) -> jax.Array:
  """One gradient step on the mean loss of a weighted subset."""
  size = jnp.maximum(jnp.sum(subset, axis=-1), 1)
  size = size.reshape(*size.shape, *(1 for _ in bank.latent_shape))
  return theta - _RATE * _subset_pull(bank, y, theta, subset) / size


@jax.custom_vjp
def _ahead(bank: Bank, y, theta, subset) -> jax.Array:
  """`_descended`, without a mixed second derivative on the way back."""
  return _descended(bank, y, theta, subset)


def _ahead_forward(bank, y, theta, subset):
  return _descended(bank, y, theta, subset), (bank, y, theta, subset)


def _ahead_backward(saved, cotangent):
  """Differences of the gradient by the subset, at abilities on both sides."""
  bank, y, theta, subset = saved
  flat = cotangent.reshape(len(y), -1)
  length = jnp.linalg.norm(flat, axis=-1, keepdims=True)
  unit = (flat / jnp.where(length > 0, length, 1)).reshape(theta.shape)

  def by_subset(theta):
    def mean_loss(subset):
      wrong, right = models.log_prob(bank, theta)
      items = -jnp.sum(subset * (y * right + (1 - y) * wrong), axis=-1)
      prior = jnp.sum(theta.reshape(len(y), -1) ** 2, axis=-1) / 2
      size = jnp.maximum(jnp.sum(subset, axis=-1), 1)
      return jnp.sum((items + prior) / size)

    return jax.grad(mean_loss)(subset)

  slope = by_subset(theta + _SMALL * unit) - by_subset(theta - _SMALL * unit)
  _, by_theta = jax.vjp(lambda at: _descended(bank, y, at, subset), theta)
  nothing = jax.tree.map(jnp.zeros_like, (bank, y))
  return *nothing, *by_theta(cotangent), -_RATE * length * slope / (2 * _SMALL)


_ahead.defvjp(_ahead_forward, _ahead_backward)


def next_state(
  bank: Bank,
  y: jax.Array,
  cat: CatState,
  subset: jax.Array,
  item: jax.Array,
  turn: ArrayLike,
  hold: Callable[[jax.Array], jax.Array],
) -> CatState:
  """States after an answer, whose estimates can be differentiated.

  Args:
    bank: of n items.
    y: `[E, n]` all responses.
    cat: the states before.
    subset: `[E, n]` shares of the asked items, all of them 0 or 1; what one
      differentiates by. An estimate has the derivative of the optimum.
    item: `[E]` what was asked now.
    turn: number of items before.
    hold: what is done to the estimates: nothing, or `stop_gradient`.
  """
  asked = cat.asked | jax.nn.one_hot(item, bank.num_items, dtype=bool)
  found = map_newton(bank, y, asked, theta0=jax.lax.stop_gradient(cat.theta))
  theta = jax.lax.stop_gradient(found)
  info = posterior_precision(bank, theta, asked)
  pull = _subset_pull(bank, y, theta, subset)
  pull = pull - jax.lax.stop_gradient(pull)
  move = (
    pull / info if not bank.latent_shape else small_matrices.solve(info, pull)
  )
  return cat._replace(
    asked=asked,
    available=cat.available & ~asked,
    responses=jnp.where(asked, y, 0).astype(cat.responses.dtype),
    theta=hold(theta - move),
    info=info,
    log_post=None if bank.latent_shape else log_posterior(bank, y, asked),
    items=cat.items.at[:, turn].set(item.astype(jnp.int32)),
    step=cat.step + 1,
  )
