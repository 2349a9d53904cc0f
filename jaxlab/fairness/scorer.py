"""A model that scores people: logistic regression or a small network."""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from jaxlab.nets import MLP


@functools.partial(jax.jit, static_argnames=('hidden', 'steps', 'batch_size'))
def fit_scorer(
  key: jax.Array,
  x: jax.Array,
  y: jax.Array,
  *,
  hidden: Sequence[int] = (),
  steps: int = 500,
  batch_size: int = 256,
  learning_rate: float = 3e-3,
  weight_decay: float = 1e-4,
) -> Any:
  """Minimises the log loss by AdamW with a cosine schedule.

  Args:
    key: PRNG key: initial weights and batches.
    x: `[n, d]` features of about unit scale.
    y: `[n]` labels, 0 or 1.
    hidden: widths of the hidden layers; none is logistic regression.
    steps: number of updates.
    batch_size: rows of an update, drawn with replacement.
    learning_rate: the largest.
    weight_decay: decoupled.

  Returns:
    The parameters.
  """
  model = MLP(tuple(hidden), 1)
  init_key, batch_key = jax.random.split(key)
  params: Any = model.init(init_key, x[:1])
  schedule = optax.cosine_decay_schedule(learning_rate, steps)
  optimizer = optax.adamw(schedule, weight_decay=weight_decay)

  def loss(params, rows):
    logits = jnp.asarray(model.apply(params, x[rows]))[:, 0]
    return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, y[rows]))

  def step(carry, key):
    params, state = carry
    rows = jax.random.randint(key, (batch_size,), 0, x.shape[0])
    updates, state = optimizer.update(
      jax.grad(loss)(params, rows), state, params
    )
    return (optax.apply_updates(params, updates), state), None

  start = params, optimizer.init(params)
  (params, _), _ = jax.lax.scan(step, start, jax.random.split(batch_key, steps))
  return params


@functools.partial(jax.jit, static_argnames='hidden')
def apply_scorer(
  params: Any, x: jax.Array, *, hidden: Sequence[int] = ()
) -> jax.Array:
  """Returns `[n]` scores in (0, 1) of `[n, d]` features."""
  logits = jnp.asarray(MLP(tuple(hidden), 1).apply(params, x))
  return jax.nn.sigmoid(logits[:, 0])
