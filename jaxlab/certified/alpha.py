"""Slopes of the lines below ReLUs, optimised for the bound of each row.

Every slope in [0, 1] gives a sound bound, so that the best of all iterates is
one as well.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import optax

from jaxlab.certified import crown
from jaxlab.certified.graph import Graph
from jaxlab.certified.interval import Interval


def ascend(
  bound: Callable[[Any], tuple[jax.Array, Any]],
  project: Callable[[Any], Any],
  start: Any,
  *,
  steps: int,
  learning_rate: float,
  decay: float,
) -> tuple[jax.Array, Any, Any]:
  """Projected Adam upwards; keeps the best point that it meets.

  Args:
    bound: function of a tree of arrays that gives a scalar and what else is to
      be kept of a point.
    project: brings a tree into the feasible set.
    start: feasible tree, the first point.
    steps: number of further points.
    learning_rate: of the first step.
    decay: factor on it after each step.

  Returns:
    The largest value, where it is attained, and what was kept there.
  """
  adam = optax.adam(lambda step: learning_rate * decay**step)
  climb = jax.value_and_grad(bound, has_aux=True)

  def step(_, carry):
    point, state, best = carry
    (value, extra), slope = climb(point)
    # NaN at the start stays: it must not pass for a bound.
    better = ~(value <= best[0]) & ~jnp.isnan(best[0])
    best = jax.tree.map(
      lambda a, b: jnp.where(better, a, b), (value, point, extra), best
    )
    update, state = adam.update(jax.tree.map(jnp.negative, slope), state)
    return project(optax.apply_updates(point, update)), state, best

  value, extra = jax.tree.map(
    lambda like: jnp.zeros(like.shape, like.dtype),
    jax.eval_shape(bound, start),
  )
  carry = (start, adam.init(start), (value - jnp.inf, start, extra))
  _, _, best = jax.lax.fori_loop(0, steps + 1, step, carry)
  return best


def optimised_rows(
  graph: Graph,
  box: Interval,
  C: jax.Array,
  bounds: Mapping[int, Interval],
  *,
  chunk: int,
  steps: int,
  learning_rate: float,
  decay: float,
) -> Interval:
  """Bounds of `C @ logits` with slopes of their own for each row and side.

  Args:
    graph: network.
    box: `[1, *shape]` bounds of the input.
    C: `[S, K]` rows.
    bounds: of the input of each ReLU.
    chunk: rows at a time.
    steps: of Adam.
    learning_rate: of its first step.
    decay: factor on it after each step.

  Returns:
    `[S]` bounds, none worse than with the adaptive slopes.
  """
  inputs = {0: crown.ball(box)}

  def lower(row):
    def bound(slopes):
      lines = {i: crown.relax(bounds[i], slopes[i]) for i in bounds}
      linear = crown.backward(graph, graph.output, row[None], lines)
      return crown.lowest(linear, inputs), None

    start = {i: crown.adaptive_slope(part) for i, part in bounds.items()}
    return ascend(
      bound,
      lambda slopes: jax.tree.map(lambda a: jnp.clip(a, 0, 1), slopes),
      start,
      steps=steps,
      learning_rate=learning_rate,
      decay=decay,
    )[0]

  return Interval(
    crown.map_rows(lower, C, chunk),
    -crown.map_rows(lambda row: lower(-row), C, chunk),
  )
