"""Block formats against the `gguf` package and by hand."""

import struct

import gguf
import ml_dtypes
import numpy as np
import pytest

from jaxlab.lm import gguf_blocks, gguf_io
from tests.golden import Golden

GOLDEN = Golden('lm_stack')
TYPES = (
  *('F32', 'F16', 'BF16', 'Q4_0', 'Q4_1', 'Q5_0', 'Q5_1', 'Q8_0'),
  *('Q4_K', 'Q5_K', 'Q6_K'),
)


def _peer(name):
  number = gguf.GGMLQuantizationType[name]
  return number, *gguf.GGML_QUANT_SIZES[number]


@pytest.mark.parametrize('case', GOLDEN.parameters('dequantize'))
def test_golden(case):
  inputs = case['inputs']
  raw = bytes.fromhex(inputs['raw_hex'])
  shape = (inputs['n'],)
  if 'raises' in case:
    with pytest.raises(getattr(gguf_io, case['raises'])) as found:
      gguf_io.dequantize(raw, inputs['qtype'], shape)
    assert all(words in str(found.value) for words in case['match'])
    return
  values = gguf_io.dequantize(raw, inputs['qtype'], shape)
  expected = np.array(case['expected']['values'], np.float32)
  np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize('name', TYPES)
@pytest.mark.filterwarnings('ignore::RuntimeWarning')
def test_random_bytes_give_the_values_of_the_peer(name):
  number, weights, nbytes = _peer(name)
  assert gguf_blocks.block_type(int(number)) == (name, number, weights, nbytes)
  # More weights than one chunk holds, infinities and NaNs among the scales.
  rows, columns = 5, gguf_blocks.CHUNK_WEIGHTS // 2 // weights
  rng = np.random.default_rng(0)
  raw = rng.integers(0, 256, (rows, columns * nbytes), np.uint8)
  expected = gguf.quants.dequantize(raw, number)
  for given in (raw, raw.tobytes()):
    values = gguf_io.dequantize(given, name, (rows, columns * weights))
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, expected)
  again = gguf_io.dequantize(raw, number, (columns, rows, weights))
  np.testing.assert_array_equal(again.reshape(values.shape), expected)


@pytest.mark.parametrize('name', TYPES)
def test_no_weights(name):
  weights = _peer(name)[1]
  assert gguf_io.dequantize(b'', name, (0, weights)).shape == (0, weights)
  assert gguf_io.dequantize(b'', name, (3, 0)).shape == (3, 0)


def test_q4_1_by_hand():
  nibbles = bytes(range(16))  # low nibbles 0 ... 15, high nibbles all 0
  raw = struct.pack('<ee', 0.5, -1.0) + nibbles
  expected = [0.5 * code - 1 for code in range(16)] + [-1.0] * 16
  np.testing.assert_array_equal(gguf_io.dequantize(raw, 3, (32,)), expected)


def _weights():
  rng = np.random.default_rng(1)
  x = rng.standard_normal((2, 50, 1600)) * 10 ** rng.uniform(-6, 4, (2, 50, 1))
  x[0, 3] = 0
  x[0, 4] = -1.5
  x[0, 5, :32] = np.arange(32) / 2 * 127 / 15.5  # codes halfway between two
  x[0, 6, :32] = np.float32(1e-41)
  return x.astype(np.float32)


@pytest.mark.parametrize('name', ['F32', 'F16', 'BF16', 'Q8_0', 'Q4_1'])
def test_quantized_bytes_are_those_of_the_peer(name):
  x = _weights()
  # Weights beside zero in float32 have a scale of 0 and whatever code.
  x[0, 6] = 0
  expected = gguf.quants.quantize(x, _peer(name)[0]).view(np.uint8)
  found = gguf_io.quantize(x, name)
  np.testing.assert_array_equal(found, expected)
  np.testing.assert_array_equal(gguf_io.quantize(x.tolist(), name), expected)


@pytest.mark.parametrize(
  ('quantize', 'name', 'steps'),
  [
    (gguf_io.quantize_q8_0, 'Q8_0', 254),
    (gguf_io.quantize_q4_1, 'Q4_1', 15),
  ],
)
def test_round_trip_errs_by_half_a_step(quantize, name, steps):
  x = _weights()
  raw = quantize(x)
  values = gguf_io.dequantize(raw, name, x.shape)
  blocks = x.reshape(-1, 32)
  span = 2 * np.abs(blocks).max(1) if steps == 254 else np.ptp(blocks, axis=1)
  error = np.abs(values - x).reshape(-1, 32).max(1)
  # Scales of float16 have a relative error of 2^-11, an absolute one of 2^-25.
  largest = np.abs(blocks).max(1)
  slack = largest * 2**-10 + (steps + 1) * 2.0**-25
  assert np.all(error <= span / steps / 2 + slack)


def test_bfloat16_arrays_are_weights():
  x = np.arange(32, dtype=np.float32).astype(ml_dtypes.bfloat16)
  raw = gguf_io.quantize(x, 'BF16')
  np.testing.assert_array_equal(raw, x.view(np.uint8))


@pytest.mark.parametrize(
  ('call', 'words'),
  [
    (lambda: gguf_io.dequantize(b'', 'Q9_7', (32,)), ['Q9_7', 'Q4_K']),
    (lambda: gguf_io.dequantize(b'', 'Q2_K', (256,)), ['Q2_K (10)']),
    (lambda: gguf_io.dequantize(b'', 10, (256,)), ['Q2_K (10)']),
    (lambda: gguf_io.dequantize(b'', 77, (32,)), ['77']),
    (
      lambda: gguf_io.dequantize(bytes(6), 'Q8_0', (32,)),
      ['truncated', '34', '6', '(32,)'],
    ),
    (
      lambda: gguf_io.dequantize(bytes(35), 'Q8_0', (32,)),
      ['truncated or too long', '34', '35'],
    ),
    (
      lambda: gguf_io.dequantize(bytes(34), 'Q8_0', (33,)),
      ['multiple of 32', '(33,)'],
    ),
    (lambda: gguf_io.dequantize(bytes(34), 'Q8_0', ()), ['multiple of 32']),
    (lambda: gguf_io.dequantize(bytes(4), 'F32', (-1, -1)), ['negative']),
    (
      lambda: gguf_io.dequantize(np.zeros(1, np.float32), 'F32', (1,)),
      ['uint8', 'float32'],
    ),
    (lambda: gguf_io.quantize_q8_0(np.ones((32, 3))), ['32', '(32, 3)']),
    (lambda: gguf_io.quantize_q4_1(np.ones(48)), ['multiple of 32', '(48,)']),
    (lambda: gguf_io.quantize(np.ones(256), 'Q6_K'), ['Q6_K', 'Q8_0']),
    (
      lambda: gguf_io.quantize(np.ones(256), 'Q1'),
      ['not written as Q1; choose one of F32, F16, BF16, Q8_0, Q4_1.'],
    ),
    (lambda: gguf_io.quantize(np.ones(256), 14), ['not written as Q6_K']),
    (lambda: gguf_io.quantize_q8_0(np.full(32, np.nan)), ['NaN', 'F32']),
    (lambda: gguf_io.quantize_q4_1(np.full(32, np.inf)), ['NaN', 'F32']),
    (lambda: gguf_io.quantize_q8_0(np.full(32, 1e8)), ['too large']),
  ],
)
def test_refused(call, words):
  with pytest.raises(gguf_io.GGUFError) as found:
    call()
  message = str(found.value)
  assert '\n' not in message
  assert all(word in message for word in words), message
