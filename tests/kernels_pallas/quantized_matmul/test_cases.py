"""Runs all golden cases of the quantized product; a kind has one check."""

import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.quantized_matmul import (
  ActQuant,
  backends,
  integer_accumulators,
  pack,
  quantized_matmul,
  unpack,
)
from tests.golden import Golden

GOLDEN = Golden('quantized_matmul_kernel')
WORKING = [name for name, why in backends().items() if not why]


def numbers(given, dtype=np.float32):
  return None if given is None else jnp.asarray(np.array(given, dtype))


def check_pack(case):
  codes = np.array(case['codes'])
  w = pack(
    codes,
    bits=case['bits'],
    scale=np.ones((1, codes.shape[1])),
    pack_block=case['pack_block'],
  )
  for found, expected in zip(w.data, case['data'], strict=True):
    np.testing.assert_array_equal(found, expected)
  assert sum(array.nbytes for array in w.data) == case['total_bytes']
  np.testing.assert_array_equal(unpack(w), codes)


def check_quantized_matmul(case):
  w = pack(
    case['codes'],
    bits=case['bits'],
    scale=numbers(case['scale']),
    zero=case['zero'],
    group_size=case['group_size'],
  )
  act, x = None, numbers(case['x'])
  if x is None:
    x = numbers(case['x_codes'], np.int32)
    scale = numbers(case['x_scale'])
    mode = 'per_token' if scale.ndim else 'static'
    act = ActQuant(scale, case['x_zero'], case['act_bits'], mode)
    np.testing.assert_array_equal(
      integer_accumulators(x, w, case['x_zero']), case['int_accumulators']
    )
  lowrank = numbers(case['lowrank_A']), numbers(case['lowrank_B'])
  for implementation in WORKING:
    y = quantized_matmul(
      x,
      w,
      act_quant=act,
      lowrank=None if lowrank[0] is None else lowrank,
      bias=numbers(case['bias']),
      residual=numbers(case['residual']),
      activation=case['activation'],
      implementation=implementation,
    )
    tolerance = {'rtol': case['rtol'], 'atol': case['atol']}
    np.testing.assert_allclose(y, case['expected'], **tolerance)


def check_empty_matmul(case):
  m, k, n = (case[name] for name in 'MKN')
  w = pack(
    np.zeros((k, n), int), bits=case['bits'], scale=np.ones((min(k, 1), n))
  )
  for implementation in WORKING:
    y = quantized_matmul(
      jnp.zeros((m, k)),
      w,
      bias=numbers(case['bias']),
      activation=case['activation'],
      implementation=implementation,
    )
    assert y.shape == (m, n)
    expected = np.reshape(case['expected'], (m, n))
    np.testing.assert_allclose(y, expected, rtol=case['rtol'])


def check_pack_error(case):
  scale = np.array(case['scale'], float)  # None is nan
  with pytest.raises(ERRORS[case['raises']]) as raised:
    pack(
      case['codes'],
      bits=case['bits'],
      scale=scale,
      group_size=case['group_size'],
    )
  assert all(word in str(raised.value) for word in case['match'])


def check_matmul_error(case):
  n = len(case['codes'][0])
  w = pack(case['codes'], bits=case['bits'], scale=np.ones((1, n)))
  shapes = case['lowrank_shapes']
  with pytest.raises(ERRORS[case['raises']]) as raised:
    quantized_matmul(
      jnp.zeros(case['x_shape']),
      w,
      lowrank=shapes and tuple(map(jnp.zeros, shapes)),
      activation=case['activation'],
    )
  assert all(word in str(raised.value) for word in case['match'])


ERRORS = {
  'ValueError': ValueError,
  'TypeError': TypeError,
  'NotImplementedError': NotImplementedError,
}
CHECKS = {
  'pack': check_pack,
  'quantized_matmul': check_quantized_matmul,
  'empty_matmul': check_empty_matmul,
  'pack_error': check_pack_error,
  'matmul_error': check_matmul_error,
}


@pytest.mark.parametrize('case', GOLDEN.parameters())
def test_case(case):
  CHECKS[case['kind']](case)
