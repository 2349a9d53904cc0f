"""The classifiers of the digits, each trained from every seed and judged."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.linear_model import LogisticRegression

from jaxlab.dendrites import mlp, mlp_training
from jaxlab.harness.learners import Learner
from jaxlab.harness.training import fit

DENDRITES = 'ball-and-stick'
FROZEN = 'read-out frozen'
READOUT = 'only the read-out'
POINT = 'point neurons'
LOCAL = 'local rule'
RATE = 'rate MLP'
LOGISTIC = 'logistic regression'
ARMS = (DENDRITES, FROZEN, READOUT, POINT, LOCAL, RATE, LOGISTIC)

NUM_INPUTS = {'digits': 64, 'mnist': 784}
NUM_CLASSES = 10

Found = dict[str, np.ndarray]


class Trained(NamedTuple):
  """Networks after training, as NumPy arrays `[seeds, copies, ...]`.

  Attributes:
    params: at the end.
    start: at the start.
    fixed: what does not learn, `[seeds, ...]`.
    curve: accuracy on each batch, `[seeds, copies, T]`.
  """

  params: Any
  start: Any
  fixed: Any
  curve: np.ndarray


def file_name(arm: str) -> str:
  """Of what is kept of an arm."""
  return arm.replace(' ', '_')


class Study:
  """The arms; each method trains one and returns what it found.

  Arrays begin with `[seeds, copies]`: `accuracy` on the test digits, `curve`,
  that on the training batches of each epoch, and `moved`, the distance that the
  weights of each layer went, relative to their norm.
  """

  def __init__(self, config, workdir, train, test):
    self._config = config
    self._workdir = workdir
    self._train = train
    self._test = test

  @functools.cached_property
  def _model(self) -> mlp.MLP:
    return self._make(mlp.ball_and_stick(self._config.segments))

  @functools.cached_property
  def _observe(self):
    return _observer(self._model)

  def _make(self, unit) -> mlp.MLP:
    config = self._config
    return mlp.make(
      (NUM_INPUTS[config.dataset], *config.hidden, NUM_CLASSES),
      unit,
      input_current=config.input_current,
      duration=config.duration,
      window=config.window,
      dt=config.dt,
    )

  def dendrites(self) -> dict[str, Any]:
    """Dendrites with all that learns, and with a frozen read-out.

    Also the mean voltages of the outputs at the start, `train` and `test`,
    `[n, seeds, C]`, and the trained outputs of the first seed while they see
    the first test digit, `traces`, `[T + 1, C]`.
    """
    net = mlp_training.biophysical(self._model, ((), ('readout',)))
    trained = self._fit(DENDRITES, net, self._train.images)
    found = self._judged(trained, self._model, self._observe)
    for part, images in (
      ('train', self._train.images),
      ('test', self._test.images),
    ):
      found[part] = np.stack(
        [
          self._voltages(
            self._observe, _member(trained, seed, 0, 'start'), images
          )
          for seed in range(self._config.seeds)
        ],
        axis=1,
      )
    first = self._test.images[: self._config.evaluated_at_once]
    chunk = _filled(first, self._config.evaluated_at_once)
    traces = self._observe(*_member(trained, 0, 0), chunk)[1]
    times = self._config.dt * np.arange(len(traces))
    return found | {'traces': traces, 'times': times}

  def only_readout(self, dendrites: Found) -> dict[str, Any]:
    """The read-out of the network at its start, with all else as drawn."""
    net = mlp_training.only_readout(self._model)
    member = {'member': jnp.arange(self._config.seeds)}
    trained = self._fit(READOUT, net, dendrites['train'], member)
    accuracy = [
      self._share_right(
        mlp.read_out(
          self._model, _member(trained, seed, 0)[0], jnp.asarray(voltage)
        )
      )
      for seed, voltage in enumerate(dendrites['test'].swapaxes(0, 1))
    ]
    return self._found(trained, [[each] for each in accuracy])

  def points(self) -> dict[str, Any]:
    """Point neurons."""
    model = self._make(mlp.point_neuron())
    net = mlp_training.biophysical(model)
    trained = self._fit(POINT, net, self._train.images)
    return self._judged(trained, model, _observer(model))

  def local_rule(self) -> dict[str, Any]:
    """Dendrites that learn by the gradient of static units."""
    net = mlp_training.local_rule(self._model)
    trained = self._fit(LOCAL, net, self._train.images)
    return self._judged(trained, self._model, self._observe)

  def rate(self) -> dict[str, Any]:
    """A perceptron of the same sizes."""
    net = mlp_training.rate(self._model.sizes)
    trained = self._fit(RATE, net, self._train.images)
    accuracy = [
      [
        self._share_right(
          net.logits(*_member(trained, s, 0), self._test.images)
        )
      ]
      for s in range(self._config.seeds)
    ]
    return self._found(trained, accuracy)

  def logistic(self) -> dict[str, Any]:
    """Logistic regression of scikit-learn at its defaults; no randomness."""
    model = LogisticRegression().fit(self._train.images, self._train.labels)
    right = model.score(self._test.images, self._test.labels)
    seen = model.score(self._train.images, self._train.labels)
    return {
      'accuracy': np.full((1, 1), right),
      'curve': np.full((1, 1, 1), seen),
    }

  def _fit(self, name, net, images, hyper=None) -> Trained:
    config = self._config
    rows = {'images': images, 'labels': self._train.labels}
    steps = max(round(config.epochs * len(images) / config.batch), 1)
    schedule = optax.cosine_decay_schedule(
      config.learning_rate, steps, config.final_share
    )
    optimizer = optax.chain(
      optax.clip_by_global_norm(config.clip), optax.adam(schedule)
    )
    state = fit(
      self._workdir,
      Learner(*mlp_training.copies(net, optimizer, steps)),
      rows,
      batch_size=config.batch,
      num_steps=steps,
      key=config.seed,
      hyper=hyper,
      population=config.seeds,
      member_batches=True,
      log_every=max(steps // config.epochs, 1),
      checkpoint_every=max(steps // 4, 1),
      name=file_name(name),
    )
    extra = state.extra
    return Trained(
      *jax.device_get(
        (state.params, extra['start'], extra['fixed'], extra['curve'])
      )
    )

  def _judged(self, trained: Trained, model, observe) -> dict[str, Any]:
    """What a biophysical model reached, for each seed and copy."""
    copies = trained.curve.shape[1]
    accuracy = [
      [
        self._right(model, observe, *_member(trained, seed, c))
        for c in range(copies)
      ]
      for seed in range(self._config.seeds)
    ]
    moved = [
      mlp_training.distance_moved(before, after)
      for before, after in zip(
        trained.start['weights'], trained.params['weights'], strict=True
      )
    ]
    return self._found(trained, accuracy) | {'moved': np.stack(moved, axis=-1)}

  def _right(self, model, observe, params, landing) -> float:
    voltage = self._voltages(observe, (params, landing), self._test.images)
    return self._share_right(mlp.read_out(model, params, jnp.asarray(voltage)))

  def _share_right(self, logits) -> float:
    return float(np.mean(np.argmax(logits, axis=-1) == self._test.labels))

  def _voltages(self, observe, member, images) -> np.ndarray:
    """`[n, C]` mean voltages of the outputs, some images at a time."""
    size = self._config.evaluated_at_once
    parts = [
      np.asarray(observe(*member, _filled(images[i : i + size], size))[0])
      for i in range(0, len(images), size)
    ]
    return np.concatenate(parts)[: len(images)]

  def _found(self, trained: Trained, accuracy) -> dict[str, Any]:
    epochs = np.array_split(trained.curve, self._config.epochs, axis=-1)
    return {
      'accuracy': np.array(accuracy),
      'curve': np.stack([epoch.mean(axis=-1) for epoch in epochs], axis=-1),
    }


def _observer(model: mlp.MLP):
  """(params, landing, images) -> outputs `[B, C]`, `[T + 1, C]` of the first.

  Means over the window, and voltages over time, in mV.
  """

  def observe(params, landing, images):
    recording = mlp.run(model, params, landing, images)
    voltage = mlp.mean_voltage(model, recording)
    return voltage[:, -NUM_CLASSES:], recording.v[:, -NUM_CLASSES:, 0]

  return jax.jit(observe)


def _member(
  trained: Trained, seed: int, copy: int, when: str = 'params'
) -> tuple[Any, Any]:
  """(params, fixed) of a seed's copy, at the end or 'start'."""
  params = jax.tree.map(lambda x: x[seed, copy], getattr(trained, when))
  return params, jax.tree.map(lambda x: x[seed], trained.fixed)


def _filled(images: np.ndarray, size: int) -> np.ndarray:
  """`[size, d]` images, the last one repeated."""
  return np.pad(images, ((0, size - len(images)), (0, 0)), mode='edge')
