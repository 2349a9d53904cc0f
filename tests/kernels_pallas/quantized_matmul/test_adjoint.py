"""Derivatives against those of plain JAX, and mapped axes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.quantized_matmul import (
  ActQuant,
  dequantize,
  pack,
  quantized_matmul,
)
from kernels_pallas.quantized_matmul.activations import ACTIVATIONS

RNG = np.random.default_rng(0)
M, K, N = 4, 48, 6
X = jnp.asarray(RNG.normal(size=(M, K)), jnp.float32)
A, B = (jnp.asarray(RNG.normal(size=s), jnp.float32) for s in ((K, 2), (2, N)))
BIAS = jnp.asarray(RNG.normal(size=N), jnp.float32)
RESIDUAL = jnp.asarray(RNG.normal(size=(M, N)), jnp.float32)
WEIGHT = jnp.asarray(RNG.normal(size=(M, N)), jnp.float32)


def near(found, expected):
  def check(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * abs(b).max() + 1e-6)

  jax.tree.map(check, found, expected)


@pytest.mark.parametrize('implementation', ['xla', 'interpret'])
def test_all_gradients_of_floats(implementation, make_weights):
  w = make_weights(3, K, N, 2).packed

  def ours(x, scale, A, B, bias, residual):
    y = quantized_matmul(
      x,
      replace(w, scale=scale),
      lowrank=(A, B),
      bias=bias,
      residual=residual,
      activation='gelu_tanh',
      implementation=implementation,
    )
    return jnp.sum(WEIGHT * y)

  def plain(x, scale, A, B, bias, residual):
    full = dequantize(replace(w, scale=scale))
    y = x @ full + x @ A @ B + bias + residual
    return jnp.sum(WEIGHT * jax.nn.gelu(y, approximate=True))

  given = X, w.scale, A, B, BIAS, RESIDUAL
  near(*(jax.grad(f, argnums=range(6))(*given) for f in (ours, plain)))


def replace(w, **fields):
  """`w` with other leaves."""
  return type(w)(**{**vars(w), **fields})


def test_codes_pass_gradients_straight_through_where_not_cut_off(make_weights):
  made = make_weights(2, K, N)
  act = ActQuant(0.4, 1, 2)
  bar = jax.grad(
    lambda x: jnp.sum(WEIGHT * quantized_matmul(x, made.packed, act_quant=act))
  )(X)
  steps = np.asarray(X) / 0.4 + 1
  inside = (steps >= 0) & (steps <= 3)
  assert 0 < inside.mean() < 1
  near(bar, inside * (np.asarray(WEIGHT, float) @ made.values.T))


def test_step_size_has_its_learned_gradient(make_weights):
  made = make_weights(2, K, N)

  def loss(scale):
    act = ActQuant(scale, 1, 2)
    return jnp.sum(WEIGHT * quantized_matmul(X, made.packed, act_quant=act))

  steps = np.asarray(X, float) / 0.4
  codes = np.clip(np.round(steps) + 1, 0, 3) - 1
  inside = (steps + 1 >= 0) & (steps + 1 <= 3)
  x_bar = np.asarray(WEIGHT, float) @ made.values.T
  expected = np.sum(x_bar * (codes - inside * steps))
  near(jax.grad(loss)(jnp.float32(0.4)), jnp.float32(expected))


def test_codes_have_no_gradient(make_weights):
  w = make_weights(4, K, N).packed
  bars = jax.grad(lambda w: quantized_matmul(X, w).sum(), allow_int=True)(w)
  assert bars.data[0].dtype == bars.zero.dtype == jax.dtypes.float0
  assert bars.scale.shape == w.scale.shape


def test_codebook_has_gradients_of_its_levels():
  codes = RNG.integers(0, 4, (K, N))
  levels = jnp.asarray(RNG.normal(size=(2, N, 4)), jnp.float32)
  scale = jnp.asarray(RNG.uniform(0.5, 1, (2, N)), jnp.float32)
  w = pack(codes, bits=2, scale=scale, group_size=24, levels=levels)
  hot = jax.nn.one_hot(codes, 4).reshape(2, 24, N, 4)

  def plain(levels, scale):
    full = jnp.einsum('gknc,gnc,gn->gkn', hot, levels, scale).reshape(K, N)
    return jnp.sum(WEIGHT * (X @ full))

  def ours(levels, scale):
    full = replace(w, levels=levels, scale=scale)
    return jnp.sum(WEIGHT * quantized_matmul(X, full))

  given = levels, scale
  near(ours(*given), plain(*given))
  near(*(jax.grad(f, argnums=(0, 1))(*given) for f in (ours, plain)))


@pytest.mark.parametrize('name', ACTIVATIONS)
def test_activations_are_finite_and_right_far_out(name):
  y = jnp.array([-1000.0, -30, -1, 0.5, 30, 1000])
  plain = {
    'none': lambda y: y,
    'relu': jax.nn.relu,
    'gelu_tanh': lambda y: jax.nn.gelu(y, approximate=True),
    'gelu_erf': lambda y: jax.nn.gelu(y, approximate=False),
    'silu': jax.nn.silu,
  }[name]
  slope = jax.vmap(jax.grad(ACTIVATIONS[name]))(y)
  near(ACTIVATIONS[name](y), plain(y))
  near(slope, jax.vmap(jax.grad(plain))(y))


@pytest.mark.parametrize(
  'implementation', ['xla', 'interpret', 'interpret_tpu']
)
def test_mapped_rows_and_mapped_weights(implementation, make_weights):
  w = make_weights(2, K, N).packed
  experts = jax.tree.map(lambda a: jnp.stack([a, a[::-1]]), w)
  xs = jnp.stack([X, 2 * X, -X])
  act = ActQuant(0.4, 1, 2)

  def one(x, w):
    return quantized_matmul(
      x, w, act_quant=act, bias=BIAS, implementation=implementation
    )

  rows = jax.vmap(one, (0, None))(xs, w)
  near(rows, jnp.stack([one(x, w) for x in xs]))
  both = jax.vmap(one)(xs[:2], experts)
  each = [jax.tree.map(lambda a, i=i: a[i], experts) for i in range(2)]
  near(both, jnp.stack([one(x, w) for x, w in zip(xs[:2], each, strict=True)]))


@pytest.mark.parametrize('implementation', ['xla', 'interpret'])
def test_programs_do_not_grow_with_experts(implementation, make_weights):
  w = make_weights(2, K, N).packed

  def size(count):
    experts = jax.tree.map(lambda a: jnp.stack([a] * count), w)
    call = jax.vmap(
      lambda w: quantized_matmul(X, w, implementation=implementation)
    )
    return str(jax.make_jaxpr(call)(experts)).count(' = ')

  assert size(2) == size(16)
