"""Blocks and layers as functions of the states of their sites."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp

from jaxlab.quantization import network, operators, sites
from jaxlab.quantization.types import Linear, Site, States


@dataclasses.dataclass(frozen=True)
class SiteRun:
  """A block with its sites replaced; equal for blocks of equal shape."""

  block: sites.Block
  sites: tuple[Any, ...]
  soft: bool = False

  def __call__(self, params, states: States, x: jax.Array) -> jax.Array:
    return sites.run(self.block, params, x, self.sites, states, soft=self.soft)


def low(site) -> bool:
  """Whether a site has fewer than 8 bits."""
  return site.a_bits < 8 or (site.linear and site.w_bits < 8)


@dataclasses.dataclass(frozen=True)
class LayerRun:
  """A layer on rows of its input, `[M, K] -> [M, N]`."""

  rows: int
  columns: int
  bits: int
  soft: bool = False

  @property
  def site(self):
    """A dense site of this shape."""
    return Site('', 'dense', self.rows, self.columns, w_bits=self.bits)

  def __call__(self, _, states: States, x: jax.Array) -> jax.Array:
    return operators.quantized(self.site, states[''], x, soft=self.soft)


def with_acts(states: States, on: bool) -> States:
  """States whose activations are rounded or not."""
  return {
    name: s._replace(act=s.act._replace(on=jnp.asarray(on)))
    for name, s in states.items()
  }


@functools.partial(jax.jit, static_argnames='run')
def recorded(run: SiteRun, params, x):
  """A block in float, with what its sites take."""
  return sites.record(run.block, params, x, run.sites)


def site_error(run, params, states, data, site, key):
  """Coded inputs `[M, K]` of a site, error of its output over r, and r."""
  x_q, x_float, _ = data
  _, seen = recorded(run, params, x_float)
  given = _input_of(run, params, states, x_q, site)
  index = sites.sample_places(site, given.shape, network.MOST_ROWS, key)
  state: Linear = states[site.name]
  rows = operators.patches(site, given, index)
  moved, size = operators.transformed(site, state.transform, rows)
  act = operators.at_places(state.act, index)
  codes = operators.coded(act, moved, site.a_bits)
  codes = codes.reshape(len(rows), -1)
  size = jnp.broadcast_to(size, (len(rows), 1, 1))[:, 0, 0]
  exact = operators.patches(site, seen[site.name]['input'], index)
  y = exact.reshape(len(rows), -1) @ seen[site.name]['weights']
  y += seen[site.name]['bias'] - state.bias
  y_hat = codes @ operators.weights_of(state)
  return codes, y / size[:, None] - y_hat, size


def _input_of(run, params, states, x, site):
  """What a site takes in the quantized block."""
  found = {}
  by_name = {s.name: s for s in run.sites}

  def replace(module, name, value, original):
    if name == site.name:
      found['x'] = value
    return sites.replaced(module, by_name[name], states[name], value)

  sites.intercepted(run.block, params, x, replace)
  return found['x']


def relative(y: jax.Array, exact: jax.Array) -> float:
  """|y - exact|^2 / |exact|^2."""
  return float(_relative_error(y, exact))


@jax.jit
def _relative_error(y, exact):
  tiny = jnp.finfo(y.dtype).tiny
  return jnp.sum((y - exact) ** 2) / jnp.maximum(jnp.sum(exact**2), tiny)
