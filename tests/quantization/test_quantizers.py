"""Codes, values and gradients of the quantizers."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl.testing import parameterized

from jaxlab.errors import UserError
from jaxlab.quantization import quantizers
from jaxlab.quantization.quantizers import UniformSpec

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)


def _spec(scale, zero, bits):
  return UniformSpec(jnp.asarray(scale), jnp.asarray(zero), bits)


class UniformTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  @parameterized.parameters(1, 2, 3, 8)
  def test_codes_are_those_of_the_formula(self, bits):
    top = 2**bits - 1
    scale = np.float32([0.25, 0.5, 1]) * 8 / 2**bits
    zero = np.float32([0, top // 2, top])
    spec = _spec(scale, zero, bits)
    # Quarter steps put a quarter of all numbers on a tie.
    x = np.round(4 * X / scale) * scale / 4
    codes = self.variant(quantizers.quantize)(x, spec)
    expected = np.clip(np.rint(x / scale) + zero, 0, top)
    np.testing.assert_array_equal(codes, expected)
    assert codes.dtype == jnp.int32
    found = self.variant(quantizers.dequantize)(codes, spec)
    np.testing.assert_array_equal(found, scale * (expected - zero))

  @chex.variants(with_jit=True, without_jit=True)
  def test_half_integer_zero_takes_the_nearest_level(self):
    spec = _spec(0.6, 1.5, 2)
    levels = 0.6 * (np.arange(4) - 1.5)
    expected = np.argmin(np.abs(X[..., None] - levels), axis=-1)
    codes = self.variant(quantizers.quantize)(X, spec)
    np.testing.assert_array_equal(codes, expected)

  @chex.variants(with_jit=True, without_jit=True)
  def test_fake_quantization_is_exact_and_passes_gradients(self):
    spec = _spec(np.float32([0.3, 0.7, 0.11]), np.float32([1, 0, 1.5]), 2)
    fake = self.variant(lambda x: quantizers.fake_quant(x, spec))
    through = quantizers.dequantize(quantizers.quantize(X, spec), spec)
    np.testing.assert_allclose(fake(X), through, rtol=2e-7)
    gradient = jax.grad(lambda x: fake(x).sum())(X)
    place = X / spec.scale + spec.zero
    np.testing.assert_array_equal(gradient, (place > 0) & (place < 3))


def test_codes_map_over_specs_and_follow_the_dtype():
  with jax.enable_x64(True):
    spec = _spec(np.array([0.5, 0.25]), np.array([2.0, 1.0]), 2)
    x = jnp.asarray(X[:5, 0], jnp.float64)
    codes = jax.vmap(quantizers.quantize, (None, 0))(x, spec)
    for row, scale, zero in zip(codes, spec.scale, spec.zero, strict=True):
      expected = np.clip(np.rint(x / scale) + zero, 0, 3)
      np.testing.assert_array_equal(row, expected)
    back = jax.vmap(quantizers.dequantize)(codes, spec)
    assert back.dtype == jnp.float64
    np.testing.assert_array_equal(
      back, spec.scale[:, None] * (codes - spec.zero[:, None])
    )


def test_gradients_of_the_learned_step_are_those_of_lsq_plus():
  """Against finite differences with the rounding residue held fixed."""
  scale, offset, bits, top = 0.4, -0.3, 2, 3

  def held(x, scale, offset):
    clipped = np.clip((x - offset) / scale, 0, top)
    return scale * (clipped + residue) + offset

  with jax.enable_x64(True):
    x0 = X[:, 0].astype(np.float64)
    codes = np.clip(np.rint((x0 - offset) / scale), 0, top)
    residue = codes - np.clip((x0 - offset) / scale, 0, top)
    grads = jax.vmap(
      jax.value_and_grad(quantizers.lsq_fake_quant, (0, 1, 2)),
      (0, None, None, None),
    )
    value, found = grads(x0, scale, offset, bits)
    np.testing.assert_allclose(value, scale * codes + offset, rtol=1e-12)
    step = 1e-6
    point = np.array([0, scale, offset])
    for i, gradient in enumerate(found):
      move = step * np.eye(3)[i]
      ends = [held(x0 + p[0], p[1], p[2]) for p in (point + move, point - move)]
      difference = (ends[0] - ends[1]) / (2 * step)
      np.testing.assert_allclose(gradient, difference, atol=1e-8)
    u = (x0 - offset) / scale
    inside = (u > 0) & (u < top)
    np.testing.assert_allclose(found[0], inside)
    np.testing.assert_allclose(found[1], np.where(inside, codes - u, codes))
    np.testing.assert_allclose(found[2], ~inside, atol=1e-15)
    damped = jax.grad(
      lambda s, o: quantizers.lsq_fake_quant(x0, s, o, bits, 0.1).sum(), (0, 1)
    )(scale, offset)
    for gradient, full in zip(damped, found[1:], strict=True):
      np.testing.assert_allclose(gradient, 0.1 * full.sum(), rtol=1e-12)


def test_levels_take_the_nearest_and_share_the_gradient():
  levels = np.float32([-1.2, -0.1, 0.0, 0.7])
  x = X.ravel()

  def total(x, levels):
    found = quantizers.levels_fake_quant(x, levels)
    return found.sum(), found

  (to_x, to_levels), found = jax.jit(
    jax.grad(total, argnums=(0, 1), has_aux=True)
  )(x, levels)
  nearest = np.argmin(np.abs(x[:, None] - levels), axis=1)
  np.testing.assert_array_equal(found, levels[nearest])
  np.testing.assert_array_equal(to_x, (x >= levels[0]) & (x <= levels[-1]))
  np.testing.assert_array_equal(to_levels, np.bincount(nearest, minlength=4))


def test_many_levels_equal_a_uniform_quantizer():
  spec = _spec(np.float32(0.02), np.float32(128), 8)
  levels = quantizers.dequantize(jnp.arange(256), spec)
  place = quantizers.nearest_level(X, levels)
  assert np.mean(place == quantizers.quantize(X, spec)) > 0.99
  np.testing.assert_allclose(
    levels[place], quantizers.fake_quant(X, spec), atol=0.0201
  )


@pytest.mark.parametrize('bits', [0, 9, -1, 2.0, True, '2', None])
def test_wrong_bits_are_named(bits):
  with pytest.raises(UserError, match='bits must be an integer from 1 to 8'):
    _spec(1.0, 0.0, bits)
  with pytest.raises(UserError, match='bits'):
    quantizers.lsq_fake_quant(X, 1.0, 0.0, bits)
