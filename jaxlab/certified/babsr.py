"""Which ReLU to split: the BaBSR score."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxlab.certified.crown import Linear
from jaxlab.certified.graph import Graph
from jaxlab.certified.interval import Interval

# Where the scores say nothing, the costliest relaxation is split.
_TIE_BREAK = 1e-3


def scores(
  graph: Graph, bounds: Mapping[int, Interval], linear: Linear
) -> dict[int, jax.Array]:
  """What splitting each neuron is expected to change in the bound.

  With coefficient A of the ReLU in the bound, upper line `s z + t` and bias b
  of its input: `|max(A b (s - 1), A b s) + min(A, 0) t|`.

  Source: Bunel et al., JMLR 21/42, 2020.

  Args:
    graph: network.
    bounds: of the input of each ReLU.
    linear: the bound, with the coefficients of the ReLUs.

  Returns:
    By ReLU, in its shape; -inf for stable neurons.
  """
  return {
    index: _score(
      graph.nodes[source].bias, bounds[index], linear.coefficients[index]
    )
    for index, source in graph.relus.items()
  }


def _score(bias: jax.Array | None, bounds: Interval, A: jax.Array) -> jax.Array:
  lower, upper = bounds
  unstable = (lower < 0) & (upper > 0)
  width = jnp.where(unstable, upper - lower, 1)
  slope, intercept = upper / width, -lower * upper / width
  shift = jnp.zeros_like(A) if bias is None else A * bias
  change = jnp.maximum(shift * (slope - 1), shift * slope)
  score = jnp.abs(change + jnp.minimum(A, 0) * intercept)
  score += _TIE_BREAK * jnp.abs(A) * intercept
  return jnp.where(unstable, score, -jnp.inf)
