"""Which parameters are trained, within which bounds, and which are shared."""

import fnmatch
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.dendrites.network import Network
from jaxlab.dendrites.state import Params
from jaxlab.errors import UserError

SHARES = ('segment', 'section', 'region', 'cell', 'all')
Free = dict[str, jax.Array]


class Transform(NamedTuple):
  """A bijection from the real line to where a parameter may lie.

  Attributes:
    forward: free number -> parameter.
    inverse: parameter -> free number.
    low: below every parameter.
    high: above every parameter.
  """

  forward: Callable[[jax.Array], jax.Array]
  inverse: Callable[[jax.Array], jax.Array]
  low: float = -math.inf
  high: float = math.inf


identity = Transform(lambda x: x, lambda y: y)
exp = Transform(jnp.exp, jnp.log, 0.0)
softplus = Transform(
  jax.nn.softplus, lambda y: y + jnp.log(-jnp.expm1(-y)), 0.0
)


def sigmoid(low: float, high: float) -> Transform:
  """Between two bounds.

  Args:
    low: lower bound.
    high: upper bound.

  Returns:
    The transform.

  Raises:
    ValueError: bounds that are not in order.
  """
  if not low < high:
    raise UserError(f'sigmoid: low = {low} must be below high = {high}.')

  def inverse(y):
    share = (y - low) / (high - low)
    return jnp.log(share) - jnp.log1p(-share)

  return Transform(
    lambda x: low + (high - low) * jax.nn.sigmoid(x), inverse, low, high
  )


class Rule(NamedTuple):
  """What to train.

  Attributes:
    pattern: `cell/region/channel.parameter` with `*` for anything, as in
      '*/apical/HH.g_na', 'geometry/0.radius', 'synapses/Exp2Syn.weight' or
      'gaps'; a cell is given
      by its index, a region also by the name of a section.
    transform: keeps the parameter in its bounds.
    share: what has one common value: each 'segment', 'section', 'region',
      'cell', or 'all'.
  """

  pattern: str
  transform: Transform = identity
  share: str = 'segment'


class _Part(NamedTuple):
  """A leaf of the parameters that a rule trains, in part."""

  path: tuple[str, ...]
  rows: np.ndarray
  groups: np.ndarray
  transform: Transform


def make_trainable(
  net: Network, params: Params, rules: Sequence[Rule]
) -> tuple[Free, Callable[[Free], Params]]:
  """Splits parameters into those that are trained and the rest.

  Args:
    net: the network.
    params: of `init_params`; trained ones start from here (those with a common
      value from their mean).
    rules: what to train.

  Returns:
    {name of the leaf: `[G]` free numbers}, any real numbers of which make
    parameters within the bounds; and the function from them to `params`.

  Raises:
    ValueError: a rule that matches nothing or what another one does, an
      unknown share, or a start outside the bounds.
  """
  parts: dict[str, _Part] = {}
  free: Free = {}
  for rule in rules:
    if rule.share not in SHARES:
      raise UserError(
        f'make_trainable: share = {rule.share!r} is not known; take one of '
        f'{", ".join(SHARES)}.'
      )
    matches = list(_matches(net, params, rule))
    if not matches:
      raise UserError(
        f'make_trainable: nothing matches {rule.pattern!r}; parameters are '
        f'addressed as {_example(net)}.'
      )
    for name, part in matches:
      key = f'{rule.pattern}:{name}'
      taken = [
        k
        for k, other in parts.items()
        if other.path == part.path and np.isin(other.rows, part.rows).any()
      ]
      if taken:
        raise UserError(
          f'make_trainable: {key} is already trained as {taken[0]}; let each '
          'parameter match one rule.'
        )
      parts[key] = part
      free[key] = _start(key, part, _leaf(params, part.path))

  def assemble(free: Free) -> Params:
    out = params
    for key, part in parts.items():
      values = part.transform.forward(free[key])[part.groups]
      leaf = _leaf(out, part.path)
      shaped = values.reshape(-1, *leaf.shape[1:]).astype(leaf.dtype)
      out = _with_leaf(out, part.path, leaf.at[part.rows].set(shaped))
    return out

  return free, assemble


def _matches(net, params, rule):
  if rule.pattern == 'gaps' and 'gaps' in params:
    everything = np.arange(len(params['gaps']))
    groups = np.zeros_like(everything) if rule.share == 'all' else everything
    yield 'gaps', _Part(('gaps',), everything, groups, rule.transform)
    return
  for synapse, p in params['synapses'].items():
    for key, leaf in p.items():
      if fnmatch.fnmatchcase(f'synapses/{synapse}.{key}', rule.pattern):
        rows = np.arange(np.size(leaf))
        groups = np.zeros_like(rows) if rule.share == 'all' else rows
        path = ('synapses', synapse, key)
        yield f'{synapse}.{key}', _Part(path, rows, groups, rule.transform)
  for group, p in params['geometry'].items():
    for key, leaf in p.items():
      if fnmatch.fnmatchcase(f'geometry/{group}.{key}', rule.pattern):
        rows = np.arange(len(leaf))
        groups = np.zeros_like(rows) if rule.share == 'all' else rows
        path = ('geometry', group, key)
        yield f'{group}.{key}', _Part(path, rows, groups, rule.transform)
  if rule.pattern.count('/') != 2:
    return
  # Sections are called dend[0]: brackets are no pattern here.
  where, _, leaf_pattern = rule.pattern.replace('[', '[[]').rpartition('/')
  labels = _labels(net)
  for name, mechanism in net.mechanisms.items():
    for key in mechanism.defaults:
      if not fnmatch.fnmatchcase(f'{name}.{key}', leaf_pattern):
        continue
      here = [labels[row] for row in mechanism.rows.indices]
      places = [i for i, label in enumerate(here) if _is_at(label, where)]
      if places:
        groups = _groups([here[i] for i in places], rule.share)
        path = ('channels', name, key)
        part = _Part(path, np.array(places), groups, rule.transform)
        yield f'{name}.{key}', part


class _Label(NamedTuple):
  """Where a row is."""

  cell: str
  region: str
  section: str
  node: int


def _labels(net) -> dict[int, _Label]:
  out = {}
  for index, cell in enumerate(net.cells):
    tree = cell.tree
    for node, row in enumerate(net.cell_rows(index)):
      section = int(tree.section[node])
      if section >= 0:
        region, name = tree.region[section], tree.names[section]
        out[int(row)] = _Label(str(index), region, name, node)
  return out


def _is_at(label: _Label, where: str) -> bool:
  return any(
    fnmatch.fnmatchcase(f'{label.cell}/{place}', where)
    for place in (label.region, label.section)
  )


def _groups(labels: list[_Label], share: str) -> np.ndarray:
  depth = {'all': 0, 'cell': 1, 'region': 2, 'section': 3, 'segment': 4}[share]
  keys = [label[:depth] for label in labels]
  order = {key: i for i, key in enumerate(dict.fromkeys(keys))}
  return np.array([order[key] for key in keys])


def _start(key, part, leaf) -> jax.Array:
  values = np.asarray(leaf, np.float64).reshape(-1)[part.rows]
  counts = np.bincount(part.groups)
  means = np.bincount(part.groups, weights=values) / counts
  outside = (means <= part.transform.low) | (means >= part.transform.high)
  if outside.any():
    raise UserError(
      f'make_trainable: {key} starts at {means[outside][0]:g}, outside '
      f'({part.transform.low:g}, {part.transform.high:g}); widen the bounds.'
    )
  return part.transform.inverse(jnp.asarray(means, leaf.dtype))


def _leaf(params, path):
  for name in path:
    params = params[name]
  return jnp.atleast_1d(params)


def _with_leaf(params, path, leaf):
  head, *rest = path
  if rest:
    return {**params, head: _with_leaf(params[head], tuple(rest), leaf)}
  return {**params, head: leaf.reshape(jnp.shape(params[head]))}


def _example(net) -> str:
  found = []
  for name, mechanism in net.mechanisms.items():
    label = _labels(net)[mechanism.rows.indices[0]]
    found.append(f"'{label.cell}/{label.region}/{name}.*'")
  return ', '.join(found[:3])
