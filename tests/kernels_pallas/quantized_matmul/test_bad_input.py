"""Mistakes are named."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify

from kernels_pallas.quantized_matmul import (
  ActQuant,
  pack,
  quantize,
  quantized_matmul,
)

CODES = np.tile([[0], [1], [2], [3]], (8, 2))
ONES = np.ones((1, 2))
X = jnp.ones((3, 32))
ACT = ActQuant(0.5, 1, 2)


@pytest.mark.parametrize(
  ('match', 'changes'),
  [
    (r'^bits = 1', {'bits': 1}),
    (r'^bits = 5', {'bits': 5}),
    (r'^codes are float64', {'codes': CODES * 1.0}),
    (r'^codes are from 0 to 4', {'codes': CODES + (CODES == 3)}),
    (r'^codes are from -1', {'codes': CODES - 1}),
    (r'^codes have the shape \(2,\)', {'codes': [1, 2]}),
    (r'^group_size = 5 does not divide K = 32', {'group_size': 5}),
    (r'^scale has the shape \(1, 3\)', {'scale': np.ones((1, 3))}),
    (r'^scale has the shape \(1, 2\)', {'group_size': 16}),
    (r'^scale holds', {'scale': ONES * np.inf}),
    (r'^scale holds', {'scale': -ONES}),
    (r'^scale is 0', {'scale': 0 * ONES}),
    (r'^zero is from 4 to 4', {'zero': np.full((1, 2), 4)}),
    (r'^zero has the shape \(2,\)', {'zero': np.zeros(2, int)}),
    (r'^levels has the shape', {'levels': np.ones((1, 2, 8))}),
    (r'^pack_block = 24.*multiple of 32', {'pack_block': 24}),
    (
      r'^pack_block = 96: .*multiple of 32 that divides 64',
      {
        'codes': np.zeros((128, 2), int),
        'scale': np.ones((2, 2)),
        'group_size': 64,
        'pack_block': 96,
      },
    ),
  ],
)
def test_pack(match, changes):
  given = {'codes': CODES, 'bits': 2, 'scale': ONES} | changes
  with pytest.raises(ValueError, match=match):
    pack(given.pop('codes'), **given)


@pytest.mark.parametrize(
  ('match', 'changes'),
  [
    (r'^x has the shape \(3, 16\).*K = 32', {'x': X[:, :16]}),
    (r'^x is int32; codes need act_quant', {'x': X.astype(int)}),
    (r'^x is bool', {'x': X > 0}),
    (
      r'^x holds int32 codes from 9 to 9; 2 bits have 0 to 3',
      {'x': X.astype(int) * 9, 'act_quant': ACT},
    ),
    (
      r'^x holds int8 codes from 3 to 3; 2 bits have -2 to 1',
      {'x': X.astype(jnp.int8) * 3, 'act_quant': ACT},
    ),
    (r'^lowrank', {'lowrank': (jnp.ones((32, 2)), jnp.ones((3, 2)))}),
    (r'^lowrank', {'lowrank': (jnp.ones((31, 2)), jnp.ones((2, 2)))}),
    (r'^lowrank', {'lowrank': (jnp.ones((32, 2)), jnp.ones((2, 3)))}),
    (r'^lowrank_input', {'lowrank_input': 'both'}),
    (r'^bias has the shape \(3,\)', {'bias': jnp.ones(3)}),
    (r'^residual has the shape', {'residual': jnp.ones((2, 3))}),
    (r"^activation = 'tanhh'.*relu", {'activation': 'tanhh'}),
    (r"^implementation = 'cuda'.*xla", {'implementation': 'cuda'}),
    (r'^block = \(24, 64\)', {'block': (24, 64)}),
    (r'^act_quant has bits = 9', {'act_quant': ActQuant(1.0, 0, 9)}),
    (r"mode = 'row'", {'act_quant': ActQuant(1.0, 0, 2, 'row')}),
    (r'has no scale', {'act_quant': ActQuant(None, 0, 2)}),
    (
      r'scale of shape \(2,\)',
      {'act_quant': ActQuant(jnp.ones(2), 0, 2, 'per_token')},
    ),
    (
      r'act_quant is dynamic',
      {
        'x': X.astype(int),
        'act_quant': ActQuant(None, None, 2, 'dynamic'),
      },
    ),
    (r'^out_quant', {'out_quant': (-1.0, 0, 4)}),
    (r'^out_dtype', {'out_dtype': jnp.int8}),
  ],
)
def test_matmul(match, changes):
  w = pack(CODES, bits=2, scale=ONES)
  with pytest.raises(ValueError, match=match):
    quantized_matmul(changes.pop('x', X), w, **changes)


def test_sums_that_overflow():
  k = 33_026
  w = pack(np.zeros((k, 1), int), bits=8, scale=[[1.0]], zero=[[0]])
  with pytest.raises(ValueError, match=r'^group_size = 33026.*at most 33025'):
    quantized_matmul(jnp.ones((1, k)), w, act_quant=ActQuant(1.0, 0, 8))


def test_codebooks_have_no_integer_path():
  w = pack(CODES, bits=2, scale=ONES, levels=np.ones((1, 2, 4)))
  with pytest.raises(ValueError, match=r'^act_quant needs uniform codes'):
    quantized_matmul(X, w, act_quant=ACT)
  with pytest.raises(NotImplementedError, match=r"'interpret'.*'xla'"):
    quantized_matmul(X, w, implementation='interpret')


def test_a_kernel_without_its_device(monkeypatch):
  monkeypatch.setattr(jax, 'default_backend', lambda: 'cpu')
  w = pack(CODES, bits=2, scale=ONES)
  with pytest.raises(NotImplementedError, match=r"'pallas'.*cpu.*'xla'"):
    quantized_matmul(X, w, implementation='pallas')


def test_nan_is_found_by_checkify():
  w = pack(CODES, bits=2, scale=ONES)

  def call(x):
    return quantized_matmul(x, w, act_quant=ACT, check=True)

  error, _ = checkify.checkify(jax.jit(call))(X.at[0, 0].set(jnp.nan))
  assert 'x holds nan' in error.get()
  error, _ = checkify.checkify(jax.jit(call))(X)
  assert error.get() is None


def test_rounding_rules():
  with pytest.raises(ValueError, match=r"^scale_rule = 'third'"):
    quantize(jnp.ones((4, 4)), bits=4, scale_rule='third')
