"""Convolutions against those of JAX on the unpacked weights."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.quantized_matmul import ActQuant, quantized_conv

RNG = np.random.default_rng(0)
X = jnp.asarray(RNG.normal(size=(2, 7, 6, 4)), jnp.float32)
PADDINGS = [('SAME', (1, 1)), ('VALID', (2, 1)), (((2, 0), (1, 1)), (1, 2))]


def plain(x, kernel, strides, padding, groups=1):
  return jax.lax.conv_general_dilated(
    x,
    kernel,
    strides,
    padding,
    dimension_numbers=('NHWC', 'HWIO', 'NHWC'),
    feature_group_count=groups,
    precision='highest',
  )


@pytest.mark.parametrize(('padding', 'strides'), PADDINGS)
def test_floats(padding, strides, make_weights):
  made = make_weights(3, 3 * 2 * 4, 5)
  y = quantized_conv(
    X, made.packed, kernel_size=(3, 2), strides=strides, padding=padding
  )
  kernel = jnp.asarray(made.values.reshape(3, 2, 4, 5), jnp.float32)
  expected = plain(X, kernel, strides, padding)
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize('dtype', [np.float32, np.uint8, np.int8])
def test_padding_of_codes_is_their_zero_point(dtype, make_weights):
  made = make_weights(4, 3 * 3 * 4, 5)
  codes = RNG.integers(0, 16, X.shape)
  values = jnp.asarray(0.5 * (codes - 5), jnp.float32)
  kernel = jnp.asarray(made.values.reshape(3, 3, 4, 5), jnp.float32)
  given = {np.float32: values, np.uint8: codes, np.int8: codes - 8}[dtype]
  y = quantized_conv(
    jnp.asarray(given, dtype),
    made.packed,
    kernel_size=(3, 3),
    act_quant=ActQuant(0.5, 5, 4),
    bias=jnp.ones(5),
    activation='relu',
  )
  expected = jax.nn.relu(plain(values, kernel, (1, 1), 'SAME') + 1)
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_depthwise(make_weights):
  made = make_weights(2, 9, 4)
  y = quantized_conv(
    X, made.packed, kernel_size=(3, 3), depthwise=True, bias=jnp.ones(4)
  )
  kernel = jnp.asarray(made.values.reshape(3, 3, 1, 4), jnp.float32)
  expected = plain(X, kernel, (1, 1), 'SAME', groups=4) + 1
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)


def test_shapes_that_do_not_fit_are_named(make_weights):
  w = make_weights(2, 9, 4).packed
  with pytest.raises(ValueError, match=r'kernel_size = \(3, 3\).*36 rows'):
    quantized_conv(X, w, kernel_size=(3, 3))
  with pytest.raises(ValueError, match=r'^x has the shape \(7, 6, 4\)'):
    quantized_conv(X[0], w, kernel_size=(3, 3))
