"""A learned rule that scores each item by itself: the selector of GPM.

The score of an item is a skip term

    kappa_1 log(expected reduction of variance) + kappa_2 log(information)
      + kappa_3 log(reduction for the ability of all responses, see `pool`)

plus a network over features of the item and the examinee that starts at zero.
By default kappa starts at (0, 0, 1): an untrained rule picks as the closed form
with the residual correlations of the items does. For many dimensions, where the
closed form is missing, it starts as the rule of minimum expected posterior
variance. Parts that know single items are options: a learned embedding, a
table of items by ability, and a term of pairs. On recorded tests they fit the
training examinees better and others worse. Time of a score is linear in the
number of items.
"""

import functools
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxlab.adaptive_testing.selectors.features import (
  ItemFeatures,
  Residuals,
  item_features,
  skip_rules,
)
from jaxlab.adaptive_testing.simulate import initial_state
from jaxlab.adaptive_testing.types import Bank, CatState, Selector
from jaxlab.errors import UserError
from jaxlab.nets import MLP

STARTS = ('closed_form', 'mepv')


class ItemwiseSelector(nn.Module):
  """The network of the rule.

  Attributes:
    hidden: widths of the shared network; none leaves it out.
    item_embed_dim: width of a learned embedding of each item, which the shared
      network sees; 0 for a rule that knows no item.
    table: whether each item has a linear function of the examinee's context.
    pair_rank: rank of the learned effect of asked items on others; 0 for none.
    start: one of `STARTS`.
  """

  hidden: Sequence[int] = (32, 32)
  item_embed_dim: int = 0
  table: bool = False
  pair_rank: int = 0
  start: str = STARTS[0]

  @nn.compact
  def __call__(self, features: ItemFeatures) -> jax.Array:
    """Returns `[E, n]` scores."""
    num_examinees, num_items, _ = features.inputs.shape
    number = features.skips.shape[-1]
    first = 2 if self.start == 'closed_form' and number > 2 else 0
    kappa = self.param('kappa', lambda _: jnp.eye(number)[first])
    score = features.skips @ kappa
    if self.hidden:
      inputs = features.inputs
      if self.item_embed_dim:
        shape = (num_items, self.item_embed_dim)
        embedding = self.param('embedding', nn.initializers.normal(0.3), shape)
        embedding = jnp.broadcast_to(embedding, (num_examinees, *shape))
        inputs = jnp.concatenate([inputs, embedding], axis=-1)
      x = nn.relu(MLP(self.hidden[:-1], self.hidden[-1])(inputs))
      last = nn.Dense(1, kernel_init=nn.initializers.zeros)
      score += last(x)[..., 0]
    if self.table:
      shape = (num_items, features.context.shape[-1])
      table = self.param('table', nn.initializers.zeros, shape)
      score += features.context @ table.T
    if self.pair_rank:
      score += self._pairs(features, num_items)
    return score

  def _pairs(self, features: ItemFeatures, num_items: int) -> jax.Array:
    shape = (num_items, self.pair_rank)
    spread = nn.initializers.normal(0.3)
    asked = self.param('pair_asked', spread, shape)
    residual = self.param('pair_residual', spread, shape)
    effect = self.param('pair_effect', nn.initializers.zeros, shape)
    at = jnp.maximum(features.items, 0)
    seen = (features.items >= 0)[..., None]
    each = asked[at] + features.residuals[..., None] * residual[at]
    return jnp.sum(jnp.where(seen, each, 0), axis=1) @ effect.T


@functools.cache
def itemwise(
  *,
  horizon: int = 20,
  hidden: tuple[int, ...] = (32, 32),
  item_embed_dim: int = 0,
  table: bool = False,
  pair_rank: int = 0,
  start: str = STARTS[0],
) -> Selector:
  """The rule that `gpm.train_gpm` trains by default.

  Its parameters are a dictionary: `network`, which is trained; `tables`, what
  the skip term looks up, from the bank; `residuals`, the correlations of the
  items in training data, or None; `horizon`.

  Args:
    horizon: number of items that counts as a whole test in the features.
    hidden: widths of the shared network; `()` leaves it out.
    item_embed_dim: see `ItemwiseSelector`.
    table: see `ItemwiseSelector`.
    pair_rank: see `ItemwiseSelector`.
    start: the rule that training starts from, 'closed_form' or 'mepv'.

  Raises:
    UserError: for another start.
  """
  if start not in STARTS:
    raise UserError(f'start {start!r} is unknown: use one of {STARTS}.')
  network = ItemwiseSelector(hidden, item_embed_dim, table, pair_rank, start)

  def init(key: jax.Array, bank: Bank) -> dict[str, Any]:
    params = for_bank({}, bank)
    nobody = initial_state(bank, 1, test_length=1)
    features = item_features(bank, nobody, params['tables'], None, horizon)
    network_params = network.init(key, features)['params']
    horizon_param = jnp.asarray(float(horizon))
    return {**params, 'network': network_params, 'horizon': horizon_param}

  def score(params, key, bank, state: CatState) -> jax.Array:
    del key
    features = item_features(
      *(bank, state, params['tables'], params['residuals']),
      params['horizon'],  # of the training, whatever this rule is made for
    )
    found = network.apply({'params': params['network']}, features)
    return jnp.asarray(found)

  return Selector(init, score, 'gpm')


def bank_specific(*, horizon: int = 20, **settings: Any) -> Selector:
  """A rule with parts for single items, for the bank that it is trained on."""
  parts = {'item_embed_dim': 4, 'table': True, 'pair_rank': 4}
  return itemwise(horizon=horizon, **{**parts, **settings})


def skip_only(*, horizon: int = 20, **settings: Any) -> Selector:
  """The skip term alone, with nothing to learn but kappa."""
  return itemwise(horizon=horizon, hidden=(), **settings)


def for_bank(
  params: dict[str, Any], bank: Bank, residuals: Residuals | None = None
) -> dict[str, Any]:
  """Parameters with what they hold of a bank replaced by that of another.

  The default network goes with any bank; one from `bank_specific` goes with a
  bank of the same items, such as one that was calibrated anew.
  """
  key = jax.random.key(0)  # these rules draw nothing
  tables = tuple(rule.init(key, bank) for rule in skip_rules(bank))
  return {**params, 'tables': tables, 'residuals': residuals}
