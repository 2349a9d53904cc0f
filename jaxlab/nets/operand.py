"""Marks of the tensors that a quantizer may replace."""

import flax.linen as nn
import jax


class Operand(nn.Module):
  """The identity, under a name: an operand of a product of activations.

  A quantizer sees inputs of `nn.Dense` and `nn.Conv` as it is; what enters any
  other product passes through one of these, so that `nn.intercept_methods`
  sees it too.

  Attributes:
    role: 'matmul', an operand of a product of two activations, or 'scan', of
      a selective scan.
    signed: False for what is never negative, such as the result of a softmax.
  """

  role: str = 'matmul'
  signed: bool = True

  def __call__(self, x: jax.Array) -> jax.Array:
    """Returns `x` as it is."""
    return x
