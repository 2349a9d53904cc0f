"""Cells and what connects them, laid out in rows for the solver."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.dendrites.cell import Cell
from jaxlab.dendrites.channels.types import Channel, Ion
from jaxlab.dendrites.compartments import forest
from jaxlab.dendrites.connections import Connections, Gap
from jaxlab.dendrites.groups import (
  GapGroup,
  Group,
  Mechanism,
  SynapseGroup,
)
from jaxlab.dendrites.rows import Links, rows_of
from jaxlab.dendrites.synapses import SynapseType
from jaxlab.errors import UserError
from kernels_pallas.tree_solver.schedule import make_schedule

Address = int | tuple[int, int]
# Share of the rows from which on a channel is computed on all.
_MOST = 0.7


@dataclasses.dataclass(frozen=True, eq=False)
class Network:
  """Cells and connections; static, and hashable by content.

  Attributes:
    cells: the cells, in order.
    connections: as given.
    gaps: as given.
    groups: what is solved together.
    mechanisms: channels by name.
    synapses: synapses by name.
    junctions: gap junctions, or None.
    due: times of events from outside of each synapse placed by `synapse`, ms.
    source_rows: `[N]` row whose voltage makes each cell's spikes.
  """

  cells: tuple[Cell, ...]
  connections: tuple[Connections, ...]
  gaps: tuple[Gap, ...]
  groups: tuple[Group, ...]
  mechanisms: dict[str, Mechanism]
  synapses: dict[str, SynapseGroup]
  junctions: GapGroup | None
  due: tuple[tuple[float, ...], ...]
  source_rows: np.ndarray

  @functools.cached_property
  def _key(self) -> tuple[Any, ...]:
    return (self.cells, self.connections, self.gaps)

  @functools.cached_property
  def _hash(self) -> int:
    return hash(self._key)

  def __hash__(self) -> int:
    return self._hash

  def __eq__(self, other: object) -> bool:
    if not isinstance(other, Network):
      return NotImplemented
    return self is other or self._key == other._key

  @property
  def n(self) -> int:
    """Number of rows: nodes of all cells."""
    return self.groups[-1].stop

  @property
  def n_segments(self) -> int:
    """Number of segments of all cells."""
    return sum(cell.tree.n_segments for cell in self.cells)

  @property
  def celsius(self) -> float:
    """Temperature in degrees Celsius."""
    return self.cells[0].celsius

  @functools.cached_property
  def spiking(self) -> bool:
    """Whether cells send events to each other."""
    return any(
      len(g.delay) and not g.kind.graded for g in self.synapses.values()
    )

  @property
  def gradient_kind(self) -> str:
    """'surrogate' where cells send events to each other, else 'exact'."""
    return 'surrogate' if self.spiking else 'exact'

  @functools.cached_property
  def _places(self) -> list[tuple[int, int]]:
    """Row of node 0 and the distance between nodes, of each cell."""
    return _places(self.cells)

  def row(self, address: Address) -> int:
    """The row of a node.

    Args:
      address: (cell, node); a node alone where there is one cell.

    Raises:
      ValueError: no such cell or node, or a node alone among several cells.
    """
    index, node = _address(address, len(self.cells))
    return _row(self.cells, self._places, index, node)

  def rows(self, addresses: Sequence[Address]) -> np.ndarray:
    """`[R]` rows of nodes."""
    return np.array([self.row(a) for a in addresses], np.int32)

  def where(self, row: int) -> tuple[int, int]:
    """The (cell, node) of a row."""
    for index, (first, stride) in enumerate(self._places):
      node, rest = divmod(row - first, stride)
      if rest == 0 and 0 <= node < self.cells[index].n:
        return index, node
    raise UserError(f'row {row} is outside 0..{self.n - 1}.')

  def cell_rows(self, index: int) -> np.ndarray:
    """`[n]` rows of the nodes of a cell."""
    first, stride = self._places[index]
    return first + stride * np.arange(self.cells[index].n)


def network(
  cells: Sequence[Cell] | Mapping[Cell, int] | Cell,
  connections: Sequence[Connections] = (),
  gaps: Sequence[Gap] = (),
) -> Network:
  """Builds a network.

  Equal cells are solved together as columns of one system, different ones as
  one forest.

  Args:
    cells: a cell, the cells in order, or the number of each kind.
    connections: of `connect` and `synapse`.
    gaps: of `gap_junctions`.

  Returns:
    The network.

  Raises:
    ValueError: no cells, cells at different temperatures, or connections to
      cells or nodes that are not there.
  """
  if isinstance(cells, Cell):
    cells = [cells]
  if isinstance(cells, Mapping):
    cells = [cell for cell, number in cells.items() for _ in range(number)]
  cells = tuple(cells)
  if not cells:
    raise UserError('network: there are no cells; give at least one.')
  for name, given, kind in (
    ('connections', connections, Connections),
    ('gaps', gaps, Gap),
  ):
    if isinstance(given, kind) or not all(isinstance(x, kind) for x in given):
      raise UserError(
        f'network: {name} must be a list of {kind.__name__}, as `connect`, '
        '`synapse` and `gap_junctions` make them.'
      )
  temperatures = sorted({cell.celsius for cell in cells})
  if len(temperatures) > 1:
    raise UserError(
      f'network: cells at different temperatures ({temperatures} degrees); '
      'build them with one celsius.'
    )
  places = _places(cells)
  groups = tuple(_groups(cells))
  n = groups[-1].stop
  locate = functools.partial(_row, cells, places)
  synapses, due = _synapses(cells, connections, locate, n)
  source_rows = [locate(i, cell.source) for i, cell in enumerate(cells)]
  return Network(
    cells=cells,
    connections=tuple(connections),
    gaps=tuple(gaps),
    groups=groups,
    mechanisms=_mechanisms(cells, places, n),
    synapses=synapses,
    junctions=_junctions(gaps, locate, n),
    due=due,
    source_rows=np.array(source_rows, np.int32),
  )


def _address(address: Address, n_cells: int) -> tuple[int, int]:
  if isinstance(address, str):
    raise UserError(
      f'{address!r} is no node; cell.node(section, x) gives its number.'
    )
  if isinstance(address, tuple):
    return int(address[0]), int(address[1])
  if n_cells > 1:
    raise UserError(
      f'node {address} alone does not say which of the {n_cells} cells; give '
      '(cell, node).'
    )
  return 0, int(address)


def _row(cells, places, index: int, node: int) -> int:
  if not 0 <= index < len(cells):
    raise UserError(f'cell {index} is outside 0..{len(cells) - 1}.')
  if not 0 <= node < cells[index].n:
    raise UserError(
      f'node {node} of cell {index} is outside 0..{cells[index].n - 1}.'
    )
  first, stride = places[index]
  return first + stride * node


def _kinds(cells) -> tuple[list[tuple[Cell, list[int]]], list[int]]:
  """Kinds with several cells, and the cells that have no equal."""
  members: dict[Cell, list[int]] = {}
  for index, cell in enumerate(cells):
    members.setdefault(cell, []).append(index)
  several = [(cell, who) for cell, who in members.items() if len(who) > 1]
  return several, [who[0] for who in members.values() if len(who) == 1]


def _places(cells) -> list[tuple[int, int]]:
  places: list[tuple[int, int]] = [(0, 1)] * len(cells)
  several, single = _kinds(cells)
  start = 0
  for cell, who in several:
    for j, index in enumerate(who):
      places[index] = (start + j, len(who))
    start += cell.n * len(who)
  for index in single:
    places[index] = (start, 1)
    start += cells[index].n
  return places


def _groups(cells):
  several, single = _kinds(cells)
  start = 0
  for cell, who in several:
    yield Group(
      cell.tree, make_schedule(cell.tree.parent), start, len(who), cell.cm
    )
    start += cell.n * len(who)
  if single:
    trees = [cells[index].tree for index in single]
    tree = trees[0] if len(trees) == 1 else forest(trees)[0]
    cm = tuple(c for index in single for c in cells[index].cm)
    yield Group(tree, make_schedule(tree.parent), start, 1, cm)


def _mechanisms(cells, places, n) -> dict[str, Mechanism]:
  found: dict[str, list[tuple[np.ndarray, Channel]]] = {}
  for cell, (first, stride) in zip(cells, places, strict=True):
    for channel, nodes in ((p.channel, p.nodes) for p in cell.placements):
      rows = first + stride * np.array(nodes)
      found.setdefault(channel.name, []).append((rows, channel))
  return {name: _mechanism(name, parts, n) for name, parts in found.items()}


def _mechanism(name, parts, n) -> Mechanism:
  channel = parts[0][1]
  for _, other in parts:
    if other(**channel.defaults()) != channel:
      raise UserError(
        f'two different channels are called {name!r}; rename one of them with '
        "channel._replace(name='...')."
      )
  order = np.argsort(np.concatenate([rows for rows, _ in parts]))
  defaults = {
    key: np.concatenate(
      [np.full(len(rows), other.defaults()[key]) for rows, other in parts]
    )[order]
    for key in channel.defaults()
  }
  rows = rows_of(np.concatenate([rows for rows, _ in parts]), n)
  most = len(rows.indices) > _MOST * n and channel.pool is None
  span = rows_of(np.arange(n), n) if most else rows
  return Mechanism(channel, rows, span, defaults, _kinetic(channel))


class _Watched(dict):
  """A dict that notes which keys are read."""

  def __init__(self, values):
    super().__init__(values)
    self.read: set[str] = set()

  def __getitem__(self, key):
    self.read.add(key)
    return super().__getitem__(key)


def _kinetic(channel: Channel) -> tuple[str, ...]:
  """Parameters that the update of a channel's states reads."""
  p = _Watched(channel.defaults())
  v = jax.ShapeDtypeStruct((1,), jnp.float32)
  state = dict.fromkeys(channel.states, v)
  jax.eval_shape(lambda s, v: channel.update(s, v, 0.1, p, Ion()), state, v)
  return tuple(sorted(p.read))


def _synapses(cells, connections, locate, n):
  kinds: dict[str, list[Connections]] = {}
  names: dict[SynapseType, str] = {}
  for part in connections:
    number = sum(kind.name == part.kind.name for kind in names)
    suffix = f'_{number + 1}' if number else ''
    name = names.setdefault(part.kind, part.kind.name + suffix)
    kinds.setdefault(name, []).append(part)
  due: list[tuple[float, ...]] = []
  groups = {
    name: _synapse_group(parts, locate, n, due, len(cells))
    for name, parts in kinds.items()
  }
  return groups, tuple(due)


def _synapse_group(parts, locate, n, due, n_cells) -> SynapseGroup:
  kind = parts[0].kind
  senders: dict[tuple[int, float, float], int] = {}
  external: list[int] = []
  # (sender or external, its index, row, weight) of each connection
  entries: list[tuple[bool, int, int, float]] = []
  for part in parts:
    columns = zip(
      part.pre, part.post, part.post_node, part.weight, part.delay, strict=True
    )
    for c, (pre, post, node, weight, delay) in enumerate(columns):
      row = locate(post, node)
      if pre < 0:
        external.append(len(due))
        due.append(part.due[c])
        entries.append((True, len(external) - 1, row, weight))
        continue
      if pre >= n_cells:
        raise UserError(
          f'connection from cell {pre}: there are {n_cells} cells.'
        )
      key = (pre, 0.0 if kind.graded else delay, part.threshold)
      index = senders.setdefault(key, len(senders))
      entries.append((False, index, row, weight))
  rows = rows_of([row for *_, row, _ in entries], n)
  place = {row: i for i, row in enumerate(rows.indices)}
  links = Links(
    source=tuple(i + len(senders) * out for out, i, *_ in entries),
    target=tuple(place[row] for *_, row, _ in entries),
    n_sources=len(senders) + len(external),
    n_targets=len(rows.indices),
  )
  keys = np.array(list(senders), float).reshape(-1, 3)
  return SynapseGroup(
    kind,
    rows,
    links,
    np.array([weight for *_, weight in entries]),
    keys[:, 0].astype(np.int32),
    keys[:, 1],
    np.array(external, np.int32),
    keys[:, 2],
  )


def _junctions(gaps, locate, n) -> GapGroup | None:
  if not gaps:
    return None
  ends = [
    (locate(a, na), locate(b, nb), g)
    for gap in gaps
    for a, na, b, nb, g in zip(*gap, strict=True)
  ]
  rows = rows_of([row for a, b, _ in ends for row in (a, b)], n)
  place = {row: i for i, row in enumerate(rows.indices)}
  a = tuple(place[end[0]] for end in ends)
  b = tuple(place[end[1]] for end in ends)
  size = len(rows.indices)
  links = Links(a + b, b + a, size, size)
  return GapGroup(rows, links, np.array([g for *_, g in ends]))
