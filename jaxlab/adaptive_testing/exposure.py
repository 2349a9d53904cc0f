"""Control of exposure: who takes an item, given the scores of a rule.

Sources: Kingsbury & Zara, Applied Measurement in Education, 1989 (randomesque);
Revuelta & Ponsoda, Journal of Educational Measurement, 1998 (progressive). The
rule of Sympson and Hetter is in `sympson_hetter`.
"""

import dataclasses
from typing import Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.adaptive_testing.ties import first_best
from jaxlab.adaptive_testing.types import CatState
from jaxlab.errors import UserError


class Exposure(Protocol):
  """A way to take an item; a pytree."""

  def choose(
    self, key: jax.Array, scores: jax.Array, state: CatState
  ) -> jax.Array:
    """Takes an item for each examinee.

    Args:
      key: the same at each step of a test.
      scores: `[E, n]`; -inf where an item is not eligible.
      state: of the examinees.

    Returns:
      `[E]` items. Any where no item is eligible.
    """


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Randomesque:
  """Draws one of the k best items, each as likely as the others."""

  k: int = dataclasses.field(metadata={'static': True})

  def __post_init__(self):
    if self.k < 1:
      raise UserError(f'k = {self.k}: draw from at least one item.')

  def choose(
    self, key: jax.Array, scores: jax.Array, state: CatState
  ) -> jax.Array:
    best, items = jax.lax.top_k(scores, min(self.k, scores.shape[1]))
    key = jax.random.fold_in(key, state.step)
    drawn = jax.random.uniform(key, best.shape)
    place = first_best(jnp.where(best > -jnp.inf, drawn, -1))
    return jnp.take_along_axis(items, place[:, None], axis=1)[:, 0]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Progressive:
  """Mixes scores with random numbers, whose weight falls to 0.

  Before item t of T the score is `(1 - t / T) r + (t / T) s`, with r uniform
  in [0, max s]. Scores must be >= 0, such as information.

  Attributes:
    test_length: T.
  """

  test_length: ArrayLike

  def choose(
    self, key: jax.Array, scores: jax.Array, state: CatState
  ) -> jax.Array:
    key = jax.random.fold_in(key, state.step)
    share = jnp.clip(state.step / jnp.asarray(self.test_length), 0, 1)
    most = jnp.max(scores, axis=-1, keepdims=True)
    drawn = jax.random.uniform(key, scores.shape, scores.dtype) * most
    open_ = scores > -jnp.inf
    mixed = (1 - share) * drawn + share * jnp.where(open_, scores, 0)
    return first_best(jnp.where(open_, mixed, -jnp.inf))
