"""Hessian-aware rectification: transforms of inputs, chosen site by site.

A reconstruction: candidates are the equivalence transforms of the literature
(SmoothQuant, arXiv:2211.10438; QuaRot, arXiv:2404.00456; RepQ-ViT,
arXiv:2212.08254; PTQ4VM, arXiv:2412.20386); the choice is by the output's KL
divergence when this site alone is quantized.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.quantization import fit, network, operators, transforms
from jaxlab.quantization.network import Plan, SiteData
from jaxlab.quantization.types import (
  Linear,
  Site,
  States,
  Transform,
  bare,
)


class Choice(NamedTuple):
  """What was tried at a site.

  Attributes:
    names: of the candidates; the first is the identity.
    losses: of each, on the pictures for choosing.
    chosen: number of the smallest.
    audit: losses of the identity and of the chosen one on pictures that were
      used neither to fit nor to choose; NaN without such pictures.
    sharpness: largest over mean eigenvalue of the input's second moment,
      before and after.
    mixing: its off-diagonal energy over the whole, before and after.
  """

  names: tuple[str, ...]
  losses: tuple[float, ...]
  chosen: int
  audit: tuple[float, float]
  sharpness: tuple[float, float]
  mixing: tuple[float, float]


@functools.cache
def names_of(site: Site, *, by_token: bool = True) -> tuple[str, ...]:
  """Names of the transforms that are tried; the first is the identity.

  Args:
    site: linear.
    by_token: whether tokens may be divided by their size.
  """
  found = ['identity', 'D(0.25)', 'D(0.5)', 'smooth(0.5)', 'shift']
  found.append('shift, D(0.5)')
  if site.groups == 1 and transforms.largest_block(site.channels) > 1:
    found += ['Hadamard', 'D(0.5), Hadamard', 'shift, D(0.5), Hadamard']
  if site.kind == 'dense' and by_token:
    found += [f'{name}, per token' for name in found]
  return tuple(found)


@functools.partial(jax.jit, static_argnames=('site', 'names'))
def candidates(
  site: Site, names: tuple[str, ...], data: SiteData, key: jax.Array
) -> Transform:
  """The transforms of `names_of`, stacked along a first axis."""
  rows, weights = data.values, data.weights
  signs = jax.random.rademacher(key, (site.channels,), rows.dtype)
  mean = jnp.mean(rows, axis=(0, 1))
  plain = operators.identity(site, rows.dtype)
  found = []
  for name in names:
    shift = mean if 'shift' in name else plain.shift
    scale = plain.scale
    for kind, alpha, rule in _SCALES:
      if kind in name:
        scale = channel_scales(site, rows - shift, weights, alpha, rule)
    found.append(
      Transform(
        shift,
        scale,
        signs,
        jnp.asarray('Hadamard' in name),
        jnp.asarray('per token' in name),
      )
    )
  return jax.tree.map(lambda *x: jnp.stack(x), *found)


_SCALES = (
  ('D(0.25)', 0.25, 'rms'),
  ('D(0.5)', 0.5, 'rms'),
  ('smooth(0.5)', 0.5, 'max'),
)


@functools.partial(jax.jit, static_argnames=('site', 'rule'))
def fit_all(
  site: Site, rule: fit.Rule, seen: fit.Seen, tried: Transform
) -> Linear:
  """States of a site for stacked transforms, stacked likewise."""
  return jax.lax.map(lambda t: fit.fit_linear(site, rule, seen, t), tried)


def take(stacked: Linear, index: int) -> Linear:
  """One of a stack of NumPy arrays, and active."""
  state = jax.tree.map(lambda x: np.asarray(x[index]), stacked)
  on: Any = np.ones((), bool)
  return state._replace(active=on)


def untouched(stacked: Linear) -> Linear:
  """The state of the identity, inactive."""
  off: Any = np.zeros((), bool)
  return take(stacked, 0)._replace(active=off)


def channel_scales(
  site: Site, rows: jax.Array, weights: jax.Array, alpha: float, rule: str
) -> jax.Array:
  """`[C]` scales that share the range between input and weights.

  Args:
    site: a linear site.
    rows: `[M, taps, C]` inputs.
    weights: `[K, N]`.
    alpha: share that the weights take.
    rule: 'rms', or 'max' as in SmoothQuant.
  """
  channel = operators.channel_of_row(site).reshape(-1)
  flat = weights.reshape(-1)
  at = jnp.abs(rows)
  if rule == 'max':
    of_x = jnp.max(at, axis=(0, 1))
    of_w = jnp.zeros(site.channels, rows.dtype).at[channel].max(jnp.abs(flat))
  else:
    of_x = jnp.sqrt(jnp.mean(at**2, axis=(0, 1)))
    sums = jnp.zeros(site.channels, rows.dtype).at[channel].add(flat**2)
    of_w = jnp.sqrt(sums / (flat.size / site.channels))
  return transforms.smooth_scales(of_x, of_w, alpha, rule=rule)


class Candidates(NamedTuple):
  """What is tried at a site.

  Attributes:
    names: of the transforms.
    transforms: stacked.
    states: fitted with them, stacked NumPy arrays.
  """

  names: tuple[str, ...]
  transforms: Transform
  states: Linear


def fit_candidates(
  site: Site,
  names: tuple[str, ...],
  data: SiteData,
  rule: fit.Rule,
  key: jax.Array,
) -> Candidates:
  """The transforms and the states fitted with them.

  Args:
    site: linear.
    names: from `names_of`.
    data: what it takes on the pictures for fitting.
    rule: how grids are fitted.
    key: of the rotation's signs.
  """
  kind = fit.essence(site)
  tried = candidates(kind, names, data, key)
  fitted = fit_all(kind, rule.at(site), fit.Seen(*data), tried)
  # On the host, where taking one of them needs no program.
  return Candidates(names, tried, jax.device_get(fitted))


def choose(
  plan: Plan,
  params: Sequence[Any],
  index: int,
  site: Site,
  data: SiteData,
  found: Candidates,
  states: Sequence[States],
  judged: tuple[jax.Array, jax.Array],
  audit: tuple[jax.Array, jax.Array] | None,
  *,
  score: str = 'kl',
) -> tuple[Linear, Choice]:
  """Keeps the best of a site's candidates.

  Args:
    plan: the network.
    params: of its blocks.
    index: block of the site.
    site: linear.
    data: what it takes on the pictures for fitting.
    found: from `fit_candidates`.
    states: of all sites, all inactive.
    judged: pictures for choosing, and their float logits.
    audit: further pictures and logits, only for the report.
    score: 'kl', or 'ell' for the weighted error of the site's own output.

  Returns:
    The fitted state, inactive, and what was tried.
  """
  names, tried, fitted = found

  def kl(number, pictures):
    changed = [{n: bare(s) for n, s in group.items()} for group in states]
    changed[index][site.name] = bare(take(fitted, number))
    return float(network.mean_kl(plan, params, changed, *pictures))

  if score == 'kl':
    losses = [kl(i, judged) for i in range(len(names))]
  else:
    losses = np.asarray(
      _errors(fit.essence(site), fitted, fit.Seen(*data))
    ).tolist()
  # Infinite and undefined losses lose against the identity.
  order = [x if math.isfinite(x) else math.inf for x in losses]
  chosen = min(range(len(order)), key=order.__getitem__)
  audited = (math.nan,) * 2
  if audit is not None:
    first = kl(0, audit)
    audited = first, (first if chosen == 0 else kl(chosen, audit))
  spectra = _spectra(fit.essence(site), tried, data.values, chosen)
  sharp, mixed = np.asarray(spectra).tolist()
  off: Any = np.zeros((), bool)
  return take(fitted, chosen)._replace(active=off), Choice(
    names, tuple(losses), chosen, audited, tuple(sharp), tuple(mixed)
  )


@functools.partial(jax.jit, static_argnames='site')
def _spectra(site, tried, rows, chosen) -> jax.Array:
  """`[2, 2]` sharpness and mixing of the input, before and after."""

  def one(index):
    transform = jax.tree.map(lambda x: x[index], tried)
    moved, _ = operators.transformed(site, transform, rows)
    flat = moved.reshape(-1, site.channels)
    gram = flat.T @ flat / len(flat)
    values = jnp.linalg.eigvalsh(gram)
    own = jnp.sum(jnp.diag(gram) ** 2) / jnp.sum(gram**2)
    return jnp.stack([values[-1] / jnp.mean(values), 1 - own])

  return jnp.stack([one(0), one(chosen)], axis=1)


@functools.partial(jax.jit, static_argnames='site')
def _errors(site, fitted, seen) -> jax.Array:
  """`site_loss` of stacked states."""
  return jax.lax.map(lambda state: site_loss(site, state, seen), fitted)


def site_loss(site: Site, state: Linear, seen: fit.Seen) -> jax.Array:
  """Weighted squared error of what the site gives on the seen rows."""
  gap = fit.output_error(site, state, seen)
  return jnp.mean(seen.omega * (gap**2 @ seen.gamma))
