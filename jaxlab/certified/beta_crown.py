"""Bounds of subdomains in which the signs of some ReLUs are fixed.

A split `sign z >= 0` makes its ReLU linear and enters the bound through a
Lagrange multiplier >= 0, optimised together with the slopes.

Source: Wang et al., NeurIPS 2021 (beta-CROWN).
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.certified import babsr, crown
from jaxlab.certified.alpha import ascend
from jaxlab.certified.domains import Domains, stack, unstack
from jaxlab.certified.graph import Graph, Net, capture
from jaxlab.certified.interval import Interval


class Problem(NamedTuple):
  """What one search is about.

  Attributes:
    params: of the network.
    box: `[1, *shape]` bounds of the input.
    C: `[S, K]` rows, whose products with the logits are bounded.
    neurons: `[N]` bounds of the inputs of all ReLUs over the box.
  """

  params: Any
  box: Interval
  C: jax.Array
  neurons: Interval


class Candidates(NamedTuple):
  """Points at which the network was evaluated, the best for each row.

  Attributes:
    upper: `[S]` margins there.
    points: `[S, *shape]`.
  """

  upper: jax.Array
  points: jax.Array


@functools.partial(jax.jit, static_argnames='net')
def pose(
  net: Net, params: Any, box: Interval, C: jax.Array
) -> tuple[Problem, Domains]:
  """The problem of a box, and the whole box as a domain for each row.

  Args:
    net: network.
    params: its parameters.
    box: `[1, *shape]` bounds of the input.
    C: `[S, K]` rows.

  Returns:
    The problem, with the tighter ones of CROWN's and interval bounds inside,
    and `S` domains.
  """
  graph = capture(net, params, box.lower)
  chunk = crown.default_chunk(graph, 1)
  tight = crown.intermediate_bounds(graph, box, chunk=chunk)
  plain = crown.intermediate_bounds(graph, box, method='ibp', chunk=chunk)
  neurons = Interval(
    jnp.maximum(*(_lowers(graph, part) for part in (tight, plain))),
    jnp.minimum(*(_uppers(graph, part) for part in (tight, plain))),
  )
  rows = len(C)
  slopes = jnp.broadcast_to(
    crown.adaptive_slope(neurons), (rows, len(neurons.lower))
  )
  domains = Domains(
    lower=jnp.full(rows, -jnp.inf, slopes.dtype),
    row=jnp.arange(rows, dtype=jnp.int32),
    signs=jnp.zeros(slopes.shape, jnp.int8),
    slopes=slopes,
    multipliers=jnp.zeros_like(slopes),
    branch=jnp.full(rows, -1, jnp.int32),
  )
  return Problem(params, box, C, neurons), domains


@functools.partial(jax.jit, static_argnames=('net', 'steps'))
def bound(
  net: Net,
  problem: Problem,
  domains: Domains,
  *,
  steps: int,
  learning_rate: float,
  decay: float,
) -> tuple[Domains, Candidates]:
  """Bounds subdomains, and tries the points that attain the linear bounds.

  Args:
    net: network.
    problem: of `pose`.
    domains: to start from, with the bounds of their parents.
    steps: of projected Adam on slopes and multipliers.
    learning_rate: of its first step.
    decay: factor on it after each step.

  Returns:
    The domains with their bounds (never below their parents'), slopes,
    multipliers and next neurons to split; and the best points found.
  """
  graph = capture(net, problem.params, problem.box.lower)
  ascent = functools.partial(
    ascend, steps=steps, learning_rate=learning_rate, decay=decay
  )
  bounded, points = jax.vmap(
    lambda domain: _bound_one(graph, problem, domain, ascent)
  )(domains)
  return bounded, best_points(net, problem, points)


@functools.partial(jax.jit, static_argnames=('net', 'steps'))
def descend(
  net: Net, problem: Problem, points: jax.Array, *, steps: int = 20
) -> Candidates:
  """Walks from a point for each row down its margin, along signs of gradients.

  Args:
    net: network.
    problem: of `pose`.
    points: `[S, *shape]` starts inside the box.
    steps: number of steps; the first is half the box, the last 1/1000 of it.

  Returns:
    The best points on the way, for each row among all walks.
  """
  lower, upper = problem.box

  def own_margins(points):
    return jnp.sum(net(problem.params, points) * problem.C)

  def step(carry, size):
    points, best = carry
    slope = jax.grad(own_margins)(points)
    moved = points - size * (upper - lower) * jnp.sign(slope)
    moved = jnp.clip(moved, lower, upper)
    return (moved, better_of(best, best_points(net, problem, moved))), None

  start = points, best_points(net, problem, points)
  sizes = jnp.geomspace(0.5, 1e-3, steps, dtype=lower.dtype)
  (_, best), _ = jax.lax.scan(step, start, sizes)
  return best


@functools.partial(jax.jit, static_argnames='net')
def best_points(net: Net, problem: Problem, points: jax.Array) -> Candidates:
  """The best of `[D, *shape]` points for each row."""
  margins = net(problem.params, points) @ problem.C.T
  best = jnp.argmin(margins, axis=0)
  return Candidates(jnp.min(margins, axis=0), points[best])


def better_of(a: Candidates, b: Candidates) -> Candidates:
  """The lower margin of both, for each row."""
  first = a.upper <= b.upper
  chosen = first.reshape(first.shape + (1,) * (a.points.ndim - 1))
  return Candidates(
    jnp.minimum(a.upper, b.upper), jnp.where(chosen, a.points, b.points)
  )


def _bound_one(
  graph: Graph, problem: Problem, domain: Domains, ascent
) -> tuple[Domains, jax.Array]:
  least, most = problem.neurons
  signs = domain.signs
  split = Interval(
    jnp.where(signs > 0, jnp.maximum(least, 0), least),
    jnp.where(signs < 0, jnp.minimum(most, 0), most),
  )
  lowers, uppers = (unstack(graph, part) for part in split)
  bounds = {i: Interval(lowers[i], uppers[i]) for i in graph.relus}
  inputs = {0: crown.ball(problem.box)}
  row = problem.C[domain.row][None]

  def lower(variables):
    slopes, multipliers = variables
    slope = unstack(graph, slopes)
    lines = {i: crown.relax(bounds[i], slope[i]) for i in bounds}
    shift = unstack(graph, -multipliers * signs)
    linear = crown.backward(graph, graph.output, row, lines, shift=shift)
    return crown.lowest(linear, inputs), linear

  def project(variables):
    slopes, multipliers = variables
    return jnp.clip(slopes, 0, 1), jnp.maximum(multipliers, 0)

  value, best, linear = ascent(
    lower, project, (domain.slopes, domain.multipliers)
  )
  score = stack(graph, babsr.scores(graph, bounds, linear))
  score = jnp.append(score, -jnp.inf)
  branch = jnp.where(jnp.max(score) > -jnp.inf, jnp.argmax(score), -1)
  point = jnp.where(linear.coefficients[0] > 0, *problem.box)
  bounded = domain._replace(
    lower=jnp.maximum(value, domain.lower),
    slopes=best[0],
    multipliers=best[1],
    branch=branch.astype(jnp.int32),
  )
  return bounded, point[0]


def _lowers(graph: Graph, bounds: dict[int, Interval]) -> jax.Array:
  return stack(graph, {i: part.lower for i, part in bounds.items()})


def _uppers(graph: Graph, bounds: dict[int, Interval]) -> jax.Array:
  return stack(graph, {i: part.upper for i, part in bounds.items()})
