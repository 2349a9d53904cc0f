"""When a test ends before its greatest length."""

import dataclasses
from typing import Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


class Stop(Protocol):
  """A rule that ends tests; a pytree."""

  def __call__(self, lengths: jax.Array, se: jax.Array) -> jax.Array:
    """Whether each test ends here.

    Args:
      lengths: `[E]` numbers of items that were asked.
      se: `[E, *latent]` standard errors of the estimates.

    Returns:
      `[E]` bool.
    """


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class FixedLength:
  """Ends after a number of items, `[]` or `[E]`; the numbers may be traced."""

  length: ArrayLike

  def __call__(self, lengths: jax.Array, se: jax.Array) -> jax.Array:
    del se
    return lengths >= jnp.asarray(self.length)


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StandardError:
  """Ends when the estimate is precise in each dimension.

  Attributes:
    threshold: the standard error that suffices, `[]` or `[E]`.
    min_length: items that are asked at least.
  """

  threshold: ArrayLike
  min_length: ArrayLike = 1

  def __call__(self, lengths: jax.Array, se: jax.Array) -> jax.Array:
    worst = se if se.ndim == 1 else jnp.max(se, axis=-1)
    return (worst <= jnp.asarray(self.threshold)) & (
      lengths >= jnp.asarray(self.min_length)
    )


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class AnyOf:
  """Ends when one of several rules does, such as a length and a precision."""

  rules: tuple[Stop, ...]

  def __call__(self, lengths: jax.Array, se: jax.Array) -> jax.Array:
    ended = jnp.zeros(lengths.shape, bool)
    for rule in self.rules:
      ended |= rule(lengths, se)
    return ended
