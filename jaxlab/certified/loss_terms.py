"""What the losses of certified training are made of."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxlab.certified import crown
from jaxlab.certified.graph import Graph, Net, capture
from jaxlab.certified.interval import (
  Interval,
  check_labels,
  input_box,
  margin_matrix,
)

Clip = tuple[float, float] | None

# Classes up to which all pairs are cheaper than the pairs of each example.
_MOST_PAIRED = 32


def cross_entropies(
  net: Net, params: Any, x: jax.Array, y: jax.Array
) -> jax.Array:
  """Cross-entropy of each example, `[B]` in nats.

  Raises:
    UserError: if a label is no class; only where labels are not traced.
  """
  logits = net(params, x)
  check_labels(y, logits.shape[-1])
  return optax.softmax_cross_entropy_with_integer_labels(logits, y)


def worst_case(margins: jax.Array) -> jax.Array:
  """Cross-entropy of the logits 0 at the label and `-margin` elsewhere.

  Args:
    margins: `[B, K-1]` logit of the label minus each other one, or lower
      bounds of that.

  Returns:
    `[B]` nats; for lower bounds of margins an upper bound of the loss.
  """
  logits = jnp.concatenate([jnp.zeros_like(margins[:, :1]), -margins], axis=-1)
  return jax.nn.logsumexp(logits, axis=-1)


def margin_rows(net: Net, params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
  """The margin matrix `[B, K-1, K]` of the labels for the network's K."""
  logits = jax.eval_shape(net, params, x)
  return margin_matrix(y, logits.shape[-1]).astype(logits.dtype)


class IntervalPass(NamedTuple):
  """The intervals of all nodes of a network over boxes.

  Attributes:
    graph: the network.
    balls: `[B, ...]` of each node.
  """

  graph: Graph
  balls: list[crown.Ball]


def interval_pass(net: Net, params: Any, box: Interval) -> IntervalPass:
  """Propagates intervals through a network.

  Args:
    net: `(params, x) -> [B, K]` logits.
    params: its parameters.
    box: `[B, *shape]` the inputs.
  """
  graph = capture(net, params, box.lower)

  def one(lower, upper):
    balls = crown.propagate(graph, Interval(lower[None], upper[None]))
    return jax.tree.map(lambda x: x[0], balls)

  return IntervalPass(graph, jax.vmap(one)(*box))


def ibp_margins(passed: IntervalPass, y: jax.Array) -> Interval:
  """Interval bounds of the margins over a box, as those of `bounds.ibp`.

  The last affine layers are the same for all examples, so that the differences
  of their rows are taken once for all pairs of classes: several times faster
  than a margin matrix for each example.

  Args:
    passed: the intervals of the network over `[B, *shape]` boxes.
    y: `[B]` labels.

  Returns:
    `[B, K-1]` bounds of the logit of the label minus each other one.

  Raises:
    UserError: if a label is no class; only where labels are not traced.
  """
  graph, balls = passed
  count = graph.num_classes
  check_labels(y, count)
  if count > _MOST_PAIRED:
    rows = margin_matrix(y, count).astype(balls[0].centre.dtype)

    def one(balls, C):
      balls = jax.tree.map(lambda x: x[None], balls)
      return crown.interval_rows(graph, balls, C)

    return jax.vmap(one)(balls, rows)
  last = _last_rows(graph)
  logits, radius = last.constant, jnp.zeros(())
  for index in last.coefficients:
    ball = balls[index]
    row = last.coefficients[index].reshape(count, -1)
    pairs = jnp.abs(row[:, None] - row).reshape(count * count, -1)
    batch = len(ball.centre)
    logits = logits + ball.centre.reshape(batch, -1) @ row.T
    radius = radius + ball.radius.reshape(batch, -1) @ pairs.T
  radius = radius.reshape(-1, count, count)
  own = jnp.take_along_axis(logits, y[:, None], axis=1)
  radius = jnp.take_along_axis(radius, y[:, None, None], axis=1)[:, 0]
  others = jnp.arange(count - 1)
  others = others + (others >= y[:, None])
  centre, radius = (
    jnp.take_along_axis(x, others, axis=1) for x in (own - logits, radius)
  )
  return Interval(centre - radius, centre + radius)


def crown_ibp_margins(passed: IntervalPass, rows: jax.Array) -> jax.Array:
  """Lower bounds by CROWN from intervals that are known already.

  Args:
    passed: the intervals of the network over boxes.
    rows: `[B, S, K]` what is bounded.

  Returns:
    `[B, S]`, as those of `bounds.crown_ibp`.
  """
  graph, balls = passed

  def one(balls, rows):
    balls = jax.tree.map(lambda x: x[None], balls)
    lines = {
      index: crown.relax(crown.interval(balls[source]))
      for index, source in graph.relus.items()
    }
    chunk = crown.default_chunk(graph, len(passed.balls[0].centre))
    box = crown.interval(balls[0])
    return crown.crown_rows(graph, box, rows, lines, chunk).lower

  return jax.vmap(one)(balls, rows)


def fused_bound(
  passed: IntervalPass, rows: jax.Array, outer: Interval
) -> jax.Array:
  """Bounds the worst cross-entropy by one backward pass (loss fusion).

  The exponentials of `log(1 + sum exp(-m_k))` lie below their chords over
  `outer`; the sum of the chords is one row, which CROWN-IBP bounds. Costs a
  pass for one row in place of one for each class (Xu et al., 2020).

  Args:
    passed: the intervals of the network over boxes.
    rows: `[B, K-1, K]` of the margins.
    outer: `[B, K-1]` interval bounds of the margins.

  Returns:
    `[B]` upper bounds of the loss in nats.
  """
  low, high = -outer.upper, -outer.lower
  # The chords are of exp(v - shift), which does not overflow.
  shift = jnp.maximum(high.max(axis=-1, keepdims=True), 0)
  top, width = jnp.exp(high - shift), high - low
  narrow = width < 1e-6
  safe = jnp.where(narrow, 1, width)
  slope = jnp.where(narrow, top, -top * jnp.expm1(-safe) / safe)
  row = jnp.einsum('bs,bsk->bk', slope, rows)[:, None]
  least = crown_ibp_margins(passed, row)[:, 0]
  total = jnp.sum(top - slope * high, axis=-1) - least
  offset = jnp.exp(-shift[:, 0])
  tiny = jnp.finfo(total.dtype).tiny
  return jnp.log(jnp.maximum(offset + total, tiny)) + shift[:, 0]


def latent_box(first: Net, params: Any, box: Interval) -> Interval:
  """Interval bounds of what the first part of a network gives.

  Args:
    first: `(params, x) -> [B, n]`.
    params: its parameters.
    box: `[B, *shape]` the inputs.

  Returns:
    `[B, n]` bounds.
  """
  graph, balls = interval_pass(first, params, box)
  return crown.interval(balls[graph.output])


def small_box(
  centre: jax.Array, radius: jax.Array, whole: Interval
) -> Interval:
  """A box inside of another, around a point of it."""
  box = input_box(centre, radius, None)
  return Interval(
    jnp.maximum(box.lower, whole.lower), jnp.minimum(box.upper, whole.upper)
  )


def _last_rows(graph: Graph) -> crown.Linear:
  """The logits as linear functions of the last nodes that are not affine."""
  leaves = frozenset(
    index
    for index, node in enumerate(graph.nodes)
    if node.relu_of is not None or node.maximum is not None
  )

  def row(unit):
    return crown.backward(graph, graph.output, unit[None], {}, leaves=leaves)

  dtype = graph.nodes[graph.output].dtype
  return jax.vmap(row)(jnp.eye(graph.num_classes, dtype=dtype))
