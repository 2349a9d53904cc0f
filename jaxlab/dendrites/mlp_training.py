"""How classifiers learn side by side, each with a part of it frozen or none."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxlab.dendrites import mlp, mlp_baselines
from jaxlab.nets import MLP


class Net(NamedTuple):
  """A classifier as training sees it.

  Attributes:
    init: key -> (params, fixed): a dict, and what does not learn.
    logits: (params, fixed, images `[B, d]`) -> `[B, C]`.
    frozen: entries of params that do not learn, of each copy that is trained.
  """

  init: Callable[[jax.Array], tuple[Any, Any]]
  logits: Callable[[Any, Any, jax.Array], jax.Array]
  frozen: tuple[tuple[str, ...], ...] = ((),)


def biophysical(
  model: mlp.MLP, frozen: tuple[tuple[str, ...], ...] = ((),)
) -> Net:
  """A network of neurons, by the exact gradient."""

  def init(key):
    weights, landing = jax.random.split(key)
    return mlp.init(model, weights), mlp.draw_landing(model, landing)

  def logits(params, landing, images):
    return mlp.logits(model, params, landing, images)

  return Net(init, logits, frozen)


def local_rule(model: mlp.MLP) -> Net:
  """The same network by the gradient of a static unit."""
  curve = jax.jit(mlp_baselines.static_curve, static_argnums=0)(model)

  def logits(params, landing, images):
    return mlp_baselines.local_logits(model, curve, params, landing, images)

  return biophysical(model)._replace(logits=logits)


def only_readout(model: mlp.MLP) -> Net:
  """The read-out alone; images are the mean voltages of the last layer."""

  def init(key):
    return {'readout': mlp.init(model, key)['readout']}, ()

  def logits(params, fixed, voltage):
    del fixed
    return mlp.read_out(model, params, voltage)

  return Net(init, logits)


def rate(sizes: Sequence[int]) -> Net:
  """A perceptron of rectified linear units of the same sizes."""
  net = MLP(tuple(sizes[1:-1]), sizes[-1])

  def init(key):
    return net.init(key, jnp.zeros((1, sizes[0])))['params'], ()

  def logits(params, fixed, images):
    del fixed
    return net.apply({'params': params}, images)

  return Net(init, logits)


def copies(
  net: Net, optimizer: optax.GradientTransformation, num_steps: int
) -> tuple[Callable[..., Any], Callable[..., Any]]:
  """Trains each copy of a network on the cross-entropy, by itself.

  Args:
    net: the network; its copies start equal and see the same batches.
    optimizer: of each copy.
    num_steps: T updates.

  Returns:
    `init` and `step` of a `harness.learners.Learner`. Batches hold `images` and
    `labels`; where `hyper` is {'member': index}, images are `[B, P, d]` and
    each member has its own. `extra` holds what is fixed, the params of the
    start, and the accuracy on the last T batches, `[C, T]`.
  """
  count = len(net.frozen)
  gradient = _gradient(net)

  def init(key, hyper):
    del hyper
    params, fixed = net.init(key)
    params = jax.tree.map(lambda x: jnp.stack([x] * count), params)
    curve = jnp.zeros((count, num_steps))
    extra = {'fixed': fixed, 'start': params, 'curve': curve}
    return params, jax.vmap(optimizer.init)(params), extra

  def step(state, batch, key, hyper):
    del key
    images = batch['images']
    if hyper is not None:
      images = images[:, hyper['member']]

    def one(params, opt_state, learns):
      (value, accuracy), grads = gradient(
        params, state.extra['fixed'], images, batch['labels']
      )
      grads = {name: _scaled(learns[name], g) for name, g in grads.items()}
      updates, opt_state = optimizer.update(grads, opt_state, params)
      return optax.apply_updates(params, updates), opt_state, value, accuracy

    learns = {
      name: jnp.array([float(name not in frozen) for frozen in net.frozen])
      for name in state.params
    }
    params, opt_state, value, accuracy = jax.vmap(one)(
      state.params, state.opt_state, learns
    )
    curve = jnp.roll(state.extra['curve'], -1, axis=1).at[:, -1].set(accuracy)
    extra = {**state.extra, 'curve': curve}
    state = state._replace(params=params, opt_state=opt_state, extra=extra)
    return state, {'loss': value.mean(), 'accuracy': accuracy.mean()}

  return init, step


def _scaled(factor, tree):
  return jax.tree.map(lambda x: factor * x, tree)


def _gradient(net: Net) -> Callable[..., Any]:
  """(params, fixed, images, labels) -> ((loss, accuracy), gradient)."""

  def loss(params, fixed, images, labels):
    logits = net.logits(params, fixed, images)
    entropy = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return entropy.mean(), (logits.argmax(axis=-1) == labels).mean()

  gradient = jax.value_and_grad(loss, has_aux=True)
  if jax.default_backend() == 'cpu':
    # The state of one network stays in the cache, that of all does not.
    return jax.custom_batching.sequential_vmap(gradient)
  return gradient


def distance_moved(start: jax.Array, end: jax.Array) -> jax.Array:
  """`[...]` norm of the change of `[..., m, n]` weights over that before."""
  norm = jnp.linalg.norm(jnp.asarray(end) - start, axis=(-2, -1))
  return norm / jnp.linalg.norm(start, axis=(-2, -1))
