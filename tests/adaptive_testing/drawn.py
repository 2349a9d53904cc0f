"""Small random banks, answers and states, each made by one program."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.adaptive_testing import simulate, synthetic
from jaxlab.adaptive_testing.types import CatState, ItemBank


def bank(num_items: int, model: str = '2pl', seed: int = 0) -> ItemBank:
  """A bank like those of `synthetic.random_bank`, drawn by NumPy."""
  rng = np.random.default_rng(seed)
  shape = (num_items, 2) if model == 'mirt' else (num_items,)
  c = rng.beta(5, 17, num_items) if model == '3pl' else np.zeros(num_items)
  return ItemBank(
    jnp.asarray(np.exp(0.35 * rng.normal(size=shape))),
    jnp.asarray(rng.normal(size=num_items)),
    jnp.asarray(c),
    jnp.ones(num_items),
  )


def answers(of, num_examinees: int, seed: int = 1) -> jax.Array:
  """`[E, n]` answers of examinees with abilities from N(0, I)."""
  rng = np.random.default_rng(seed)
  theta = rng.normal(size=(num_examinees, *of.latent_shape))
  draw = jax.jit(synthetic.random_responses)
  return draw(jax.random.key(seed), of, jnp.asarray(theta))


@functools.partial(jax.jit, static_argnames='test_length')
def state_after(
  of, y: jax.Array, items: jax.Array, available=None, *, test_length: int
) -> CatState:
  """States after the items `[turns, E]`."""

  def ask(state, item):
    answer = jnp.take_along_axis(y, item[:, None], axis=1)[:, 0]
    return simulate.update(of, state, item, answer), None

  start = simulate.initial_state(
    of, y.shape[0], available, test_length=test_length
  )
  return jax.lax.scan(ask, start, jnp.asarray(items))[0]


def random_items(
  num_items: int, num_examinees: int, turns: int, seed: int = 2
) -> np.ndarray:
  """`[turns, E]` different items for each examinee."""
  rng = np.random.default_rng(seed)
  rows = [rng.permutation(num_items)[:turns] for _ in range(num_examinees)]
  return np.stack(rows, axis=1)
