"""Rules that average over the posterior of ability.

In one dimension the posterior is the one on the grid; in several it is the
normal distribution around the estimate. Sources: van der Linden, Psychometrika,
1998 (MPWI, MEPV).
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from scipy.stats import norm, qmc

from jaxlab.adaptive_testing import models, small_matrices
from jaxlab.adaptive_testing.selectors import classical
from jaxlab.adaptive_testing.types import GRID, Bank, CatState, Selector

_POINTS = 64  # of a normal distribution in several dimensions


@functools.cache
def mpwi() -> Selector:
  """Most Fisher information on average over the posterior."""

  def init(key, bank):
    del key
    return () if bank.latent_shape else information_table(bank)

  def score(params, key, bank, state):
    del key
    if not bank.latent_shape:
      return weighted_information(params, state.log_post)
    return _weighted_gain(bank, state)

  return Selector(init, score, 'mpwi')


@functools.cache
def mepv() -> Selector:
  """Least variance of the posterior that is to be expected after the item.

  The score is what the item takes from the variance; in D dimensions from the
  trace of the inverse of the posterior precision.
  """

  def init(key, bank):
    del key
    return () if bank.latent_shape else probability_table(bank)

  def score(params, key, bank, state):
    del key
    if not bank.latent_shape:
      return variance_reduction(params, state.log_post)
    return _trace_reduction(bank, state)

  return Selector(init, score, 'mepv')


def information_table(bank: Bank, grid: ArrayLike = GRID) -> jax.Array:
  """Fisher information of items on a grid of abilities, `[G, n]`."""
  return models.item_information(bank, jnp.asarray(grid, float))


def probability_table(bank: Bank, grid: ArrayLike = GRID) -> jax.Array:
  """Probabilities of right answers on a grid of abilities, `[G, n]`."""
  return models.prob(bank, jnp.asarray(grid, float))


def weighted_information(table: jax.Array, log_post: jax.Array) -> jax.Array:
  """Expectation of information under posteriors.

  Args:
    table: `[G, n]`, from `information_table`.
    log_post: `[E, G]`.

  Returns:
    `[E, n]`.
  """
  return jnp.exp(log_post) @ table


def variance_reduction(
  table: jax.Array, log_post: jax.Array, grid: ArrayLike = GRID
) -> jax.Array:
  """How much of the posterior variance an answer takes away, expected.

  It is `Cov(theta, p)^2 / (E p (1 - E p))` under the posterior.

  Args:
    table: `[G, n]`, from `probability_table`.
    log_post: `[E, G]`.
    grid: `[G]`.

  Returns:
    `[E, n]`.
  """
  weight, grid = jnp.exp(log_post), jnp.asarray(grid, log_post.dtype)
  gap = grid - (weight @ grid)[:, None]
  chance = weight @ table
  shared = (weight * gap) @ table
  least = jnp.finfo(chance.dtype).tiny
  return shared**2 / jnp.maximum(chance * (1 - chance), least)


def _weighted_gain(bank: Bank, state: CatState) -> jax.Array:
  """Posterior mean of the trace of `info^-1` times an item's information."""
  (num_dims,) = bank.latent_shape
  dtype = state.theta.dtype
  draws = jnp.asarray(_normal_points(num_dims), dtype)
  inverse = small_matrices.inverse(state.info)
  root = small_matrices.cholesky(inverse)

  def add(total, draw):
    theta = state.theta + root @ draw
    size, direction = classical.information_factor(bank, theta)
    return total + size * classical.quadratic(direction, inverse), None

  start = jnp.zeros(state.available.shape, dtype)
  return jax.lax.scan(add, start, draws)[0] / _POINTS


def _normal_points(num_dims: int) -> np.ndarray:
  """`[_POINTS, D]` of a Halton sequence with mean 0 and covariance I."""
  uniform = qmc.Halton(num_dims, scramble=False).random(_POINTS + 1)[1:]
  points = norm.ppf(uniform)
  points -= points.mean(0)
  root = np.linalg.cholesky(points.T @ points / _POINTS)
  return np.linalg.solve(root, points.T).T


def _trace_reduction(bank: Bank, state: CatState) -> jax.Array:
  """Trace of `info^-1` before and after the item, by the rank-one formula."""
  size, direction = classical.information_factor(bank, state.theta)
  inverse = small_matrices.inverse(state.info)
  removed = size * classical.quadratic(direction, inverse @ inverse)
  return removed / (1 + size * classical.quadratic(direction, inverse))
