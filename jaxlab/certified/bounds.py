"""Sound bounds of the margins of a network over a box.

    box = input_box(x, eps)
    C = margin_matrix(labels, num_classes)
    margins = crown(net, params, box, C)
    certified = jnp.all(margins.lower > 0, axis=-1)

The network is any pure function `net(params, x)` of affine operations, ReLU
and max pooling. All bounds are pure functions that can be jitted, vmapped and
differentiated in parameters, box and rows; jit the caller. Float rounding
apart (about 1e-5) they are sound.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxlab.certified import crown as relaxation
from jaxlab.certified.alpha import optimised_rows
from jaxlab.certified.graph import Graph, Net, capture
from jaxlab.certified.interval import (
  Interval,
  check_box,
  check_rows,
  input_box,
  margin_matrix,
)
from jaxlab.errors import UserError

__all__ = [
  'Interval',
  'alpha_crown',
  'crown',
  'crown_ibp',
  'ibp',
  'input_box',
  'margin_matrix',
]


def ibp(net: Net, params: Any, box: Interval, C: jax.Array) -> Interval:
  """Interval bound propagation, C merged into the last affine layers.

  Source: Gowal et al., ICCV 2019.

  Args:
    net: function `(params, x [B, *shape]) -> [B, K]`.
    params: its parameters.
    box: `[B, *shape]` bounds of the input.
    C: `[S, K]` rows for all examples, or `[B, S, K]`.

  Returns:
    `[B, S]` bounds of `C @ logits`.

  Raises:
    UserError: for a wrong shape of C, a box whose lower bounds are not below
      the upper ones (where not traced), or an operation that is not supported.
  """

  def bound(graph, box, C):
    return relaxation.interval_rows(graph, relaxation.propagate(graph, box), C)

  return _each(bound, net, params, box, C)


def crown(
  net: Net,
  params: Any,
  box: Interval,
  C: jax.Array,
  intermediate: relaxation.Intermediate = 'crown',
  *,
  chunk: int | None = None,
) -> Interval:
  """Backward linear relaxation, with the adaptive slope below each ReLU.

  Source: Zhang et al., NeurIPS 2018.

  Args:
    net: function `(params, x [B, *shape]) -> [B, K]`.
    params: its parameters.
    box: `[B, *shape]` bounds of the input.
    C: `[S, K]` rows for all examples, or `[B, S, K]`.
    intermediate: how the inputs of ReLUs are bounded, 'crown' or 'ibp'.
    chunk: rows (or neurons) bounded at a time; None for as many as keep the
      coefficients of one layer at 8 MiB. Changes memory, not the bounds.

  Returns:
    `[B, S]` bounds of `C @ logits`.

  Raises:
    UserError: as `ibp`, and for an unknown `intermediate`.
  """
  _check_intermediate(intermediate)
  batch = len(jnp.asarray(box.lower))

  def bound(graph, box, C):
    size = _rows_at_once(graph, batch, chunk)
    bounds = relaxation.intermediate_bounds(
      graph, box, method=intermediate, chunk=size
    )
    lines = {index: relaxation.relax(part) for index, part in bounds.items()}
    return relaxation.crown_rows(graph, box, C, lines, size)

  return _each(bound, net, params, box, C)


def crown_ibp(net: Net, params: Any, box: Interval, C: jax.Array) -> Interval:
  """`crown` with interval bounds inside the network; cheap enough to train.

  Source: Zhang et al., ICLR 2020.

  Args:
    net: function `(params, x [B, *shape]) -> [B, K]`.
    params: its parameters.
    box: `[B, *shape]` bounds of the input.
    C: `[S, K]` rows for all examples, or `[B, S, K]`.

  Returns:
    `[B, S]` bounds of `C @ logits`.

  Raises:
    UserError: as `ibp`.
  """
  return crown(net, params, box, C, 'ibp')


def alpha_crown(
  net: Net,
  params: Any,
  box: Interval,
  C: jax.Array,
  intermediate: relaxation.Intermediate = 'crown',
  *,
  steps: int = 20,
  learning_rate: float = 0.1,
  decay: float = 0.98,
  chunk: int | None = None,
) -> Interval:
  """`crown` with the slopes below the ReLUs optimised for each row.

  Source: Xu et al., ICLR 2021.

  Args:
    net: function `(params, x [B, *shape]) -> [B, K]`.
    params: its parameters.
    box: `[B, *shape]` bounds of the input.
    C: `[S, K]` rows for all examples, or `[B, S, K]`.
    intermediate: how the inputs of ReLUs are bounded, 'crown' or 'ibp'.
    steps: of projected Adam.
    learning_rate: of its first step.
    decay: factor on it after each step.
    chunk: as in `crown`.

  Returns:
    `[B, S]` bounds, none worse than those of `crown`.

  Raises:
    UserError: as `crown`.
  """
  if steps < 0 or not learning_rate > 0:
    raise UserError(
      f'steps = {steps}, learning_rate = {learning_rate}: give steps >= 0 and '
      'a positive rate.'
    )
  _check_intermediate(intermediate)
  batch = len(jnp.asarray(box.lower))

  def bound(graph, box, C):
    size = _rows_at_once(graph, batch, chunk)
    bounds = relaxation.intermediate_bounds(
      graph, box, method=intermediate, chunk=size
    )
    return optimised_rows(
      graph,
      box,
      C,
      bounds,
      chunk=size,
      steps=steps,
      learning_rate=learning_rate,
      decay=decay,
    )

  return _each(bound, net, params, box, C)


def _each(
  bound: Callable[[Graph, Interval, jax.Array], Interval],
  net: Net,
  params: Any,
  box: Interval,
  C: jax.Array,
) -> Interval:
  """Checks and traces once, and bounds each example."""
  check_box(box)
  box = Interval(*map(jnp.asarray, box))
  graph = capture(net, params, box.lower)
  check_rows(C, graph.num_classes, len(box.lower))
  C = jnp.asarray(C, box.lower.dtype)

  def one(lower, upper, C):
    return bound(graph, Interval(lower[None], upper[None]), C)

  return jax.vmap(one, in_axes=(0, 0, 0 if C.ndim == 3 else None))(*box, C)


def _check_intermediate(intermediate: str) -> None:
  if intermediate not in ('crown', 'ibp'):
    raise UserError(
      f"intermediate is {intermediate!r}; it must be 'crown' or 'ibp'."
    )


def _rows_at_once(graph: Graph, batch: int, chunk: int | None) -> int:
  if chunk is None:
    return relaxation.default_chunk(graph, batch)
  if chunk < 1:
    raise UserError(f'chunk is {chunk}: give at least 1 row, or None.')
  return chunk
