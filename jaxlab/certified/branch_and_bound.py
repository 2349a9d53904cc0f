"""Complete verification: branch and bound over the signs of ReLUs.

A frontier of subdomains lies in arrays on the device. Each round takes the
worst `batch` of them, splits them, bounds all children at once (beta-CROWN),
and drops those that need no more. Where no ReLU is left to split a linear
program decides, so that the search ends with the truth unless a limit stops it.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.certified import beta_crown, domains, leaf
from jaxlab.certified.beta_crown import Candidates, Problem
from jaxlab.certified.domains import Domains
from jaxlab.certified.graph import Net, check_callable
from jaxlab.certified.interval import (
  Interval,
  as_floats,
  check_box,
  input_box,
  is_concrete,
  margin_matrix,
)
from jaxlab.certified.milp import minimum_margins
from jaxlab.errors import UserError

Status = Literal['verified', 'falsified', 'unknown']

_FIRST_PLACES = 512
_GROWTH = 4


@dataclasses.dataclass(frozen=True)
class Limits:
  """When to give up, and how hard to work on a subdomain.

  Attributes:
    nodes: subdomains bounded in all.
    places: subdomains that may wait at a time.
    batch: subdomains split at a time.
    steps: of Adam on each batch of subdomains.
    learning_rate: of its first step.
    decay: factor on it after each step.
    should_stop: asked before each round; True gives up (a limit on time).
  """

  nodes: int = 100_000
  places: int = 65_536
  batch: int = 64
  steps: int = 10
  learning_rate: float = 0.1
  decay: float = 0.95
  should_stop: Callable[[], bool] | None = None


class Verdict(NamedTuple):
  """What is known about the minimum margins.

  Attributes:
    status: 'verified' where all margins are positive in the whole box,
      'falsified' where a point with a margin <= 0 was found.
    lower: `[K-1]` lower bounds of the minimum margins, one for each class but
      the label in ascending order.
    upper: `[K-1]` margins that were attained.
    counterexample: `[*shape]` a point that is not classified as the label, if
      one was found.
    nodes: subdomains that were bounded.
  """

  status: Status
  lower: np.ndarray
  upper: np.ndarray
  counterexample: np.ndarray | None
  nodes: int


class Search(NamedTuple):
  """State of a search over S rows.

  Attributes:
    frontier: subdomains that wait.
    settled: `[S]` lowest bound among those that are done with.
    best: best points.
  """

  frontier: Domains
  settled: jax.Array
  best: Candidates


def verify(
  net: Net,
  params: Any,
  x: jax.Array,
  label: int,
  eps: float | Interval,
  *,
  clip: tuple[float, float] | None = (0, 1),
  limits: Limits = Limits(),
  milp: bool = False,
) -> Verdict:
  """Decides whether all inputs in a ball are classified as the label.

  Args:
    net: function `(params, x [B, *shape]) -> [B, K]`; a function that is used
      again is compiled once.
    params: its parameters.
    x: `[*shape]` one example.
    label: its class y.
    eps: radius of the l-infinity ball, or a box `[*shape]` in its place.
    clip: range of the data; None for no cut.
    limits: when to give up.
    milp: solve one mixed-integer program a class instead (tiny networks).

  Returns:
    The verdict; 'unknown' where a limit was reached.

  Raises:
    UserError: for a bad box, label or limit, an operation that is not
      supported, or NaN in a bound.
  """
  return _decide(net, params, x, label, eps, clip, limits, milp, None)


def minimum_margin(
  net: Net,
  params: Any,
  x: jax.Array,
  label: int,
  eps: float | Interval,
  *,
  tol: float = 1e-4,
  clip: tuple[float, float] | None = (0, 1),
  limits: Limits = Limits(),
) -> Verdict:
  """Minimum of each margin in a ball.

  Args:
    net: as in `verify`, and so the other arguments.
    params: parameters.
    x: `[*shape]` one example.
    label: its class.
    eps: radius or box.
    tol: largest `upper - lower` in the end, unless a limit was reached.
    clip: range of the data.
    limits: when to give up.

  Returns:
    The verdict, with tight bounds.

  Raises:
    UserError: as `verify`.
  """
  return _decide(net, params, x, label, eps, clip, limits, False, tol)


def _decide(
  net: Net,
  params: Any,
  x: jax.Array,
  label: int,
  eps: float | Interval,
  clip: tuple[float, float] | None,
  limits: Limits,
  exact: bool,
  tol: float | None,
) -> Verdict:
  _check(limits, tol)
  check_callable(net)
  x = as_floats(x)
  if not is_concrete(x, label, *jax.tree.leaves(params)):
    raise UserError(
      'a search runs on the host: call it outside of jit, vmap and grad.'
    )
  if jnp.ndim(label):
    raise UserError(f'label has shape {jnp.shape(label)}: give one class.')
  if isinstance(eps, tuple):
    box = Interval(*(as_floats(part)[None] for part in eps))
    check_box(box)
    x = jnp.clip(x, *(part[0] for part in box))
  else:
    box = input_box(x[None], eps, clip)
  num_classes = _num_classes(net, params, x)
  C = margin_matrix(jnp.asarray(label), num_classes).astype(x.dtype)
  if exact:
    minima = minimum_margins(net, params, box, C)
    return _verdict(minima.margins, minima.margins, minima.points, nodes=0)
  problem, roots = beta_crown.pose(net, params, box, C)
  return _run(net, problem, roots, x, limits, tol)


def _num_classes(net: Net, params: Any, x: jax.Array) -> int:
  """K, of a network that takes one example in a batch."""
  try:
    return jax.eval_shape(net, params, x[None]).shape[-1]
  except (TypeError, ValueError) as error:
    raise UserError(
      f'the network does not take a batch of one x of shape {x.shape}; give x '
      f'without an axis for examples ({str(error).splitlines()[0]})'
    ) from error


def _run(
  net: Net,
  problem: Problem,
  roots: Domains,
  x: jax.Array,
  limits: Limits,
  tol: float | None,
) -> Verdict:
  """Searches until all is settled, a row is broken, or a limit is reached."""
  lanes = 2 * limits.batch
  rows, neurons = roots.slopes.shape
  dtype = roots.lower.dtype
  places = max(min(_FIRST_PLACES, limits.places), 2 * lanes)
  search = Search(
    domains.vacant(places, neurons, dtype),
    jnp.full(rows, jnp.inf, dtype),
    beta_crown.descend(net, problem, jnp.broadcast_to(x, (rows, *x.shape))),
  )
  nodes = 0
  padded = domains.enlarge(roots, -(-rows // lanes) * lanes)
  for start in range(0, rows, lanes):
    group = jax.tree.map(lambda a, s=start: a[s : s + lanes], padded)
    search, count = _treat(net, problem, search, group, limits, tol)
    nodes += count
  while (waiting := _waiting(search, tol)) and nodes < limits.nodes:
    if limits.should_stop is not None and limits.should_stop():
      break
    places = len(search.frontier.lower)
    if waiting + limits.batch > places:
      places = min(_GROWTH * places, limits.places)
      if waiting + limits.batch > places:
        break
      frontier = domains.enlarge(search.frontier, places)
      search = search._replace(frontier=frontier)
    frontier, children = domains.pop(
      search.frontier, _goal(search.best, tol), batch=limits.batch
    )
    search = search._replace(frontier=frontier)
    search, count = _treat(net, problem, search, children, limits, tol)
    nodes += count
  frontier, settled, best = search
  lower = settled.at[frontier.row].min(frontier.lower)
  upper, points = map(np.asarray, best)
  return _verdict(np.asarray(lower), upper, points, nodes)


def _waiting(search: Search, tol: float | None) -> int:
  """Subdomains that wait; 0 as well where a row is broken and that decides."""
  lower, upper = jax.device_get((search.frontier.lower, search.best.upper))
  if np.isnan(lower).any() or np.isnan(upper).any():
    raise UserError(
      'a bound is NaN: look for NaN or infinite values in the parameters.'
    )
  if tol is None and np.any(upper <= 0):
    return 0
  return int(np.sum(lower < np.inf))


def _treat(
  net: Net,
  problem: Problem,
  search: Search,
  group: Domains,
  limits: Limits,
  tol: float | None,
) -> tuple[Search, int]:
  """Bounds subdomains and puts those that need more work into the frontier.

  Returns:
    The new state, and how many subdomains were bounded.
  """
  bounded, found = beta_crown.bound(
    net,
    problem,
    group,
    steps=limits.steps,
    learning_rate=limits.learning_rate,
    decay=limits.decay,
  )
  polished = beta_crown.descend(net, problem, found.points)
  found = beta_crown.better_of(found, polished)
  search, is_leaf = _settle(search, bounded, found, tol)
  count, is_leaf = jax.device_get((jnp.sum(group.lower < jnp.inf), is_leaf))
  for lane in np.flatnonzero(is_leaf):
    row = int(bounded.row[lane])
    search = _solve_leaf(net, problem, search, row, bounded.signs[lane])
  return search, int(count)


@functools.partial(jax.jit, static_argnames='tol')
def _settle(
  search: Search, bounded: Domains, found: Candidates, tol: float | None
) -> tuple[Search, jax.Array]:
  """Takes in new subdomains and points; drops what needs no more work.

  Returns:
    The new state, and `[D]` which of the subdomains are leaves to be solved.
  """
  best = beta_crown.better_of(search.best, found)
  goal = _goal(best, tol)
  waits = (bounded.lower < jnp.inf) & ~(bounded.lower > goal[bounded.row])
  is_leaf = waits & (bounded.branch < 0)
  lower = jnp.where(is_leaf, jnp.inf, bounded.lower)
  frontier = domains.insert(search.frontier, bounded._replace(lower=lower))
  done = frontier.lower > goal[frontier.row]
  bound = jnp.where(done, frontier.lower, jnp.inf)
  settled = search.settled.at[frontier.row].min(bound)
  left = jnp.where(done, jnp.inf, frontier.lower)
  return Search(frontier._replace(lower=left), settled, best), is_leaf


def _goal(best: Candidates, tol: float | None) -> jax.Array:
  """`[S]` bounds above which a subdomain needs no more work."""
  return jnp.zeros_like(best.upper) if tol is None else best.upper - tol


def _solve_leaf(
  net: Net, problem: Problem, search: Search, row: int, signs: jax.Array
) -> Search:
  solved = leaf.solve(net, problem, row, np.asarray(signs))
  if solved is None:
    return search
  value, point = solved
  inside = jnp.clip(jnp.asarray(point, problem.C.dtype)[None], *problem.box)
  found = beta_crown.best_points(net, problem, inside)
  return search._replace(
    settled=search.settled.at[row].min(value),
    best=beta_crown.better_of(search.best, found),
  )


def _verdict(
  lower: np.ndarray, upper: np.ndarray, points: np.ndarray, nodes: int
) -> Verdict:
  lower = np.minimum(lower, upper)
  broken = np.any(upper <= 0)
  status: Status = 'verified' if np.all(lower > 0) else 'unknown'
  return Verdict(
    'falsified' if broken else status,
    lower,
    upper,
    points[np.argmin(upper)] if broken else None,
    nodes,
  )


def _check(limits: Limits, tol: float | None) -> None:
  if not isinstance(limits, Limits):
    raise UserError(f'limits is {limits!r}; give Limits(nodes={limits!r}).')
  for name in ('nodes', 'places', 'batch', 'steps'):
    value = getattr(limits, name)
    if not isinstance(value, int | np.integer) or value < 1:
      raise UserError(
        f'limits.{name} is {value}; it must be a whole number from 1 on.'
      )
  if not limits.learning_rate > 0:
    raise UserError(
      f'limits.learning_rate is {limits.learning_rate}; it must be above 0.'
    )
  if tol is not None and not tol > 0:
    raise UserError(f'tol is {tol}; it must be above 0.')
