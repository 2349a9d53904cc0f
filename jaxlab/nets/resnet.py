"""Residual networks for small pictures.

K. He et al., "Deep residual learning for image recognition" (2016), section
4.2; the shortcut is a convolution where a block changes the shape.
"""

from collections.abc import Sequence

import flax.linen as nn
import jax

from jaxlab.nets.chain import Chain
from jaxlab.nets.conv_norm import ConvNorm


class Stem(nn.Module):
  """A convolution that keeps the size of the picture.

  Attributes:
    features: channels of the result.
    norm: as in `ConvNorm`.
  """

  features: int
  norm: str = 'batch'

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, H, W, C]` to `[B, H, W, features]`."""
    return nn.relu(
      ConvNorm(self.features, norm=self.norm, name='conv0')(x, train)
    )


class ResidualBlock(nn.Module):
  """Two convolutions beside a shortcut.

  Attributes:
    features: channels of the result.
    stride: of the first convolution and the shortcut.
    norm: as in `ConvNorm`.
  """

  features: int
  stride: int = 1
  norm: str = 'batch'

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, H, W, C]` to `[B, H / stride, W / stride, features]`."""

    def conv(name, kernel=3, stride=1):
      return ConvNorm(self.features, kernel, stride, norm=self.norm, name=name)

    y = nn.relu(conv('conv1', stride=self.stride)(x, train))
    y = conv('conv2')(y, train)
    if x.shape != y.shape:
      x = conv('shortcut', 1, self.stride)(x, train)
    return nn.relu(x + y)


class PoolHead(nn.Module):
  """The mean over the picture, then a linear map.

  Attributes:
    classes: number of logits.
  """

  classes: int

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, H, W, C]` to `[B, classes]` logits."""
    return nn.Dense(self.classes, name='dense')(x.mean((1, 2)))


def resnet(
  blocks: Sequence[int] = (1, 1, 1),
  widths: Sequence[int] = (8, 16, 32),
  classes: int = 10,
  *,
  norm: str = 'batch',
) -> Chain:
  """Makes a residual network for pictures `[B, H, W, C]`.

  Args:
    blocks: number of residual blocks in each part; each part but the first
      halves the picture.
    widths: channels of each part; the stem has those of the first.
    classes: number of logits.
    norm: 'batch', or 'none' (see `fold_batch_norm`).

  Returns:
    The chain 'stem', 'block_0', ..., 'head'.

  Raises:
    ValueError: if `blocks` and `widths` differ in length.
  """
  stages = [
    ResidualBlock(width, 2 if part and not i else 1, norm)
    for part, (count, width) in enumerate(zip(blocks, widths, strict=True))
    for i in range(count)
  ]
  return Chain(
    (
      ('stem', Stem(widths[0], norm)),
      *((f'block_{i}', block) for i, block in enumerate(stages)),
      ('head', PoolHead(classes)),
    )
  )


def resnet_cifar(
  depth: int = 20, width: int = 16, classes: int = 10, *, norm: str = 'batch'
) -> Chain:
  """Makes the network of `depth` layers for pictures of 32 x 32 pixels.

  Args:
    depth: 6 n + 2, such as 20 (ResNet-20), 32 or 56.
    width: channels of the first part; the others have 2 and 4 times as many.
    classes: number of logits.
    norm: as for `resnet`.

  Raises:
    ValueError: if `depth` is not 6 n + 2.
  """
  count, rest = divmod(depth - 2, 6)
  if rest or count < 1:
    raise ValueError(f'depth={depth} is not 6 n + 2; take 8, 14, 20, 32 or 56.')
  widths = (width, 2 * width, 4 * width)
  return resnet((count,) * 3, widths, classes, norm=norm)
