"""The networks of the experiments, their pictures, and how they were trained.

A trained network is kept under the cache of the package, in a file named
after everything that decides it, so that all studies share it.
"""

import dataclasses
import functools
import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlab import data, errors, nets
from jaxlab.data import paths
from jaxlab.harness import files, learners, processes, progress, training

_TEST_AT_ONCE = 500


class Pictures(NamedTuple):
  """A data set in two parts; only the first one decides anything.

  Attributes:
    train: `[n, H, W, C]` float32, for training and calibration.
    train_labels: `[n]`.
    test: `[m, H, W, C]`.
    test_labels: `[m]`.
  """

  train: np.ndarray
  train_labels: np.ndarray
  test: np.ndarray
  test_labels: np.ndarray


@dataclasses.dataclass(frozen=True)
class Network:
  """A network before it is trained, and how that is done.

  Attributes:
    kind: 'CNN', 'ViT' or 'SSM'.
    pictures: a name of `PICTURES`.
    make: returns the chain, with batch norms where it has any.
    count: of training pictures, the first ones.
    steps: updates.
    rate: highest learning rate.
    decay: of weights.
    batch: pictures an update.
    noise: standard deviation that is added to pixels.
    shift: pixels by which pictures are moved at most; they are also mirrored
      then.
  """

  kind: str
  pictures: str
  make: Callable[[], nets.Chain]
  count: int
  steps: int
  rate: float
  decay: float
  batch: int = 64
  noise: float = 0.0
  shift: int = 0


class Trained(NamedTuple):
  """A network in float.

  Attributes:
    chain: without batch norms.
    params: of the chain.
    accuracy: on the test pictures, in percent.
    logits: `[m, classes]` on the test pictures.
  """

  chain: nets.Chain
  params: Any
  accuracy: float
  logits: np.ndarray


def _digits(train: int) -> Pictures:
  parts = [data.load('digits', part, train=train) for part in ('train', 'test')]
  arrays = [(d.images.reshape(-1, 8, 8, 1), d.labels) for d in parts]
  return Pictures(*arrays[0], *arrays[1])


def _mnist(train: int) -> Pictures:
  """MNIST at half its resolution: means of 2 x 2 pixels."""
  arrays = []
  for part, count in (('train', train), ('test', None)):
    found = data.load('mnist', part)
    rows = np.arange(len(found.labels))
    if np.all(np.diff(found.labels) >= 0):  # sorted by digit, as JSON files
      rows = np.random.default_rng(0).permutation(rows)
    rows = rows[:count]
    halves = found.images[rows].reshape(-1, 14, 2, 14, 2).mean((2, 4))
    arrays += [halves[..., None], found.labels[rows]]
  return Pictures(*arrays)


def _cifar(train: int) -> Pictures:
  """CIFAR-10, every channel with mean 0 and deviation 1."""
  parts = [data.load('cifar10', part) for part in ('train', 'test')]
  images = [parts[0].images[:train], parts[1].images]
  mean, deviation = images[0].mean((0, 1, 2)), images[0].std((0, 1, 2))
  first, second = ((x - mean) / deviation for x in images)
  return Pictures(first, parts[0].labels[:train], second, parts[1].labels)


PICTURES = {'digits': _digits, 'mnist': _mnist, 'cifar10': _cifar}

_SMALL_CNN = Network(
  'CNN', 'mnist', nets.resnet, count=6000, steps=600, rate=1e-2, decay=0.05
)
_SMALL_VIT = Network(
  kind='ViT',
  pictures='digits',
  make=nets.vit,
  count=1297,
  steps=600,
  rate=5e-3,
  decay=0.3,
  noise=0.1,
)
_SMALL_SSM = dataclasses.replace(
  _SMALL_VIT,
  kind='SSM',
  make=functools.partial(nets.vision_mamba, state=8),
  steps=300,
  decay=0.05,
)


def _on_cifar(small: Network, make, steps: int, rate: float, decay: float):
  return dataclasses.replace(
    small,
    pictures='cifar10',
    make=make,
    count=50_000,
    steps=steps,
    rate=rate,
    decay=decay,
    batch=128,
    noise=0.0,
    shift=4,
  )


def _tiny(small: Network, make):
  """For tests: few and equal shapes, hardly trained."""
  return dataclasses.replace(
    small, pictures='digits', make=make, count=1297, steps=60, rate=1e-2
  )


NETWORKS = {
  'cnn': _SMALL_CNN,
  # Blocks of one shape, which are compiled together.
  'cnn_even': dataclasses.replace(
    _SMALL_CNN, make=functools.partial(nets.resnet, (2,), (16,))
  ),
  'vit': _SMALL_VIT,
  'ssm': _SMALL_SSM,
  'cnn_cifar': _on_cifar(_SMALL_CNN, nets.resnet_cifar, 24_000, 3e-3, 0.05),
  'vit_cifar': _on_cifar(
    _SMALL_VIT,
    functools.partial(nets.vit, 64, 4, patch=4, image_size=32),
    *(40_000, 1e-3, 0.1),
  ),
  'ssm_cifar': _on_cifar(
    _SMALL_SSM,
    functools.partial(
      nets.vision_mamba, 64, 4, patch=4, image_size=32, bidirectional=True
    ),
    *(40_000, 1e-3, 0.1),
  ),
  'cnn_tiny': _tiny(_SMALL_CNN, functools.partial(nets.resnet, (1,), (8,))),
  'vit_tiny': _tiny(_SMALL_VIT, functools.partial(nets.vit, 8, 1, 2, patch=4)),
  'ssm_tiny': _tiny(
    _SMALL_SSM, functools.partial(nets.vision_mamba, 8, 1, 4, patch=4)
  ),
}


@functools.lru_cache(maxsize=4)
def pictures_of(name: str, test: int = 0) -> Pictures:
  """The pictures of a network.

  Args:
    name: of the network.
    test: how many test pictures at most, the first ones; 0 takes all.

  Raises:
    MissingDataError: if they are not on this machine.
  """
  network = NETWORKS[name]
  found = PICTURES[network.pictures](network.count)
  count = test or len(found.test)
  return found._replace(
    test=found.test[:count], test_labels=found.test_labels[:count]
  )


def draw(
  pictures: Pictures, seed: int, count: int
) -> tuple[jax.Array, jax.Array]:
  """Pictures to calibrate with, and half as many others that are held out.

  Both come from the training part, without their labels.

  Raises:
    UserError: if there are not as many.
  """
  held_out = count // 2
  if count + held_out > len(pictures.train):
    raise errors.UserError(
      f'config.calibration = {count} asks for {count + held_out} training '
      f'pictures, of which there are {len(pictures.train)}; give less.'
    )
  order = np.random.default_rng([seed, 1]).permutation(len(pictures.train))
  chosen = jnp.asarray(pictures.train[order[: count + held_out]])
  return chosen[:count], chosen[count:]


def trained(name: str, seed: int, test: int, workdir) -> Trained:
  """A network of `NETWORKS`, trained now or before.

  Args:
    name: of the network.
    seed: of its training.
    test: how many test pictures at most; 0 takes all.
    workdir: of the run, where the training is kept until it is finished.
  """
  pictures = pictures_of(name, test)

  def compute():
    return _stored(name, seed, pictures, workdir)

  flat = workdir.cached(f'float/{name}-{seed}', compute)
  params = flax.traverse_util.unflatten_dict(
    {key: jnp.asarray(value) for key, value in flat.items()}, sep='/'
  )
  chain = _without_norm(NETWORKS[name].make())
  logits = logits_of(lambda x: _apply(chain, params, x), pictures.test)
  accuracy = 100 * np.mean(logits.argmax(1) == pictures.test_labels)
  return Trained(chain, params, float(accuracy), logits)


def logits_of(apply: Callable[[jax.Array], jax.Array], x) -> np.ndarray:
  """Logits of many pictures, some at a time."""
  size = min(_TEST_AT_ONCE, len(x))
  parts = []
  for first in range(0, len(x), size):
    part = x[first : first + size]
    short = size - len(part)
    filled = np.pad(part, [(0, short), *[(0, 0)] * (part.ndim - 1)])
    parts.append(np.asarray(apply(jnp.asarray(filled)))[: len(part)])
  return np.concatenate(parts)


@functools.partial(jax.jit, static_argnames='chain')
def _apply(chain, params, x):
  return chain.apply({'params': params}, x)


def _without_norm(chain: nets.Chain) -> nets.Chain:
  return dataclasses.replace(
    chain,
    stages=tuple(
      (name, module.clone(norm='none') if hasattr(module, 'norm') else module)
      for name, module in chain.stages
    ),
  )


def _stored(name, seed, pictures, workdir) -> dict[str, np.ndarray]:
  """Parameters by their path, from the cache or trained."""
  path = paths.cache_root() / 'networks'
  path /= f'{name}-{_digest(name, seed, pictures)}.npz'
  content = None
  if processes.is_first() and path.is_file():
    content = path.read_bytes()
  content = processes.from_first(content)
  if content is not None:
    try:
      return files.npz_arrays(content)
    except ValueError:
      progress.note(f'{path} is damaged; the network is trained again.')
  flat = _train(name, seed, pictures, workdir)
  if processes.is_first():
    try:
      files.write(path, files.npz_bytes(flat))
    except errors.UserError as error:
      progress.note(f'the trained network is kept in this run alone: {error}')
  return flat


def _digest(name: str, seed: int, pictures: Pictures) -> str:
  """Names everything that decides the parameters."""
  network = NETWORKS[name]
  parts = dataclasses.asdict(network) | {
    'make': repr(network.make()),
    'seed': seed,
    'versions': (jax.__version__, jax.default_backend()),
    'quick': jax.config.values['jax_disable_most_optimizations'],
  }
  found = hashlib.sha256(repr(sorted(parts.items())).encode())
  for array in (pictures.train, pictures.train_labels):
    found.update(np.ascontiguousarray(array).tobytes())
  return found.hexdigest()[:20]


def _train(name, seed, pictures, workdir) -> dict[str, np.ndarray]:
  network = NETWORKS[name]
  chain = network.make()
  shape = (1, *pictures.train.shape[1:])

  def init(key):
    made = chain.init(key, jnp.zeros(shape))
    return made['params'], made.get('batch_stats', {})

  def loss(params, batch, key, extra):
    logits, new = chain.apply(
      {'params': params, 'batch_stats': extra},
      _varied(network, batch['images'], key),
      train=True,
      mutable=['batch_stats'],
    )
    each = optax.softmax_cross_entropy_with_integer_labels(
      logits, batch['labels']
    )
    return each.mean(), ({}, new.get('batch_stats', {}))

  schedule = optax.warmup_cosine_decay_schedule(
    0, network.rate, network.steps // 10, network.steps
  )
  optimizer = optax.adamw(schedule, weight_decay=network.decay)
  state = training.fit(
    workdir,
    learners.gradient_learner(init, loss, optimizer, has_extra=True),
    {'images': pictures.train, 'labels': pictures.train_labels},
    num_steps=network.steps,
    key=seed,
    batch_size=network.batch,
    name=f'network-{name}-{seed}',
  )
  _, params = nets.fold_batch_norm(
    chain, *jax.device_get((state.params, state.extra))
  )
  flat = flax.traverse_util.flatten_dict(params, sep='/')
  return {key: np.asarray(value) for key, value in flat.items()}


def _varied(network: Network, x: jax.Array, key: jax.Array) -> jax.Array:
  """The pictures of a batch, moved, mirrored and with noise."""
  key_shift, key_flip, key_noise = jax.random.split(key, 3)
  if network.shift:
    far, count, side = network.shift, len(x), x.shape[1]
    edge = [(0, 0), (far, far), (far, far), (0, 0)]
    corners = jax.random.randint(key_shift, (count, 2), 0, 2 * far + 1)

    def cut(picture, corner):
      start = (*corner, 0)
      size = (side, side, picture.shape[-1])
      return jax.lax.dynamic_slice(picture, start, size)

    x = jax.vmap(cut)(jnp.pad(x, edge), corners)
    mirrored = jax.random.bernoulli(key_flip, 0.5, (count, 1, 1, 1))
    x = jnp.where(mirrored, x[:, :, ::-1], x)
  if network.noise:
    x += network.noise * jax.random.normal(key_noise, x.shape)
  return x
