"""The definition of the product against NumPy's integers."""

import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.quantized_matmul import (
  codebook_matmul_ref,
  integer_accumulators,
  pack,
)


@pytest.mark.parametrize(('x_bits', 'bits'), [(2, 2), (3, 3), (8, 8), (8, 2)])
def test_integer_sums(x_bits, bits, make_weights):
  made = make_weights(bits, 48, 5, 3)
  x = np.random.default_rng(0).integers(0, 2**x_bits, (7, 48))
  zero = np.arange(7) % 2**x_bits
  found = integer_accumulators(jnp.asarray(x), made.packed, zero)
  assert found.dtype == jnp.int32
  centred = (x - zero[:, None]).reshape(7, 3, 16)
  steps = made.codes.reshape(3, 16, 5) - made.zero[:, None]
  np.testing.assert_array_equal(
    found, np.einsum('mgk,gkn->gmn', centred, steps)
  )


def test_codebook_looks_values_up():
  rng = np.random.default_rng(0)
  codes = rng.integers(0, 8, (32, 3))
  levels = rng.normal(size=(2, 3, 8)).astype(np.float32)
  w = pack(
    codes,
    bits=3,
    scale=np.full((2, 3), 2.0),
    group_size=16,
    levels=levels,
  )
  values = np.array(
    [[levels[k // 16, n, codes[k, n]] for n in range(3)] for k in range(32)]
  )
  x = rng.normal(size=(4, 32)).astype(np.float32)
  found = codebook_matmul_ref(jnp.asarray(x), w)
  np.testing.assert_allclose(found, 2 * x @ values, rtol=1e-5, atol=1e-5)
