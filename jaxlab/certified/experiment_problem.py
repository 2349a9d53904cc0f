"""The pictures and networks of the experiments, and what a config must be."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxlab import data, errors
from jaxlab.certified import networks, search_space
from jaxlab.certified.experiment_study import SAMPLERS
from jaxlab.harness.settings import (
  check,
  check_names,
  check_positive,
  check_seeds,
)


class Split(NamedTuple):
  """Pictures and their labels.

  Attributes:
    x: `[n, *shape]` float32 in [0, 1].
    y: `[n]` int32.
  """

  x: np.ndarray
  y: np.ndarray


class Problem(NamedTuple):
  """A network and three disjoint sets of pictures.

  Attributes:
    network: not trained.
    train: for training.
    validation: on which a search compares settings.
    test: for the numbers of the report; it decides nothing.
  """

  network: networks.Network
  train: Split
  validation: Split
  test: Split


def _digits(count: int) -> tuple[Split, Split]:
  parts = [data.load('digits', part, train=count) for part in ('train', 'test')]
  first, second = (
    Split(d.images.reshape(len(d.labels), -1), d.labels) for d in parts
  )
  return first, second


def _mnist(count: int) -> tuple[Split, Split]:
  return _shuffled('mnist', count, lambda x: x.reshape(-1, 28, 28, 1))


def _mnist_14(count: int) -> tuple[Split, Split]:
  """At half the resolution: means of 2 x 2 pixels."""

  def halved(x):
    return x.reshape(-1, 14, 2, 14, 2).mean((2, 4))[..., None]

  return _shuffled('mnist', count, halved)


def _cifar10(count: int) -> tuple[Split, Split]:
  return _shuffled('cifar10', count, lambda x: x)


def _shuffled(name, count, shaped) -> tuple[Split, Split]:
  """Both parts in an order of their own, for some files are sorted."""
  parts = []
  for part in ('train', 'test'):
    found = data.load(name, part)
    order = np.random.default_rng(0).permutation(len(found.labels))
    order = order[:count] if part == 'train' else order
    parts.append(Split(shaped(found.images[order]), found.labels[order]))
  return parts[0], parts[1]


PICTURES = {
  'digits': _digits,
  'mnist': _mnist,
  'mnist_14': _mnist_14,
  'cifar10': _cifar10,
}
_SHAPES = {
  'digits': (64,),
  'mnist': (28, 28, 1),
  'mnist_14': (14, 14, 1),
  'cifar10': (32, 32, 3),
}
# Mean and standard deviation of the pixels of the training pictures.
_MOMENTS = {
  'digits': ((0.0,), (1.0,)),
  'mnist': ((0.1307,), (0.3081,)),
  'mnist_14': ((0.1307,), (0.2801,)),
  'cifar10': ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
NETWORKS = ('mlp', 'small_cnn', 'cnn7')


def make_network(pictures: str, name: str, width: int) -> networks.Network:
  """A network for pictures of this kind; `width` scales its hidden layers."""
  shape, (mean, std) = _SHAPES[pictures], _MOMENTS[pictures]
  settings: dict[str, Any] = {'mean': mean, 'std': std}
  if jax.default_backend() != 'cpu':
    settings['convolution'] = 'lax'
  if name == 'mlp':
    widths = (math.prod(shape), width, width, 10)
    made = networks.mlp(widths, **settings)
    return dataclasses.replace(made, input_shape=shape)
  make = {'small_cnn': networks.small_cnn, 'cnn7': networks.cnn7}[name]
  return make(shape, 10, width, **settings)


def load(config) -> Problem:
  """Reads the pictures that the config asks for.

  Raises:
    UserError: if there are fewer pictures than that.
  """
  count = config.train + config.validation
  most = 1787 if config.pictures == 'digits' else count
  check(
    config, 'train', count <= most, f'at most {most} with config.validation'
  )
  first, test = PICTURES[config.pictures](count)
  for what, have, want in (
    ('train + validation', len(first.y), count),
    ('test', len(test.y), config.test),
  ):
    if have < want:
      raise errors.UserError(
        f'{config.pictures} has {have} pictures for config.{what}, not {want}; '
        'ask for fewer.'
      )
  return Problem(
    make_network(config.pictures, config.network, config.width),
    Split(*(a[: config.train] for a in first)),
    Split(*(a[config.train : count] for a in first)),
    Split(*(a[: config.test] for a in test)),
  )


def benchmark(pictures: str, eps: float) -> str:
  """The benchmark whose published settings are tried first.

  Raises:
    UserError: if there is none for this radius.
  """
  if pictures == 'digits':
    return 'digits'
  if pictures == 'cifar10':
    name = f'cifar10_{round(eps * 255, 6):g}'
  else:
    name = f'mnist_{eps:g}'
  search_space.published('ibp', name)
  return name


def check_config(config) -> None:
  """Refuses settings that cannot be run; before anything is read."""
  check(
    config,
    'pictures',
    config.pictures in PICTURES,
    f'one of {", ".join(PICTURES)}',
  )
  check(
    config,
    'network',
    config.network in NETWORKS,
    f'one of {", ".join(NETWORKS)}',
  )
  flat = config.pictures == 'digits'
  check(
    config, 'network', config.network == 'mlp' or not flat, 'mlp for digits'
  )
  check(
    config,
    'sampler',
    config.sampler in SAMPLERS,
    f'one of {", ".join(SAMPLERS)}',
  )
  check_positive(
    config,
    *('width', 'eps', 'trials', 'lanes', 'train', 'validation', 'test'),
    *('batch_size', 'epochs', 'attack_steps', 'front', 'evaluated_at_once'),
    *('pgd_steps', 'pgd_restarts', 'nodes'),
  )
  check_names(config, 'methods', list(search_space.TRADE_OFFS))
  check_seeds(config)
  check(
    config, 'complete', config.complete >= 0, 'a number of pictures, 0 for none'
  )
  check(
    config,
    'batch_size',
    config.batch_size <= config.train,
    'at most config.train',
  )
  check(
    config,
    'checkpoint_every',
    config.checkpoint_every >= 0,
    'a number of steps, 0 for none',
  )
  for eps in config.eps:
    benchmark(config.pictures, eps)
