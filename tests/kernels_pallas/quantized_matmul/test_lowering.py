"""Kernels are lowered for devices that this machine lacks, and compiled."""

import re

import jax.numpy as jnp
import pytest

from kernels_pallas.dispatch import why_missing
from kernels_pallas.quantized_matmul import lowering


def needs(*packages):
  """Skips a test where a package does not import."""
  why = why_missing(*packages)
  return pytest.mark.skipif(bool(why), reason=why)


@pytest.mark.parametrize('integer', [False, True])
@pytest.mark.parametrize('bits', [2, 3, 4, 8])
@pytest.mark.parametrize(
  ('platform', 'call'),
  [
    pytest.param('cuda:triton', '__gpu$xla.gpu.triton', marks=needs('absl')),
    ('tpu', 'tpu_custom_call'),
  ],
)
def test_one_kernel_a_product_and_no_unpacked_weights(
  platform, call, bits, integer
):
  # Many rows and one group, or few rows, for which K is split, and some groups.
  m, group_size = (32, None) if integer == (bits in (2, 4)) else (1, 64)
  text = lowering.lower_for(
    platform,
    bits=bits,
    integer=integer,
    m=m,
    k=128,
    n=192,
    group_size=group_size,
  )
  assert text.count(f'custom_call @{call}(') == 2
  assert text.count('custom_call @') == 2
  assert not re.search(r'tensor<(128x192|192x128)xb?f', text)


@pytest.mark.parametrize(
  'platform', [pytest.param('cuda:triton', marks=needs('absl')), 'tpu']
)
@pytest.mark.parametrize('activation', ['relu', 'gelu_erf', 'silu'])
def test_activations_and_odd_shapes_are_lowered(platform, activation):
  text = lowering.lower_for(
    platform,
    bits=3,
    integer=False,
    m=1,
    k=96,
    n=3,
    group_size=24,
    activation=activation,
    dtype=jnp.float32,
  )
  assert text.count('custom_call @') == 2


@needs('triton')
@pytest.mark.parametrize(('bits', 'integer'), [(2, True), (4, False)])
def test_kernels_compile_to_products_on_tensor_cores(bits, integer):
  found = lowering.compile_ptx(bits=bits, integer=integer, m=16, k=64, n=64)
  assert set(found) == {'quantized_matmul', 'quantized_matmul_transposed'}
  text = found['quantized_matmul']
  assert '.target sm_90' in text
  assert ('s32.s8' if integer else 'f32.bf16') in text
  assert 'mma' in text


def test_unknown_platform():
  with pytest.raises(ValueError, match=r"platform = 'rocm'.*tpu"):
    lowering.lower_for('rocm', bits=2, integer=True)
