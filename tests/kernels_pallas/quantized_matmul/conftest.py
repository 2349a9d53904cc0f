"""Random weights, and products of them in NumPy."""

from typing import NamedTuple

import numpy as np
import pytest

from kernels_pallas.quantized_matmul import PackedTensor, pack


class Weights(NamedTuple):
  """Packed weights, their codes, and their values in float64."""

  packed: PackedTensor
  codes: np.ndarray
  zero: np.ndarray
  scale: np.ndarray
  values: np.ndarray


@pytest.fixture(scope='session')
def make_weights():
  """`make(bits, K, N, groups, symmetric, pack_block)`, each with its seed."""

  def make(bits, k, n, groups=1, symmetric=False, pack_block=None):
    rng = np.random.default_rng(bits + 10 * k + n)
    codes = rng.integers(0, 2**bits, (k, n))
    ends = np.tile([0, 2**bits - 1], k)
    codes[:: max(1, k // 8), 0] = ends[: len(codes[:: max(1, k // 8)])]
    zero = rng.integers(0, 2**bits, (groups, n))
    if symmetric:
      zero[:] = 2 ** (bits - 1)
    scale = rng.uniform(0.01, 0.1, (groups, n)).astype(np.float32)
    packed = pack(
      codes,
      bits=bits,
      scale=scale,
      zero=None if symmetric else zero,
      group_size=k // groups,
      pack_block=pack_block,
    )
    full = [np.repeat(a, k // groups, axis=0) for a in (scale, zero)]
    values = full[0].astype(np.float64) * (codes - full[1])
    return Weights(packed, codes, zero, scale, values)

  return make
