"""Interval propagation and backward linear relaxation over a graph.

Functions of one example, without a batch axis but the leading 1 of the graph;
callers vmap them. Everything is a lower bound: an upper bound is that of the
negative row.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.certified.graph import Graph, Node
from jaxlab.certified.interval import Interval

Intermediate = Literal['crown', 'ibp']

# Coefficients that may be held at a time, in numbers of one array.
_CHUNK_BUDGET = 2**21


class Ball(NamedTuple):
  """Centre and radius of an interval, both of the shape of a node."""

  centre: jax.Array
  radius: jax.Array


class Relaxation(NamedTuple):
  """Lines around a ReLU: `lower z <= relu(z) <= upper z + intercept`.

  Attributes:
    lower: slope of the line below, of the shape of the node.
    upper: slope of the line above.
    intercept: of the line above, >= 0.
  """

  lower: jax.Array
  upper: jax.Array
  intercept: jax.Array


class Linear(NamedTuple):
  """A linear lower bound `constant + sum coefficients[node] . node`.

  Attributes:
    constant: scalar.
    coefficients: by node; those of the input (or of the leaves) make the
      bound, those of the ReLUs on the way tell what their relaxation costs.
  """

  constant: jax.Array
  coefficients: dict[int, jax.Array]


def propagate(graph: Graph, box: Interval) -> list[Ball]:
  """Interval arithmetic through all nodes.

  An affine node takes the centre c to `W c + b` and the radius r to `|W| r`;
  ReLU and maximum are monotone.

  Args:
    graph: network.
    box: `[1, *shape]` bounds of the input.

  Returns:
    A ball for each node.
  """
  balls = [ball(box)]
  for node in graph.nodes[1:]:
    if node.relu_of is not None:
      lower, upper = interval(balls[node.relu_of])
      balls.append(ball(Interval(jax.nn.relu(lower), jax.nn.relu(upper))))
    elif node.maximum is not None:
      a, b = (interval(balls[index]) for index in node.maximum)
      balls.append(ball(Interval(*map(jnp.maximum, a, b))))
    else:
      balls.append(_affine(node, balls))
  return balls


def ball(box: Interval) -> Ball:
  """Centre and radius of an interval."""
  return Ball((box.lower + box.upper) / 2, (box.upper - box.lower) / 2)


def interval(ball: Ball) -> Interval:
  """Bounds of a ball."""
  return Interval(ball.centre - ball.radius, ball.centre + ball.radius)


def relax(bounds: Interval, slope: jax.Array | None = None) -> Relaxation:
  """Lines around a ReLU whose input is bounded.

  Args:
    bounds: of the input.
    slope: in [0, 1], of the line below an unstable ReLU; None for the adaptive
      one, 1 where `upper >= -lower` and else 0.

  Returns:
    The relaxation; exact for stable ReLUs.
  """
  lower, upper = bounds
  # NaN must get through: no comparison may hide it.
  width = jnp.where(upper == lower, 1, upper - lower)
  off, on = upper <= 0, lower >= 0
  above = jnp.where(on, 1, jnp.where(off, 0, upper / width))
  intercept = jnp.where(on | off, 0, -lower * upper / width)
  if slope is None:
    slope = adaptive_slope(bounds)
  return Relaxation(jnp.where(on | off, above, slope), above, intercept)


def adaptive_slope(bounds: Interval) -> jax.Array:
  """The slope of the line below that leaves the smaller triangle."""
  return (bounds.upper >= -bounds.lower).astype(bounds.lower.dtype)


def backward(
  graph: Graph,
  start: int,
  row: jax.Array,
  relaxations: Mapping[int, Relaxation],
  *,
  leaves: frozenset[int] = frozenset(),
  shift: Mapping[int, jax.Array] | None = None,
) -> Linear:
  """Takes a linear function of a node back to the input.

  Args:
    graph: network.
    start: index of the node.
    row: coefficients at the node, of its shape.
    relaxations: of each ReLU on the way.
    leaves: nodes at which to stop; the input is always one.
    shift: for some ReLUs, what to add to the coefficients of their inputs
      (multipliers of constraints on these).

  Returns:
    A linear function of input and leaves that is nowhere above.
  """
  constant = jnp.zeros((), row.dtype)
  waiting = {start: row}
  found = {}
  for index in range(start, -1, -1):
    if index not in waiting:
      continue
    node = graph.nodes[index]
    A = waiting.pop(index).astype(node.dtype)
    if index == 0 or index in leaves:
      found[index] = A
    elif node.relu_of is not None:
      found[index] = A
      line = relaxations[index]
      constant += jnp.sum(jnp.minimum(A, 0) * line.intercept)
      A = A * jnp.where(A >= 0, line.lower, line.upper)
      if shift is not None and index in shift:
        A = A + shift[index]
      _accumulate(waiting, node.relu_of, A)
    else:
      if node.bias is not None:
        constant += jnp.sum(A * node.bias)
      for term in node.terms:
        source = graph.nodes[term.source]
        like = jax.ShapeDtypeStruct(source.shape, source.dtype)
        (part,) = jax.linear_transpose(term.apply, like)(A)
        _accumulate(waiting, term.source, part)
  return Linear(constant, found)


def lowest(linear: Linear, balls: Mapping[int, Ball]) -> jax.Array:
  """The minimum of a linear function where the given nodes lie in balls."""
  total = linear.constant
  for index, ball in balls.items():
    if index in linear.coefficients:
      A = linear.coefficients[index]
      total += jnp.sum(A * ball.centre) - jnp.sum(jnp.abs(A) * ball.radius)
  return total


def interval_rows(graph: Graph, balls: list[Ball], C: jax.Array) -> Interval:
  """Interval bounds of `C @ logits`, with C merged into the last affine nodes.

  Args:
    graph: network.
    balls: of `propagate`.
    C: `[S, K]` rows.

  Returns:
    `[S]` bounds.
  """
  leaves = {
    index
    for index, node in enumerate(graph.nodes)
    if node.relu_of is not None or node.maximum is not None
  }
  chosen = {index: balls[index] for index in sorted(leaves | {0})}

  def bound(row):
    linear = backward(
      graph, graph.output, row[None], {}, leaves=frozenset(leaves)
    )
    negative = Linear(
      -linear.constant, {i: -A for i, A in linear.coefficients.items()}
    )
    return Interval(lowest(linear, chosen), -lowest(negative, chosen))

  return jax.vmap(bound)(C)


def intermediate_bounds(
  graph: Graph,
  box: Interval,
  *,
  method: Intermediate = 'crown',
  chunk: int,
) -> dict[int, Interval]:
  """Bounds of the input of each ReLU.

  Args:
    graph: network.
    box: `[1, *shape]` bounds of the input.
    method: 'crown' by backward relaxation from each layer (where interval
      arithmetic is exact, by that); 'ibp' by interval arithmetic alone.
    chunk: sides of neurons bounded at a time.

  Returns:
    By index of the ReLU.
  """
  balls = propagate(graph, box)
  exact = graph.exact
  bounds: dict[int, Interval] = {}
  relaxations: dict[int, Relaxation] = {}
  for index, source in graph.relus.items():
    if method == 'ibp' or exact[source]:
      bounds[index] = interval(balls[source])
    else:
      bounds[index] = _neuron_bounds(
        graph, source, relaxations, {0: balls[0]}, chunk
      )
    relaxations[index] = relax(bounds[index])
  return bounds


def crown_rows(
  graph: Graph,
  box: Interval,
  C: jax.Array,
  relaxations: Mapping[int, Relaxation],
  chunk: int,
) -> Interval:
  """Bounds of `C @ logits` by backward relaxation.

  Args:
    graph: network.
    box: `[1, *shape]` bounds of the input.
    C: `[S, K]` rows.
    relaxations: of each ReLU.
    chunk: rows bounded at a time.

  Returns:
    `[S]` bounds.
  """
  inputs = {0: ball(box)}

  def lower(row):
    linear = backward(graph, graph.output, row[None], relaxations)
    return lowest(linear, inputs)

  return Interval(
    map_rows(lower, C, chunk), -map_rows(lambda row: lower(-row), C, chunk)
  )


def map_rows(fun: Callable, rows: jax.Array, chunk: int):
  """`vmap` of a function over rows, some of them at a time."""
  if len(rows) <= chunk:
    return jax.vmap(fun)(rows)
  return jax.lax.map(fun, rows, batch_size=chunk)


def default_chunk(graph: Graph, batch: int) -> int:
  """Rows at a time so that one array of coefficients stays at 8 MiB."""
  widest = max(node.size for node in graph.nodes)
  return max(1, _CHUNK_BUDGET // max(1, batch * widest))


def _neuron_bounds(
  graph: Graph,
  target: int,
  relaxations: Mapping[int, Relaxation],
  inputs: Mapping[int, Ball],
  chunk: int,
) -> Interval:
  """Bounds of all neurons of a node."""
  node = graph.nodes[target]

  def lower(side):
    neuron, sign = side % node.size, 1 - 2 * (side // node.size)
    row = sign * jax.nn.one_hot(neuron, node.size, dtype=node.dtype)
    return lowest(
      backward(graph, target, row.reshape(node.shape), relaxations), inputs
    )

  lowers = map_rows(lower, jnp.arange(2 * node.size), chunk)
  below, above = lowers.reshape(2, *node.shape)
  return Interval(below, -above)


def _affine(node: Node, balls: list[Ball]) -> Ball:
  centre = node.value([balls[term.source].centre for term in node.terms])
  radii = [t.absolute(balls[t.source].radius) for t in node.terms]
  return Ball(centre, functools.reduce(jnp.add, radii))


def _accumulate(
  waiting: dict[int, jax.Array], index: int, part: jax.Array
) -> None:
  waiting[index] = waiting[index] + part if index in waiting else part
