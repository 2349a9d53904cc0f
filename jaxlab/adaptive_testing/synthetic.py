"""Random banks, examinees and responses."""

import itertools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing.models import prob
from jaxlab.adaptive_testing.types import Bank, ItemBank, NeuralBank
from jaxlab.errors import UserError

MODELS = ('1PL', '2PL', '3PL', 'MIRT')
_GUESSING = (5.0, 17.0)  # of the beta distribution, mean .23


def random_bank(
  key: jax.Array,
  num_items: int,
  *,
  model: str = '2PL',
  num_dimensions: int = 2,
  slope_spread: ArrayLike = 0.35,
) -> ItemBank:
  """Draws a bank.

  Slopes are log-normal with median 1, difficulties standard normal, guessing
  is beta(5, 17) in a 3PL bank and 0 elsewhere. Items of a MIRT bank point in
  random directions of the positive orthant; the slope is their length.

  Args:
    key: PRNG key.
    num_items: n.
    model: '1PL', '2PL', '3PL' or 'MIRT'.
    num_dimensions: D of a MIRT bank.
    slope_spread: standard deviation of the logarithm of slopes.

  Returns:
    The bank.

  Raises:
    UserError: an empty bank or an unknown model.
  """
  if model not in MODELS:
    raise UserError(f'model {model!r} is unknown: use one of {MODELS}.')
  if num_items < 1:
    raise UserError(f'num_items is {num_items}: give at least 1.')
  keys = jax.random.split(key, 4)
  a = jnp.exp(slope_spread * jax.random.normal(keys[0], (num_items,)))
  b = jax.random.normal(keys[1], (num_items,))
  c = jnp.zeros_like(b)
  if model == '1PL':
    a = jnp.ones_like(a)
  elif model == '3PL':
    c = jax.random.beta(keys[2], *_GUESSING, (num_items,))
  elif model == 'MIRT':
    shape = num_items, num_dimensions
    direction = jnp.abs(jax.random.normal(keys[3], shape))
    length = jnp.linalg.norm(direction, axis=1)
    a = (a / length)[:, None] * direction
  return ItemBank(a, b, c, jnp.ones_like(b))


def random_neural_bank(
  key: jax.Array,
  num_items: int,
  *,
  num_dimensions: int = 4,
  hidden: tuple[int, ...] = (128, 64),
  gain: float = 4.0,
) -> NeuralBank:
  """Draws a bank of neural cognitive diagnosis with one or two concepts each.

  Every layer is centred, so that abilities near the demands of an item answer
  it with a probability near one half.

  Args:
    key: PRNG key.
    num_items: n.
    num_dimensions: D, the number of concepts.
    hidden: widths of the hidden layers.
    gain: of each layer; the larger, the steeper are items.
  """
  key_q, key_count, key_b, key_a, key_layers = jax.random.split(key, 5)
  ranks = jnp.argsort(
    jax.random.uniform(key_q, (num_items, num_dimensions)), axis=1
  )
  count = 1 + jax.random.bernoulli(key_count, 0.5, (num_items, 1))
  sizes = (num_dimensions, *hidden, 1)
  layers = []
  for depth, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes)):
    at = jax.random.fold_in(key_layers, depth)
    weight = jax.random.exponential(at, (fan_in, fan_out)) + 0.1
    weight *= gain / fan_in**0.5 / (1 if depth == 0 else fan_in**0.5)
    middle = 0.0 if depth == 0 else 0.5
    layers.append((jnp.log(jnp.expm1(weight)), -middle * weight.sum(0)))
  return NeuralBank(
    jax.random.normal(key_b, (num_items, num_dimensions)),
    0.5 * jax.random.normal(key_a, (num_items,)),
    tuple(layers),
    (ranks < count).astype(float),
  )


def random_abilities(
  key: jax.Array, bank: Bank, num_examinees: int
) -> jax.Array:
  """Draws `[E, *latent]` abilities from N(0, I)."""
  return jax.random.normal(key, (num_examinees, *bank.latent_shape))


def random_responses(key: jax.Array, bank: Bank, theta: ArrayLike) -> jax.Array:
  """Draws answers, right with the probability of the model.

  Args:
    key: PRNG key.
    bank: of n items.
    theta: `[..., *latent]`.

  Returns:
    `[..., n]` of 0 and 1, in the type of the probabilities.
  """
  p = prob(bank, theta)
  return jax.random.bernoulli(key, p).astype(p.dtype)
