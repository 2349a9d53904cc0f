"""Checks of the golden cases about grids, codes and codebooks."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.quantization import codebooks, grids, quantizers, rounding
from kernels_pallas import quantized_matmul as kernels
from tests.quantization.closeness import assert_normwise


def case_uniform_quantize(case):
  for dtype in (jnp.float32, jnp.float64):
    scale, zero = (jnp.asarray(case[k], dtype) for k in ('scale', 'zero'))
    spec = quantizers.UniformSpec(scale, zero, case['bits'])
    x = jnp.asarray(case['x'], dtype)
    codes = quantizers.quantize(x, spec)
    found = quantizers.dequantize(codes, spec)
    assert found.dtype == dtype
    np.testing.assert_array_equal(codes, case['codes'])
    np.testing.assert_array_equal(found, case['dequant'])
    np.testing.assert_array_equal(found, quantizers.fake_quant(x, spec))


def case_channel_roundtrip(case):
  w = jnp.asarray(case['w'], jnp.float32)
  dtype = jnp.dtype(case['scale_dtype'])
  for row, values in enumerate(w):
    spec = grids.fit_grid(
      values, case['bits'], rule='minmax', scale_dtype=dtype
    )
    codes = quantizers.quantize(values, spec)
    found = np.asarray(quantizers.dequantize(codes, spec))
    assert found.dtype == np.float32
    assert np.isfinite(found).all() and spec.scale > 0
    limit = case['row_rtol'] * np.abs(values).max()
    assert np.abs(found - values).max() <= limit
    if row in case['zero_rows']:
      assert not found.any()
    if np.abs(values).max() > np.finfo(np.float32).tiny:
      assert spec.scale.astype(dtype) == spec.scale


def case_weight_grid(case):
  w, h = np.asarray(case['w']), np.asarray(case['h'])
  spec = grids.fit_grid(
    w,
    case['bits'],
    rule='hessian',
    h=h,
    symmetric=case['symmetric'],
    refine=0,
  )
  codes = quantizers.quantize(w, spec)
  np.testing.assert_array_equal(codes, case['codes'])
  np.testing.assert_allclose(spec.scale, case['scale'], rtol=case['rtol'])
  top = 2 ** case['bits'] - 1
  clip = spec.scale * top / (2 * np.abs(w).max())
  np.testing.assert_allclose(clip, case['best_clip'], rtol=case['rtol'])
  value = h @ (quantizers.dequantize(codes, spec) - w) ** 2
  np.testing.assert_allclose(value, case['value'], rtol=case['rtol'])


def case_kmeans_codebook(case):
  x = np.asarray(case['x'])
  levels = codebooks.kmeans_codebook(x, case['n_levels'])
  assert_normwise(levels, case['levels'], case['rtol'])
  nearest = levels[quantizers.nearest_level(x, levels)]
  sse = np.sum((nearest - x) ** 2)
  np.testing.assert_allclose(sse, case['sse'], rtol=case['rtol'])


def case_integer_conv1x1(case):
  with jax.enable_x64(False):
    bits, scale = case['bits'], jnp.asarray(case['w_scale'], jnp.float32)
    x, w = (jnp.asarray(case[k]) for k in ('x_codes', 'w_codes'))
    zero = jnp.full(scale.shape, case['w_zero'], jnp.float32)
    packed = kernels.pack(
      w, bits=bits, scale=scale[None], zero=zero[None].astype(int)
    )
    act = kernels.ActQuant(case['x_scale'], case['x_zero'], bits)
    product = kernels.quantized_matmul(
      x.astype(jnp.uint8), packed, act_quant=act
    )
    convolved = kernels.quantized_conv(
      x.astype(jnp.uint8)[None, :, None],
      packed,
      kernel_size=(1, 1),
      act_quant=act,
    )[0, :, 0]
    x_spec = quantizers.UniformSpec(
      jnp.float32(case['x_scale']), jnp.float32(case['x_zero']), bits
    )
    w_spec = quantizers.UniformSpec(scale, zero, bits)
    near = 0.4 * x_spec.scale * jnp.cos(jnp.arange(x.size)).reshape(x.shape)
    inside = jnp.where((x > 0) & (x < 2**bits - 1), near, 0)
    faked = quantizers.fake_quant(
      quantizers.dequantize(x, x_spec) + inside, x_spec
    ) @ quantizers.fake_quant(quantizers.dequantize(w, w_spec), w_spec)
    for found in (product, convolved, faked):
      np.testing.assert_allclose(found, case['expected'], rtol=case['rtol'])


def case_rounding(case):
  w, H = np.asarray(case['w']), np.asarray(case['H'])
  grid = case['scale'], case['zero'], case['bits']

  def value(codes):
    error = case['scale'] * (np.asarray(codes) - case['zero']) - w
    return error @ H @ error

  nearest = rounding.rtn_round(w, *grid)
  fed = rounding.gptq_round(w, H, *grid, damp=case['damp'])
  learned = rounding.soft_round(w, H, *grid, steps=200, key=jax.random.key(0))
  np.testing.assert_array_equal(nearest, case['rtn_codes'])
  np.testing.assert_array_equal(fed, case['gptq_codes'])
  rtol = case['rtol']
  np.testing.assert_allclose(value(nearest), case['rtn_value'], rtol=rtol)
  np.testing.assert_allclose(value(fed), case['gptq_value'], rtol=rtol)
  best = value(case['best_codes'])
  np.testing.assert_allclose(best, case['best_value'], rtol=rtol)
  for codes in (nearest, fed, learned):
    assert value(codes) >= best * (1 - rtol)
  assert value(learned) <= value(nearest) * (1 + rtol)


def case_gptq_codes(case):
  codes = rounding.gptq_round(
    np.asarray(case['w']),
    np.asarray(case['H']),
    case['scale'],
    case['zero'],
    case['bits'],
    damp=case['damp'],
  )
  np.testing.assert_array_equal(codes, case['codes'])
