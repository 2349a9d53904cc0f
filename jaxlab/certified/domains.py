"""Subdomains of a search as arrays of fixed size on the device.

Neurons are those of all ReLUs, one after the other. A subdomain fixes the signs
of some neurons' inputs; it belongs to one row (margin), and a lower bound of
+inf marks a free place.
"""

import functools
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.certified.graph import Graph


class Domains(NamedTuple):
  """D subdomains over N neurons.

  Attributes:
    lower: `[D]` lower bound of the row's margin; +inf for a free place.
    row: `[D]` int32 index of the row.
    signs: `[D, N]` int8: +1 active, -1 inactive, 0 not split.
    slopes: `[D, N]` of the lines below the ReLUs, best so far.
    multipliers: `[D, N]` of the splits' constraints, best so far.
    branch: `[D]` int32 neuron to split next; -1 where none is left.
  """

  lower: jax.Array
  row: jax.Array
  signs: jax.Array
  slopes: jax.Array
  multipliers: jax.Array
  branch: jax.Array


def unstack(graph: Graph, flat: jax.Array) -> dict[int, jax.Array]:
  """`[N]` values of all neurons by ReLU, each in its shape."""
  parts, start = {}, 0
  for index in graph.relus:
    node = graph.nodes[index]
    parts[index] = flat[start : start + node.size].reshape(node.shape)
    start += node.size
  return parts


def stack(graph: Graph, values: Mapping[int, jax.Array]) -> jax.Array:
  """The inverse of `unstack`."""
  parts = [values[index].reshape(-1) for index in graph.relus]
  return jnp.concatenate(parts) if parts else jnp.zeros(0)


def vacant(places: int, neurons: int, dtype) -> Domains:
  """Free places."""
  numbers = jnp.zeros((places, neurons), dtype)
  return Domains(
    lower=jnp.full(places, jnp.inf, dtype),
    row=jnp.zeros(places, jnp.int32),
    signs=numbers.astype(jnp.int8),
    slopes=numbers,
    multipliers=numbers,
    branch=jnp.full(places, -1, jnp.int32),
  )


def enlarge(domains: Domains, places: int) -> Domains:
  """Adds free places, for `places` in all."""
  more = vacant(
    places - len(domains.lower),
    domains.slopes.shape[1],
    domains.lower.dtype,
  )
  return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), domains, more)


@functools.partial(jax.jit, static_argnames='batch')
def pop(
  domains: Domains, goal: jax.Array, *, batch: int
) -> tuple[Domains, Domains]:
  """Takes the subdomains out that are furthest below their goals, split in two.

  Args:
    domains: subdomains, each with a neuron to split.
    goal: `[S]` lower bound that is wanted for each row.
    batch: how many to take; fewer where there are fewer.

  Returns:
    The others, and `2 batch` children with the lower bounds, slopes and
    multipliers of their parents.
  """
  _, worst = jax.lax.top_k(goal[domains.row] - domains.lower, batch)
  parents = jax.tree.map(lambda part: part[worst], domains)
  rest = domains._replace(lower=domains.lower.at[worst].set(jnp.inf))
  lanes = jnp.arange(batch)

  def child(sign):
    signs = parents.signs.at[lanes, parents.branch].set(sign)
    return parents._replace(signs=signs)

  children = jax.tree.map(
    lambda a, b: jnp.concatenate([a, b]), child(1), child(-1)
  )
  return rest, children


@jax.jit
def insert(domains: Domains, more: Domains) -> Domains:
  """Puts subdomains into free places, of which there must be enough."""
  free = (domains.lower == jnp.inf).astype(jnp.int32)
  _, places = jax.lax.top_k(free, len(more.lower))
  return jax.tree.map(lambda a, b: a.at[places].set(b), domains, more)
