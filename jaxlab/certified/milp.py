"""Exact minimum margins by mixed-integer programming, for tiny networks.

An oracle that shares no step with branch and bound but the graph. A ReLU
`y = max(z, 0)` with `l <= z <= u` becomes, with a binary d,
`y >= z, y >= 0, y <= z - l (1 - d), y <= u d`.

Source: Tjeng et al., ICLR 2019.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy import optimize

from jaxlab.certified import crown
from jaxlab.certified.domains import stack
from jaxlab.certified.graph import Graph, Net, capture
from jaxlab.certified.interval import Interval, check_box, check_rows
from jaxlab.errors import UserError

# Bounds of neurons are widened by this, so that rounding cuts no point off.
_SLACK = 1e-6


class Minima(NamedTuple):
  """Solutions of the programs.

  Attributes:
    margins: `[S]` exact minima.
    points: `[S, *shape]` where they are attained.
  """

  margins: np.ndarray
  points: np.ndarray


class _Encoding(NamedTuple):
  """The network in the variables v = (input, outputs of all ReLUs).

  Attributes:
    neurons: `[N, n + N]` slopes of the ReLUs' inputs in v.
    neurons_constant: `[N]`.
    rows: `[S, n + N]` slopes of the margins in v.
    rows_constant: `[S]`.
    lower: `[N]` bounds of the ReLUs' inputs.
    upper: `[N]`.
  """

  neurons: Any
  neurons_constant: Any
  rows: Any
  rows_constant: Any
  lower: Any
  upper: Any


def minimum_margins(
  net: Net,
  params: Any,
  box: Interval,
  C: jax.Array,
  *,
  time_limit: float | None = None,
) -> Minima:
  """Minimises each row of `C @ logits` over a box with HiGHS.

  Args:
    net: function `(params, x [B, *shape]) -> [B, K]`.
    params: its parameters.
    box: `[1, *shape]` bounds of one input.
    C: `[S, K]` rows.
    time_limit: seconds for each row; None for no limit.

  Returns:
    The minima.

  Raises:
    UserError: for a bad box or C, or if a program is not solved in time.
  """
  check_box(box)
  box = Interval(*map(jnp.asarray, box))
  if len(box.lower) != 1:
    raise UserError(
      f'the box holds {len(box.lower)} examples: give one to the MILP.'
    )
  graph = capture(net, params, box.lower)
  check_rows(C, graph.num_classes, 1)
  encoding = _Encoding(
    *(
      np.asarray(part, float)
      for part in _encode(net, params, box, jnp.asarray(C, box.lower.dtype))
    )
  )
  values, points = [], []
  for slope, constant in zip(
    encoding.rows, encoding.rows_constant, strict=True
  ):
    value, point = _minimise(encoding, slope, box, time_limit)
    values.append(value + constant)
    points.append(point)
  return Minima(np.array(values), np.stack(points))


@functools.partial(jax.jit, static_argnames='net')
def _encode(net: Net, params: Any, box: Interval, C: jax.Array) -> _Encoding:
  graph = capture(net, params, box.lower)
  neurons = [_in_leaves(graph, source) for source in graph.relus.values()]
  rows, rows_constant = _rows_in_leaves(graph, graph.output, C[:, None])
  bounds = crown.intermediate_bounds(
    graph, box, chunk=crown.default_chunk(graph, 1)
  )
  return _Encoding(
    jnp.concatenate([rows[:0], *(slope for slope, _ in neurons)]),
    jnp.concatenate([rows_constant[:0], *(part for _, part in neurons)]),
    rows,
    rows_constant,
    stack(graph, {i: part.lower for i, part in bounds.items()}) - _SLACK,
    stack(graph, {i: part.upper for i, part in bounds.items()}) + _SLACK,
  )


def _in_leaves(graph: Graph, index: int) -> tuple[jax.Array, jax.Array]:
  """Slopes and constants of all neurons of a node in input and ReLUs."""
  node = graph.nodes[index]
  eye = jnp.eye(node.size, dtype=node.dtype)
  return _rows_in_leaves(graph, index, eye.reshape(-1, *node.shape))


def _rows_in_leaves(
  graph: Graph, index: int, rows: jax.Array
) -> tuple[jax.Array, jax.Array]:
  leaves = (0, *graph.relus)

  def slopes(row):
    linear = crown.backward(graph, index, row, {}, leaves=frozenset(leaves))
    parts = [
      linear.coefficients[leaf].reshape(-1)
      if leaf in linear.coefficients
      else jnp.zeros(graph.nodes[leaf].size, row.dtype)
      for leaf in leaves
    ]
    return jnp.concatenate(parts), linear.constant

  return jax.vmap(slopes)(rows)


def _minimise(
  encoding: _Encoding,
  slope: np.ndarray,
  box: Interval,
  time_limit: float | None,
) -> tuple[float, np.ndarray]:
  Z, constant, lower, upper = (
    encoding.neurons,
    encoding.neurons_constant,
    encoding.lower,
    encoding.upper,
  )
  count = len(constant)
  size = Z.shape[1] - count
  eye, none = np.eye(count), np.zeros((count, count))
  above = np.hstack([-Z, none]) + np.hstack(
    [np.zeros((count, size)), eye, none]
  )
  switched = above + np.hstack([np.zeros_like(Z), -np.diag(lower)])
  capped = np.hstack([np.zeros((count, size)), eye, -np.diag(upper)])
  low, high = (np.asarray(part, float).reshape(-1) for part in box)
  found = optimize.milp(
    np.append(slope, np.zeros(count)),
    integrality=np.append(np.zeros(size + count), np.ones(count)),
    bounds=optimize.Bounds(
      np.concatenate([low, np.zeros(count), lower >= 0]),
      np.concatenate([high, np.full(count, np.inf), upper > 0]),
    ),
    constraints=[
      optimize.LinearConstraint(above, lb=constant),
      optimize.LinearConstraint(switched, ub=constant - lower),
      optimize.LinearConstraint(capped, ub=0),
    ]
    if count
    else None,
    options={'mip_rel_gap': 0}
    | ({} if time_limit is None else {'time_limit': time_limit}),
  )
  if not found.success:
    raise UserError(
      f'MILP with {count} ReLUs is not solved: {found.message}; raise '
      'time_limit or use branch and bound.'
    )
  return float(found.fun), found.x[:size].reshape(box.lower.shape[1:])
