"""The multilayer perceptron."""

from collections.abc import Callable, Sequence

import flax.linen as nn
import jax


class MLP(nn.Module):
  """Dense layers with an activation between them.

  Attributes:
    hidden: widths of the hidden layers; none is a linear model.
    outputs: width of the last layer, which has no activation.
    activation: between the layers.
  """

  hidden: Sequence[int]
  outputs: int
  activation: Callable[[jax.Array], jax.Array] = nn.relu

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps `[..., d]` inputs to `[..., outputs]`."""
    for width in self.hidden:
      x = self.activation(nn.Dense(width)(x))
    return nn.Dense(self.outputs)(x)
