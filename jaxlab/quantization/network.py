"""A network as a plan of blocks and sites, and what is asked of the whole."""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import flax.errors
import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import errors
from jaxlab.quantization import fisher, operators, sites, transforms
from jaxlab.quantization.types import QuantSpec, Site, States, with_bits

MOST_ROWS = 4096
_MOST_VALUES = 16_384


@dataclasses.dataclass(frozen=True)
class Plan:
  """The static side of a network.

  Attributes:
    blocks: functions `(own parameters, x) -> y`.
    sites: of each block.
  """

  blocks: tuple[sites.Block, ...]
  sites: tuple[tuple[Site, ...], ...]

  def named(self) -> list[tuple[int, Site, str]]:
    """(block, site, full name) of all sites."""
    return [
      (i, site, f'{i}/{site.name}')
      for i, group in enumerate(self.sites)
      for site in group
    ]


class SiteData(NamedTuple):
  """What a site takes in float.

  Attributes:
    values: rows `[M, taps, C]` of a linear site, else `[n]` values.
    omega: `[M]` energy of what an error at this output place does, mean 1;
      None for operands.
    gamma: `[N]` the same for output channels.
    weights: `[K, N]`.
    bias: `[N]`.
  """

  values: jax.Array
  omega: Any = None
  gamma: Any = None
  weights: Any = None
  bias: Any = None


def make_plan(
  apply_blocks: Sequence[sites.Block],
  params: Any,
  x: jax.Array,
  spec: QuantSpec,
) -> tuple[Plan, tuple[Any, ...]]:
  """Finds the sites and gives them their bits.

  Args:
    apply_blocks: functions `(params, x) -> y`, such as `Chain.blocks()`.
    params: of all blocks.
    x: an input.
    spec: bit-widths.

  Returns:
    The plan, and the parameters of each block.

  Raises:
    UserError: if nothing can be quantized, or blocks do not fit together.
  """
  views = [sites.view(block, params) for block in apply_blocks]
  found: list[tuple[Site, ...]] = []
  shape: Any = x
  for i, (block, own) in enumerate(views):
    try:
      found.append(sites.find(block, own, shape))
      shape = jax.eval_shape(block, own, shape)
    except flax.errors.ScopeCollectionNotFound as error:
      raise errors.UserError(
        f'block {i} of apply_blocks needs more than params: fold batch norms '
        'into convolutions first, as nets.fold_batch_norm does.'
      ) from error
    except (TypeError, ValueError, flax.errors.FlaxError) as error:
      if isinstance(error, errors.UserError):
        raise
      raise errors.UserError(
        f'block {i} of apply_blocks does not take what block {i - 1} gives, '
        f'an array of the shape {shape.shape}: {str(error).splitlines()[0]}'
      ) from error
  linear = [
    (i, s.name) for i, group in enumerate(found) for s in group if s.linear
  ]
  if not linear:
    raise errors.UserError(
      'apply_blocks have no quantizable layer: no flax Dense or Conv is called.'
    )
  ends = {linear[0], linear[-1]}
  plan = Plan(
    tuple(block for block, _ in views),
    tuple(
      tuple(
        with_bits(s, spec, outer=(i, s.name) in ends, path=f'{i}/{s.name}')
        for s in group
      )
      for i, group in enumerate(found)
    ),
  )
  return plan, tuple(own for _, own in views)


@functools.partial(jax.jit, static_argnames='plan')
def outputs(plan: Plan, params: Sequence[Any], x: jax.Array) -> list[jax.Array]:
  """What each block gives in float; the last are the logits."""
  found = []
  for block, own in zip(plan.blocks, params, strict=True):
    x = block(own, x)
    found.append(x)
  return found


@functools.partial(jax.jit, static_argnames='plan')
def quantized_logits(
  plan: Plan, params: Sequence[Any], states: Sequence[States], x: jax.Array
) -> jax.Array:
  """Logits with the quantized sites that are active."""
  for block, own, group, state in zip(
    plan.blocks, params, plan.sites, states, strict=True
  ):
    x = sites.run(block, own, x, group, state)
  return x


@functools.partial(jax.jit, static_argnames='plan')
def mean_kl(
  plan: Plan,
  params: Sequence[Any],
  states: Sequence[States],
  x: jax.Array,
  logits: jax.Array,
) -> jax.Array:
  """Mean KL divergence of the outputs from those of the float network."""
  now = quantized_logits(plan, params, states, x)
  return jnp.mean(fisher.kl_divergence(logits, now))


def rest_of(plan: Plan, index: int, params: Sequence[Any]):
  """`z -> logits` from the output of block `index` on, in float."""

  def rest(z):
    for block, own in zip(
      plan.blocks[index + 1 :], params[index + 1 :], strict=True
    ):
      z = block(own, z)
    return z

  return rest


@functools.partial(
  jax.jit, static_argnames=('plan', 'index', 'probes', 'exact')
)
def factors(
  plan: Plan,
  index: int,
  params: Sequence[Any],
  z: jax.Array,
  key: jax.Array,
  *,
  probes: int,
  exact: int = 16,
) -> jax.Array:
  """Fisher factors `[n, r, ...]` at outputs z of block `index`."""
  return fisher.fisher_factors(
    rest_of(plan, index, params),
    z,
    key,
    probes=probes,
    exact_max_classes=exact,
  )


@functools.partial(jax.jit, static_argnames=('plan', 'most'))
def collect(
  plan: Plan,
  params: Sequence[Any],
  x: jax.Array,
  key: jax.Array,
  *,
  most: int = MOST_ROWS,
) -> list[dict[str, SiteData]]:
  """What all sites take in float, at `most` of their places."""
  found = []
  for i, (block, own, group) in enumerate(
    zip(plan.blocks, params, plan.sites, strict=True)
  ):
    x, seen = sites.record(block, own, x, group)
    data = {}
    for j, site in enumerate(group):
      part = jax.random.fold_in(jax.random.fold_in(key, i), j)
      data[site.name] = _site_data(site, seen[site.name], part, most)
    found.append(data)
  return found


def _site_data(site, seen, key, most) -> SiteData:
  value = seen['input']
  if not site.linear:
    flat = value.reshape(-1)
    if flat.size > _MOST_VALUES:
      flat = jax.random.choice(key, flat, (_MOST_VALUES,), replace=False)
    return SiteData(flat)
  index = sites.sample_places(site, value.shape, most, key)
  rows = operators.patches(site, value, index)
  ones = jnp.ones(len(rows), rows.dtype)
  gamma = jnp.ones(site.columns, rows.dtype)
  return SiteData(rows, ones, gamma, seen['weights'], seen['bias'])


@functools.partial(jax.jit, static_argnames=('plan', 'most', 'probes'))
def energies(
  plan: Plan,
  params: Sequence[Any],
  x: jax.Array,
  key: jax.Array,
  *,
  probes: int = 6,
  most: int = MOST_ROWS,
) -> list[dict[str, tuple[jax.Array, jax.Array]]]:
  """(omega, gamma) of all linear sites at the places of `collect`.

  Energies of the factors of the Fisher matrix of what a site gives, from
  Rademacher probes; means are 1.
  """
  shapes = _output_shapes(plan, params, x)
  zeros = [
    {name: jnp.zeros(shape, x.dtype) for name, shape in group.items()}
    for group in shapes
  ]

  def logits(added):
    y = x
    for block, own, extra in zip(plan.blocks, params, added, strict=True):
      y = sites.perturbed(block, own, y, extra)
    return y

  out, pull = jax.vjp(logits, zeros)
  p = jax.nn.softmax(out)

  def one(total, key):
    eps = jax.random.rademacher(key, p.shape, p.dtype)
    cotangent = jax.vmap(lambda p, e: fisher.probe_cotangents(p, e[None])[0])(
      p, eps
    )
    (grads,) = pull(cotangent)
    return jax.tree.map(lambda t, g: t + g**2, total, grads), None

  # Not a key of a block, which `collect` chooses places with.
  keys = jax.random.split(jax.random.fold_in(key, len(plan.sites)), probes)
  squares, _ = jax.lax.scan(one, jax.tree.map(jnp.zeros_like, zeros), keys)
  found = []
  for i, group in enumerate(plan.sites):
    entry = {}
    for j, site in enumerate(group):
      if not site.linear:
        continue
      part = jax.random.fold_in(jax.random.fold_in(key, i), j)
      entry[site.name] = _energy(site, squares[i][site.name], part, most)
    found.append(entry)
  return found


def _energy(site, square, key, most):
  """Weights of rows and of columns, of squared gradients `[B, *, N]`."""
  flat = square.reshape(-1, site.columns)
  total = len(flat)
  if total > most:
    flat = flat[jax.random.choice(key, total, (most,), replace=False)]
  tiny = jnp.finfo(flat.dtype).tiny
  omega = jnp.sum(flat, axis=1)
  gamma = jnp.mean(flat, axis=0)
  omega = omega / jnp.maximum(jnp.mean(omega), tiny)
  gamma = gamma / jnp.maximum(jnp.mean(gamma), tiny)
  # Where an output has no effect, all places count the same.
  omega = jnp.where(jnp.sum(omega) > 0, omega, 1)
  return omega, jnp.where(jnp.sum(gamma) > 0, gamma, 1)


def _output_shapes(plan, params, x):
  """Shapes of what linear sites give, by block."""
  found: list[dict[str, tuple[int, ...]]] = []
  shape: Any = x
  for block, own, group in zip(plan.blocks, params, plan.sites, strict=True):
    seen = jax.eval_shape(
      lambda p, x, b=block, g=group: sites.record(b, p, x, g)[1], own, shape
    )
    found.append(
      {
        s.name: (
          seen[s.name]['input'].shape[0],
          *operators.num_places(s, seen[s.name]['input'].shape),
          s.columns,
        )
        for s in group
        if s.linear
      }
    )
    shape = jax.eval_shape(block, own, shape)
  return found


def activated(states: Sequence[States], on: bool | None) -> list[States]:
  """States that are all active, all inactive, or without the switch."""
  flag = None if on is None else np.asarray(on)
  return [
    {name: state._replace(active=flag) for name, state in group.items()}
    for group in states
  ]


def macs(site: Site, places: int) -> int:
  """Multiplications of a linear site for `places` output places."""
  return places * site.rows * site.columns


def hadamard_adds(site: Site) -> int:
  """Additions of the rotation of one input place."""
  block = transforms.largest_block(site.channels)
  return site.channels * int(math.log2(block)) if block > 1 else 0
