"""A learned rule that describes the item it wants: one network for one bank.

The answers so far, -1, 0 or 1 for each item, go through a network whose output
is a mixture of the bank's items, the prototype. The rule takes the item that is
nearest to the prototype. It sees nothing but answers, and knows one bank only.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxlab.adaptive_testing.types import Bank, CatState, ItemBank, Selector
from jaxlab.errors import UserError

_ELSEWHERE = 1e6  # taken from the scores of items whose turn it is not


class BankMLPSelector(nn.Module):
  """The network of the rule.

  Attributes:
    num_parallel: parts of the bank, each with a prototype of its own.
    width: of the hidden layer.
    item_embed_dim: learned coordinates of each item, beside its parameters.
  """

  num_parallel: int = 1
  width: int = 256
  item_embed_dim: int = 4

  @nn.compact
  def __call__(self, answers: jax.Array, items: jax.Array) -> jax.Array:
    """Squared distances of items to their prototypes, `[E, n]`.

    Args:
      answers: `[E, n]` -1, 0 or 1.
      items: `[n, F]` known coordinates.
    """
    num_items = items.shape[0]
    shape = num_items, self.item_embed_dim
    own = self.param('embedding', nn.initializers.normal(0.3), shape)
    place = jnp.concatenate([items, own], axis=-1)
    x = nn.tanh(nn.Dense(self.width)(answers))
    wish = nn.Dense(num_items)(x)
    part = jnp.arange(num_items) % self.num_parallel
    distance = jnp.zeros_like(wish)
    for number in range(self.num_parallel):
      member = part == number
      share = nn.softmax(jnp.where(member, wish, -jnp.inf), axis=-1)
      prototype = share @ place
      gap = jnp.sum((place - prototype[:, None, :]) ** 2, axis=-1)
      distance = jnp.where(member, gap, distance)
    return distance


@functools.cache
def bank_mlp(
  *, num_parallel: int = 1, width: int = 256, item_embed_dim: int = 4
) -> Selector:
  """The rule of `BankMLPSelector`, for `gpm.train_gpm`.

  With several parallel items a test goes on in groups, one item from each part
  of the bank; the items of a group do not depend on each other's answers.

  Args:
    num_parallel: items of a group.
    width: see `BankMLPSelector`.
    item_embed_dim: see `BankMLPSelector`.

  Raises:
    UserError: for fewer than one item in a group.
  """
  if num_parallel < 1:
    raise UserError(f'num_parallel is {num_parallel}: give at least 1.')
  network = BankMLPSelector(num_parallel, width, item_embed_dim)

  def init(key: jax.Array, bank: Bank) -> dict[str, Any]:
    if num_parallel > bank.num_items:
      raise UserError(
        f'num_parallel is {num_parallel}, more than the {bank.num_items} items '
        'of the bank.'
      )
    answers = jnp.zeros((1, bank.num_items))
    found = network.init(key, answers, _coordinates(bank))
    return {'network': found['params']}

  def score(params, key, bank, state: CatState) -> jax.Array:
    del key
    items = _in_order(state)
    count = jnp.sum(items >= 0, axis=-1, keepdims=True)
    turn = count % num_parallel
    known = _answers(state, items, count - turn)
    distance = network.apply(
      {'params': params['network']}, known, _coordinates(bank)
    )
    part = jnp.arange(bank.num_items) % num_parallel
    return -jnp.asarray(distance) - _ELSEWHERE * (part != turn)

  return Selector(init, score, 'gpm_bank_mlp')


def _in_order(state: CatState) -> jax.Array:
  """`[E, W]` what was asked, -1 where nothing was."""
  if state.items is not None:
    return state.items
  return jnp.where(state.asked, jnp.arange(state.asked.shape[-1]), -1)


def _answers(state: CatState, items: jax.Array, count: jax.Array) -> jax.Array:
  """The first `count` answers of each examinee as -1 and 1, `[E, n]`."""
  num_examinees, num_items = state.asked.shape
  early = (items >= 0) & (jnp.cumsum(items >= 0, axis=-1) <= count)
  row = jnp.arange(num_examinees)[:, None]
  place = jnp.where(early, items, num_items)
  known = jnp.zeros(state.asked.shape, bool)
  known = known.at[row, place].set(True, mode='drop')
  sign = 2 * state.responses.astype(state.theta.dtype) - 1
  return jnp.where(known, sign, 0)


def _coordinates(bank: Bank) -> jax.Array:
  """`[n, F]` parameters of items, on a common scale."""
  if isinstance(bank, ItemBank):
    slopes = bank.a.reshape(bank.num_items, -1)
    raw = jnp.concatenate([slopes, bank.b[:, None], bank.c[:, None]], axis=1)
  else:
    raw = jnp.concatenate(
      [bank.difficulty * bank.q_matrix, bank.discrimination[:, None]], axis=1
    )
  return (raw - raw.mean(axis=0)) / (raw.std(axis=0) + 1e-3)
