"""The path of CPUs: what it computes, and what it does not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.quantized_matmul import (
  ActQuant,
  OutQuant,
  matmul_nonuniform,
  pack,
  quantized_matmul,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
  ('m', 'bits', 'groups', 'symmetric'),
  [
    (1, 2, 1, False),
    (17, 3, 4, False),
    (1, 4, 2, True),
    (17, 8, 1, True),
    (1, 8, 2, False),
  ],
)
def test_codes_are_exact(m, bits, groups, symmetric, make_weights):
  made = make_weights(bits, 96, 5, groups, symmetric)
  x = RNG.integers(0, 2**bits, (m, 96))
  y = quantized_matmul(
    jnp.asarray(x), made.packed, act_quant=ActQuant(0.25, 2**bits - 1, bits)
  )
  expected = 0.25 * (x - 2**bits + 1) @ made.values
  limit = np.abs(expected).max() * 2e-6
  np.testing.assert_allclose(y, expected, rtol=2e-6, atol=limit)


@pytest.mark.parametrize('bits', [2, 8])
def test_tiles_of_columns_that_overlap(bits, make_weights):
  made = make_weights(bits, 64, 301, 2)
  x = RNG.integers(0, 4, (3, 64))
  exact = 0.25 * (x - 1) @ made.values
  limit = np.abs(exact).max() * 2e-6
  codes = quantized_matmul(
    jnp.asarray(x), made.packed, act_quant=ActQuant(0.25, 1, 2)
  )
  floats = quantized_matmul(jnp.float32(0.25 * (x - 1)), made.packed)
  for y in (codes, floats):
    np.testing.assert_allclose(y, exact, rtol=2e-6, atol=limit)
  text = str(jax.make_jaxpr(quantized_matmul)(jnp.ones((3, 64)), made.packed))
  assert 'f32[64,301]' not in text


def test_extreme_codes_fill_int32():
  k = 33_025
  w = pack(np.full((k, 1), 255), bits=8, scale=[[1.0]], zero=[[0]])
  x = jnp.full((1, k), 255, jnp.uint8)
  y = quantized_matmul(x, w, act_quant=ActQuant(1.0, 0, 8))
  assert y[0, 0] == np.float32(k * 255 * 255)


def test_float64_stays(make_weights):
  made = make_weights(4, 64, 5, 2)
  x = RNG.normal(size=(3, 64))
  with jax.enable_x64(True):
    y = quantized_matmul(jnp.asarray(x), made.packed)
    assert y.dtype == jnp.float64
    np.testing.assert_allclose(y, x @ made.values, rtol=1e-12, atol=1e-12)


def test_dynamic_rows_are_scaled_by_their_range(make_weights):
  made = make_weights(4, 64, 5)
  x = RNG.normal(size=(2, 3, 64)).astype(np.float32)
  low, high = x.min(-1, keepdims=True), x.max(-1, keepdims=True)
  scale = (high - low) / 255
  zero = np.round(-low / scale)
  codes = np.clip(np.round(x / scale) + zero, 0, 255)
  y = quantized_matmul(
    jnp.asarray(x), made.packed, act_quant=ActQuant(None, None, 8, 'dynamic')
  )
  expected = (scale * (codes - zero)) @ made.values
  np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_layers_are_chained_by_codes(make_weights):
  first, second = make_weights(8, 32, 16), make_weights(4, 16, 5)
  x = jnp.asarray(RNG.integers(0, 256, (6, 32)), jnp.uint8)
  out = OutQuant(0.7, 120, 8)
  codes = quantized_matmul(
    x, first.packed, act_quant=ActQuant(0.01, 100, 8), out_quant=out
  )
  assert codes.dtype == jnp.int8
  y = 0.01 * (np.asarray(x, float) - 100) @ first.values
  whole = np.clip(np.round(y / 0.7) + 120, 0, 255)
  np.testing.assert_array_equal(codes, whole - 128)
  z = quantized_matmul(codes, second.packed, act_quant=ActQuant(0.7, 120, 8))
  expected = 0.7 * (whole - 120) @ second.values
  np.testing.assert_allclose(z, expected, rtol=1e-5, atol=1e-4)


def test_the_default_on_cpus_is_no_kernel(make_weights, monkeypatch):
  monkeypatch.setattr(jax, 'default_backend', lambda: 'cpu')
  w = make_weights(2, 64, 5).packed
  for act in (None, ActQuant(0.1, 1, 2)):
    call = functools.partial(quantized_matmul, act_quant=act)
    assert 'pallas_call' not in str(jax.make_jaxpr(call)(jnp.ones((2, 64)), w))


@pytest.mark.parametrize('act', [None, ActQuant(0.1, 1, 2)])
def test_low_rank_costs_its_own_products_only(act, make_weights):
  m, k, n, r = 64, 128, 96, 8
  w = make_weights(2, k, n).packed
  low = jnp.ones((k, r)), jnp.ones((r, n))

  def flops(lowrank):
    call = functools.partial(quantized_matmul, act_quant=act, lowrank=lowrank)
    lowered = jax.jit(call).lower(jnp.ones((m, k)), w)
    return lowered.cost_analysis()['flops']

  extra = flops(low) - flops(None)
  assert extra == pytest.approx(2 * m * r * (k + n), rel=0.1)


def test_order_is_low_rank_bias_residual_activation(make_weights):
  made = make_weights(2, 32, 4)
  x = RNG.normal(size=(3, 32)).astype(np.float32)
  low = RNG.normal(size=(32, 2)), RNG.normal(size=(2, 4))
  bias, residual = RNG.normal(size=4), RNG.normal(size=(3, 4))
  act = ActQuant(0.5, 1, 2)
  exact = 0.5 * (np.clip(np.round(x / 0.5) + 1, 0, 3) - 1)
  for kind, seen in (('float', x), ('codes', exact)):
    y = quantized_matmul(
      jnp.asarray(x),
      made.packed,
      act_quant=act,
      lowrank=tuple(jnp.asarray(a, jnp.float32) for a in low),
      bias=jnp.asarray(bias, jnp.float32),
      residual=jnp.asarray(residual, jnp.float32),
      activation='relu',
      lowrank_input=kind,
    )
    expected = exact @ made.values + seen @ low[0] @ low[1] + bias + residual
    np.testing.assert_allclose(y, np.maximum(expected, 0), atol=1e-4)


def test_nan_spreads_in_floats(make_weights):
  w = make_weights(2, 32, 4).packed
  y = quantized_matmul(jnp.ones((2, 32)).at[1, 3].set(jnp.nan), w)
  assert np.isnan(y).all(axis=1).tolist() == [False, True]


def test_codebooks_need_levels(make_weights):
  with pytest.raises(ValueError, match='w has no levels'):
    matmul_nonuniform(jnp.ones((2, 32)), make_weights(2, 32, 4).packed)
