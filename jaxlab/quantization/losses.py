"""What the error of a block costs, by the name of the loss."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlab.quantization import dfsc, fisher, network, objectives
from jaxlab.quantization.methods import PTQMethod
from jaxlab.quantization.network import Plan
from jaxlab.quantization.types import States

FIMA_RANK = 15
HELD_OUT = 64


def objective_fn(
  plan: Plan,
  params: tuple[Any, ...],
  index: int,
  run: Callable,
  states: States,
  data: tuple[jax.Array, jax.Array, jax.Array],
  recipe: PTQMethod,
  key: jax.Array,
) -> Callable[[jax.Array | None], objectives.Objective]:
  """What the errors of a block cost, as `dfsc.reconstruct_block` takes it.

  Args:
    plan: the network.
    params: of its blocks.
    index: of the block.
    run: `(params, states, x) -> y` of the block.
    states: of its sites at the start.
    data: inputs from the quantized prefix, in float, and float outputs.
    recipe: whose `loss`, `ridge`, `path` and `probes` count.
    key: of the probes.
  """
  x_q, _, z = data
  ridge = recipe.ridge
  if recipe.loss == 'mse':
    return lambda now: objectives.squared_error(z)
  if recipe.loss == 'brecq':
    energy = pseudo_label_gradient(plan, index, params, z) ** 2
    return lambda now: objectives.diagonal(energy, ridge)
  if recipe.loss in ('aphq', 'fima'):
    error = dfsc.outputs(run, params[index], states, x_q) - z
    slope = kl_gradient(plan, index, params, z, error)
    if recipe.loss == 'aphq':
      energy = jnp.mean(jnp.abs(slope), axis=0, keepdims=True)
      fixed = objectives.diagonal(jnp.broadcast_to(energy, slope.shape), ridge)
    else:
      fixed = _fima(error, slope, z, ridge)
    return lambda now: fixed

  def factors(at, number):
    return network.factors(
      plan,
      index,
      params,
      at,
      jax.random.fold_in(key, number),
      probes=recipe.probes,
      exact=recipe.exact_max_classes,
    )

  first = factors(z, 0)
  build = _FISHER[recipe.loss]

  def of(now):
    if now is None or not recipe.path:
      return build(first, ridge)
    return build(fisher.path_fisher(first, factors(now, 1)), ridge)

  return of


def _fisher_diagonal(factors: jax.Array, ridge: float):
  return objectives.diagonal(jnp.sum(factors**2, axis=1), ridge)


_FISHER = {
  'channel': objectives.shared_by_channel,
  'sample': objectives.per_example,
  'diag': _fisher_diagonal,
}


@functools.partial(jax.jit, static_argnames=('plan', 'index'))
def pseudo_label_gradient(
  plan: Plan, index: int, params: tuple[Any, ...], z: jax.Array
) -> jax.Array:
  """Gradient of the cross-entropy with the network's own label at z."""
  rest = network.rest_of(plan, index, params)

  def loss(z):
    logits = rest(z)
    label = jnp.argmax(logits, axis=-1)
    picked = jnp.take_along_axis(
      jax.nn.log_softmax(logits), label[:, None], axis=1
    )
    return -jnp.sum(picked)

  return jax.grad(loss)(z)


@functools.partial(jax.jit, static_argnames=('plan', 'index'))
def kl_gradient(
  plan: Plan,
  index: int,
  params: tuple[Any, ...],
  z: jax.Array,
  error: jax.Array,
) -> jax.Array:
  """Gradient of KL(p(z) || p(z + error)) at z + error."""
  rest = network.rest_of(plan, index, params)
  exact = rest(z)
  return jax.grad(lambda at: jnp.sum(fisher.kl_divergence(exact, rest(at))))(
    z + error
  )


def _fima(error, slope, z, ridge):
  """Diagonal and low-rank form from pairs (error, gradient).

  A group's mean pair (d, g) gives the row g / sqrt(g.d), so that its square
  takes d to g.
  """
  groups = min(FIMA_RANK, len(z))
  size = len(z) // groups
  shape = (groups, size, *z.shape[1:])
  d, g = (
    jnp.mean(x[: groups * size].reshape(shape), axis=1) for x in (error, slope)
  )
  axes = tuple(range(1, g.ndim))
  tiny = jnp.finfo(z.dtype).tiny
  product = jnp.sum(d * g, axis=axes, keepdims=True)
  rows = jnp.where(product > 0, g / jnp.sqrt(jnp.maximum(product, tiny)), 0)
  spread = jnp.mean(jnp.abs(error), axis=0)
  diag = jnp.mean(jnp.abs(slope), axis=0) / jnp.maximum(spread, 1e-6)
  return objectives.low_rank_and_diagonal(rows / groups**0.5, diag, z, ridge)
