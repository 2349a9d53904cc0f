"""One update of a model from a loss that is a weighted sum over tokens.

Since the weights of all tokens of a batch are known before its parts are
computed, a batch that is split into parts to save memory gives the gradient of
the whole, however many tokens each part has.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class TrainState(NamedTuple):
  """What an update changes; any NamedTuple with the last two fields will do.

  Attributes:
    step: `[]` int32, number of updates done.
    params: what the optimizer changes.
    opt_state: the optimizer's state.
  """

  step: jax.Array
  params: Any
  opt_state: Any


def init_state(params: Any, tx: optax.GradientTransformation) -> TrainState:
  """Returns the state before the first update."""
  return TrainState(jnp.int32(0), params, tx.init(params))


def update(
  state: Any,
  batch: Any,
  loss: Callable[[Any, Any], tuple[jax.Array, Mapping[str, jax.Array]]],
  tx: optax.GradientTransformation,
  parts: int = 1,
) -> tuple[Any, dict[str, jax.Array]]:
  """Descends the gradient of a sum over the rows of a batch.

  Args:
    state: has `params`, `opt_state`, and maybe `step`.
    batch: tree of `[B, ...]` arrays.
    loss: `(params, rows) -> (loss, metrics)`, sums over the rows that it is
      given.
    tx: the optimizer.
    parts: number of parts whose gradients are computed one after the other.

  Returns:
    The new state and the metrics, with `loss` and `grad_norm`.

  Raises:
    ValueError: if `parts` does not divide the batch.
  """

  def gradient(rows):
    def value(params):
      found, metrics = loss(params, rows)
      return found, {'loss': found, **metrics}

    grads, metrics = jax.grad(value, has_aux=True)(state.params)
    return grads, metrics

  grads, metrics = sum_over_parts(gradient, batch, parts)
  steps, opt_state = tx.update(grads, state.opt_state, state.params)
  params = optax.apply_updates(state.params, steps)
  state = state._replace(params=params, opt_state=opt_state)
  if isinstance(state, TrainState):
    state = state._replace(step=state.step + 1)
  return state, {**metrics, 'grad_norm': optax.tree.norm(grads)}


def sum_over_parts(fn: Callable[[Any], Any], batch: Any, parts: int) -> Any:
  """Adds up what a function gives for the parts of a batch.

  Args:
    fn: of a part's rows.
    batch: tree of `[B, ...]` arrays; part i has the rows i, i + parts, ...,
      so that rows that are spread over devices stay where they are.
    parts: number of parts.

  Raises:
    ValueError: if it is not positive or does not divide the batch.
  """
  if parts == 1:
    return fn(batch)
  sizes = {x.shape[0] for x in jax.tree.leaves(batch)}
  if parts < 1 or any(size % parts for size in sizes):
    raise ValueError(
      f'accumulate={parts} does not divide the batch of {sorted(sizes)} rows.'
    )

  def split(rows):
    return rows.reshape(-1, parts, *rows.shape[1:]).swapaxes(0, 1)

  pieces = jax.tree.map(split, batch)
  first = jax.tree.map(lambda x: x[0], pieces)
  zeros = jax.tree.map(
    lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(fn, first)
  )

  def add(total, piece):
    return jax.tree.map(jnp.add, total, fn(piece)), None

  return jax.lax.scan(add, zeros, pieces)[0]
