"""Small networks, one of each architecture, and inputs to calibrate them."""

import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import nets
from jaxlab.quantization import fit, network, operators
from jaxlab.quantization.types import Activation, Operand, QuantSpec
from tests.nets import drawn

W2A2 = QuantSpec(2, 2)
STEPS = 6


class Small(NamedTuple):
  """A network as blocks, their parameters, and inputs."""

  blocks: tuple[Any, ...]
  params: Any
  calib: jax.Array
  model: nn.Module

  def logits(self, x):
    return self.model.apply({'params': self.params}, x)


class Layer(nn.Module):
  """A dense layer, with what a network has beside it."""

  features: int
  bias: bool = True
  relu: bool = True

  @nn.compact
  def __call__(self, x, train=False):
    y = nn.Dense(self.features, use_bias=self.bias, name='dense')(x)
    return nn.relu(y) if self.relu else y


def inputs(*shape, seed=0):
  return jnp.asarray(np.random.default_rng(seed).normal(size=shape), 'float32')


def _small(model, *shape):
  params = drawn.variables(model, 2, *shape[1:])['params']
  return Small(model.blocks(), params, inputs(*shape), model)


@functools.cache
def dense():
  """Four layers in as many blocks; the two equal ones have low bits."""
  stages = (
    ('first', Layer(8)),
    ('middle_0', Layer(8, bias=False)),
    ('middle_1', Layer(8, bias=False)),
    ('last', Layer(4, relu=False)),
  )
  return _small(nets.Chain(stages), 64, 6)


@functools.cache
def resnet():
  return _small(nets.resnet((1, 1), (4, 8), norm='none'), 32, 8, 8, 1)


@functools.cache
def vit():
  return _small(nets.vit(8, 1, 2, patch=4), 32, 8, 8, 1)


@functools.cache
def mamba():
  return _small(nets.vision_mamba(8, 1, 4, patch=4), 32, 8, 8, 1)


NETS = {'dense': dense, 'resnet': resnet, 'vit': vit, 'mamba': mamba}


@functools.partial(jax.jit, static_argnames=('site', 'rng'))
def state_of(site, weights, bias, seen, rng=None):
  """A site on grids from the extremes; with `rng`, all that a state can have.

  Args:
    site: linear.
    weights: `[K, N]`.
    bias: `[N]`.
    seen: `[..., C]` inputs.
    rng: of a transform, half-integer zero points and compensation.
  """
  weights, bias = jnp.asarray(weights), jnp.asarray(bias)
  transform = operators.identity(site)
  if rng is not None:
    transform = transform._replace(
      shift=rng.normal(size=site.channels).astype('float32') / 4,
      scale=rng.uniform(0.5, 2, site.channels).astype('float32'),
      signs=rng.choice([-1, 1], site.channels).astype('float32'),
      rotate=np.asarray(site.groups == 1),
      per_token=np.asarray(site.kind == 'dense'),
    )
  transform = jax.tree.map(jnp.asarray, transform)
  moved, _ = operators.transformed(site, transform, seen)
  turned = operators.transformed_weights(site, transform, weights)
  top = 2**site.w_bits - 1
  scale = 2 * jnp.max(jnp.abs(turned), axis=0) / top
  zero = jnp.full_like(scale, 2 ** (site.w_bits - 1) - (rng is not None) / 2)
  state = fit.on_grid(turned, scale, zero, site.w_bits)
  if rng is not None and site.groups == 1:
    state = state._replace(
      first=jnp.asarray(rng.normal(size=(site.rows, 2)), 'float32') / 8,
      second=jnp.asarray(rng.normal(size=(2, site.columns)), 'float32') / 8,
    )
  return state._replace(
    transform=transform,
    act=act_of(moved, site.a_bits),
    bias=operators.shifted_bias(site, transform, weights, bias),
    active=None,
  )


def act_of(x, bits):
  """Codes from the smallest to the largest number."""
  low, high = jnp.min(x), jnp.max(x)
  scale = jnp.maximum(high - low, 1e-3) / (2**bits - 1)
  return Activation(scale, low, None, jnp.ones((), bool), jnp.ones((), bool))


def rounded(net, spec, rng=None):
  """Plan, parameters and states of all sites, without any fitting."""
  plan, owned = network.make_plan(net.blocks, net.params, net.calib[:2], spec)

  @jax.jit
  def states(owned, calib):
    data = network.collect(plan, owned, calib, jax.random.key(0))
    return [
      {
        site.name: state_of(site, at.weights, at.bias, at.values, rng)
        if site.linear
        else Operand(act_of(at.values, site.a_bits))
        for site, at in ((site, seen[site.name]) for site in group)
      }
      for group, seen in zip(plan.sites, data, strict=True)
    ]

  return plan, owned, states(owned, net.calib)
