"""Ways to disturb a trained `MotifRNN`, each with a strength.

A perturbation is a function `(key, strength, variables, trials)` to what is
evaluated instead: `Disturbed`. Random draws depend on the key alone, and a
stronger lesion contains a weaker one, so that strengths and networks are
compared under common random numbers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.motifs.tasks_types import Trials, task_loss

Variables = Any
# (variables, inputs, recurrent noise, key) to outputs [T, B, O].
Apply = Callable[[Variables, jax.Array, jax.Array, jax.Array], jax.Array]


class Disturbed(NamedTuple):
  """What is evaluated in the place of a network and its trials.

  Attributes:
    variables: of the network.
    trials: the trials.
    recurrent_noise: standard deviation of the noise on the state.
  """

  variables: Variables
  trials: Trials
  recurrent_noise: ArrayLike = 0.0


Perturbation = Callable[[jax.Array, jax.Array, Variables, Trials], Disturbed]


def network_apply(model: Any) -> Apply:
  """The `Apply` of a `MotifRNN`."""

  def apply(variables, inputs, recurrent_noise, key):
    return model.apply(
      variables,
      inputs,
      recurrent_noise=recurrent_noise,
      rngs={'noise': key},
    ).outputs

  return apply


def input_noise(key, strength, variables, trials) -> Disturbed:
  """Normal noise of standard deviation `strength` on all inputs."""
  inputs = trials.inputs
  draw = jax.random.normal(key, inputs.shape, inputs.dtype)
  return Disturbed(variables, trials._replace(inputs=inputs + strength * draw))


def recurrent_noise(key, strength, variables, trials) -> Disturbed:
  """Normal noise of standard deviation `strength` on the state, each step."""
  del key
  return Disturbed(variables, trials, strength)


def weight_noise(key, strength, variables, trials) -> Disturbed:
  """Normal noise on the edges, relative to the weights' root mean square."""
  W, mask = variables['params']['recurrent'], variables['graph']['mask']
  size = jnp.sqrt(jnp.sum(W**2) / jnp.maximum(jnp.sum(mask), 1))
  draw = mask * jax.random.normal(key, W.shape, W.dtype)
  return Disturbed(
    _with_recurrent(variables, W + strength * size * draw), trials
  )


def unit_lesions(key, strength, variables, trials) -> Disturbed:
  """A share `strength` of the units falls silent."""
  params = variables['params']
  W, readout = params['recurrent'], params['readout']
  lives = ~_lesioned(jax.random.uniform(key, W.shape[:1]), strength)
  params = {
    **params,
    'recurrent': W * lives,
    'readout': {**readout, 'kernel': readout['kernel'] * lives[:, None]},
  }
  return Disturbed({**variables, 'params': params}, trials)


def edge_lesions(key, strength, variables, trials) -> Disturbed:
  """A share `strength` of the edges is cut."""
  W, mask = variables['params']['recurrent'], variables['graph']['mask']
  order = jnp.where(mask > 0, jax.random.uniform(key, W.shape), jnp.inf)
  ranks = jnp.argsort(jnp.argsort(order.ravel())).reshape(W.shape)
  cut = ranks < jnp.round(strength * jnp.sum(mask))
  return Disturbed(_with_recurrent(variables, jnp.where(cut, 0, W)), trials)


def block_lesions(nodes: ArrayLike) -> Perturbation:
  """Lesions of placed motifs, whose copies share no dyad.

  Args:
    nodes: `[P, 3]` nodes of each copy.

  Returns:
    The perturbation: a share `strength` of the copies loses its edges.
  """
  nodes = jnp.asarray(nodes)
  source, target = jnp.repeat(nodes, 3, axis=1), jnp.tile(nodes, (1, 3))

  def perturb(key, strength, variables, trials):
    W = variables['params']['recurrent']
    cut = _lesioned(jax.random.uniform(key, nodes.shape[:1]), strength)
    keeps = (
      jnp.ones_like(W)
      .at[target, source]
      .min(jnp.where(cut, 0, 1).astype(W.dtype)[:, None])
    )
    return Disturbed(_with_recurrent(variables, W * keeps), trials)

  return perturb


def input_dropout(key, strength, variables, trials) -> Disturbed:
  """Each input of each step is 0 with probability `strength`."""
  inputs = trials.inputs
  kept = jax.random.uniform(key, inputs.shape) >= strength
  return Disturbed(variables, trials._replace(inputs=inputs * kept))


def adversarial_inputs(apply: Apply, *, num_steps: int = 5) -> Perturbation:
  """Projected gradient ascent on the loss; Madry et al. (2018).

  Args:
    apply: the network.
    num_steps: steps of the ascent, static.

  Returns:
    The perturbation: no input changes by more than `strength`.
  """

  def perturb(key, strength, variables, trials):
    def loss(inputs):
      outputs = apply(variables, inputs, jnp.zeros(()), key)
      return task_loss(outputs, trials)

    def ascend(_, change):
      slope = jax.grad(loss)(trials.inputs + change)
      change = change + 2.5 / num_steps * strength * jnp.sign(slope)
      return jnp.clip(change, -strength, strength)

    change = jax.lax.fori_loop(
      0, num_steps, ascend, jnp.zeros_like(trials.inputs)
    )
    return Disturbed(variables, trials._replace(inputs=trials.inputs + change))

  return perturb


def _lesioned(order: jax.Array, share: ArrayLike) -> jax.Array:
  """The first `share` of the elements, in a random order."""
  ranks = jnp.argsort(jnp.argsort(order))
  return ranks < jnp.round(jnp.asarray(share) * order.shape[0])


def _with_recurrent(variables: Variables, W: jax.Array) -> Variables:
  params = {**variables['params'], 'recurrent': W}
  return {**variables, 'params': params}
