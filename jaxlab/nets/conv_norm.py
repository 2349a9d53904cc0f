"""A convolution with its batch normalization, and how to fold the latter."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax

from jaxlab.nets.chain import Chain

NORM_EPSILON = 1e-5


class ConvNorm(nn.Module):
  """A convolution, then batch normalization.

  Attributes:
    features: channels of the result.
    kernel: side of the square kernel.
    stride: of both axes.
    groups: of channels that do not see each other.
    norm: 'batch', or 'none': then the convolution has a bias instead.
    epsilon: added to the variance.
    momentum: with which the running statistics keep their past.
  """

  features: int
  kernel: int = 3
  stride: int = 1
  groups: int = 1
  norm: str = 'batch'
  epsilon: float = NORM_EPSILON
  momentum: float = 0.9

  @nn.compact
  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Maps `[B, H, W, C]` to `[B, H / stride, W / stride, features]`."""
    x = nn.Conv(
      self.features,
      (self.kernel, self.kernel),
      self.stride,
      'SAME',
      feature_group_count=self.groups,
      use_bias=self.norm == 'none',
      kernel_init=nn.initializers.he_normal(),
      name='conv',
    )(x)
    if self.norm == 'none':
      return x
    return nn.BatchNorm(
      not train, momentum=self.momentum, epsilon=self.epsilon, name='norm'
    )(x)


def fold_batch_norm(
  chain: Chain,
  params: Mapping[str, Any],
  batch_stats: Mapping[str, Any],
) -> tuple[Chain, dict[str, Any]]:
  """Moves the normalization of a trained network into its convolutions.

  Args:
    chain: a network whose stages have the attributes `norm` and `epsilon`
      where they normalize.
    params: its parameters, arrays of JAX or of NumPy.
    batch_stats: its running means and variances.

  Returns:
    The same network without normalization, and its parameters; it gives what
    `chain` gives outside training, up to rounding.
  """
  stages = []
  folded = {}
  for name, module in chain.stages:
    stats = batch_stats.get(name)
    if stats is not None:
      epsilon = getattr(module, 'epsilon', NORM_EPSILON)
      folded[name] = _fold(params[name], stats, epsilon)
      module = module.clone(norm='none')  # noqa: PLW2901
    else:
      folded[name] = params[name]
    stages.append((name, module))
  return dataclasses.replace(chain, stages=tuple(stages)), folded


def _fold(params, stats, epsilon):
  """Folds every pair of `conv` and `norm` in a tree of parameters."""
  if 'norm' not in stats:
    return {
      name: _fold(leaf, stats[name], epsilon) if name in stats else leaf
      for name, leaf in params.items()
    }
  norm, running = params['norm'], stats['norm']
  gain = norm['scale'] / (running['var'] + epsilon) ** 0.5
  conv = {
    'kernel': params['conv']['kernel'] * gain,
    'bias': norm['bias'] - running['mean'] * gain,
  }
  return {'conv': conv}
