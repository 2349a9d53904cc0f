"""Rounding and products beside those of qwix."""

import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.quantized_matmul import (
  ActQuant,
  quantize,
  quantized_matmul,
  unpack,
)

qwix = pytest.importorskip('qwix')

RNG = np.random.default_rng(0)
WEIGHTS = jnp.asarray(RNG.normal(size=(96, 5)), jnp.float32)


@pytest.mark.parametrize(
  ('bits', 'kind', 'group_size'), [(4, 'int4', 32), (8, 'int8', None)]
)
def test_half_is_its_rule_of_scales(bits, kind, group_size):
  tiles = {0: group_size} if group_size else None
  theirs = qwix.quantize(WEIGHTS, kind, channelwise_axes=[1], tiled_axes=tiles)
  ours = quantize(WEIGHTS, bits=bits, group_size=group_size, scale_rule='half')
  np.testing.assert_allclose(ours.scale, theirs.scale, rtol=1e-6)
  codes = np.asarray(unpack(ours), int) - 2 ** (bits - 1)
  np.testing.assert_array_equal(codes, theirs.qvalue.astype(jnp.int32))


def test_products_of_codes():
  x = jnp.asarray(RNG.normal(size=(7, 96)), jnp.float32)
  left = qwix.quantize(x, 'int8', channelwise_axes=[0])
  right = qwix.quantize(WEIGHTS, 'int8', channelwise_axes=[1])
  expected = qwix.dot_general(left, right, (((1,), (0,)), ((), ())))
  w = quantize(WEIGHTS, bits=8, scale_rule='half')
  act = ActQuant(left.scale[:, 0], 128, 8, 'per_token')
  y = quantized_matmul(left.qvalue, w, act_quant=act)
  np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
