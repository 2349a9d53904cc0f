"""Sums of bfloat16 parts are the float32 that they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from kernels_pallas.quantized_matmul import bfloat16, quantized_matmul


def test_three_parts_add_up():
  rng = np.random.default_rng(0)
  x = rng.normal(size=(5, 40)) * 10.0 ** rng.integers(-20, 30, (5, 40))
  x = np.asarray(x, np.float32)
  x[0, :3] = 0, np.finfo(np.float32).max, -1
  parts = jax.jit(bfloat16.split)(x)
  assert parts.dtype == jnp.bfloat16
  sums = np.asarray(parts, np.float64).reshape(3, 5, 40).sum(axis=0)
  np.testing.assert_array_equal(sums, x)
  np.testing.assert_array_equal(
    bfloat16.joined(parts.astype(jnp.float32), 5), x
  )


def test_what_is_no_number_stays_so():
  odd = np.array([0x7F800001, 0x7FC00000], np.uint32).view(np.float32)
  x = np.concatenate([odd, np.float32([np.inf, -np.inf])])[:, None]
  parts = bfloat16.split(jnp.asarray(x)).astype(jnp.float32)
  found = bfloat16.joined(parts, 4)[:, 0]
  np.testing.assert_array_equal(found, [np.nan, np.nan, np.inf, -np.inf])


@pytest.mark.parametrize(
  ('bits', 'dtype'), [(3, jnp.float32), (8, jnp.float32), (8, jnp.bfloat16)]
)
def test_products_lose_nothing(bits, dtype, make_weights, monkeypatch):
  monkeypatch.setattr(bfloat16, 'is_fast', lambda: True)
  made = make_weights(bits, 96, 300)
  x = jnp.asarray(np.random.default_rng(1).normal(size=(21, 96)), dtype)
  call = jax.jit(
    lambda x: quantized_matmul(x, made.packed, out_dtype=jnp.float32)
  )
  assert 'bf16[96,' in str(jax.make_jaxpr(call)(x))
  expected = np.asarray(x, float) @ made.values
  limit = np.abs(expected).max() * 5e-7
  np.testing.assert_allclose(call(x), expected, rtol=0, atol=limit)


def test_flags_of_the_cpu(tmp_path, monkeypatch):
  info = tmp_path / 'cpuinfo'
  monkeypatch.setattr(bfloat16, '_CPU_INFO', info)
  answers = []
  for flags in ('fpu avx2', 'fpu amx_bf16 amx_tile', None):
    bfloat16.is_fast.cache_clear()
    info.unlink(missing_ok=True)
    if flags:
      info.write_text(f'processor : 0\nflags : {flags}\n')
    answers.append(bfloat16.is_fast())
  bfloat16.is_fast.cache_clear()
  assert answers == [False, True, False]
