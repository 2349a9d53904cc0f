"""Rules that need no training: scores from the posterior of an examinee."""

import functools

import jax
import jax.numpy as jnp

from jaxlab.adaptive_testing import models, small_matrices
from jaxlab.adaptive_testing.types import Bank, CatState, NeuralBank, Selector


def no_params(key: jax.Array, bank: Bank) -> tuple[()]:
  """`Selector.init` of a rule without parameters."""
  del key, bank
  return ()


@functools.cache
def random() -> Selector:
  """Draws an item, each as likely as the others."""

  def score(params, key, bank, state):
    del params, bank
    return jax.random.uniform(key, state.available.shape)

  return Selector(no_params, score, 'random')


@functools.cache
def mfi() -> Selector:
  """Most Fisher information at the estimate (Lord, 1980).

  For abilities of D dimensions: the largest determinant of the posterior
  precision after the item (D-optimality, Segall, 1996).
  """

  def score(params, key, bank, state):
    del params, key
    if not bank.latent_shape:
      return models.item_information(bank, state.theta)
    return determinant_gain(bank, state)

  return Selector(no_params, score, 'mfi')


def determinant_gain(bank: Bank, state: CatState) -> jax.Array:
  """Logarithm of the factor that an item adds to `det(info)`, `[E, n]`."""
  size, direction = information_factor(bank, state.theta)
  return jnp.log1p(
    size * quadratic(direction, small_matrices.inverse(state.info))
  )


def quadratic(direction: jax.Array, matrix: jax.Array) -> jax.Array:
  """`v^T M v`, `[E, n]`.

  Args:
    direction: v, `[n, D]` or `[E, n, D]`.
    matrix: M, `[E, D, D]`.
  """
  return jnp.sum((direction @ matrix) * direction, axis=-1)


def information_factor(
  bank: Bank, theta: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """Fisher information of each item as `size v v^T`, for D dimensions.

  Args:
    bank: of n items.
    theta: `[E, D]`.

  Returns:
    `[E, n]` sizes, and v: `[n, D]`, or `[E, n, D]` for a `NeuralBank`.
  """
  if isinstance(bank, NeuralBank):
    p = models.prob(bank, theta)
    return 1 / (p * (1 - p)), models.prob_slope(bank, theta)
  return models.logit_information(bank, theta), bank.a
