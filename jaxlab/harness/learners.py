"""What a training loop repeats: a pair of an initial state and a step."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax


class TrainState(NamedTuple):
  """All that training changes; in a population leaves start with `[P]`.

  Attributes:
    step: `[]` int32, the number of updates done; one for a whole population.
    params: what the optimizer changes.
    opt_state: the optimizer's state.
    key: `[]` PRNG key of the run; the randomness of an update is a function
      of this key and the update's number.
    extra: what the network changes by itself, such as batch statistics.
    failed_at: `[]` int32, the first update whose loss or parameters were not
      finite; -1 if there was none.
  """

  step: jax.Array
  params: Any
  opt_state: Any
  key: jax.Array
  extra: Any
  failed_at: jax.Array


class Learner(NamedTuple):
  """A way to learn, as `optax` has a way to update: two pure functions.

  Attributes:
    init: `(key, hyper) -> (params, opt_state, extra)`.
    step: `(state, batch, key, hyper) -> (state, metrics)`: one update. The
      loop itself sets `step`, `key` and `failed_at`; `metrics` maps names,
      among them `'loss'`, to scalars. `hyper` is None or a tree of scalars.
  """

  init: Callable[[jax.Array, Any], tuple[Any, Any, Any]]
  step: Callable[
    [TrainState, Any, jax.Array, Any], tuple[TrainState, Mapping[str, Any]]
  ]


def gradient_learner(
  init_fn: Callable[[jax.Array], Any],
  loss_fn: Callable[..., tuple[jax.Array, Any]],
  optimizer: (
    optax.GradientTransformation | Callable[[Any], optax.GradientTransformation]
  ),
  *,
  accumulate: int = 1,
  has_extra: bool = False,
) -> Learner:
  """Descends the gradient of a loss.

  Args:
    init_fn: `key -> params`.
    loss_fn: `(params, batch, key) -> (loss, metrics)`, a scalar and a mapping
      of scalars, both means over the batch. When training has `hyper`, it is
      a fourth argument.
    optimizer: the transformation, or a function of `hyper` that makes it, such
      as `lambda hyper: optax.adam(hyper['learning_rate'])`.
    accumulate: parts into which a batch is split, to hold the activations of
      one part in memory; gradients and metrics are means over the parts. Part
      `i` has the rows `i, i + accumulate, ...`.
    has_extra: `init_fn` returns `(params, extra)`, and `loss_fn` takes a
      keyword `extra` and returns `(loss, (metrics, extra))`: for batch
      statistics and the like.

  Returns:
    The learner. Its metrics are those of `loss_fn`, `loss` and `grad_norm`.

  Raises:
    ValueError: if `accumulate` is not positive; on use, if it does not divide
      the batch.
  """
  if accumulate < 1:
    raise ValueError(f'accumulate must be positive, got {accumulate}.')

  def transformation(hyper):
    fixed = isinstance(optimizer, optax.GradientTransformation)
    chosen = optimizer if fixed else optimizer(hyper)
    return optax.with_extra_args_support(chosen)

  def init(key, hyper):
    made = init_fn(key)
    params, extra = made if has_extra else (made, None)
    return params, transformation(hyper).init(params), extra

  def loss(params, extra, batch, key, hyper):
    arguments = (batch, key) if hyper is None else (batch, key, hyper)
    if has_extra:
      value, (metrics, extra) = loss_fn(params, *arguments, extra=extra)
    else:
      value, metrics = loss_fn(params, *arguments)
    return value, ({'loss': value, **metrics}, extra)

  def step(state, batch, key, hyper):
    def gradient(extra, batch, key):
      grads, (metrics, extra) = jax.grad(loss, has_aux=True)(
        state.params, extra, batch, key, hyper
      )
      return extra, (grads, metrics)

    extra, (grads, metrics) = _mean_over_parts(
      gradient, state.extra, batch, key, accumulate
    )
    updates, opt_state = transformation(hyper).update(
      grads, state.opt_state, state.params, value=metrics['loss']
    )
    params = optax.apply_updates(state.params, updates)
    state = state._replace(params=params, opt_state=opt_state, extra=extra)
    return state, {'grad_norm': optax.tree.norm(grads), **metrics}

  return Learner(init, step)


def _mean_over_parts(fn, extra, batch, key, count):
  """Calls `fn` on `count` parts of the batch and averages what it returns."""
  if count == 1:
    return fn(extra, batch, key)

  def split(rows):
    if rows.shape[0] % count:
      raise ValueError(
        f'accumulate={count} does not divide the batch of {rows.shape[0]}.'
      )
    # Strided, so that rows that are spread over devices stay where they are.
    return rows.reshape(-1, count, *rows.shape[1:]).swapaxes(0, 1)

  parts = jax.tree.map(split, batch)
  keys = jax.random.split(key, count)
  first = jax.tree.map(lambda rows: rows[0], parts)
  _, shapes = jax.eval_shape(fn, extra, first, keys[0])
  zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

  def add(carry, inputs):
    extra, sums = carry
    extra, values = fn(extra, *inputs)
    return (extra, jax.tree.map(jnp.add, sums, values)), None

  (extra, sums), _ = jax.lax.scan(add, (extra, zeros), (parts, keys))
  return extra, jax.tree.map(lambda x: x / count, sums)
