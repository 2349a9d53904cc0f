"""A neuron: a tree of compartments with mechanisms placed on it."""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from jaxlab.dendrites.channels.types import Channel
from jaxlab.dendrites.compartments import CompartmentTree
from jaxlab.errors import UserError


@dataclasses.dataclass(frozen=True)
class Placement:
  """A channel on a part of a cell.

  Attributes:
    channel: the mechanism and its parameters there.
    nodes: the nodes, rising.
  """

  channel: Channel
  nodes: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Cell:
  """A neuron of a kind; static and hashable.

  Attributes:
    tree: its compartments.
    placements: its mechanisms; no two of one name share a node.
    cm: `[n]` membrane capacitance in uF/cm2.
    celsius: temperature in degrees Celsius.
    source: node whose voltage makes spikes and drives graded synapses.
  """

  tree: CompartmentTree
  placements: tuple[Placement, ...]
  cm: tuple[float, ...]
  celsius: float
  source: int

  @functools.cached_property
  def _hash(self) -> int:
    return hash((self.tree, self.placements, self.cm, self.celsius))

  def __hash__(self) -> int:
    return self._hash

  @property
  def n(self) -> int:
    """Number of nodes."""
    return self.tree.n

  def node(self, section: str, x: float) -> int:
    """Node at `x` in [0, 1] of a section."""
    return self.tree.node(section, x)


def cell(
  tree: CompartmentTree,
  channels: Sequence[tuple[str, Channel]],
  *,
  cm: float | Sequence[tuple[str, float]] = 1.0,
  celsius: float = 6.3,
  source: int = 0,
) -> Cell:
  """Places channels on a tree.

  A later entry for the same channel replaces an earlier one where they overlap,
  so `[('all', Leak(g=1e-4)), ('soma', Leak(g=3e-4))]` reads as it should.

  Args:
    tree: the compartments.
    channels: pairs of a place ('all', a region or a section) and a channel.
    cm: capacitance in uF/cm2, or pairs of a place and a capacitance.
    celsius: temperature in degrees Celsius.
    source: node whose voltage makes spikes; the soma's centre by default.

  Returns:
    The cell.

  Raises:
    ValueError: an unknown place, or a capacitance that is not positive.
  """
  owner: dict[str, dict[int, Channel]] = {}
  for pair in channels:
    if len(pair) != 2 or not isinstance(pair[1], Channel):
      raise UserError(
        f"cell: channels must be pairs such as ('soma', HH), got {pair!r}."
      )
    place, channel = pair
    here = owner.setdefault(channel.name, {})
    here.update(dict.fromkeys(tree.nodes(place).tolist(), channel))
  placements = []
  for here in owner.values():
    for channel in dict.fromkeys(here.values()):
      nodes = tuple(sorted(i for i, c in here.items() if c == channel))
      placements.append(Placement(channel, nodes))
  return Cell(
    tree=tree,
    placements=tuple(placements),
    cm=_capacitance(tree, cm),
    celsius=float(celsius),
    source=int(source),
  )


def _capacitance(tree, cm) -> tuple[float, ...]:
  values = np.ones(tree.n)
  pairs = [('all', cm)] if isinstance(cm, float | int) else cm
  for place, value in pairs:
    if not value > 0:
      raise UserError(f'cm = {value} uF/cm2 on {place!r} must be above 0.')
    values[tree.nodes(place)] = value
  return tuple(values.tolist())
