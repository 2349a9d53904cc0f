"""From a picture to tokens, and from tokens to logits."""

import flax.linen as nn
import jax


class PatchStem(nn.Module):
  """Embeds the patches of a picture, and adds a learned position.

  Attributes:
    dim: size of a token.
    patch: side of a patch in pixels.
    image_size: side of the pictures, which `patch` divides.

  Raises:
    ValueError: on use, if the pictures have another shape.
  """

  dim: int
  patch: int
  image_size: int

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, H, W, C]` to `[B, L, dim]`, patches row by row."""
    size = self.image_size
    if x.ndim != 4 or x.shape[1:3] != (size, size):
      raise ValueError(
        f'images must be [B, {size}, {size}, C], got {list(x.shape)}.'
      )
    x = nn.Dense(self.dim, name='embed')(split_patches(x, self.patch))
    # Not the usual 0.02: of few pictures, places are learned too slowly then.
    position = self.param(
      'position', nn.initializers.normal(0.3), (x.shape[1], self.dim)
    )
    return x + position


class TokenHead(nn.Module):
  """Layer norm, the mean over the tokens, a linear map.

  Attributes:
    classes: number of logits.
  """

  classes: int

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, L, dim]` to `[B, classes]` logits."""
    x = nn.LayerNorm(name='norm')(x).mean(1)
    return nn.Dense(self.classes, name='dense')(x)


def split_patches(images: jax.Array, patch: int) -> jax.Array:
  """Cuts pictures into patches.

  Args:
    images: `[B, H, W, C]`.
    patch: side P of a patch.

  Returns:
    `[B, (H / P) (W / P), P P C]`, patches and their pixels row by row.
  """
  batch, height, width, channels = images.shape
  rows, columns = height // patch, width // patch
  x = images.reshape(batch, rows, patch, columns, patch, channels)
  return x.swapaxes(2, 3).reshape(batch, rows * columns, -1)


def check_patch(patch: int, image_size: int) -> None:
  """Raises ValueError if patches do not fill a picture."""
  if image_size % patch:
    raise ValueError(f'patch={patch} must divide image_size={image_size}.')
