"""Random weights under which interval bounds neither grow nor vanish."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxlab.errors import UserError

Initializer = Callable[..., jax.Array]


def ibp_normal(key, shape, fan_in, dtype=jnp.float32) -> jax.Array:
  """Normal weights of variance `2 pi / fan_in^2` (Shi et al., 2021, eq. 9).

  An affine layer multiplies the mean radius of its inputs by the mean of |w|
  times `fan_in`, and a ReLU halves it: with `E|w| = 2 / fan_in` the radius
  stays as it is.

  Args:
    key: PRNG key.
    shape: of the weights.
    fan_in: number of inputs of a neuron.
    dtype: of the weights.
  """
  std = math.sqrt(2 * math.pi) / fan_in
  return std * jax.random.normal(key, shape, dtype)


def he_normal(key, shape, fan_in, dtype=jnp.float32) -> jax.Array:
  """Normal weights of variance `2 / fan_in` (He et al., 2015)."""
  return math.sqrt(2 / fan_in) * jax.random.normal(key, shape, dtype)


def lecun_normal(key, shape, fan_in, dtype=jnp.float32) -> jax.Array:
  """Normal weights of variance `1 / fan_in`, for a layer without ReLU."""
  return math.sqrt(1 / fan_in) * jax.random.normal(key, shape, dtype)


HIDDEN: dict[str, Initializer] = {'ibp': ibp_normal, 'he': he_normal}


def hidden(name: str) -> Initializer:
  """Returns the initializer of hidden layers of that name.

  Raises:
    UserError: if there is none.
  """
  if name not in HIDDEN:
    raise UserError(
      f'initializer {name!r} is unknown: use one of {sorted(HIDDEN)}.'
    )
  return HIDDEN[name]
