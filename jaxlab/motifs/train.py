"""Training of networks with a fixed graph; one compiled call for many.

    init, update = learner(model, task, batch=64, learning_rate=3e-3)
    state, losses = train(update, init(variables), key, num_steps=300)

Variables of many networks stack: `train_population` maps over them, so that
mixtures x seeds are one program. Only `params` are learned; the collection
`graph` stays, and with it the zeros of the weights.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.typing import ArrayLike

from jaxlab.motifs.perturbations import Variables
from jaxlab.motifs.tasks_types import Task, task_loss


class LearnState(NamedTuple):
  """A network that is being trained.

  Attributes:
    variables: of the network, with `params`.
    opt_state: of the optimizer.
    loss: loss of the last batch, before its update; nan at the start.
  """

  variables: Variables
  opt_state: Any
  loss: ArrayLike


Init = Callable[[Variables], LearnState]
Update = Callable[[LearnState, jax.Array], LearnState]


def learner(
  model: Any,
  task: Task,
  *,
  batch: int,
  learning_rate: float,
  clip: float = 1.0,
) -> tuple[Init, Update]:
  """Adam with the gradient clipped to a global norm.

  Args:
    model: a flax module from inputs `[T, batch, I]` to `RNNOutput`.
    task: what is learned.
    batch: trials of an update, static.
    learning_rate: of Adam.
    clip: largest global norm of the gradient.

  Returns:
    `init(variables)` and `update(state, key)`, which draws its own trials.
  """
  optimizer = optax.chain(
    optax.clip_by_global_norm(clip), optax.adam(learning_rate)
  )

  def init(variables):
    opt_state = optimizer.init(variables['params'])
    return LearnState(variables, opt_state, jnp.asarray(jnp.nan))

  def update(state, key):
    trials = task.sample(key, batch)

    def loss_fn(params):
      variables = {**state.variables, 'params': params}
      return task_loss(model.apply(variables, trials.inputs).outputs, trials)

    params = state.variables['params']
    loss, grads = jax.value_and_grad(loss_fn)(params)
    updates, opt_state = optimizer.update(grads, state.opt_state, params)
    params = optax.apply_updates(params, updates)
    return LearnState({**state.variables, 'params': params}, opt_state, loss)

  return init, update


def train(
  update: Update, state: LearnState, key: jax.Array, *, num_steps: int
) -> tuple[LearnState, jax.Array]:
  """Makes some updates; update i has the key `fold_in(key, i)`.

  Args:
    update: one update.
    state: where training starts.
    key: PRNG key.
    num_steps: updates, static.

  Returns:
    The state afterwards, and the `[num_steps]` losses.
  """

  def step(state, index):
    state = update(state, jax.random.fold_in(key, index))
    return state, state.loss

  return jax.lax.scan(step, state, jnp.arange(num_steps))


def train_population(
  init: Init,
  update: Update,
  variables: Variables,
  keys: jax.Array,
  *,
  num_steps: int,
) -> tuple[LearnState, jax.Array]:
  """Trains P networks side by side.

  Args:
    init: see `learner`.
    update: see `learner`.
    variables: of the networks, leaves `[P, ...]`.
    keys: `[P]` PRNG keys; networks with the same key see the same trials.
    num_steps: updates, static.

  Returns:
    The states, leaves `[P, ...]`, and the `[P, num_steps]` losses.
  """

  def one(variables, key):
    return train(update, init(variables), key, num_steps=num_steps)

  return jax.vmap(one)(variables, keys)
