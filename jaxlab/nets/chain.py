"""A network that is a chain of blocks, of which each also stands alone."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax


@dataclasses.dataclass(frozen=True)
class Block:
  """A block of a chain: hashable, and its module equals that of a twin.

  Attributes:
    name: the block's name among the parameters of the chain.
    module: takes `(x, train=False)`; equal for blocks of equal shape.
  """

  name: str
  module: nn.Module

  def __call__(self, params: Mapping[str, Any], x: jax.Array) -> jax.Array:
    """Applies the block.

    Args:
      params: the parameters of the whole chain.
      x: what the block before returned.

    Raises:
      flax.errors.FlaxError: if the block has batch statistics; fold them
        first with `fold_batch_norm`.
    """
    y = self.module.apply({'params': params[self.name]}, x)
    assert isinstance(y, jax.Array)
    return y


class Chain(nn.Module):
  """Applies modules one after the other.

  The parameters, and the batch statistics, are `{name: those of the stage}`:
  calling `blocks()` in turn gives exactly what the chain gives.

  Attributes:
    stages: names, such as 'stem', 'block_0' and 'head', with their modules,
      each of which takes `(x, train=False)`.
  """

  stages: tuple[tuple[str, nn.Module], ...]

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns what the last stage returns."""
    for name, module in self.stages:
      # A copy, since flax would name a module of a tuple after its place.
      x = module.clone(parent=self, name=name)(x, train)
    return x

  def blocks(self) -> tuple[Block, ...]:
    """Returns the stages, to be applied one at a time."""
    return tuple(Block(name, module) for name, module in self.stages)
