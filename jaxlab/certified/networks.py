"""Networks of the literature as data: layers, parameters and statistics.

Batch normalization always uses the statistics of clean examples, in training
as well, so that bounds and attacks are about the network that is deployed:

    statistics = network.statistics(params, x_clean)
    full = network.with_statistics(params, statistics)
    logits = network.apply(full, x_perturbed)
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from jaxlab.certified import initialization
from jaxlab.errors import UserError

Params = Mapping[str, Mapping[str, jax.Array]]


@dataclasses.dataclass(frozen=True)
class Layer:
  """An affine layer, perhaps normalized, perhaps followed by a ReLU.

  Attributes:
    kind: `'dense'` or `'conv'`; the first dense layer flattens.
    features: neurons or channels of the result.
    kernel: side of the kernel of a convolution, which pads `(kernel - 1) // 2`
      zeros on every side.
    stride: of both axes.
    norm: whether batch normalization follows the affine map.
    relu: whether a ReLU comes last.
  """

  kind: str
  features: int
  kernel: int = 3
  stride: int = 1
  norm: bool = False
  relu: bool = True


@dataclasses.dataclass(frozen=True)
class Network:
  """A chain of layers behind the normalization of the input; hashable.

  Attributes:
    layers: from input to logits.
    input_shape: of one example, without the batch.
    mean: of the input, for each channel or one for all.
    std: likewise; the first affine map is `(x - mean) / std`.
    initializer: of hidden layers, a name of `initialization.HIDDEN`.
    convolution: `'patches'` gathers patches by slices and multiplies, which
      is the faster on a CPU where kernels are vmapped or inside of loops;
      `'lax'` is XLA's convolution.
    epsilon: added to the variance.
  """

  layers: tuple[Layer, ...]
  input_shape: tuple[int, ...]
  mean: tuple[float, ...] = (0.0,)
  std: tuple[float, ...] = (1.0,)
  initializer: str = 'ibp'
  convolution: str = 'patches'
  epsilon: float = 1e-5

  def __post_init__(self):
    if self.convolution not in ('patches', 'lax'):
      raise UserError(
        f'convolution {self.convolution!r} is unknown: use patches or lax.'
      )
    if min(self.std) <= 0:
      raise UserError(f'std must be positive, got {self.std}.')
    shape = self.input_shape
    for name, layer in zip(self.names, self.layers, strict=True):
      if min(layer.features, layer.kernel, layer.stride) < 1:
        raise UserError(
          f'{name} has {layer.features} features, kernel {layer.kernel}, '
          f'stride {layer.stride}: give at least 1 of each.'
        )
      _kernel_shape(layer, shape)
      before, shape = shape, _result_shape(layer, shape)
      if min(shape) < 1:
        raise UserError(
          f'{name} leaves nothing of an input of shape {before}: take larger '
          'pictures, a smaller kernel or fewer layers.'
        )

  @property
  def num_classes(self) -> int:
    """Number of logits K."""
    return self.layers[-1].features

  @property
  def names(self) -> tuple[str, ...]:
    """Names of the layers among the parameters."""
    return tuple(f'{x.kind}_{i}' for i, x in enumerate(self.layers))

  @property
  def has_norm(self) -> bool:
    """Whether some layer has batch normalization."""
    return any(layer.norm for layer in self.layers)

  def init(self, key: jax.Array, dtype: Any = jnp.float32) -> dict[str, Any]:
    """Draws parameters: `{layer: {'kernel', 'bias'[, 'scale']}}`."""
    params = {}
    shape = self.input_shape
    keys = jax.random.split(key, len(self.layers))
    for key, name, layer in zip(keys, self.names, self.layers, strict=True):  # noqa: PLR1704
      kernel = _kernel_shape(layer, shape)
      fan_in = math.prod(kernel[:-1])
      last = layer is self.layers[-1]
      draw = (
        initialization.lecun_normal
        if last
        else initialization.hidden(self.initializer)
      )
      params[name] = {
        'kernel': draw(key, kernel, fan_in, dtype),
        'bias': jnp.zeros(layer.features, dtype),
      }
      if layer.norm:
        params[name]['scale'] = jnp.ones(layer.features, dtype)
      shape = _result_shape(layer, shape)
    return params

  def apply(self, params: Params, x: jax.Array) -> jax.Array:
    """Maps `[B, *input_shape]` to logits `[B, K]`.

    Raises:
      UserError: if a layer with batch normalization has no statistics.
    """
    return self.apply_layers(params, x, 0, len(self.layers))

  def apply_layers(
    self, params: Params, x: jax.Array, start: int, stop: int
  ) -> jax.Array:
    """Applies layers `start` to `stop - 1`; the first normalizes the input."""
    if start == 0:
      x = self._normalized(x)
    for index in range(start, stop):
      name, layer = self.names[index], self.layers[index]
      with jax.named_scope(name):
        x = self._affine(layer, params[name], x)
        if layer.norm:
          gain, offset = _gain_and_offset(name, params[name], self.epsilon)
          x = x * gain + offset
        else:
          x = x + params[name]['bias']
        x = jax.nn.relu(x) if layer.relu else x
    return x

  def statistics(self, params: Params, x: jax.Array) -> dict[str, Any]:
    """Means and variances that batch normalization sees on clean examples.

    Args:
      params: parameters; statistics among them are not used.
      x: `[B, *input_shape]` clean examples: the batch while training, all of
        the training set for the deployed network.

    Returns:
      `{layer: {'mean', 'var'}}` of the layers with batch normalization.
    """
    found = {}
    x = self._normalized(x)
    for name, layer in zip(self.names, self.layers, strict=True):
      x = self._affine(layer, params[name], x)
      if layer.norm:
        axes = tuple(range(x.ndim - 1))
        found[name] = {'mean': x.mean(axes), 'var': x.var(axes)}
        full = {**params[name], **found[name]}
        gain, offset = _gain_and_offset(name, full, self.epsilon)
        x = x * gain + offset
      else:
        x = x + params[name]['bias']
      x = jax.nn.relu(x) if layer.relu else x
    return found

  def initial_statistics(self, dtype: Any = jnp.float32) -> dict[str, Any]:
    """Means 0 and variances 1, for running averages to start from."""
    return {
      name: {
        'mean': jnp.zeros(layer.features, dtype),
        'var': jnp.ones(layer.features, dtype),
      }
      for name, layer in zip(self.names, self.layers, strict=True)
      if layer.norm
    }

  def with_statistics(self, params: Params, statistics: Params) -> Params:
    """Joins parameters and statistics into what `apply` takes."""
    return {
      name: {**leaf, **statistics.get(name, {})}
      for name, leaf in params.items()
    }

  def _normalized(self, x: jax.Array) -> jax.Array:
    mean, std = (jnp.asarray(v, x.dtype) for v in (self.mean, self.std))
    return (x - mean) / std

  def _affine(self, layer: Layer, leaf, x: jax.Array) -> jax.Array:
    kernel = leaf['kernel']
    if layer.kind == 'dense':
      return x.reshape(x.shape[0], -1) @ kernel
    convolve = _patches if self.convolution == 'patches' else _lax
    return convolve(x, kernel, layer.stride)


def with_clean_statistics(
  network: Network, params: Params, x: jax.Array
) -> Params:
  """Parameters with the batch statistics of the clean examples `x`.

  While training they serve the clean and the perturbed pass alike; gradients
  flow through the statistics.

  Args:
    network: the network.
    params: its parameters.
    x: `[B, *input_shape]` clean examples.
  """
  return network.with_statistics(params, network.statistics(params, x))


def fold(network: Network, params: Params) -> tuple[Network, Params]:
  """Moves batch normalization into the kernels and biases.

  Args:
    network: the network.
    params: its parameters with statistics.

  Returns:
    A network without batch normalization and its parameters; it gives what
    `network` gives, up to rounding.

  Raises:
    UserError: if there are no statistics.
  """
  folded = {}
  for name, layer in zip(network.names, network.layers, strict=True):
    leaf = params[name]
    if layer.norm:
      gain, offset = _gain_and_offset(name, leaf, network.epsilon)
      leaf = {'kernel': leaf['kernel'] * gain, 'bias': offset}
    folded[name] = {'kernel': leaf['kernel'], 'bias': leaf['bias']}
  layers = tuple(dataclasses.replace(x, norm=False) for x in network.layers)
  return dataclasses.replace(network, layers=layers), folded


def mlp(
  widths: tuple[int, ...] = (64, 100, 100, 10), **settings: Any
) -> Network:
  """Dense ReLU layers.

  Args:
    widths: of the input, of the hidden layers, and the number of classes.
    **settings: other attributes of the network.
  """
  if len(widths) < 2:
    raise UserError(f'an MLP needs two widths or more, got {widths}.')
  hidden = tuple(Layer('dense', width) for width in widths[1:-1])
  last = Layer('dense', widths[-1], relu=False)
  return Network((*hidden, last), (widths[0],), **settings)


def small_cnn(
  input_shape: tuple[int, ...] = (28, 28, 1),
  num_classes: int = 10,
  width: int = 16,
  **settings: Any,
) -> Network:
  """The small network of Wong & Kolter (2018): two convolutions, two dense.

  Args:
    input_shape: `[H, W, C]` of one image.
    num_classes: K.
    width: channels of the first convolution; 16 in the literature.
    **settings: other attributes of the network.
  """
  layers = (
    Layer('conv', width, 4, 2),
    Layer('conv', 2 * width, 4, 2),
    Layer('dense', 100),
    Layer('dense', num_classes, relu=False),
  )
  return Network(layers, input_shape, **settings)


def cnn7(
  input_shape: tuple[int, ...] = (32, 32, 3),
  num_classes: int = 10,
  width: int = 64,
  norm: bool = True,
  **settings: Any,
) -> Network:
  """The seven layers of Shi et al. (2021), the network of recent comparisons.

  Args:
    input_shape: `[H, W, C]` of one image.
    num_classes: K.
    width: channels of the first convolution; 64 in the literature, which has
      8 times as many neurons in the hidden dense layer.
    norm: whether batch normalization follows each hidden affine layer.
    **settings: other attributes of the network.
  """
  layers = (
    Layer('conv', width, norm=norm),
    Layer('conv', width, norm=norm),
    Layer('conv', 2 * width, stride=2, norm=norm),
    Layer('conv', 2 * width, norm=norm),
    Layer('conv', 2 * width, norm=norm),
    Layer('dense', 8 * width, norm=norm),
    Layer('dense', num_classes, relu=False),
  )
  return Network(layers, input_shape, **settings)


def _gain_and_offset(name, leaf, epsilon):
  """Batch normalization as one multiplication and one addition."""
  if 'mean' not in leaf:
    raise UserError(
      f'layer {name} has no batch statistics: join them to the parameters '
      'with with_statistics or with_clean_statistics.'
    )
  gain = leaf['scale'] / jnp.sqrt(leaf['var'] + epsilon)
  return gain, leaf['bias'] - leaf['mean'] * gain


def _kernel_shape(layer: Layer, shape: tuple[int, ...]) -> tuple[int, ...]:
  if layer.kind == 'dense':
    return math.prod(shape), layer.features
  if layer.kind != 'conv' or len(shape) != 3:
    raise UserError(
      f'layer kind {layer.kind!r} does not take an input of shape {shape}: '
      "use 'dense', or 'conv' on [H, W, C]."
    )
  return layer.kernel, layer.kernel, shape[-1], layer.features


def _result_shape(layer: Layer, shape: tuple[int, ...]) -> tuple[int, ...]:
  if layer.kind == 'dense':
    return (layer.features,)
  pad = (layer.kernel - 1) // 2
  sides = (
    (side + 2 * pad - layer.kernel) // layer.stride + 1 for side in shape[:2]
  )
  return (*sides, layer.features)


def _patches(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
  """A convolution as slices, concatenated along channels, and a product."""
  side = kernel.shape[0]
  pad = (side - 1) // 2
  x = jnp.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
  for axis in (2, 1):
    last = stride * ((x.shape[axis] - side) // stride) + 1
    x = jnp.concatenate(
      [jax.lax.slice_in_dim(x, i, i + last, stride, axis) for i in range(side)],
      axis=-1,
    )
  return x @ kernel.reshape(-1, kernel.shape[-1])


def _lax(x: jax.Array, kernel: jax.Array, stride: int) -> jax.Array:
  pad = (kernel.shape[0] - 1) // 2
  return jax.lax.conv_general_dilated(
    x,
    kernel,
    (stride, stride),
    [(pad, pad), (pad, pad)],
    dimension_numbers=('NHWC', 'HWIO', 'NHWC'),
  )
