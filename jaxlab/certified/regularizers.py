"""Regularizers of the warm-up, from the interval bounds of each ReLU.

Source: Shi et al., "Fast Certified Robust Training with Short Warmup", 2021.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from jaxlab.certified import crown
from jaxlab.certified.graph import Graph
from jaxlab.certified.interval import Interval
from jaxlab.certified.loss_terms import IntervalPass


def relu_bounds(passed: IntervalPass) -> list[Interval]:
  """Interval bounds of the inputs of all ReLUs, max pooling left out.

  Args:
    passed: the intervals of the network over a box.

  Returns:
    One interval `[B, ...]` a ReLU layer, in order.
  """
  return [
    crown.interval(passed.balls[index]) for index in _activations(passed.graph)
  ]


def tightness(
  layers: Sequence[Interval], box: Interval, tolerance: float = 0.5
) -> jax.Array:
  """Penalizes bounds that grow from the input to a layer.

  Args:
    layers: bounds of the inputs of ReLUs.
    box: `[B, *shape]` the inputs.
    tolerance: tau; a layer is free while the mean radius of the input is at
      least tau times its own.

  Returns:
    `mean_i max(0, tau - r_0 / r_i) / tau`, in [0, 1]; 0 for radius 0.
  """
  radius = jnp.stack([_mean_radius(layer) for layer in layers])
  some = radius > 0
  ratios = jnp.where(some, _mean_radius(box) / jnp.where(some, radius, 1), 1)
  return jax.nn.relu(tolerance - ratios).mean() / tolerance


def balance(layers: Sequence[Interval], tolerance: float = 0.5) -> jax.Array:
  """Penalizes layers whose ReLUs are mostly off, or mostly on.

  Of the centres of the bounds, the sums over the ReLUs that are surely on and
  surely off are compared, and the sums of squared deviations.

  Args:
    layers: bounds of the inputs of ReLUs.
    tolerance: tau; a ratio (of the smaller to the larger) is free above it.

  Returns:
    The mean over layers of both penalties `max(0, tau - ratio) / tau`, added.
  """

  def penalty(layer):
    centre = (layer.lower + layer.upper) / 2
    on, off = layer.lower > 0, layer.upper < 0
    square = (centre - centre.mean()) ** 2
    ratios = jnp.stack(
      [
        _ratio(jnp.sum(centre * on), -jnp.sum(centre * off)),
        _ratio(jnp.sum(square * on), jnp.sum(square * off)),
      ]
    )
    return jax.nn.relu(tolerance - ratios).sum() / tolerance

  return jnp.stack([penalty(layer) for layer in layers]).mean()


def l1(params: Any) -> jax.Array:
  """Sum of the absolute values of all kernels; biases are left out."""
  kernels = [leaf for leaf in jax.tree.leaves(params) if leaf.ndim > 1]
  return sum((jnp.abs(kernel).sum() for kernel in kernels), jnp.zeros(()))


def _activations(graph: Graph) -> list[int]:
  """Inputs of the ReLUs that do not stand for a maximum."""
  maxima = [node for node in graph.nodes if node.maximum is not None]
  pooled = {term.source for node in maxima for term in node.terms}
  pooled -= {index for node in maxima for index in node.maximum or ()}
  return [
    node.relu_of
    for index, node in enumerate(graph.nodes)
    if node.relu_of is not None and index not in pooled
  ]


def _mean_radius(box: Interval) -> jax.Array:
  return jnp.mean(box.upper - box.lower) / 2


def _ratio(a: jax.Array, b: jax.Array) -> jax.Array:
  """Smaller to larger of two values >= 0; 1 where both are 0."""
  larger = jnp.maximum(a, b)
  return jnp.where(
    larger > 0, jnp.minimum(a, b) / jnp.where(larger > 0, larger, 1), 1
  )
