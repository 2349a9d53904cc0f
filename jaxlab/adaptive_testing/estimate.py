"""Estimators of ability from masked responses.

All have fixed iteration counts, and compose with `jit`, `vmap` and `grad`.
Sources: Lord, Applications of Item Response Theory, 1980 (maximum likelihood);
Bock & Mislevy, Applied Psychological Measurement, 1982 (EAP); Bertsekas, SIAM
Journal on Control and Optimization, 1982 (Newton's method in a box).
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import checks, models, newton, small_matrices
from jaxlab.adaptive_testing.posterior import (
  Prior,
  log_posterior,
  posterior_moments,
  posterior_precision,
  pull,
  quadrature,
  spread,
  standard_prior,
)
from jaxlab.adaptive_testing.ridge import Ridge, correction, regress
from jaxlab.adaptive_testing.types import Ability, Bank, NeuralBank
from jaxlab.errors import UserError

__all__ = [
  'Estimator',
  'Prior',
  'Ridge',
  'estimate_ability',
  'estimators',
  'fit_ridge',
  'gd_path',
  'log_posterior',
  'map_newton',
  'mle_bounded',
  'posterior_moments',
  'posterior_precision',
  'standard_prior',
]

_COARSE = np.linspace(-4, 4, 17)  # where a search for the mode may start
_FLAT = 1e-4  # curvature that is added to a likelihood, which may have none
_BENT = 0.2  # share of the curvature that makes a Newton step trustworthy


Estimator = Callable[[Bank, jax.Array, jax.Array, jax.Array | None], Ability]


@functools.partial(jax.jit, static_argnames='iterations')
def map_newton(
  bank: Bank,
  y: ArrayLike,
  mask: ArrayLike | None = None,
  *,
  theta0: ArrayLike | None = None,
  prior: Prior | None = None,
  iterations: int = 12,
) -> jax.Array:
  """The most likely ability a posteriori, by damped Newton steps.

  Steps have at most length 1 and are shortened where they go too far; see
  `newton.descend`.

  Args:
    bank: of n items.
    y: `[..., n]` answers 0 or 1; any value, NaN too, where they are masked.
    mask: `[..., n]`, not 0 where there is an answer; None for all.
    theta0: `[..., *latent]` where to start; None for the best point of a coarse
      grid, or the mean of the prior where D > 1.
    prior: of ability; None for N(0, I).
    iterations: number of steps.

  Returns:
    `[..., *latent]`.
  """
  y, mask = jnp.asarray(y), None if mask is None else jnp.asarray(mask)
  prior = standard_prior(bank) if prior is None else prior
  if theta0 is None:
    theta0 = _start(bank, y, mask, prior)

  def slope_and_curvature(theta):
    slope = models.nll_grad(bank, theta, y, mask) + pull(prior, theta)
    return slope, _curvature(bank, theta, y, mask, prior.precision)

  start = _whole(theta0, bank, y)
  return newton.descend(slope_and_curvature, start, iterations=iterations)


@functools.partial(jax.jit, static_argnames='iterations')
def mle_bounded(
  bank: Bank,
  y: ArrayLike,
  mask: ArrayLike | None = None,
  *,
  bounds: tuple[ArrayLike, ArrayLike] = (-4.0, 4.0),
  theta0: ArrayLike | None = None,
  iterations: int = 24,
) -> jax.Array:
  """The most likely ability in a box, whose bounds are hard.

  Args:
    bank: of n items.
    y: `[..., n]` answers; see `map_newton`.
    mask: `[..., n]`; see `map_newton`.
    bounds: (low, high) of each coordinate.
    theta0: `[..., *latent]` where to start; None for the best point of a coarse
      grid, or the middle of the box where D > 1.
    iterations: number of steps.

  Returns:
    `[..., *latent]`; the start where nothing is answered.
  """
  y, mask = jnp.asarray(y), None if mask is None else jnp.asarray(mask)
  low, high = (jnp.asarray(bound, float) for bound in bounds)
  prior = standard_prior(bank)
  flat = prior._replace(
    mean=prior.mean + (low + high) / 2, precision=_FLAT * prior.precision
  )
  if theta0 is None:
    points = jnp.linspace(low, high, _COARSE.size)
    theta0 = _start(bank, y, mask, flat, points)

  def slope_and_curvature(theta):
    slope = models.nll_grad(bank, theta, y, mask)
    return slope, _curvature(bank, theta, y, mask, flat.precision)

  start = jnp.clip(_whole(theta0, bank, y), low, high)
  return newton.descend(
    slope_and_curvature, start, iterations=iterations, bounds=(low, high)
  )


@functools.partial(jax.jit, static_argnames='num_steps')
def gd_path(
  bank: Bank,
  y: ArrayLike,
  mask: ArrayLike | None,
  theta0: ArrayLike,
  *,
  prior: Prior | None = None,
  num_steps: int = 10,
  rate: ArrayLike = 0.1,
) -> jax.Array:
  """The path of gradient descent on the mean loss of what is answered.

  The loss is that of the answers and of the prior, divided by their number, so
  that the path leads to the estimate of `map_newton`.

  Args:
    bank: of n items.
    y: `[..., n]` answers; see `map_newton`.
    mask: `[..., n]`; see `map_newton`.
    theta0: `[..., *latent]` where it starts.
    prior: of ability; None for N(0, I).
    num_steps: K.
    rate: length of a step, in gradients.

  Returns:
    `[K + 1, ..., *latent]`; the start comes first.
  """
  prior = standard_prior(bank) if prior is None else prior
  y = jnp.asarray(y)
  seen = jnp.ones(y.shape, bool) if mask is None else jnp.asarray(mask) != 0
  count = jnp.maximum(jnp.sum(seen, axis=-1), 1)
  count = count.reshape(*count.shape, *(1 for _ in bank.latent_shape))
  theta0 = _whole(theta0, bank, y)

  def step(theta, _):
    slope = models.nll_grad(bank, theta, y, seen) + pull(prior, theta)
    theta = theta - rate * slope / count
    return theta, theta

  _, path = jax.lax.scan(step, theta0, length=num_steps)
  return jnp.concatenate([theta0[None], path])


def estimate_ability(
  bank: Bank,
  y: ArrayLike,
  mask: ArrayLike | None = None,
  *,
  method: str = 'map',
  prior: Prior | None = None,
  bounds: tuple[float, float] = (-4.0, 4.0),
  theta0: ArrayLike | None = None,
  ridge: Ridge | None = None,
) -> Ability:
  """Estimates abilities from answers.

  Args:
    bank: of n items.
    y: `[..., n]` answers 0 or 1; any value, NaN too, where they are masked.
    mask: `[..., n]`, not 0 where there is an answer; None for all.
    method: 'map', the mode of the posterior; 'mle', the most likely ability
      within `bounds`; 'eap', the mean of the posterior, for D <= 3; 'gd', ten
      steps of gradient descent from `theta0`; 'map_ridge', the mode corrected
      by `ridge`.
    prior: of ability; None for N(0, I). Without effect on 'mle'.
    bounds: (low, high) of the abilities that 'mle' may return.
    theta0: `[..., *latent]` where an iteration starts; None for a good place,
      which for 'gd' is the mean of the prior.
    ridge: from `fit_ridge`, for 'map_ridge'.

  Returns:
    Estimates. Their standard errors are the standard deviation of the posterior
    ('map' for D > 1: of its normal approximation), for 'mle' and 'gd'
    `(I + 1)^(-1/2)`.

  Raises:
    UserError: an unknown method, responses other than 0 and 1, shapes that do
      not fit, bounds in the wrong order, 'eap' for D > 3, 'map_ridge' without
      `ridge`.
  """
  known = estimators(prior=prior, bounds=bounds, ridge=ridge)
  if method not in known:
    if method == 'map_ridge':
      raise UserError('method = map_ridge needs ridge; take that of fit_ridge.')
    names = ', '.join([*known, *(() if ridge else ('map_ridge',))])
    raise UserError(f'method = {method!r} is not one of {names}.')
  checks.check_bounds(bounds)
  checks.check_responses('y', y, mask, bank)
  y = jnp.asarray(y)
  seen = jnp.ones(y.shape, bool) if mask is None else jnp.asarray(mask) != 0
  return _estimate(method, bank, y, seen, theta0, prior, bounds, ridge)


@functools.partial(jax.jit, static_argnums=0)
def _estimate(method, bank, y, mask, theta0, prior, bounds, ridge) -> Ability:
  known = estimators(prior=prior, bounds=bounds, ridge=ridge)
  return known[method](bank, y, mask, theta0)


def estimators(
  *,
  prior: Prior | None = None,
  bounds: tuple[ArrayLike, ArrayLike] = (-4.0, 4.0),
  ridge: Ridge | None = None,
) -> dict[str, Estimator]:
  """The estimators by name, as functions `(bank, y, mask, theta0) -> Ability`.

  They check nothing, and suit the inside of a `scan`. `theta0` may be None; see
  `estimate_ability` for the rest. 'map_ridge' is there where `ridge` is.
  """
  known: dict[str, Estimator] = {
    'map': functools.partial(_map, prior),
    'mle': functools.partial(_mle, bounds),
    'eap': functools.partial(_eap, prior),
    'gd': functools.partial(_gd, prior),
  }
  if ridge is not None:
    known['map_ridge'] = functools.partial(_map_ridge, ridge, prior)
  return known


@jax.jit
def fit_ridge(
  bank: Bank,
  y: ArrayLike,
  asked: ArrayLike,
  mask: ArrayLike | None = None,
  *,
  prior: Prior | None = None,
  penalty: ArrayLike = 0.01,
) -> Ridge:
  """Learns to correct estimates of unfinished tests, for 'map_ridge'.

  A correction belongs to a rule of selection, and is fitted on examinees whom
  it is not tried on.

  Args:
    bank: of n items.
    y: `[E, n]` answers; see `map_newton`.
    asked: `[S, E, n]`, not 0 where an item had been asked at each of S moments
      of the tests; `ridge.asked_after` makes it from a record of items.
    mask: `[E, n]`, not 0 where there is an answer; None for all.
    prior: of ability; None for N(0, I).
    penalty: on squares of weights, in mean squares of features.

  Returns:
    The correction towards the estimates from all answers.
  """
  target = map_newton(bank, y, mask, prior=prior)
  y, asked = jnp.asarray(y), jnp.asarray(asked) != 0
  theta, se = jax.lax.map(
    lambda asked: _mode(prior, bank, y, asked, None), asked
  )
  return regress(bank, y, asked, theta, se, target, penalty=penalty)


def _map(prior, bank, y, mask, theta0) -> Ability:
  found = _mode(prior, bank, y, mask, theta0)
  return found._replace(se=_posterior_sd(prior, bank, y, mask, found.se))


def _map_ridge(ridge, prior, bank, y, mask, theta0) -> Ability:
  y = jnp.broadcast_to(y, jnp.broadcast_shapes(y.shape, mask.shape))
  found = _mode(prior, bank, y, mask, theta0)
  move = correction(ridge, bank, y, mask != 0, *found)
  se = _posterior_sd(prior, bank, y, mask, found.se)
  return Ability(found.theta + move, se)


def _mode(prior, bank, y, mask, theta0) -> Ability:
  """The mode of the posterior, and the spread of its normal approximation."""
  theta = map_newton(bank, y, mask, theta0=theta0, prior=prior)
  precision = posterior_precision(bank, theta, mask, prior=prior)
  return Ability(theta, spread(bank, precision))


def _posterior_sd(prior, bank, y, mask, approximate) -> jax.Array:
  if bank.latent_shape:
    return approximate
  prior = standard_prior(bank) if prior is None else prior
  return quadrature(prior, bank, y, mask).se


def _mle(bounds, bank, y, mask, theta0) -> Ability:
  theta = mle_bounded(bank, y, mask, bounds=bounds, theta0=theta0)
  return Ability(theta, spread(bank, posterior_precision(bank, theta, mask)))


def _eap(prior, bank, y, mask, theta0) -> Ability:
  del theta0
  prior = standard_prior(bank) if prior is None else prior
  return quadrature(prior, bank, y, mask)


def _gd(prior, bank, y, mask, theta0) -> Ability:
  prior = standard_prior(bank) if prior is None else prior
  start = prior.mean if theta0 is None else theta0
  theta = gd_path(bank, y, mask, start, prior=prior)[-1]
  return Ability(theta, spread(bank, posterior_precision(bank, theta, mask)))


def _whole(theta: ArrayLike, bank: Bank, y: jax.Array) -> jax.Array:
  """`theta` for every examinee, `[..., *latent]`."""
  shape = (*y.shape[:-1], *bank.latent_shape)
  return jnp.broadcast_to(jnp.asarray(theta, float), shape)


def _start(bank, y, mask, prior, points=None) -> jax.Array:
  """The best of a few abilities, `[..., *latent]`."""
  if bank.latent_shape:
    return prior.mean
  if points is None:
    coarse = _COARSE.astype(prior.mean.dtype)
    points = prior.mean + coarse / prior.precision**0.5
  found = log_posterior(bank, y, mask, points, prior=prior)
  return points[jnp.argmax(found, axis=-1)]


def _curvature(bank: Bank, theta, y, mask, precision) -> jax.Array:
  """That of the loss where it is safe for a Newton step, else a positive one.

  Where guessing is possible, the loss of a right answer may bend downwards. It
  counts unless too little is left of the curvature of the others.
  """
  if isinstance(bank, NeuralBank):
    return models.information(bank, theta, mask) + precision
  size = models.logit_curvature(bank, theta, y, mask)
  exact = models.weigh(bank, size) + precision
  positive = models.weigh(bank, jnp.maximum(size, 0)) + precision
  rest = exact - _BENT * positive
  if not bank.latent_shape:
    return jnp.where(rest > 0, exact, positive)
  root = small_matrices.cholesky(jax.lax.stop_gradient(rest))
  sound = jnp.all(jnp.isfinite(root), axis=(-2, -1), keepdims=True)
  return jnp.where(sound, exact, positive)
