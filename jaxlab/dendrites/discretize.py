"""From cable to compartments: segments, axial resistances, and their tree."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from jaxlab.dendrites.compartments import CompartmentTree
from jaxlab.dendrites.morphology import Morphology
from jaxlab.dendrites.segments import Cable, cut, segment_counts


def discretize(
  morph: Morphology,
  max_len: float | None = None,
  nseg: int | Mapping[str, int] | None = None,
  Ra: float = 100.0,
  d_lambda: float | None = None,
  cm: float = 1.0,
) -> CompartmentTree:
  """Divides each section into segments of equal length.

  The number of segments comes from one rule: `max_len`, `nseg` or `d_lambda`;
  without any it is `d_lambda=0.1`. The first and the third give odd numbers.

  Areas and axial resistances are exact for the frusta between the points. A
  point where half-segments meet is a node only if they are three or more: at
  two their resistances add up, at one there is no current. The equations are
  those of NEURON, with fewer unknowns.

  Args:
    morph: the neuron.
    max_len: longest segment in um.
    nseg: number of segments, of each section or by name of a section or a
      region; sections that are not named follow the other rule.
    Ra: axial resistivity in ohm cm.
    d_lambda: longest segment as a share of the length constant at 100 Hz
      (Hines and Carnevale 2001, The Neuroscientist 7:123-135).
    cm: membrane capacitance in uF/cm2 that the length constant is for.

  Returns:
    The tree, whose node 0 is the centre of the root section.

  Raises:
    MorphologyError: if a section has no length.
    ValueError: if two rules are given, a number is not positive or a section
      is unknown.
  """
  counts = segment_counts(morph, max_len, nseg, Ra, d_lambda, cm)
  pairs = zip(morph.sections, counts, strict=True)
  return _tree(morph, [cut(section, count, Ra) for section, count in pairs], Ra)


class _Edge(NamedTuple):
  """An axial connection: resistance in MOhm by segment, and length in um."""

  halves: dict[int, float]
  length: float


_Graph = list[dict[int, _Edge]]


def _graph(
  morph: Morphology, cables: list[Cable]
) -> tuple[_Graph, np.ndarray, np.ndarray]:
  """Connects segments with each other, and at the ends of sections.

  Returns:
    For each node its neighbours (the S segments, section by section, then the
    0-end of the root, then the 1-end of each section), the first segment of
    each section, and the `[n, 3]` positions.
  """
  start = np.cumsum([0, *(len(cable.area) for cable in cables)])
  total, sections = start[-1], morph.sections
  graph: _Graph = [{} for _ in range(total + 1 + len(sections))]

  def connect(a: int, b: int, edge: _Edge) -> None:
    graph[a][b] = graph[b][a] = edge

  def head(section: int) -> int:
    """The node that the 0-end of a section is."""
    while sections[section].parent >= 0:
      x, section = sections[section].parent_x, sections[section].parent
      if x == 1:
        return total + 1 + section
      if x > 0:
        return start[section] + int(x * len(cables[section].area))
    return total

  for index, cable in enumerate(cables):
    first, last = start[index], start[index + 1] - 1
    half = cable.step / 2
    connect(head(index), first, _Edge({first: cable.halves[0, 0]}, half))
    end = _Edge({last: cable.halves[-1, 1]}, half)
    connect(last, total + 1 + index, end)
    for j in range(first, last):
      near, far = cable.halves[j - first, 1], cable.halves[j - first + 1, 0]
      connect(j, j + 1, _Edge({j: near, j + 1: far}, cable.step))
  for node in range(total, len(graph)):
    if len(graph[node]) > 2:
      continue
    edges = list(graph[node].items())
    for neighbour, _ in edges:
      del graph[neighbour][node]
    graph[node] = {}
    if len(edges) == 2:
      (a, to_a), (b, to_b) = edges
      halves = to_a.halves | to_b.halves
      connect(a, b, _Edge(halves, to_a.length + to_b.length))
  root = next(s for s in sections if s.parent < 0)
  ends = [root.points[:1, :3], *(s.points[-1:, :3] for s in sections)]
  return graph, start, np.concatenate([*(c.xyz for c in cables), *ends])


def _preorder(graph: _Graph, root: int) -> tuple[list[int], dict[int, int]]:
  """Depth-first order, the deepest subtree first, and parents."""
  parent = {root: -1}
  visited = [root]
  for node in visited:
    for child in sorted(graph[node].keys() - {parent[node]}):
      parent[child] = node
      visited.append(child)
  height = dict.fromkeys(visited, 0)
  for node in reversed(visited[1:]):
    height[parent[node]] = max(height[parent[node]], height[node] + 1)
  order, stack = [], [root]
  while stack:
    node = stack.pop()
    order.append(node)
    children = graph[node].keys() - {parent[node]}
    stack += sorted(children, key=lambda child: (height[child], -child))
  return order, parent


def _tree(morph: Morphology, cables: list[Cable], Ra: float) -> CompartmentTree:
  graph, start, xyz = _graph(morph, cables)
  root = next(i for i, s in enumerate(morph.sections) if s.parent < 0)
  order, above = _preorder(graph, start[root] + len(cables[root].area) // 2)
  place = {node: i for i, node in enumerate(order)}
  parent = np.array([-1, *(place[above[node]] for node in order[1:])], np.int32)
  edges = [_Edge({}, 0.0), *(graph[node][above[node]] for node in order[1:])]
  halves = [
    [edge.halves.get(node, 0.0), edge.halves.get(above[node], 0.0)]
    for node, edge in zip(order, edges, strict=True)
  ]
  depth, distance = np.zeros(len(order), np.int32), np.zeros(len(order))
  for i in range(1, len(order)):
    depth[i] = depth[parent[i]] + 1
    distance[i] = distance[parent[i]] + edges[i].length

  counts = np.diff(start)

  def per_node(values: np.ndarray, fill: float = 0.0) -> np.ndarray:
    """Segment values in the order of the nodes."""
    padding = np.full(1 + len(cables), fill, values.dtype)
    return np.concatenate([values, padding])[order]

  section = np.repeat(np.arange(len(cables), dtype=np.int32), counts)
  area = np.concatenate([cable.area for cable in cables])
  length = np.repeat([cable.step for cable in cables], counts)
  x = (np.arange(start[-1]) - start[:-1][section] + 0.5) / counts[section]
  return CompartmentTree(
    parent=parent,
    halves=np.array(halves),
    area=per_node(area),
    length=per_node(length),
    diameter=per_node(area / (np.pi * length)),
    section=per_node(section, -1),
    x=per_node(x),
    depth=depth,
    distance=distance,
    xyz=xyz[order],
    names=tuple(s.name for s in morph.sections),
    region=tuple(s.region for s in morph.sections),
    Ra=float(Ra),
  )
