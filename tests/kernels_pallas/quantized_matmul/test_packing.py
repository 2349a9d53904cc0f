"""Bytes of packed weights."""

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from kernels_pallas.quantized_matmul import (
  dequantize,
  nbytes,
  pack,
  quantize,
  unpack,
)

SHAPES = [(40, 3, 1), (96, 5, 4), (512, 4, 2)]


@pytest.mark.parametrize('bits', [2, 3, 4, 8])
@pytest.mark.parametrize(('k', 'n', 'groups'), SHAPES)
def test_codes_come_back_and_bytes_are_counted(
  bits, k, n, groups, make_weights
):
  made = make_weights(bits, k, n, groups)
  w = made.packed
  np.testing.assert_array_equal(unpack(w), made.codes)
  np.testing.assert_allclose(dequantize(w), made.values, rtol=1e-6)
  whole = -(-k // w.pack_block) * w.pack_block
  assert sum(a.nbytes for a in w.data) == whole * n * bits // 8
  assert nbytes(w) == whole * n * bits // 8 + groups * n * (4 + 1)
  assert {a.dtype for a in w.data} == {
    np.dtype('int8' if bits == 8 else 'uint8')
  }
  grouped = made.codes.reshape(groups, -1, n)
  np.testing.assert_array_equal(w.colsum, grouped.sum(1))


@pytest.mark.parametrize(
  ('bits', 'k', 'group', 'block'),
  [(2, 64, None, 256), (4, 512, 64, 256), (2, 48, 24, 96), (8, 24, 12, 24)],
)
def test_default_blocks(bits, k, group, block):
  scale = np.ones((k // (group or k), 1))
  codes = np.zeros((k, 1), int)
  w = pack(codes, bits=bits, scale=scale, group_size=group)
  assert w.pack_block == block
  assert (w.k, w.n, w.group_size, w.layout) == (k, 1, group or k, 1)


def test_planes_are_not_interleaved():
  codes = np.arange(32)[:, None] % 4
  (data,) = pack(codes, bits=2, scale=[[1.0]], pack_block=32).data
  rows = codes[:, 0]
  byte = [sum(rows[8 * p + i] << (2 * p) for p in range(4)) for i in range(8)]
  assert data[:, 0].tolist() == byte


def test_rows_that_fill_up_are_zero_points():
  w = pack([[1], [2]], bits=4, scale=[[1.0]], zero=[[5]], pack_block=16)
  assert w.data[0][:, 0].tolist() == [0x51, 0x52, *[0x55] * 6]
  assert int(w.colsum[0, 0]) == 3


def test_ratios_to_float32():
  for bits, ratio in ((2, 16), (3, 32 / 3), (4, 8), (8, 4)):
    w = pack(np.zeros((256, 8), int), bits=bits, scale=np.ones((1, 8)))
    assert 4 * 256 * 8 / (nbytes(w) - w.scale.nbytes) == pytest.approx(ratio)


def test_a_scale_of_0_is_1_where_all_is_0():
  codes = np.array([[2, 1], [2, 3]])
  w = pack(codes, bits=2, scale=[[0.0, 0.5]])
  assert w.scale.tolist() == [[1, 0.5]]
  np.testing.assert_array_equal(dequantize(w), [[0, -0.5], [0, 0.5]])


@pytest.mark.parametrize(
  ('bits', 'rule'), [(2, 'full'), (4, 'half'), (8, 'full')]
)
def test_rounding_is_to_the_nearest_step(bits, rule):
  weights = np.random.default_rng(0).normal(size=(64, 5)).astype(np.float32)
  w = quantize(weights, bits=bits, group_size=32, scale_rule=rule)
  half = 2 ** (bits - 1)
  steps = half - (1 if rule == 'full' else 0.5)
  largest = np.abs(weights.reshape(2, 32, 5)).max(1)
  np.testing.assert_allclose(w.scale, largest / steps, rtol=1e-6)
  scale = np.repeat(largest / steps, 32, axis=0)
  exact = weights / scale
  codes = np.clip(np.round(exact), -half, half - 1) + half
  tied = np.abs(np.abs(exact) % 1 - 0.5) < 1e-5
  assert not (tied & (np.abs(np.asarray(unpack(w)) - codes) > 1)).any()
  np.testing.assert_array_equal(unpack(w)[~tied], codes[~tied])


def test_packing_in_a_program_gives_the_same_bytes(make_weights):
  made = make_weights(3, 96, 5, 4)
  compiled = jax.jit(
    lambda codes: pack(
      codes, bits=3, scale=made.scale, zero=made.zero, group_size=24
    )
  )(jnp.asarray(made.codes))
  jax.tree.map(np.testing.assert_array_equal, compiled, made.packed)


def test_a_checkpoint_restores_packed_weights(make_weights, tmp_path):
  w = make_weights(3, 64, 4, 2).packed
  with ocp.StandardCheckpointer() as checkpointer:
    checkpointer.save(tmp_path / 'w', w)
    checkpointer.wait_until_finished()
    found = checkpointer.restore(
      tmp_path / 'w', jax.tree.map(jnp.zeros_like, w)
    )
  assert jax.tree.structure(found) == jax.tree.structure(w)
  jax.tree.map(np.testing.assert_array_equal, found, w)
