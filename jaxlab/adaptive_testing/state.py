"""The state of a test, item by item.

It keeps the items of each examinee in the order of asking, so that an estimate
takes the same time early and late in a test.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import estimate, models, posterior
from jaxlab.adaptive_testing.ties import first_best
from jaxlab.adaptive_testing.types import (
  GRID,
  Ability,
  Bank,
  CatState,
  NeuralBank,
)
from jaxlab.errors import UserError

ESTIMATORS = ('map', 'eap', 'mle', 'gd')
_NEAR = 6  # Newton steps from the best point of the grid


def initial_state(
  bank: Bank,
  num_examinees: int,
  available: ArrayLike | None = None,
  *,
  test_length: int | None = None,
) -> CatState:
  """Examinees before their first item.

  Args:
    bank: of n items.
    num_examinees: E.
    available: `[E, n]`, not 0 where an item may be asked; None for all.
    test_length: most items that will be asked; None for n.
  """
  shape = (num_examinees, bank.num_items)
  latent = bank.latent_shape
  prior = posterior.standard_prior(bank)
  if available is None:
    available = jnp.ones(shape, bool)
  log_post = None
  if not latent:
    no_item = take_items(bank, jnp.zeros(0, jnp.int32))
    log_post = posterior.log_posterior(no_item, jnp.zeros((num_examinees, 0)))
  width = bank.num_items if test_length is None else test_length
  return CatState(
    asked=jnp.zeros(shape, bool),
    available=jnp.broadcast_to(jnp.asarray(available) != 0, shape),
    responses=jnp.zeros(shape, jnp.int8),
    theta=jnp.broadcast_to(prior.mean, (num_examinees, *latent)),
    info=jnp.broadcast_to(prior.precision, (num_examinees, *latent, *latent)),
    log_post=log_post,
    step=jnp.zeros((), jnp.int32),
    items=jnp.full((num_examinees, width), -1, jnp.int32),
  )


def update(
  bank: Bank,
  state: CatState,
  item: ArrayLike,
  answer: ArrayLike,
  estimator: str = 'map',
) -> CatState:
  """Examinees after one more answer.

  Args:
    bank: of n items.
    state: of E examinees, with room for an item in `state.items`.
    item: `[E]` what each was asked; -1 leaves an examinee as it was.
    answer: `[E]` 0 or 1.
    estimator: one of `ESTIMATORS`.
  """
  item, answer = jnp.asarray(item), jnp.asarray(answer)
  return answered(bank, state, item, answer, estimator)[0]


def answered(
  bank: Bank, state: CatState, item: jax.Array, answer: jax.Array, method: str
) -> tuple[CatState, jax.Array]:
  """As `update`; also returns the standard errors."""
  given = item >= 0
  row = jnp.arange(item.shape[0])
  place = jnp.where(given, item, bank.num_items)  # beyond the end: dropped
  mark = functools.partial(_mark, row, place)
  new = state._replace(
    asked=mark(state.asked, True),
    available=mark(state.available, False),
    responses=mark(state.responses, answer.astype(state.responses.dtype)),
    items=jax.lax.dynamic_update_slice(
      state.items,
      item[:, None].astype(jnp.int32),
      (jnp.zeros_like(state.step), state.step),
    ),
    step=state.step + 1,
  )
  if state.log_post is not None:
    gain = _grid_likelihood(bank, jnp.maximum(item, 0), answer)
    gain = jnp.where(given[:, None], gain, 0)
    log_post = jax.nn.log_softmax(state.log_post + gain, axis=-1)
    new = new._replace(log_post=log_post.astype(state.log_post.dtype))
  found = _ability(bank, new, method)
  theta = jnp.where(like(given, found.theta), found.theta, state.theta)
  info = _precision(bank, new.items, theta)
  info = jnp.where(like(given, info), info, state.info)
  new = new._replace(theta=theta, info=info)
  se = found.se if method == 'eap' else standard_error(bank, new, method)
  return new, se


def check_estimator(name: str) -> None:
  """Raises `UserError` unless there is an estimator of that name."""
  if name not in ESTIMATORS:
    raise UserError(
      f'estimator {name!r} is unknown: use {", ".join(ESTIMATORS)}.'
    )


def recorded_state(
  bank: Bank,
  items: ArrayLike,
  answers: ArrayLike,
  available: ArrayLike | None = None,
  estimator: str = 'map',
) -> CatState:
  """The state that a record of items and answers leads to, in one step.

  Args:
    bank: of n items.
    items: `[E, T]` in the order of asking; -1 behind the last one.
    answers: `[E, T]` 0 or 1.
    available: `[E, n]`, not 0 where an item might be asked at the start; None
      for all.
    estimator: one of `ESTIMATORS`.
  """
  items, answers = jnp.asarray(items, jnp.int32), jnp.asarray(answers)
  state = initial_state(
    bank, items.shape[0], available, test_length=items.shape[1]
  )
  row = jnp.arange(items.shape[0])[:, None]
  given = items >= 0
  place = jnp.where(given, items, bank.num_items)
  mark = functools.partial(_mark, row, place)
  state = state._replace(
    asked=mark(state.asked, True),
    available=mark(state.available, False),
    responses=mark(state.responses, answers.astype(state.responses.dtype)),
    items=items,
    step=jnp.max(jnp.sum(given, axis=1, dtype=jnp.int32)),
  )
  if state.log_post is not None:
    gain = jax.vmap(functools.partial(_grid_likelihood, bank))(
      jnp.maximum(items, 0), answers
    )
    gain = jnp.sum(jnp.where(given[:, :, None], gain, 0), axis=1)
    log_post = jax.nn.log_softmax(state.log_post + gain, axis=-1)
    state = state._replace(log_post=log_post)
  state = state._replace(theta=_ability(bank, state, estimator).theta)
  return state._replace(info=_precision(bank, items, state.theta))


def standard_error(
  bank: Bank, state: CatState, estimator: str = 'map'
) -> jax.Array:
  """Standard errors of the estimates, `[E, *latent]`.

  As in `estimate_ability`: the standard deviation of the posterior, or of its
  normal approximation for 'map' in several dimensions and for 'mle' and 'gd'.
  """
  if state.log_post is not None and estimator in ('map', 'eap'):
    return posterior.posterior_moments(state.log_post).se
  if estimator == 'eap':
    return _ability(bank, state, estimator).se
  return posterior.spread(bank, state.info)


def take_items(bank: Bank, items: jax.Array) -> Bank:
  """The bank of some items, `[m]` of the n."""
  shared = bank.layers if isinstance(bank, NeuralBank) else None
  if isinstance(bank, NeuralBank):
    bank = bank._replace(layers=())
  taken = jax.tree.map(lambda x: x[items], bank)
  return taken if shared is None else taken._replace(layers=shared)


def _ability(bank: Bank, state: CatState, method: str) -> Ability:
  """Estimates from what was asked; standard errors with EAP only."""
  if method == 'eap' and state.log_post is not None:
    return posterior.posterior_moments(state.log_post)

  def one(items, y, start):
    own, seen = take_items(bank, jnp.maximum(items, 0)), items >= 0
    if method == 'eap':
      return estimate.estimators()['eap'](own, y, seen, None)
    if method == 'gd':
      return Ability(estimate.gd_path(own, y, seen, start)[-1], start)
    steps: dict[str, Any] = {} if bank.latent_shape else {'iterations': _NEAR}
    if method == 'mle':
      found = estimate.mle_bounded(own, y, seen, theta0=start, **steps)
    else:
      found = estimate.map_newton(own, y, seen, theta0=start, **steps)
    return Ability(found, start)

  at = jnp.maximum(state.items, 0)
  answers = jnp.take_along_axis(state.responses, at, axis=1)
  return jax.vmap(one)(state.items, answers, _start(bank, state, method))


def _start(bank: Bank, state: CatState, method: str) -> jax.Array:
  """Where the search for an estimate begins, `[E, *latent]`."""
  if method == 'gd':
    mean = posterior.standard_prior(bank).mean
    return jnp.broadcast_to(mean, state.theta.shape)
  if state.log_post is None:
    return state.theta
  # The likelihood of guessing has several maxima: begin at the highest.
  height = state.log_post
  grid = jnp.asarray(GRID, height.dtype)
  if method == 'mle':
    height = height + grid**2 / 2
  return grid[first_best(height)]


def _precision(bank: Bank, items: jax.Array, theta: jax.Array) -> jax.Array:
  def one(items, theta):
    own = take_items(bank, jnp.maximum(items, 0))
    return posterior.posterior_precision(own, theta, items >= 0)

  return jax.vmap(one)(items, theta)


def _grid_likelihood(bank, item, answer) -> jax.Array:
  """`[E, G]` log-likelihoods of one answer each."""

  def one(item, answer):
    grid = jnp.asarray(GRID, bank.b.dtype)
    wrong, right = models.log_prob(take_items(bank, item[None]), grid)
    return jnp.where(answer > 0, right, wrong)[:, 0]

  return jax.vmap(one)(item, answer)


def _mark(row, place, table, value) -> jax.Array:
  return table.at[row, place].set(value, mode='drop')


def like(flags: jax.Array, x: jax.Array) -> jax.Array:
  """`[E]` flags with as many axes as x."""
  return flags.reshape(*flags.shape, *(1 for _ in x.shape[1:]))
