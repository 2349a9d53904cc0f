"""Networks of inverted residuals for small devices.

M. Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks"
(2018); M. Tan and Q. Le, "EfficientNet" (2019), in the variant Lite0 of R. Liu
(2020), which has relu6 and no squeeze-and-excitation.
"""

from collections.abc import Sequence
from typing import NamedTuple

import flax.linen as nn
import jax

from jaxlab.nets.chain import Chain
from jaxlab.nets.conv_norm import NORM_EPSILON, ConvNorm


class Part(NamedTuple):
  """Equal inverted residuals in a row.

  Attributes:
    length: how many.
    features: channels of the result.
    stride: of the first; the others have 1.
    expand: factor of the channels inside.
    kernel: side of the depthwise kernel.
  """

  length: int
  features: int
  stride: int
  expand: int = 6
  kernel: int = 3


_MOBILENET_V2 = (
  Part(1, 16, 1, expand=1),
  Part(2, 24, 2),
  Part(3, 32, 2),
  Part(4, 64, 2),
  Part(3, 96, 1),
  Part(3, 160, 2),
  Part(1, 320, 1),
)
_EFFICIENTNET_LITE0 = (
  Part(1, 16, 1, expand=1),
  Part(2, 24, 2),
  Part(2, 40, 2, kernel=5),
  Part(3, 80, 2),
  Part(3, 112, 1, kernel=5),
  Part(4, 192, 2, kernel=5),
  Part(1, 320, 1),
)
# As TensorFlow has it for EfficientNet.
_LITE_EPSILON = 1e-3


class MobileStem(nn.Module):
  """A convolution with relu6.

  Attributes:
    features: channels of the result.
    stride: of the convolution.
    norm: as in `ConvNorm`.
    epsilon: as in `ConvNorm`.
  """

  features: int
  stride: int = 2
  norm: str = 'batch'
  epsilon: float = NORM_EPSILON

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, H, W, C]` to `[B, H / stride, W / stride, features]`."""
    conv = ConvNorm(
      self.features,
      stride=self.stride,
      norm=self.norm,
      epsilon=self.epsilon,
      name='conv0',
    )
    return nn.relu6(conv(x, train))


class InvertedResidual(nn.Module):
  """Expands the channels, convolves each by itself, and projects them back.

  The input is added where the shape stays. The projection is linear.

  Attributes:
    features: channels of the result.
    stride: of the depthwise convolution.
    expand: factor of the channels inside; 1 leaves the expansion out.
    kernel: side of the depthwise kernel.
    norm: as in `ConvNorm`.
    epsilon: as in `ConvNorm`.
  """

  features: int
  stride: int = 1
  expand: int = 6
  kernel: int = 3
  norm: str = 'batch'
  epsilon: float = NORM_EPSILON

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, H, W, C]` to `[B, H / stride, W / stride, features]`."""

    def conv(name, features, kernel=1, stride=1, groups=1):
      return ConvNorm(
        features,
        kernel,
        stride,
        groups,
        norm=self.norm,
        epsilon=self.epsilon,
        name=name,
      )

    inner = self.expand * x.shape[-1]
    y = x
    if self.expand != 1:
      y = nn.relu6(conv('expand', inner)(y, train))
    depthwise = conv('depthwise', inner, self.kernel, self.stride, inner)
    y = conv('project', self.features)(nn.relu6(depthwise(y, train)), train)
    return x + y if x.shape == y.shape else y


class MobileHead(nn.Module):
  """A last convolution with relu6, the mean over the picture, a linear map.

  Attributes:
    features: channels of the convolution.
    classes: number of logits.
    norm: as in `ConvNorm`.
    epsilon: as in `ConvNorm`.
  """

  features: int
  classes: int
  norm: str = 'batch'
  epsilon: float = NORM_EPSILON

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, H, W, C]` to `[B, classes]` logits."""
    conv = ConvNorm(
      self.features, 1, norm=self.norm, epsilon=self.epsilon, name='conv0'
    )
    x = nn.relu6(conv(x, train)).mean((1, 2))
    return nn.Dense(self.classes, name='dense')(x)


def mobilenet(
  parts: Sequence[Part] = _MOBILENET_V2,
  *,
  stem: int = 32,
  stem_stride: int = 2,
  head: int = 1280,
  classes: int = 1000,
  norm: str = 'batch',
  epsilon: float = NORM_EPSILON,
) -> Chain:
  """Makes a network of inverted residuals; MobileNetV2 by default.

  Args:
    parts: the inverted residuals.
    stem: channels of the first convolution.
    stem_stride: its stride; 1 suits pictures of 32 x 32 pixels.
    head: channels of the last convolution.
    classes: number of logits.
    norm: 'batch', or 'none' (see `fold_batch_norm`).
    epsilon: of the normalization.

  Returns:
    The chain 'stem', 'block_0', ..., 'head' on pictures `[B, H, W, 3]`.
  """
  blocks = [
    InvertedResidual(
      part.features,
      part.stride if i == 0 else 1,
      part.expand,
      part.kernel,
      norm,
      epsilon,
    )
    for part in parts
    for i in range(part.length)
  ]
  return Chain(
    (
      ('stem', MobileStem(stem, stem_stride, norm, epsilon)),
      *((f'block_{i}', block) for i, block in enumerate(blocks)),
      ('head', MobileHead(head, classes, norm, epsilon)),
    )
  )


def efficientnet_lite0(classes: int = 1000, *, norm: str = 'batch') -> Chain:
  """Makes EfficientNet-Lite0, for pictures `[B, 224, 224, 3]`.

  Args:
    classes: number of logits.
    norm: 'batch', or 'none' (see `fold_batch_norm`).

  Returns:
    The chain 'stem', 'block_0', ..., 'block_15', 'head'.
  """
  return mobilenet(
    _EFFICIENTNET_LITE0, classes=classes, norm=norm, epsilon=_LITE_EPSILON
  )
