"""The Triton kernels against NumPy, in Triton's own interpreter."""

import functools
import importlib.util

import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.dispatch import BackendUnavailable
from kernels_pallas.quantized_matmul import lowering, reference
from kernels_pallas.quantized_matmul.activations import (
  ACTIVATIONS,
  Extras,
  Finish,
  OutQuant,
  Rows,
)
from tests.kernels_pallas.triton_buffer import Buffer

triton = pytest.importorskip('triton')

# Groups above, below and across the planes of a block; odd sizes.
SHAPES = [
  (3, 40, 3, 1, 2, None),
  (17, 96, 20, 3, 2, 96),
  (5, 192, 3, 8, 3, 96),
  (1, 256, 5, 2, 4, 64),
  (2, 96, 20, 8, 4, 96),
  (7, 80, 5, 2, 8, 8),
]


def run_on_host(plan):
  """Interprets a kernel; memory that it should write is full before."""
  inputs = [Buffer(np.ascontiguousarray(array)) for array in plan.arrays]
  full = np.nan if plan.out.dtype == jnp.float32 else 99
  out = np.full(plan.out.shape, full, plan.out.dtype)
  plan.kernel[plan.grid](*inputs, Buffer(out), **plan.constants)
  return out


@pytest.fixture
def kernels(monkeypatch):
  """The kernels with functions that Triton interprets."""
  name = 'kernels_pallas.quantized_matmul.triton'
  module = importlib.import_module(name)
  spec = importlib.util.find_spec(f'{name}_kernels')
  functions = importlib.util.module_from_spec(spec)
  with triton.knobs.runtime.scope():
    triton.knobs.runtime.interpret = True
    spec.loader.exec_module(functions)
  monkeypatch.setattr(module, 'triton_kernels', functions)
  monkeypatch.setattr(module, '_run', run_on_host)
  return module


def near(found, expected):
  limit = np.abs(expected).max() * 2e-6
  np.testing.assert_allclose(found, expected, rtol=2e-6, atol=limit)


def code_rows(x, scale, zero):
  m = len(x)
  return Rows(
    jnp.asarray(x, jnp.int8),
    jnp.full((m, 1), scale, jnp.float32),
    jnp.full((m, 1), zero, jnp.int32),
  )


@pytest.mark.parametrize(('m', 'k', 'n', 'groups', 'bits', 'block'), SHAPES)
def test_every_kernel_equals_numpy(
  kernels, m, k, n, groups, bits, block, make_weights
):
  made = make_weights(bits, k, n, groups, pack_block=block)
  rng = np.random.default_rng(m)
  how = Finish('none', 'float32')
  x = rng.normal(size=(m, k)).astype(np.float32)
  found = kernels.matmul(
    Rows(jnp.asarray(x)), made.packed, Extras(), how, block=(16, 16)
  )
  near(found, x.astype(float) @ made.values)
  codes = rng.integers(-2, 2, (m, k))
  found = kernels.matmul(
    code_rows(codes, 0.25, -1), made.packed, Extras(), how, block=(16, 16)
  )
  near(found, 0.25 * (codes + 1) @ made.values)
  bar = rng.normal(size=(m, n)).astype(np.float32)
  found = kernels.transposed(jnp.asarray(bar), made.packed, block=(16, 16))
  near(found, bar.astype(float) @ made.values.T)


@pytest.mark.parametrize('activation', ACTIVATIONS)
@pytest.mark.parametrize('out', [None, OutQuant(0.3, 5, 4)])
def test_what_follows_equals_the_reference(
  kernels, activation, out, make_weights
):
  w = make_weights(4, 32, 10).packed
  rng = np.random.default_rng(0)
  arrays = [(5, 3), (3, 10), (1, 10), (5, 10)]
  extras = Extras(
    *(jnp.asarray(rng.normal(size=size), jnp.float32) for size in arrays)
  )
  how = Finish(activation, 'float32' if out is None else 'int8', out)
  rows = code_rows(rng.integers(-2, 2, (5, 32)), 0.25, -1)
  found = kernels.matmul(rows, w, extras, how, block=(16, 16))
  expected = reference.matmul(rows, w, extras, how)
  assert found.dtype == expected.dtype
  np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
  ('bits', 'integer', 'group_size'), [(3, True, 32), (4, False, None)]
)
def test_kernels_compile_without_a_gpu(bits, integer, group_size):
  found = lowering.compile_ptx(
    platform='cuda:jax_triton',
    bits=bits,
    integer=integer,
    m=16,
    k=128,
    n=64,
    group_size=group_size,
    activation='gelu_erf',
  )
  assert set(found) == {'matmul', 'transposed'}
  assert ('s32.s8' if integer else 'f32.bf16') in found['matmul']


def test_without_jax_triton_it_says_so(monkeypatch, make_weights):
  module = importlib.import_module('kernels_pallas.quantized_matmul.triton')
  monkeypatch.setattr(module, 'why_missing', lambda name: f'no {name}')
  call = functools.partial(module.transposed, jnp.ones((2, 4)))
  with pytest.raises(BackendUnavailable, match='no jax_triton'):
    call(make_weights(2, 32, 4).packed)
