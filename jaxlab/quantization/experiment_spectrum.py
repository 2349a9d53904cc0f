"""Eigenvalues of the Fisher matrix at the inputs of sites."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxlab.quantization import network, operators, sites
from jaxlab.quantization.export import PackedLinear, QuantModel
from jaxlab.quantization.types import Site


def of_inputs(
  model: QuantModel, params: tuple[Any, ...], x: jax.Array
) -> dict[str, jax.Array]:
  """Spectra before and after the transforms of a quantized network.

  For a site y = x W the Fisher matrix of its (unfolded) input is
  `W E[g g'] W'`, with g the gradients at y; of the transformed input it has
  the transformed W.

  Args:
    model: the quantized network.
    params: of the float network, for each block.
    x: `[n, ...]` inputs of the network.

  Returns:
    `[2, K]` eigenvalues of each site of few bits by the number of the block
    and its name, before and after, falling, of sum 1.
  """
  plan = model.plan
  outputs = [x, *network.outputs(plan, params, x)]
  found = {}
  for i, group in enumerate(plan.sites):
    chosen = [
      site
      for site in group
      if site.linear and site.groups == 1 and min(site.w_bits, site.a_bits) < 8
    ]
    if not chosen:
      continue
    _, seen = sites.record(plan.blocks[i], params[i], outputs[i], group)
    moments = _moments(plan, i, params, outputs[i], tuple(chosen))
    for site in chosen:
      found[f'{i}/{site.name}'] = _pair(
        site,
        model.sites[i][site.name],
        seen[site.name]['weights'],
        moments[site.name],
      )
  return found


def _moments(plan, index, params, x, chosen: tuple[Site, ...]):
  """`[N, N]` mean of g g' over places, by site of a block."""
  block, own = plan.blocks[index], params[index]

  def outputs_of(x):
    given = {}

    def note(module, name, value, original):
      given[name] = original()
      return given[name]

    sites.intercepted(block, own, x, note)
    return {site.name: given[site.name] for site in chosen}

  shapes = jax.eval_shape(outputs_of, x)
  zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
  rest = network.rest_of(plan, index, params)

  @jax.jit
  def moments(zeros):
    logits, pull = jax.vjp(
      lambda added: rest(sites.perturbed(block, own, x, added)), zeros
    )
    p = jax.nn.softmax(logits)
    # One row of the exact factors for each class, as `fisher_factors` has.
    root = jnp.sqrt(p)[:, :, None]
    rows = root * (jnp.eye(p.shape[1], dtype=p.dtype) - p[:, None])

    def one(total, row):
      (grads,) = pull(row)
      flat = jax.tree.map(lambda g: g.reshape(-1, g.shape[-1]), grads)
      return jax.tree.map(lambda t, g: t + g.T @ g, total, flat), None

    start = jax.tree.map(lambda z: jnp.zeros((z.shape[-1],) * 2), zeros)
    return jax.lax.scan(one, start, jnp.moveaxis(rows, 1, 0))[0]

  return moments(zeros)


def _pair(site: Site, state: PackedLinear, weights, moment) -> jax.Array:
  """`[2, K]` spectra of a site."""
  plain = operators.identity(site, weights.dtype)
  transform = plain
  if state.divide is not None:
    transform = transform._replace(scale=state.divide)
  pair = []
  for each in (plain, transform):
    moved = operators.transformed_weights(site, each, weights)
    values = jnp.linalg.eigvalsh(moved @ moment @ moved.T)[::-1]
    pair.append(jnp.maximum(values, 0) / jnp.sum(values))
  return jnp.stack(pair)
