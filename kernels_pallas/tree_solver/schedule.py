"""Order of elimination on a tree: steps of nodes that can go at once.

Computed once on the host, with NumPy. A node may be eliminated when all of its
children are; a step is a set of at most k such nodes, one per thread.
"""

import dataclasses
import functools
import heapq
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

Order = tuple[tuple[int, ...], ...]

KINDS = ('auto', 'hines', 'level', 'dhs', 'contract')
DEFAULT_THREADS = 16


class ScheduleError(ValueError):
  """A tree or a number of threads that no schedule can be made from."""


class KernelTables(NamedTuple):
  """The schedule as rectangles of node indices; n marks an empty place.

  Attributes:
    nodes: `[S, W]` int32: the node of each lane in each step.
    parents: `[S, W]` int32: its parent.
    children: `[R, W]` int32: in each row at most one child of each lane's node.
    first: `[S + 1]` int32: step s owns the rows first[s] to first[s + 1].
  """

  nodes: np.ndarray
  parents: np.ndarray
  children: np.ndarray
  first: np.ndarray


class ScheduleStats(NamedTuple):
  """Size and quality of a schedule.

  Attributes:
    steps: number of steps.
    utilisation: part of the places (steps times k) that hold a node.
    padding: places without a node.
    bytes: size of the kernel's tables.
    height: edges from the root to the deepest node.
    bound: no schedule with k threads has fewer steps.
  """

  steps: int
  utilisation: float
  padding: int
  bytes: int
  height: int
  bound: int


@dataclasses.dataclass(frozen=True)
class TreeSchedule:
  """Steps of an elimination; equal and hashed by content.

  Attributes:
    parent: parent of each node, below the node's own index; -1 at a root.
    order: the steps, as tuples of node indices.
    k: the most nodes of a step.
    kind: the rule that made the order, 'given' for one made elsewhere.
  """

  parent: tuple[int, ...]
  order: Order
  k: int
  kind: str

  def __hash__(self) -> int:
    return self._hash

  @functools.cached_property
  def _hash(self) -> int:
    return hash((self.parent, self.order, self.k, self.kind))

  @classmethod
  def from_order(
    cls,
    parent: Sequence[int] | np.ndarray,
    order: Iterable[Iterable[int]],
    *,
    k: int | None = None,
    validate: bool = True,
  ) -> 'TreeSchedule':
    """A schedule with steps made elsewhere.

    Args:
      parent: `[n]` parent of each node, -1 at a root.
      order: the steps.
      k: threads; by default the widest step.
      validate: whether to check the tree and the order. Without it a solve
        does what the order says, right or wrong.

    Raises:
      ScheduleError: if a node is missing, comes twice or before its child, or
        a step is wider than k.
    """
    steps = tuple(tuple(int(node) for node in step) for step in order)
    width = max(map(len, steps), default=1)
    k = width if k is None else k
    parents = _checked_parent(parent) if validate else np.asarray(parent)
    if validate:
      _check_order(parents, steps, k)
    return cls(tuple(parents.tolist()), steps, k, 'given')

  @property
  def n(self) -> int:
    """Number of nodes."""
    return len(self.parent)

  @functools.cached_property
  def sweep(self) -> Order:
    """Steps with children before parents, which every row kernel can run.

    The rounds of a contraction are no such order; there it is that of 'dhs'.
    """
    if self.kind != 'contract':
      return self.order
    parents = np.asarray(self.parent)
    return _dhs_order(parents, node_depth(parents), DEFAULT_THREADS)

  @functools.cached_property
  def lanes(self) -> np.ndarray:
    """`[n]` int32: thread of each node; a chain keeps its thread if it can."""
    parent = self.parent
    lanes = np.full(self.n, -1, np.int32)
    inherited = [-1] * self.n  # lane of the child that was eliminated last
    for step in self.sweep:
      free = [True] * len(step)
      late = []
      for node in step:
        lane = inherited[node]
        if 0 <= lane < len(step) and free[lane]:
          free[lane], lanes[node] = False, lane
        else:
          late.append(node)
      open_lanes = (lane for lane, is_free in enumerate(free) if is_free)
      for node, lane in zip(late, open_lanes, strict=True):
        lanes[node] = lane
      for node in step:
        if parent[node] >= 0:
          inherited[parent[node]] = int(lanes[node])
    return _frozen(lanes)

  @functools.cached_property
  def permutation(self) -> np.ndarray:
    """`[n]` int32: the nodes by step and lane: neighbours of a step touch.

    `array[permutation]` lies in memory as the kernels walk through it.
    """
    step = self._step_of
    return _frozen(np.lexsort((self.lanes, step)).astype(np.int32))

  @functools.cached_property
  def sequence(self) -> np.ndarray:
    """`[n]` int32: all nodes, one step after the other, for serial kernels."""
    nodes = [node for step in self.sweep for node in step]
    return _frozen(np.array(nodes, np.int32))

  @functools.cached_property
  def _step_of(self) -> np.ndarray:
    sizes = [len(step) for step in self.sweep]
    found = np.zeros(self.n, np.int64)
    found[self.sequence] = np.repeat(np.arange(len(sizes)), sizes)
    return found

  @functools.cached_property
  def tables(self) -> KernelTables:
    """Tables of the pull kernels, as wide as the widest step asks.

    The width is a power of two, as a block of threads must be.
    """
    n, parent = self.n, np.asarray(self.parent, np.int32)
    steps, lanes, step_of = len(self.sweep), self.lanes, self._step_of
    width = _power_of_two(max(map(len, self.sweep)))
    nodes = np.full((steps, width), n, np.int32)
    nodes[step_of, lanes] = np.arange(n)
    parents = np.full((steps, width), n, np.int32)
    parents[step_of, lanes] = np.where(parent < 0, n, parent)
    child = np.argsort(parent, kind='stable')
    child = child[parent[child] >= 0]
    owner = parent[child]
    count = np.bincount(owner, minlength=n)
    rank = np.arange(len(child)) - (np.cumsum(count) - count)[owner]
    rows = np.zeros(steps, np.int64)
    np.maximum.at(rows, step_of, count)
    first = np.concatenate([[0], np.cumsum(rows)]).astype(np.int32)
    children = np.full((max(1, first[-1]), width), n, np.int32)
    children[first[step_of[owner]] + rank, lanes[owner]] = child
    return KernelTables(*map(_frozen, (nodes, parents, children, first)))

  @property
  def gpu_tables(self) -> KernelTables:
    """The tables, where the threads fill whole blocks.

    Raises:
      ScheduleError: if k was chosen and is not a power of two.
    """
    if self.kind == 'dhs' and self.k != _power_of_two(self.k):
      raise ScheduleError(
        f'k = {self.k}: a GPU kernel needs a power of two; take'
        f' k={_power_of_two(self.k)}.'
      )
    return self.tables


def make_schedule(
  parent: Sequence[int] | np.ndarray,
  kind: str = 'auto',
  k: int = DEFAULT_THREADS,
  validate: bool = True,
) -> TreeSchedule:
  """Orders the elimination of a tree, or of several.

  'dhs' is Dendritic Hierarchical Scheduling (Zhang et al., Nature
  Communications 2023, doi 10.1038/s41467-023-41553-7): of the nodes that are
  ready the k deepest go first. It is Hu's rule for unit tasks on an in-tree
  (Operations Research 1961), so no order has fewer steps.

  Args:
    parent: `[n]` parent of each node, below the node's index; -1 at a root.
    kind: 'hines' (one node a step, the last first), 'level' (all nodes of a
      depth), 'dhs', 'contract' (rounds of a tree contraction), or 'auto':
      'dhs' with no more threads than pay, 'hines' on an unbranched cable.
    k: threads, at least 1; used by 'dhs' and 'auto'.
    validate: whether to check `parent`.

  Raises:
    ScheduleError: names `parent`, `k` or `kind`, the entry and its value.
  """
  if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
    raise ScheduleError(f'k = {k!r}: give a whole number of threads, 1 or more')
  if kind not in KINDS:
    raise ScheduleError(f'kind = {kind!r}: choose one of {", ".join(KINDS)}')
  parents = _checked_parent(parent) if validate else np.asarray(parent)
  k = int(k)
  depth = node_depth(parents)
  order: Order
  if kind == 'auto':
    k = min(k, _power_of_two(_best_k(depth)))
    kind = 'hines' if k == 1 else 'dhs'
  if kind == 'hines':
    k, order = 1, tuple((node,) for node in reversed(range(len(parents))))
  elif kind == 'level':
    levels = range(int(depth.max()), -1, -1)
    order = tuple(tuple(np.flatnonzero(depth == L).tolist()) for L in levels)
  elif kind == 'dhs':
    order = _dhs_order(parents, depth, k)
  else:
    order = _contraction_order(parents)
  if kind in ('level', 'contract'):
    k = max(map(len, order))
  return TreeSchedule(tuple(parents.tolist()), order, k, kind)


def steps_lower_bound(parent: Sequence[int] | np.ndarray, k: int) -> int:
  """Fewest steps that k threads can need: S(k).

  The nodes at depth L or more need ceil(count / k) steps, and L more are needed
  from there to the root: S(k) is the largest sum. 'dhs' reaches it.
  """
  return _bound(node_depth(_checked_parent(parent)), k)


def best_k(parent: Sequence[int] | np.ndarray) -> int:
  """Smallest k whose step count is within 10 % of that of unlimited threads."""
  return _best_k(node_depth(_checked_parent(parent)))


def schedule_stats(schedule: TreeSchedule) -> ScheduleStats:
  """Steps, use of the threads, and memory of a schedule."""
  steps = len(schedule.order)
  places = steps * schedule.k
  depth = node_depth(np.asarray(schedule.parent))
  return ScheduleStats(
    steps=steps,
    utilisation=schedule.n / places,
    padding=places - schedule.n,
    bytes=sum(table.nbytes for table in schedule.tables),
    height=int(depth.max()),
    bound=_bound(depth, schedule.k),
  )


def node_depth(parent: np.ndarray) -> np.ndarray:
  """`[n]` int64: edges from each node to its root."""
  depth = [0] * len(parent)
  for node, above in enumerate(parent.tolist()):
    if above >= 0:
      depth[node] = depth[above] + 1
  return np.array(depth)


def _checked_parent(parent: Any) -> np.ndarray:
  found = np.asarray(parent)
  if found.size == 0 or found.ndim != 1:
    raise ScheduleError(
      f'parent has shape {found.shape}: give one index for each node, at least'
      ' one'
    )
  if found.dtype.kind not in 'iu':
    odd = [i for i, p in enumerate(parent) if not isinstance(p, int)]
    index = odd[0] if odd else 0
    raise ScheduleError(
      f'parent[{index}] = {parent[index]!r} ({found.dtype}): give whole numbers'
    )
  found = found.astype(np.int64)
  wrong = np.flatnonzero((found >= np.arange(len(found))) | (found < -1))
  if wrong.size:
    index = wrong[0]
    raise ScheduleError(
      f'parent[{index}] = {found[index]}: a parent has a smaller index than its'
      ' child, and a root has -1; number the nodes from the root outwards'
    )
  return found


def _check_order(parent: np.ndarray, order: Order, k: int) -> None:
  step_of = np.full(len(parent), -1)
  for number, step in enumerate(order):
    if len(step) > k:
      raise ScheduleError(f'order[{number}] has {len(step)} nodes, k = {k}')
    for node in step:
      if not 0 <= node < len(parent) or step_of[node] >= 0:
        raise ScheduleError(f'order[{number}] holds {node} wrongly or again')
      step_of[node] = number
  if (step_of < 0).any():
    raise ScheduleError(f'order lacks node {int(np.argmin(step_of))}')
  child = np.flatnonzero(parent >= 0)
  late = child[step_of[child] >= step_of[parent[child]]]
  if late.size:
    node = late[0]
    raise ScheduleError(
      f'order puts node {parent[node]} (step {step_of[parent[node]]}) before'
      f' its child {node} (step {step_of[node]})'
    )


def _dhs_order(parent: np.ndarray, depth: np.ndarray, k: int) -> Order:
  """Of the ready nodes the k deepest go first; ties to the smaller index."""
  above, deep = parent.tolist(), depth.tolist()
  waiting = np.bincount(parent[parent >= 0], minlength=len(above)).tolist()
  ready = [(-deep[i], i) for i, count in enumerate(waiting) if not count]
  heapq.heapify(ready)
  order = []
  while ready:
    step = [heapq.heappop(ready)[1] for _ in range(min(k, len(ready)))]
    order.append(tuple(step))
    for node in step:
      p = above[node]
      if p >= 0:
        waiting[p] -= 1
        if not waiting[p]:
          heapq.heappush(ready, (-deep[p], p))
  return tuple(order)


def _contraction_order(parent: np.ndarray) -> Order:
  """Rounds of independent leaves and chain nodes; the roots go last."""
  above = parent.tolist()
  count = np.bincount(parent[parent >= 0], minlength=len(above)).tolist()
  below = [0] * len(above)  # sum of the children: the child where it is alone
  for node, p in enumerate(above):
    if p >= 0:
      below[p] += node
  roots = [node for node, p in enumerate(above) if p < 0]
  alive = [node for node in range(len(above) - 1, -1, -1) if above[node] >= 0]
  order = []
  while alive:
    chosen = {node for node in alive if not count[node]}
    for node in alive:
      if count[node] == 1 and not {above[node], below[node]} & chosen:
        chosen.add(node)
    order.append(tuple(sorted(chosen)))
    for node in order[-1]:
      p, child = above[node], below[node]
      below[p] += child - node
      if count[node]:
        above[child] = p
      else:
        count[p] -= 1
    alive = [node for node in alive if node not in chosen]
  return (*order, tuple(roots))


def _bound(depth: np.ndarray, k: int) -> int:
  at_least = np.cumsum(np.bincount(depth)[::-1])[::-1]
  return int(np.max(np.arange(len(at_least)) - (-at_least // k)))


def _best_k(depth: np.ndarray) -> int:
  goal = 1.1 * (int(depth.max()) + 1)
  low, high = 1, int(np.bincount(depth).max())
  while low < high:
    middle = (low + high) // 2
    if _bound(depth, middle) <= goal:
      high = middle
    else:
      low = middle + 1
  return low


def _power_of_two(k: int) -> int:
  """The smallest power of two that is not below k."""
  return 1 << (k - 1).bit_length()


def _frozen(table: np.ndarray) -> np.ndarray:
  table.flags.writeable = False
  return table
