"""Circuits of the worm C. elegans: cells and wiring, and what is trained.

Neurons, densities and ranges are those of BAAIWorm (Zhao et al. 2024, Nature
Computational Science 4: 978-990): channels sit on the soma, neurites are
passive, chemical synapses are graded, and weights stay within fixed bounds.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from scipy.spatial import KDTree

from jaxlab.dendrites.cell import Cell, cell
from jaxlab.dendrites.channels import celegans as voltage_gated
from jaxlab.dendrites.channels import celegans_calcium as calcium_gated
from jaxlab.dendrites.channels.passive import Leak
from jaxlab.dendrites.compartments import CompartmentTree
from jaxlab.dendrites.connections import connect, gap_junctions
from jaxlab.dendrites.discretize import discretize
from jaxlab.dendrites.morphology import depth_first
from jaxlab.dendrites.network import Network, network
from jaxlab.dendrites.state import Params
from jaxlab.dendrites.swc import parse_swc
from jaxlab.dendrites.synapses import GradedInhibition, GradedSyn
from jaxlab.errors import UserError

CHEMICAL_RANGE = (0.1, 10.0)  # factors of a synapse's gbar
GAP_RANGE = (1e-4, 1e-3)  # uS
INHIBITORY = 0.3  # share of neurons that inhibit
PLACES = ('nearest', 'soma', 'random')

_VOLTAGE_GATED = (
  *('shl1', 'shk1', 'kvs1', 'egl2', 'egl36', 'kqt3', 'egl19', 'unc2'),
  *('cca1', 'nca', 'irk'),
)
_CALCIUM_GATED = (
  *('slo1_egl19', 'slo1_unc2', 'slo2_egl19', 'slo2_unc2', 'kcnl'),
)
# By the name that follows 'soma.gb' in the table.
CHANNELS = {
  **{name: getattr(voltage_gated, name) for name in _VOLTAGE_GATED},
  **{name: getattr(calcium_gated, name) for name in _CALCIUM_GATED},
}
_PASSIVE = ('Ra', 'cm', 'gpas', 'epas')
# Drawn weights keep this share of their range from its ends, where the slope
# of the sigmoid vanishes.
_MARGIN = 0.02

Weights = dict[str, Any]


class Wiring(NamedTuple):
  """Who is connected with whom among N neurons.

  Attributes:
    names: the N neurons.
    pre: `[C]` sending neurons of the chemical connections.
    post: `[C]` receiving neurons.
    gap: `[J, 2]` neurons with gap junctions, each pair once.
  """

  names: tuple[str, ...]
  pre: np.ndarray
  post: np.ndarray
  gap: np.ndarray


def indices(known: Sequence[str], names: Sequence[str]) -> np.ndarray:
  """`[M]` places of neurons among those known.

  Raises:
    UserError: a neuron that is unknown or named twice.
  """
  place = {name: i for i, name in enumerate(known)}
  unknown = [name for name in names if name not in place]
  if unknown:
    raise UserError(
      f'neuron {unknown[0]!r} is not among the {len(place)} known, such as '
      f'{known[0]!r}; correct the name.'
    )
  twice = [name for i, name in enumerate(names) if name in names[:i]]
  if twice:
    raise UserError(f'neuron {twice[0]!r} is named twice; name it once.')
  return np.array([place[name] for name in names], np.int32)


def select(wiring: Wiring, names: Sequence[str]) -> Wiring:
  """The circuit of some neurons: the connections that join two of them.

  Raises:
    UserError: a neuron that is unknown or named twice.
  """
  chosen = indices(wiring.names, names)
  place = np.full(len(wiring.names), -1, np.int32)
  place[chosen] = np.arange(len(chosen))
  pre, post, gap = place[wiring.pre], place[wiring.post], place[wiring.gap]
  inside = (pre >= 0) & (post >= 0)
  joined = np.sort(gap[(gap >= 0).all(axis=1)], axis=1)
  return Wiring(tuple(names), pre[inside], post[inside], joined)


def neuron(
  name: str,
  swc: str,
  params: Mapping[str, float],
  nseg: Sequence[int] | None = None,
  max_len: float | None = None,
) -> Cell:
  """Builds a neuron from its file and its row of the table.

  Args:
    name: for messages.
    swc: content of the SWC file.
    params: `soma.` or `neurite.` and `Ra` in ohm cm, `cm` in uF/cm2, `gpas` in
      S/cm2 and `epas` in mV, and `soma.gb` and a channel in S/cm2.
    nseg: numbers of segments of the sections in depth-first order.
    max_len: longest segment in um, instead of `nseg`.

  Returns:
    The neuron. Its source is the centre of the soma. A pool of calcium is
    where `kcnl` is, which alone reads it.

  Raises:
    UserError: a value that is missing, a channel that is unknown, or another
      number of sections than of `nseg`.
  """
  _check_row(name, params)
  morph = parse_swc(swc)
  counts = None
  if max_len is None and nseg is not None:
    order = depth_first(morph)
    if len(order) != len(nseg):
      raise UserError(
        f'neuron {name!r}: {len(nseg)} numbers of segments for {len(order)} '
        'sections; give one for each.'
      )
    counts = {
      morph.sections[i].name: int(count)
      for i, count in zip(order, nseg, strict=True)
    }
  tree = discretize(morph, max_len=max_len, nseg=counts, Ra=1.0)
  tree = _with_resistivity(tree, params['soma.Ra'], params['neurite.Ra'])
  leak, own = (
    Leak(g=params[f'{part}.gpas'], e=params[f'{part}.epas'])
    for part in ('neurite', 'soma')
  )
  channels = [('all', leak), *([('soma', own)] if own != leak else [])]
  for key, channel in CHANNELS.items():
    if params.get(f'soma.gb{key}', 0.0) > 0:
      channels.append(('soma', channel(g=params[f'soma.gb{key}'])))
  if params.get('soma.gbkcnl', 0.0) > 0:
    channels.append(('soma', calcium_gated.cainternm))
  cm = [('all', params['neurite.cm']), ('soma', params['soma.cm'])]
  return cell(tree, channels, cm=cm)


def _check_row(name: str, params: Mapping[str, float]) -> None:
  needed = [f'{part}.{p}' for part in ('soma', 'neurite') for p in _PASSIVE]
  for column in dict.fromkeys([*needed, *params]):
    if not np.isfinite(params.get(column, np.nan)):
      raise UserError(
        f'neuron {name!r} has no value of {column!r} in the table; add it.'
      )
  for column in params:
    part, _, density = column.partition('.gb')
    if density and (part != 'soma' or density not in CHANNELS):
      raise UserError(
        f'neuron {name!r}: {column!r} is no known density; channels of the '
        f'soma are {", ".join(CHANNELS)}.'
      )


def _with_resistivity(
  tree: CompartmentTree, soma: float, neurite: float
) -> CompartmentTree:
  """A tree of resistivity 1 with those of soma and neurites, in ohm cm."""
  Ra = np.full(tree.n, float(neurite))
  Ra[tree.nodes('soma')] = soma
  both = np.stack([Ra, Ra[np.maximum(tree.parent, 0)]], axis=1)
  return dataclasses.replace(
    tree, halves=tree.halves * both, Ra=soma if soma == neurite else np.nan
  )


def draw_inhibitory(
  key: jax.Array, n: int, fraction: float = INHIBITORY
) -> np.ndarray:
  """Draws which neurons inhibit.

  The sign belongs to the sender, not to the connection: a neuron releases one
  transmitter at all its synapses (Dale's principle), and a graded synapse's
  state is then one a sender. Receptors can turn the sign at some targets, which
  this leaves out.

  Args:
    key: PRNG key.
    n: number of neurons.
    fraction: share of them that inhibit.

  Returns:
    `[n]` bool, True for the nearest whole number to `fraction` n.
  """
  order = np.asarray(jax.random.permutation(key, n))
  return order < round(fraction * n)


def contacts(
  cells: Sequence[Cell],
  pairs: np.ndarray,
  place: str = 'nearest',
  key: jax.Array | None = None,
) -> np.ndarray:
  """Chooses the nodes at which pairs of neurons touch.

  The connectome counts synapses but does not say where they are.

  Args:
    cells: the neurons, in the coordinates of the body.
    pairs: `[P, 2]` neurons.
    place: 'nearest' is the pair of segments whose centres are closest, 'soma'
      the sources of both, 'random' any segments.
    key: for 'random'.

  Returns:
    `[P, 2]` nodes.

  Raises:
    UserError: an unknown place.
  """
  pairs = np.asarray(pairs, np.int32).reshape(-1, 2)
  if place == 'soma':
    sources = np.array([each.source for each in cells], np.int32)
    return sources[pairs]
  segments = [np.flatnonzero(each.tree.is_segment) for each in cells]
  if place == 'random' and key is not None:
    share = np.asarray(jax.random.uniform(key, pairs.shape))
    counts = np.array([len(nodes) for nodes in segments])[pairs]
    drawn = np.minimum((share * counts).astype(np.int32), counts - 1)
    found = [
      (segments[a][i], segments[b][j])
      for (a, b), (i, j) in zip(pairs, drawn, strict=True)
    ]
  elif place == 'nearest':
    found = _closest(cells, segments, pairs)
  else:
    raise UserError(
      f'place = {place!r}: take one of {", ".join(PLACES)}; random needs a key.'
    )
  return np.array(found, np.int32).reshape(-1, 2)


def _closest(cells, segments, pairs) -> list[tuple[int, int]]:
  positions = [
    each.tree.xyz[nodes] for each, nodes in zip(cells, segments, strict=True)
  ]
  trees = [KDTree(xyz) for xyz in positions]
  found = []
  for a, b in pairs:
    distance, nearest = trees[b].query(positions[a])
    i = np.argmin(distance)
    found.append((segments[a][i], segments[b][nearest[i]]))
  return found


def circuit(
  cells: Sequence[Cell],
  wiring: Wiring,
  inhibitory: ArrayLike,
  *,
  chemical: ArrayLike = 1.0,
  electrical: ArrayLike = 5e-4,
  place: str = 'nearest',
  key: jax.Array | None = None,
) -> Network:
  """Connects neurons.

  Args:
    cells: the N neurons of `wiring`.
    wiring: their connections.
    inhibitory: `[N]` bool, which neurons inhibit at all their targets.
    chemical: weights of chemical connections, one or `[C]`, in
      `CHEMICAL_RANGE`.
    electrical: conductances of gap junctions in uS, one or `[J]`, in
      `GAP_RANGE`.
    place: of synapses and junctions, as in `contacts`.
    key: for places that are drawn.

  Returns:
    The network; its chemical synapses are the groups `GradedSyn` and
    `GradedInhibition`, each in the order of `wiring`.

  Raises:
    UserError: a weight outside its range, or another number of cells or signs
      than of names.
  """
  inhibitory = np.asarray(inhibitory, bool)
  n = len(wiring.names)
  if len(cells) != n or inhibitory.shape != (n,):
    raise UserError(
      f'{len(cells)} cells and {inhibitory.size} signs for {n} names; give one '
      'of each a name.'
    )
  ends = np.stack([wiring.pre, wiring.post], axis=1)
  chemical = _within('chemical weight', chemical, len(ends), CHEMICAL_RANGE)
  electrical = _within('gap junction', electrical, len(wiring.gap), GAP_RANGE)
  keys = (None, None) if key is None else jax.random.split(key)
  nodes = contacts(cells, ends, place, keys[0])
  parts = []
  for kind, chosen in (
    (GradedSyn, ~inhibitory[wiring.pre]),
    (GradedInhibition, inhibitory[wiring.pre]),
  ):
    if chosen.any():
      pre, post = ends[chosen].T
      parts.append(connect(kind, pre, post, nodes[chosen, 1], chemical[chosen]))
  gaps = []
  if len(wiring.gap):
    at = contacts(cells, wiring.gap, place, keys[1])
    a, b = wiring.gap.T
    gaps.append(gap_junctions(a, b, electrical, at[:, 0], at[:, 1]))
  return network(cells, parts, gaps)


def _within(what, values, count, bounds) -> np.ndarray:
  low, high = bounds
  values = np.broadcast_to(np.asarray(values, float), (count,))
  outside = values[~((values >= low) & (values <= high))]
  if len(outside):
    raise UserError(
      f'{what} {outside[0]:g} is outside its range [{low:g}, {high:g}].'
    )
  return values


def weights_of(params: Params) -> Weights:
  """What is trained: {'gaps': `[J]`, 'synapses': {name: `[C]`}}."""
  synapses = {name: p['weight'] for name, p in params['synapses'].items()}
  gaps = {'gaps': params['gaps']} if 'gaps' in params else {}
  return {'synapses': synapses, **gaps}


def with_weights(params: Params, weights: Weights) -> Params:
  """The parameters with other weights."""
  synapses = {
    name: {**p, 'weight': weights['synapses'][name]}
    for name, p in params['synapses'].items()
  }
  return {**params, **weights, 'synapses': synapses}


def bounded(free: Weights) -> Weights:
  """Maps real numbers into the ranges by low + (high - low) sigmoid(x)."""
  return _mapped(
    free, lambda x, low, high: low + (high - low) * jax.nn.sigmoid(x)
  )


def unbounded(weights: Weights) -> Weights:
  """Inverse of `bounded`; infinite at the ends of a range."""
  return _mapped(
    weights, lambda w, low, high: jnp.log(w - low) - jnp.log(high - w)
  )


def _mapped(tree: Weights, fn) -> Weights:
  out = {
    'synapses': {
      name: fn(x, *CHEMICAL_RANGE) for name, x in tree['synapses'].items()
    }
  }
  if 'gaps' in tree:
    out['gaps'] = fn(tree['gaps'], *GAP_RANGE)
  return out


def draw_weights(key: jax.Array, like: Weights) -> Weights:
  """Draws weights uniformly from within their ranges."""
  leaves, structure = jax.tree.flatten(like)
  keys = jax.random.split(key, len(leaves))
  shares = [
    jax.random.uniform(k, x.shape, x.dtype, _MARGIN, 1 - _MARGIN)
    for k, x in zip(keys, leaves, strict=True)
  ]
  tree = jax.tree.unflatten(structure, shares)
  return _mapped(tree, lambda share, low, high: low + (high - low) * share)


def trace_loss(v: jax.Array, target: jax.Array) -> jax.Array:
  """Mean squared difference of traces of one shape, mV2."""
  return jnp.mean(jnp.square(v - target))


def correlations(v: jax.Array, *, floor: float = 1e-2) -> jax.Array:
  """Correlation matrix of traces.

  Args:
    v: `[S, R]` voltage of R neurons, mV.
    floor: variance in mV2 that is added to each neuron's, so that one at rest
      correlates with none, and the gradient there is finite.

  Returns:
    `[R, R]` in [-1, 1], with ones on the diagonal but for the floor.
  """
  centred = v - jnp.mean(v, axis=0)
  covariance = centred.T @ centred / v.shape[0]
  scale = jax.lax.rsqrt(jnp.diagonal(covariance) + floor)
  return covariance * scale[:, None] * scale[None]


def correlation_loss(v: jax.Array, target: jax.Array) -> jax.Array:
  """Mean squared difference of two correlation matrices of `[S, R]` traces."""
  return jnp.mean(jnp.square(correlations(v) - correlations(target)))
