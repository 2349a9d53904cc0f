"""Edge probabilities with given expected motif counts, by gradient descent."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs.anneal import Annealed, anneal
from jaxlab.motifs.census import expected_census
from jaxlab.motifs.targets import check_target

# Edges and degrees are kept more strictly than motif counts.
_EDGE_WEIGHT = 30.0
_DEGREE_WEIGHT = 10.0


class SoftFit(NamedTuple):
  """Probabilities, and a graph drawn from them.

  Attributes:
    P: `[N, N]` float probabilities of the edges.
    expected: `[13]` float: expected counts under P.
    losses: `[steps]` float: the loss at each step.
    repaired: the drawn graph after `anneal` with moves of single edges.
  """

  P: jax.Array
  expected: jax.Array
  losses: jax.Array
  repaired: Annealed


def soft(
  key: jax.Array,
  target: ArrayLike,
  *,
  num_nodes: int,
  num_edges: int,
  degrees: tuple[ArrayLike, ArrayLike] | None = None,
  steps: int = 300,
  learning_rate: float = 0.1,
  entropy: float = 0.1,
  repair_moves: int = 20_000,
) -> SoftFit:
  """Fits edge probabilities to motif counts, draws a graph and repairs it.

  Args:
    key: PRNG key.
    target: `[13]` wanted counts.
    num_nodes: N.
    num_edges: E; the graph has exactly as many.
    degrees: `[N]` wanted in-degrees and `[N]` out-degrees, kept softly.
    steps: steps of Adam on the logits.
    learning_rate: of Adam.
    entropy: weight of the mean entropy of the edges, in bits; more makes the
      probabilities sharper, so that the draw is nearer to its expectation.
    repair_moves: most moves of `anneal`.

  Returns:
    The fit in JAX's default float type.

  Raises:
    InfeasibleTarget: if the edges do not fit.
    UserError: if the target is not `[13]` or a size is wrong.
  """
  check_target(num_nodes, num_edges)
  if np.shape(target) != (13,):
    raise UserError(
      f'target has shape {np.shape(target)}; give 13 counts, one a motif'
    )
  dtype = jnp.zeros(()).dtype
  wanted = None
  if degrees is not None:
    wanted = jnp.stack([jnp.asarray(each, dtype) for each in degrees])
  fit_key, draw_key, repair_key = jax.random.split(key, 3)
  logits, losses = _fitted(
    fit_key,
    jnp.asarray(target, dtype),
    wanted,
    jnp.asarray(num_edges, dtype),
    learning_rate,
    entropy,
    num_nodes=num_nodes,
    steps=steps,
  )
  P = _probabilities(logits)
  A = draw_edges(draw_key, logits, num_edges)
  repaired = anneal(repair_key, A, target, moves='edges', n_iter=repair_moves)
  return SoftFit(P, expected_census(P), losses, repaired)


def draw_edges(
  key: jax.Array, logits: jax.Array, num_edges: ArrayLike
) -> jax.Array:
  """Draws exactly E edges: the largest of `logits` plus logistic noise.

  Every edge by itself would be there with probability sigmoid(logit); the
  threshold that leaves E of them stands for 0.
  """
  size = logits.shape[0]
  score = logits + jax.random.logistic(key, logits.shape, logits.dtype)
  score = jnp.where(jnp.eye(size, dtype=bool), -jnp.inf, score)
  order = jnp.argsort(-score.ravel())
  chosen = jnp.arange(size * size) < num_edges
  return jnp.zeros(size * size, bool).at[order].set(chosen).reshape(size, size)


def _probabilities(logits: jax.Array) -> jax.Array:
  return jax.nn.sigmoid(logits) * (1 - jnp.eye(len(logits), dtype=logits.dtype))


@functools.partial(jax.jit, static_argnames=('num_nodes', 'steps'))
def _fitted(
  key, target, degrees, num_edges, rate, entropy, *, num_nodes, steps
):
  scale = jnp.maximum(jnp.maximum(target, 0.01 * jnp.sum(target)), 1)
  pairs = num_nodes * (num_nodes - 1)
  density = jnp.clip(num_edges / pairs, 1e-3, 1 - 1e-3)

  def loss_of(logits):
    P = _probabilities(logits)
    motifs = jnp.sum(((expected_census(P) - target) / scale) ** 2)
    edges = ((jnp.sum(P) - num_edges) / jnp.maximum(num_edges, 1)) ** 2
    nats = P * jax.nn.log_sigmoid(logits) + (1 - P) * jax.nn.log_sigmoid(
      -logits
    )
    off = ~jnp.eye(num_nodes, dtype=bool)
    bits = -jnp.sum(jnp.where(off, nats, 0)) / (pairs * jnp.log(2.0))
    loss = motifs + _EDGE_WEIGHT * edges + entropy * bits
    if degrees is not None:
      found = jnp.stack([jnp.sum(P, axis=0), jnp.sum(P, axis=1)])
      misfit = jnp.mean((found - degrees) ** 2) / jnp.mean(degrees)
      loss += _DEGREE_WEIGHT * misfit
    return loss

  optimizer = optax.adam(rate)

  def step(carry, _):
    logits, state = carry
    loss, gradient = jax.value_and_grad(loss_of)(logits)
    update, state = optimizer.update(gradient, state)
    return (optax.apply_updates(logits, update), state), loss

  noise = jax.random.normal(key, (num_nodes, num_nodes), target.dtype)
  logits = jnp.log(density / (1 - density)) + noise
  carry = logits, optimizer.init(logits)
  (logits, _), losses = jax.lax.scan(step, carry, length=steps)
  return logits, losses
