"""The kernels, run on the host, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.quantized_matmul import (
  ActQuant,
  pallas_gpu,
  pallas_tpu,
  quantized_matmul,
)

KERNELS = pytest.mark.parametrize(
  'implementation', ['interpret', 'interpret_tpu']
)
# Groups above, below and across the planes of a block; odd sizes.
SHAPES = [
  (17, 96, 20, 3, 2, 96),
  (1, 256, 5, 2, 3, 64),
  (33, 128, 20, 2, 4, None),
  (2, 96, 130, 8, 4, 96),
  (7, 80, 5, 2, 8, 8),
  (2, 96, 4, 1, 2, 32),
]


@KERNELS
@pytest.mark.parametrize(('m', 'k', 'n', 'groups', 'bits', 'block'), SHAPES)
def test_codes(implementation, m, k, n, groups, bits, block, make_weights):
  made = make_weights(bits, k, n, groups, pack_block=block)
  rng = np.random.default_rng(m)
  x = rng.integers(0, 2**bits, (m, k))
  scale = rng.uniform(0.1, 1, m).astype(np.float32)
  act = ActQuant(scale, 1, bits, 'per_token')
  y = quantized_matmul(
    jnp.asarray(x), made.packed, act_quant=act, implementation=implementation
  )
  expected = scale[:, None].astype(float) * (x - 1) @ made.values
  limit = np.abs(expected).max() * 2e-6
  np.testing.assert_allclose(y, expected, rtol=2e-6, atol=limit)


@KERNELS
@pytest.mark.parametrize(
  ('m', 'k', 'n', 'groups', 'bits', 'block'), SHAPES[::2]
)
def test_floats(implementation, m, k, n, groups, bits, block, make_weights):
  made = make_weights(bits, k, n, groups, pack_block=block)
  rng = np.random.default_rng(m)
  x = rng.normal(size=(m, k)).astype(np.float32)
  y = quantized_matmul(
    jnp.asarray(x), made.packed, implementation=implementation
  )
  expected = x.astype(float) @ made.values
  limit = np.abs(expected).max() * 2e-6
  np.testing.assert_allclose(y, expected, rtol=2e-6, atol=limit)


@pytest.mark.parametrize(
  'kernels', [pallas_gpu, pallas_tpu], ids=['gpu', 'tpu']
)
@pytest.mark.parametrize(
  ('m', 'k', 'n', 'groups', 'bits', 'block'), SHAPES[1::2]
)
def test_transposed(kernels, m, k, n, groups, bits, block, make_weights):
  made = make_weights(bits, k, n, groups, pack_block=block)
  bar = np.random.default_rng(m).normal(size=(m, n)).astype(np.float32)
  found = jax.jit(lambda bar, w: kernels.transposed(bar, w, interpret=True))(
    bar, made.packed
  )
  expected = bar.astype(float) @ made.values.T
  limit = np.abs(expected).max() * 2e-6
  np.testing.assert_allclose(found, expected, rtol=2e-6, atol=limit)


@KERNELS
def test_bfloat16(implementation, make_weights):
  made = make_weights(4, 64, 8, 2)
  x = jnp.asarray(np.random.default_rng(0).normal(size=(5, 64)), jnp.bfloat16)
  y = quantized_matmul(x, made.packed, implementation=implementation)
  assert y.dtype == jnp.bfloat16
  expected = np.asarray(x, float) @ made.values
  limit = np.abs(expected).max() * 1e-2
  np.testing.assert_allclose(np.asarray(y, float), expected, atol=limit)


@KERNELS
@pytest.mark.parametrize('integer', [False, True])
def test_one_kernel_and_no_unpacked_weights(
  implementation, integer, make_weights
):
  made = make_weights(2, 64, 48)
  act = ActQuant(0.1, 1, 2) if integer else None

  def call(x, w):
    return quantized_matmul(
      x, w, act_quant=act, implementation=implementation, activation='relu'
    )

  jaxpr = jax.make_jaxpr(call)(jnp.ones((3, 64)), made.packed)
  outside, inside = [], []
  walk(jaxpr.jaxpr, outside, inside)
  assert sum(e.primitive.name == 'pallas_call' for e in outside) == 1
  for equation in outside:
    for var in equation.outvars:
      assert var.aval.shape != (64, 48)
  kinds = {
    tuple(str(v.aval.dtype) for v in (*e.invars, *e.outvars))
    for e in inside
    if e.primitive.name == 'dot_general'
  }
  expected = ('int8', 'int8', 'int32') if integer else ('float32',) * 3
  assert expected in kinds


def walk(jaxpr, outside, inside, within=False):
  """Sorts equations by whether they are in a kernel."""
  for equation in jaxpr.eqns:
    (inside if within else outside).append(equation)
    kernel = within or equation.primitive.name == 'pallas_call'
    for sub in jax.tree.leaves(
      list(equation.params.values()), is_leaf=lambda v: hasattr(v, 'eqns')
    ):
      inner = getattr(sub, 'jaxpr', sub)
      if hasattr(inner, 'eqns'):
        walk(inner, outside, inside, kernel)
