"""Posteriors of ability: normal priors, grids, quadrature.

Source: Bock & Mislevy, Applied Psychological Measurement, 1982.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import models, small_matrices
from jaxlab.adaptive_testing.types import GRID, Ability, Bank
from jaxlab.errors import UserError

_NODES = {1: 81, 2: 41, 3: 25}  # of the quadrature, for each dimension
_CHUNK = 256  # examinees whose posterior on a grid is held at a time


class Prior(NamedTuple):
  """A normal prior of ability.

  Attributes:
    mean: `[*latent]`.
    precision: `[*latent, *latent]`.
  """

  mean: jax.Array
  precision: jax.Array


def standard_prior(bank: Bank) -> Prior:
  """N(0, I)."""
  shape = bank.latent_shape
  precision = jnp.eye(shape[0]) if shape else jnp.ones(())
  return Prior(jnp.zeros(shape), precision)


@jax.jit
def log_posterior(
  bank: Bank,
  y: ArrayLike,
  mask: ArrayLike | None = None,
  grid: ArrayLike = GRID,
  *,
  prior: Prior | None = None,
) -> jax.Array:
  """Logarithm of the posterior on a grid of abilities.

  Args:
    bank: of n items.
    y: `[..., n]` answers; see `map_newton`.
    mask: `[..., n]`; see `map_newton`.
    grid: `[G, *latent]`.
    prior: of ability; None for N(0, I).

  Returns:
    `[..., G]`, the logarithms of probabilities that sum to 1.
  """
  prior = standard_prior(bank) if prior is None else prior
  grid = jnp.asarray(grid, float)
  wrong, right = models.log_prob(bank, grid)
  y, seen = jnp.asarray(y), 1 if mask is None else jnp.asarray(mask) != 0
  took = jnp.where(seen & (y == 1), 1.0, 0.0).astype(grid.dtype)
  missed = jnp.where(seen & (y == 0), 1.0, 0.0).astype(grid.dtype)
  density = jnp.matmul(took, right.T, precision='highest')
  density += jnp.matmul(missed, wrong.T, precision='highest')
  density -= penalty(prior, grid)
  return jax.nn.log_softmax(density, axis=-1)


def posterior_moments(log_post: jax.Array, grid: ArrayLike = GRID) -> Ability:
  """Mean and standard deviation of posteriors on a grid.

  Args:
    log_post: `[..., G]`, from `log_posterior`.
    grid: `[G, *latent]`.
  """
  grid = jnp.asarray(grid, log_post.dtype)
  weight = jax.nn.softmax(log_post, axis=-1)
  mean = weight @ grid
  gap = mean[..., None] - grid if grid.ndim == 1 else mean[..., None, :] - grid
  axis = weight.ndim - 1
  weight = weight.reshape(*weight.shape, *(1 for _ in grid.shape[1:]))
  return Ability(mean, jnp.sqrt(jnp.sum(weight * gap**2, axis=axis)))


def posterior_precision(
  bank: Bank,
  theta: ArrayLike,
  mask: ArrayLike | None = None,
  *,
  prior: Prior | None = None,
) -> jax.Array:
  """Fisher information of what was answered plus the prior's precision.

  Args:
    bank: of n items.
    theta: `[..., *latent]`.
    mask: `[..., n]`, not 0 where there is an answer; None for all.
    prior: of ability; None for N(0, I).

  Returns:
    `[..., *latent, *latent]`.
  """
  prior = standard_prior(bank) if prior is None else prior
  return models.information(bank, theta, mask) + prior.precision


def quadrature(prior: Prior, bank: Bank, y, mask) -> Ability:
  """Mean and standard deviation of posteriors."""
  grid = grid_of(prior, bank.latent_shape)

  def moments(answers):
    y, mask = answers
    found = log_posterior(bank, y, mask, grid, prior=prior)
    return posterior_moments(found, grid)

  if not bank.latent_shape:
    return moments((y, mask))
  # Thousands of nodes for each examinee: not for all of them at once.
  flat = (y.reshape(-1, y.shape[-1]), mask.reshape(-1, y.shape[-1]))
  found = jax.lax.map(moments, flat, batch_size=_CHUNK)
  shape = (*y.shape[:-1], *bank.latent_shape)
  return Ability(*(part.reshape(shape) for part in found))


def grid_of(prior: Prior, latent_shape: Sequence[int]) -> jax.Array:
  """`[G, *latent]` nodes over five standard deviations of the prior."""
  if not latent_shape:
    return prior.mean + GRID.astype(prior.mean.dtype) / prior.precision**0.5
  (num_dims,) = latent_shape
  if num_dims not in _NODES:
    raise UserError(
      f'method = eap is for at most {max(_NODES)} dimensions, the bank has '
      f'{num_dims}; take map.'
    )
  axis = np.linspace(GRID[0], GRID[-1], _NODES[num_dims])
  nodes = np.stack(np.meshgrid(*[axis] * num_dims, indexing='ij'), axis=-1)
  root = jnp.linalg.cholesky(prior.precision)
  nodes = nodes.reshape(-1, num_dims).astype(root.dtype)
  return prior.mean + jnp.linalg.solve(root.T, nodes.T).T


def spread(bank: Bank, precision: jax.Array) -> jax.Array:
  """Standard deviations `[..., *latent]` of normal distributions."""
  if not bank.latent_shape:
    return precision**-0.5
  inverse = small_matrices.inverse(precision)
  return jnp.sqrt(jnp.diagonal(inverse, axis1=-2, axis2=-1))


def pull(prior: Prior, theta: jax.Array) -> jax.Array:
  """Gradient of the penalty, `[..., *latent]`."""
  gap = theta - prior.mean
  return gap @ prior.precision if prior.mean.ndim else gap * prior.precision


def penalty(prior: Prior, theta: jax.Array) -> jax.Array:
  """What the prior adds to the negative log-likelihood, `[...]`."""
  product = (theta - prior.mean) * pull(prior, theta) / 2
  return jnp.sum(product, axis=-1) if prior.mean.ndim else product
