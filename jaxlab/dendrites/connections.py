"""What joins cells: connections, events from outside, gap junctions."""

import math
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

from jaxlab.dendrites.synapses import SynapseType
from jaxlab.errors import UserError


class Connections(NamedTuple):
  """Connections of one kind, each an entry of five equally long arrays.

  Attributes:
    kind: the synapse.
    pre: sending cells; -1 where events come from outside.
    post: receiving cells.
    post_node: nodes of the receiving cells.
    weight: uS where events drive the synapse, else a factor of its `gbar`.
    delay: ms, at least one step; ignored where the synapse is graded.
    due: times in ms of the events of those with pre = -1, one tuple each.
    threshold: mV of the senders' spikes.
  """

  kind: SynapseType
  pre: tuple[int, ...]
  post: tuple[int, ...]
  post_node: tuple[int, ...]
  weight: tuple[float, ...]
  delay: tuple[float, ...]
  due: tuple[tuple[float, ...], ...] = ()
  threshold: float = 0.0


def connect(
  kind: SynapseType,
  pre: ArrayLike,
  post: ArrayLike,
  post_node: ArrayLike = 0,
  weight: ArrayLike = 1e-3,
  delay: ArrayLike = 1.0,
  *,
  threshold: float = 0.0,
) -> Connections:
  """Connects cells; every argument is a number or one entry a connection.

  Args:
    kind: the synapse, `Exp2Syn(tau1=.5, tau2=2.)`.
    pre: sending cells.
    post: receiving cells.
    post_node: nodes of the receiving cells.
    weight: uS of an event, or a factor of `gbar` where the synapse is graded.
    delay: ms.
    threshold: of spikes, mV.

  Returns:
    The connections.

  Raises:
    ValueError: arrays of different lengths, a negative weight, or a delay that
      is not positive.
  """
  if not isinstance(kind, SynapseType):
    raise UserError(f'connect: {kind!r} is no synapse; give Exp2Syn(...).')
  given = [np.atleast_1d(np.asarray(a)) for a in (pre, post, post_node)]
  given += [np.atleast_1d(np.asarray(a, float)) for a in (weight, delay)]
  try:
    same = np.broadcast_arrays(*given)
  except ValueError:
    lengths = ', '.join(str(len(a)) for a in given)
    raise UserError(
      f'connect: pre, post, post_node, weight, delay have {lengths} entries; '
      'give each one entry, or all the same number.'
    ) from None
  whole = all(np.issubdtype(a.dtype, np.integer) for a in same[:3])
  if not whole or (same[0] < 0).any():
    raise UserError(
      'connect: pre, post and post_node must be whole numbers, and pre 0 or '
      'more; `synapse` takes events from outside.'
    )
  if not np.isfinite([*same[3], *same[4], threshold]).all():
    raise UserError('connect: weight, delay and threshold must be finite.')
  if (same[3] < 0).any():
    raise UserError(
      f'connect: weight {same[3].min():g} is below 0; what inhibits has '
      'another reversal potential instead.'
    )
  if not kind.graded and not (same[4] > 0).all():
    raise UserError(
      f'connect: delay {same[4].min():g} ms must be one step or more.'
    )
  cells, targets, nodes, weights, delays = (tuple(a.tolist()) for a in same)
  return Connections(
    kind, cells, targets, nodes, weights, delays, threshold=float(threshold)
  )


def synapse(
  kind: SynapseType,
  node: int | tuple[int, int],
  weight: float,
  due: tuple[float, ...] | list[float] = (),
) -> Connections:
  """A synapse that events from outside drive.

  Args:
    kind: a synapse driven by events.
    node: node of the only cell, or (cell, node).
    weight: uS of one event.
    due: times at which events arrive, ms; more can be given to `simulate`.

  Returns:
    The connection.

  Raises:
    ValueError: a graded kind, or a negative weight.
  """
  if kind.graded:
    raise UserError(f'synapse: {kind.name} is graded and takes no events.')
  if not 0 <= weight < math.inf:
    raise UserError(f'synapse: weight {weight:g} uS must be 0 or more.')
  post, node = node if isinstance(node, tuple) else (0, node)
  times = tuple(float(t) for t in due)
  return Connections(
    kind, (-1,), (post,), (int(node),), (float(weight),), (0.0,), (times,)
  )


class Gap(NamedTuple):
  """Gap junctions; each counted once, current flows at both ends.

  Attributes:
    cell_a: cells at one end.
    node_a: their nodes.
    cell_b: cells at the other end.
    node_b: their nodes.
    conductance: uS.
  """

  cell_a: tuple[int, ...]
  node_a: tuple[int, ...]
  cell_b: tuple[int, ...]
  node_b: tuple[int, ...]
  conductance: tuple[float, ...]


def gap_junctions(
  cell_a: ArrayLike,
  cell_b: ArrayLike,
  conductance: ArrayLike,
  node_a: ArrayLike = 0,
  node_b: ArrayLike = 0,
) -> Gap:
  """Gap junctions between nodes of cells.

  Args:
    cell_a: cells at one end.
    cell_b: cells at the other end.
    conductance: uS.
    node_a: nodes at one end.
    node_b: nodes at the other end.

  Returns:
    The junctions.

  Raises:
    ValueError: a negative conductance, or a junction of a node with itself.
  """
  a, na, b, nb, g = np.broadcast_arrays(
    *(np.atleast_1d(np.asarray(x)) for x in (cell_a, node_a, cell_b, node_b)),
    np.atleast_1d(np.asarray(conductance, float)),
  )
  if not (g >= 0).all():
    raise UserError(f'gap junction: conductance {g.min():g} uS must be >= 0.')
  if ((a == b) & (na == nb)).any():
    own = int(a[(a == b) & (na == nb)][0])
    raise UserError(
      f'gap junction of cell {own} with itself: no current flows; drop it.'
    )
  return Gap(*(tuple(x.tolist()) for x in (a, na, b, nb, g)))
