"""The tree of compartments that a neuron is simulated as."""

import dataclasses
import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from jaxlab import errors
from jaxlab.dendrites.morphology import listed


@dataclasses.dataclass(frozen=True, eq=False)
class CompartmentTree:
  """Compartments of one neuron, or of several: NumPy arrays, all read-only.

  A node is the centre of a segment, or an algebraic node: a point without
  membrane where three or more half-segments meet. Nodes are in depth-first
  order, so that `parent[i] < i`, and mostly `parent[i] == i - 1`. Two trees
  are equal, and have the same hash, if their contents are.

  Attributes:
    parent: `[n]` int32 node nearer to the root; -1 at a root.
    halves: `[n, 2]` float64 axial resistance to the parent in MOhm: the part
      inside the node's own segment, and that inside the parent's; 0 at a root.
    area: `[n]` float64 membrane area in um2; 0 at algebraic nodes.
    length: `[n]` float64 length of the segment in um; 0 at algebraic nodes.
    diameter: `[n]` float64 diameter in um of the cylinder of the segment's
      area and length; 0 at algebraic nodes.
    section: `[n]` int32 section of the segment; -1 at algebraic nodes.
    x: `[n]` float64 centre of the segment in (0, 1) of its section; 0 at
      algebraic nodes.
    depth: `[n]` int32 number of edges to the root.
    distance: `[n]` float64 length of the cable to the root in um.
    xyz: `[n, 3]` float64 position in um.
    names: names of the sections.
    region: region of each section: soma, axon, basal, apical or another.
    Ra: axial resistivity in ohm cm; NaN for neurons that differ in it.
  """

  parent: np.ndarray
  halves: np.ndarray
  area: np.ndarray
  length: np.ndarray
  diameter: np.ndarray
  section: np.ndarray
  x: np.ndarray
  depth: np.ndarray
  distance: np.ndarray
  xyz: np.ndarray
  names: tuple[str, ...]
  region: tuple[str, ...]
  Ra: float

  def __post_init__(self):
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      if isinstance(value, np.ndarray):
        value.flags.writeable = False

  def __eq__(self, other: object) -> bool:
    if not isinstance(other, CompartmentTree):
      return NotImplemented
    return self.digest == other.digest

  def __hash__(self) -> int:
    return hash(self.digest)

  @functools.cached_property
  def digest(self) -> str:
    """SHA-256 of the contents."""
    total = hashlib.sha256()
    for field in dataclasses.fields(self):
      value = getattr(self, field.name)
      is_array = isinstance(value, np.ndarray)
      part = value.tobytes() if is_array else repr(value).encode()
      total.update(len(part).to_bytes(8, 'little') + part)
    return total.hexdigest()

  @property
  def resistance(self) -> np.ndarray:
    """`[n]` float64 axial resistance to the parent in MOhm; 0 at a root."""
    return self.halves.sum(axis=1)

  @property
  def n(self) -> int:
    """Number of nodes."""
    return len(self.parent)

  @property
  def n_segments(self) -> int:
    """Number of segments: nodes that have a membrane."""
    return int(self.is_segment.sum())

  @functools.cached_property
  def is_segment(self) -> np.ndarray:
    """`[n]` bool: not an algebraic node."""
    return self.section >= 0

  def node(self, section: str, x: float) -> int:
    """Returns the node of the segment that holds a place in a section.

    Args:
      section: its name; `soma` is short for `soma[0]`.
      x: place from 0 (towards the root) to 1.

    Raises:
      UserError: if there is no such section or place.
    """
    name = section if section in self._of_section else f'{section}[0]'
    if name not in self._of_section:
      raise errors.UserError(
        f'section {section!r} is unknown; known: {listed(self.names)}.'
      )
    if not 0 <= x <= 1:
      raise errors.UserError(f'section {section!r}: x={x} must be in [0, 1].')
    nodes = self._of_section[name]
    return int(nodes[min(int(x * len(nodes)), len(nodes) - 1)])

  def nodes(self, place: str) -> np.ndarray:
    """Returns `[m]` int32 rising segment nodes of a part of the neuron.

    Args:
      place: 'all', a region, or the name of a section. A region goes before a
        section of the same name.

    Raises:
      UserError: if the place is unknown; the message lists the known.
    """
    if place == 'all':
      return np.flatnonzero(self.is_segment).astype(np.int32)
    if place in self.region:
      inside = np.array([region == place for region in self.region])
      found = self.is_segment & inside[self.section]
      return np.flatnonzero(found).astype(np.int32)
    if place in self._of_section:
      return np.sort(self._of_section[place])
    known = f'all, {", ".join(sorted(set(self.region)))}'
    raise errors.UserError(
      f'place {place!r} is unknown; known: {known}, and the sections'
      f' {listed(self.names)}.'
    )

  @functools.cached_property
  def _of_section(self) -> dict[str, np.ndarray]:
    """Nodes of each section in the order of x."""
    order = np.lexsort((self.x, self.section)).astype(np.int32)
    ends = np.searchsorted(self.section[order], np.arange(len(self.names) + 1))
    pairs = zip(self.names, ends[:-1], ends[1:], strict=True)
    return {name: order[low:high] for name, low, high in pairs}


def forest(
  trees: Sequence[CompartmentTree], names: Sequence[str] | None = None
) -> tuple[CompartmentTree, np.ndarray]:
  """Joins neurons, each with a root of its own, to one tree of compartments.

  Args:
    trees: the N neurons.
    names: their names, `0`, `1`, ... if None; section `dend[0]` of neuron
      `AVAL` becomes `AVAL/dend[0]`.

  Returns:
    The joint tree, and `[N + 1]` int32 offsets: the nodes of neuron i are
    `offsets[i]` to `offsets[i + 1] - 1`.

  Raises:
    UserError: if there is no tree, or the names are not one each and distinct.
  """
  labels = [str(i) for i in range(len(trees))] if names is None else list(names)
  if not trees or len(set(labels)) != len(trees) or len(labels) != len(trees):
    raise errors.UserError(
      f'{len(trees)} trees and {len(set(labels))} different names of'
      f' {len(labels)}; a forest needs a tree or more, and a name for each.'
    )
  offsets = np.cumsum([0, *(tree.n for tree in trees)]).astype(np.int32)
  sections = np.cumsum([0, *(len(tree.names) for tree in trees)])
  joined = {
    field.name: np.concatenate([getattr(tree, field.name) for tree in trees])
    for field in dataclasses.fields(CompartmentTree)
    if isinstance(getattr(trees[0], field.name), np.ndarray)
  }
  for name, starts in (('parent', offsets), ('section', sections)):
    shift = np.repeat(starts[:-1], [tree.n for tree in trees])
    local = joined[name]
    joined[name] = np.where(local < 0, -1, local + shift).astype(np.int32)
  resistivities = {tree.Ra for tree in trees}
  return CompartmentTree(
    **joined,
    names=tuple(
      f'{label}/{name}'
      for label, tree in zip(labels, trees, strict=True)
      for name in tree.names
    ),
    region=tuple(region for tree in trees for region in tree.region),
    Ra=resistivities.pop() if len(resistivities) == 1 else np.nan,
  ), offsets
