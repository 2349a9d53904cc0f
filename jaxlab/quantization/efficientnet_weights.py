"""EfficientNet-Lite0 with weights that were trained in PyTorch."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.nets import Chain, efficientnet_lite0, fold_batch_norm

# What the network was trained on: (picture - 127) / 128 with pixels of 0..255.
_MEAN, _SCALE = 127 / 255, 128 / 255
_CONVS = {
  'expand': ('_expand_conv', '_bn0'),
  'depthwise': ('_depthwise_conv', '_bn1'),
  'project': ('_project_conv', '_bn2'),
}


def normalize(images: jax.Array) -> jax.Array:
  """Maps pictures in [0, 1] to what the network takes."""
  return (images - _MEAN) / _SCALE


def pretrained(
  state: Mapping[str, np.ndarray], *, dtype: Any = jnp.float32
) -> tuple[Chain, dict[str, Any]]:
  """Makes the trained network, its normalization folded.

  Args:
    state: arrays by their names in PyTorch (`_conv_stem.weight`, ...).
    dtype: of the parameters.

  Returns:
    `efficientnet_lite0(norm='none')` of the same number of classes, and its
    parameters; it takes `normalize`d pictures `[B, 224, 224, 3]`.

  Raises:
    ValueError: if an array is missing, left over, or of another shape.
  """
  left = {
    name: np.asarray(array)
    for name, array in state.items()
    if not name.endswith('.num_batches_tracked')
  }
  params, stats = {}, {}

  def take(name):
    if name not in left:
      raise ValueError(f'state has no {name}, which EfficientNet-Lite0 needs.')
    return left.pop(name)

  def conv(conv_name, norm_name):
    kernel = take(f'{conv_name}.weight').transpose(2, 3, 1, 0)
    scale, bias, mean, var = (
      take(f'{norm_name}.{what}')
      for what in ('weight', 'bias', 'running_mean', 'running_var')
    )
    norm = {'scale': scale, 'bias': bias}
    running = {'norm': {'mean': mean, 'var': var}}
    return {'conv': {'kernel': kernel}, 'norm': norm}, running

  def stage(name, convs):
    pairs = {part: conv(*names) for part, names in convs.items()}
    params[name] = {part: pair[0] for part, pair in pairs.items()}
    stats[name] = {part: pair[1] for part, pair in pairs.items()}

  stage('stem', {'conv0': ('_conv_stem', '_bn0')})
  chain = efficientnet_lite0(len(state['_fc.bias']))
  for name, module in chain.stages[1:-1]:
    prefix = f'_blocks.{name.removeprefix("block_")}.'
    stage(
      name,
      {
        part: (prefix + names[0], prefix + names[1])
        for part, names in _CONVS.items()
        if part != 'expand' or module.expand != 1
      },
    )
  stage('head', {'conv0': ('_conv_head', '_bn1')})
  params['head']['dense'] = {
    'kernel': take('_fc.weight').T,
    'bias': take('_fc.bias'),
  }
  if left:
    raise ValueError(
      f'state has {min(left)}, which EfficientNet-Lite0 has not.'
    )
  _check_shapes(chain, params, stats)
  # Folded in NumPy: JAX would compile a program for each shape.
  bare, folded = fold_batch_norm(chain, params, stats)
  return bare, jax.tree.map(lambda x: jnp.asarray(x, dtype), folded)


def _check_shapes(chain, params, stats):
  images = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
  wanted = jax.eval_shape(chain.init, jax.random.key(0), images)
  found = {'params': params, 'batch_stats': stats}
  for (path, leaf), (_, other) in zip(
    jax.tree.leaves_with_path(found),
    jax.tree.leaves_with_path(wanted),
    strict=True,
  ):
    if leaf.shape != other.shape:
      raise ValueError(
        f'{jax.tree_util.keystr(path)} has the shape {list(leaf.shape)}, not'
        f' {list(other.shape)}.'
      )
