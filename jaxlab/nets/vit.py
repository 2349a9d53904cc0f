"""Vision transformers.

A. Dosovitskiy et al., "An image is worth 16x16 words" (2021), with the mean of
the tokens in place of a class token.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp

from jaxlab.nets.chain import Chain
from jaxlab.nets.operand import Operand
from jaxlab.nets.tokens import PatchStem, TokenHead, check_patch


class Attention(nn.Module):
  """Self-attention on normalized tokens, added to them.

  Attributes:
    heads: number of heads; it divides the size of a token.
  """

  heads: int

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, L, D]` to `[B, L, D]`."""
    dim = x.shape[-1]
    if dim % self.heads:
      raise ValueError(f'heads={self.heads} must divide dim={dim}.')
    qkv = nn.Dense(3 * dim, name='qkv')(nn.LayerNorm(name='norm')(x))
    parts = qkv.reshape(*x.shape[:-1], 3, self.heads, dim // self.heads)
    query, key, value = (
      Operand(name=name)(parts[..., i, :, :])
      for i, name in enumerate(('query', 'key', 'value'))
    )
    scores = jnp.einsum('bqhd,bkhd->bhqk', query, key)
    probs = nn.softmax(scores / (dim // self.heads) ** 0.5)
    probs = Operand(signed=False, name='probs')(probs)
    mixed = jnp.einsum('bhqk,bkhd->bqhd', probs, value).reshape(x.shape)
    return x + nn.Dense(dim, name='proj')(mixed)


class TokenMLP(nn.Module):
  """A perceptron on each normalized token, added to it.

  Attributes:
    expand: size of the hidden layer over that of a token.
  """

  expand: int = 4

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, L, D]` to `[B, L, D]`."""
    dim = x.shape[-1]
    y = nn.Dense(self.expand * dim, name='fc1')(nn.LayerNorm(name='norm')(x))
    return x + nn.Dense(dim, name='fc2')(nn.gelu(y, approximate=False))


def vit(
  dim: int = 32,
  depth: int = 2,
  heads: int = 4,
  patch: int = 2,
  classes: int = 10,
  image_size: int = 8,
  *,
  expand: int = 4,
) -> Chain:
  """Makes a vision transformer for pictures `[B, H, W, C]`.

  Args:
    dim: size of a token.
    depth: number of pairs of attention and perceptron.
    heads: of each attention.
    patch: side of a patch in pixels.
    classes: number of logits.
    image_size: side of the pictures in pixels.
    expand: size of the perceptrons' hidden layer over `dim`.

  Returns:
    The chain 'stem', 'attention_0', 'mlp_0', ..., 'head'.

  Raises:
    ValueError: if `heads` does not divide `dim`, or `patch` `image_size`.
  """
  check_patch(patch, image_size)
  if dim % heads:
    raise ValueError(f'heads={heads} must divide dim={dim}.')
  blocks = [
    stage
    for i in range(depth)
    for stage in (
      (f'attention_{i}', Attention(heads)),
      (f'mlp_{i}', TokenMLP(expand)),
    )
  ]
  return Chain(
    (
      ('stem', PatchStem(dim, patch, image_size)),
      *blocks,
      ('head', TokenHead(classes)),
    )
  )
