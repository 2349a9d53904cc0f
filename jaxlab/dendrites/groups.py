"""What of a network is computed together, and on which rows."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.dendrites.channels.types import Channel
from jaxlab.dendrites.compartments import CompartmentTree
from jaxlab.dendrites.rows import Links, Rows
from jaxlab.dendrites.synapses import SynapseType
from kernels_pallas.tree_solver.schedule import TreeSchedule


@dataclasses.dataclass(frozen=True)
class Group:
  """Cells that are solved together: copies of one, or a forest of others.

  Node i of copy j is row `offset + i * count + j`: a solve sees the copies as
  further columns.

  Attributes:
    tree: compartments of one copy.
    schedule: of the tree solver.
    offset: first row.
    count: number of copies.
    cm: `[n]` capacitance of a node, uF/cm2.
  """

  tree: CompartmentTree
  schedule: TreeSchedule
  offset: int
  count: int
  cm: tuple[float, ...]

  @property
  def stop(self) -> int:
    """Row after the last."""
    return self.offset + self.tree.n * self.count


class Mechanism(NamedTuple):
  """A channel on all rows that have it.

  Attributes:
    channel: its functions.
    rows: where it is.
    span: rows that it is computed on: all of them where it is on most, since
      picking rows costs more than computing some in vain.
    defaults: `[R]` values of each parameter.
    kinetic: parameters that the update of its states reads.
  """

  channel: Channel
  rows: Rows
  span: Rows
  defaults: dict[str, np.ndarray]
  kinetic: tuple[str, ...]

  @property
  def mask(self) -> np.ndarray:
    """`[n, 1]` float 1 on `rows`."""
    out = np.zeros((self.rows.n, 1), np.float32)
    out[np.array(self.rows.indices)] = 1
    return out


def spanned(mechanism: Mechanism, values: jax.Array) -> jax.Array:
  """`[R, B]` values of a channel's rows on its span; others get the first."""
  if mechanism.span == mechanism.rows:
    return values
  shape = (mechanism.rows.n, *values.shape[1:])
  rows = np.array(mechanism.rows.indices)
  return jnp.broadcast_to(values[:1], shape).at[rows].set(values)


class SynapseGroup(NamedTuple):
  """All synapses of a kind.

  Attributes:
    kind: its functions and parameters.
    rows: where they sit.
    links: from senders to `rows`, one entry a connection.
    weight: `[C]` of each connection.
    sender: `[U]` sending cell of each source; cells only.
    delay: `[U]` ms; 0 if graded.
    external: `[S]` index among all synapses that `synapse(...)` placed; these
      are the sources after the U.
    threshold: `[U]` of the senders' spikes, mV.
  """

  kind: SynapseType
  rows: Rows
  links: Links
  weight: np.ndarray
  sender: np.ndarray
  delay: np.ndarray
  external: np.ndarray
  threshold: np.ndarray


class GapGroup(NamedTuple):
  """All gap junctions.

  Attributes:
    rows: rows with a junction.
    links: from rows to rows, both ways: the J junctions, then back.
    conductance: `[J]` uS.
  """

  rows: Rows
  links: Links
  conductance: np.ndarray
