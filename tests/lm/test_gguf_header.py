"""Headers of GGUF files made by hand, and damaged ones."""

import struct
import time
import tracemalloc

import numpy as np
import pytest

from jaxlab.lm import gguf_header, gguf_io


def _text(text):
  content = text if isinstance(text, bytes) else text.encode()
  return struct.pack('<Q', len(content)) + content


def _entry(key, kind, content):
  return _text(key) + struct.pack('<I', kind) + content


def _row(name='x', sizes=(32,), kind=0, offset=0):
  sizes = struct.pack(f'<I{len(sizes)}Q', len(sizes), *sizes)
  return _text(name) + sizes + struct.pack('<IQ', kind, offset)


def _file(entries=(), rows=(), data=b'', version=3, counts=None):
  counts = counts or (len(rows), len(entries))
  head = b'GGUF' + struct.pack('<IQQ', version, *counts)
  head += b''.join(entries) + b''.join(rows)
  return head + bytes(-len(head) % 32) + data


def test_bytes_by_hand(tmp_path):
  path = tmp_path / 'm.gguf'
  entries = [
    _entry('yes', 7, b'\1'),
    _entry('bits', 9, struct.pack('<IQ', 7, 3) + b'\1\0\1'),
    _entry('u16', 2, b'\xff\xff'),
  ]
  values = np.arange(6, dtype='<f4')
  rows = [_row(sizes=(3, 2))]
  path.write_bytes(_file(entries, rows, values.tobytes(), version=2))
  found = gguf_io.read_gguf(path)
  assert found.version == 2
  assert found.metadata['yes'] is True
  assert found.metadata['u16'] == 65535
  assert found.metadata['bits'].tolist() == [True, False, True]
  expected = values.reshape(2, 3)  # the file lists the fastest axis first
  np.testing.assert_array_equal(found.tensors['x'].array(), expected)


_HUGE = (1 << 64) - 1
_DEEP = struct.pack('<IQ', 9, 1) * 40
_ALIGNMENT = 'general.alignment'


@pytest.mark.parametrize(
  ('content', 'words'),
  [
    (b'', ['is empty']),
    (b'GG', ['not a GGUF file: bad magic']),
    (b'ggml' + bytes(40), ["bad magic b'ggml'; give one made for llama.cpp"]),
    (b'GGUF', ['truncated', 'version']),
    (_file(version=1), ['GGUF version 1 is big-endian/unsupported']),
    (_file(version=4), ['GGUF version 4', 'unsupported']),
    (_file(version=3 << 24), ['GGUF version 3 is big-endian']),
    (_file(counts=(0, _HUGE)), ['truncated', 'file has']),
    (_file(counts=(1 << 40, 0)), ['truncated', 'file has']),
    (_file([_entry('k', 13, bytes(8))]), ["key 'k'", 'type 13']),
    (_file([_entry('k', 7, b'\2')]), ["key 'k'", 'truth value']),
    (_file([_entry(b'\xff', 0, b'\1')]), ['UTF-8']),
    (_file([_entry('k', 0, b'\1')] * 2), ["'k'", 'twice']),
    (_file([_entry('k', 8, struct.pack('<Q', _HUGE))]), ["key 'k'", 'trunc']),
    (
      _file([_entry('k', 9, struct.pack('<IQ', 8, 1 << 60))]),
      ["key 'k'", 'truncated'],
    ),
    (
      _file([_entry('k', 9, struct.pack('<IQ', 12, 1 << 61))]),
      ["key 'k'", 'truncated'],
    ),
    (
      _file([_entry('k', 9, struct.pack('<IQQ', 8, 1, 1 << 50))]),
      ["key 'k'", 'truncated'],
    ),
    (_file([_entry('k', 9, _DEEP)]), ["key 'k'", 'nests']),
    (_file([_entry(_ALIGNMENT, 4, bytes(4))]), ['power of two', '0']),
    (_file([_entry(_ALIGNMENT, 8, _text('32'))]), ['power of two']),
    (
      _file(rows=[_row()], data=bytes(100)),
      ["truncated: tensor 'x' needs 128 bytes at offset 64, file has 164"],
    ),
    (_file(rows=[_row()] * 2, data=bytes(128)), ["'x'", 'twice']),
    (_file(rows=[_row(kind=10)]), ["tensor 'x'", 'Q2_K (10)']),
    (_file(rows=[_row(kind=99)]), ["tensor 'x'", '99']),
    (_file(rows=[_row(kind=8, sizes=(33,))]), ["tensor 'x'", 'multiple']),
    (_file(rows=[_row(sizes=(1,) * 5)]), ["tensor 'x'", '5 axes']),
    (_file(rows=[_row(sizes=(1 << 40, 1 << 40))]), ["'x'", 'overflow']),
    (_file(rows=[_row(sizes=(0, 1 << 63))]), ["'x'", 'overflow']),
    (_file(rows=[_row(offset=8)], data=bytes(256)), ["'x'", 'offset 8']),
    (_file(rows=[_row(offset=1 << 63)]), ["tensor 'x'", 'truncated']),
  ],
)
def test_damaged_files(tmp_path, content, words):
  path = tmp_path / 'm.gguf'
  path.write_bytes(content)
  with pytest.raises(gguf_io.GGUFError) as found:
    gguf_io.read_gguf(path)
  message = str(found.value)
  assert '\n' not in message
  assert str(path) in message
  assert all(word in message for word in words), message


def test_absent_files(tmp_path):
  with pytest.raises(gguf_io.GGUFError, match=r'cannot read .*none'):
    gguf_io.read_gguf(tmp_path / 'none.gguf')
  with pytest.raises(gguf_io.GGUFError, match='folder'):
    gguf_io.read_gguf(tmp_path)


def test_counts_that_zeros_would_satisfy_are_bounded():
  zeros = bytes(32 << 20)
  for element, word in ((8, 'strings'), (9, 'nests')):
    entry = _entry('k', 9, struct.pack('<IQ', element, len(zeros) // 12))
    content = _file([entry], data=zeros)
    tracemalloc.start()
    with pytest.raises(gguf_io.GGUFError, match=word):
      gguf_header.parse(content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1e6


@pytest.mark.parametrize('kind', ['key', 'item', 'text'])
def test_lengths_that_a_large_file_would_satisfy_are_bounded(kind):
  garbage = b'\xf0\x9f\x98\x80\xff' * (13 << 20)  # decodes six times as large
  length = struct.pack('<Q', len(garbage))
  entry = {
    'key': length,
    'item': _entry('k', 9, struct.pack('<IQ', 8, 1) + length),
    'text': _entry('k', 8, length),
  }[kind]
  content = _file([entry], data=garbage + bytes(64))
  tracemalloc.start()
  with pytest.raises(gguf_io.GGUFError, match='bytes; at most'):
    gguf_header.parse(content)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert peak < 1e6


def _mutated(content, header, rng):
  """Returns the bytes of a file with a damaged header."""
  damaged = bytearray(content)
  kind = rng.integers(4)
  place = int(rng.integers(header))
  if kind == 0:
    for _ in range(rng.integers(1, 8)):
      damaged[rng.integers(header)] = rng.integers(256)
  elif kind == 1:
    values = (0, 1, 255, 1 << 20, 1 << 31, 1 << 40, 1 << 62, _HUGE)
    damaged[place : place + 8] = struct.pack('<Q', values[rng.integers(8)])
  elif kind == 2:
    del damaged[place:]
  else:
    damaged[place:place] = rng.bytes(int(rng.integers(1, 16)))
  return bytes(damaged)


def test_500_damaged_headers(tmp_path):
  path = tmp_path / 'm.gguf'
  rng = np.random.default_rng(5)
  words = [f'token {i}' for i in range(300)]
  metadata = {
    'general.alignment': 32,
    'bool': True,
    'float': 0.5,
    'text': 'zwei\nZeilen é',
    'scores': np.arange(7, dtype=np.float64),
    'nested': [[1, 2], [3], ['a', 'b']],
    'tokens': words,
  }
  weight = rng.standard_normal((4, 64))
  qtypes = {'q': 'Q8_0', 'r': 'Q4_1'}
  gguf_io.write_gguf(path, metadata, dict.fromkeys('pqr', weight), qtypes)
  content = path.read_bytes()
  header = gguf_header.parse(content).data_start
  refused, slowest = 0, 0.0
  tracemalloc.start()
  for _ in range(500):
    path.write_bytes(_mutated(content, header, rng))
    start = time.perf_counter()
    try:
      found = gguf_io.read_gguf(path)
      for tensor in found.tensors.values():
        assert tensor.array().shape == tensor.shape
    except gguf_io.GGUFError as error:
      refused += 1
      assert '\n' not in str(error)
      assert len(str(error)) < 600
    slowest = max(slowest, time.perf_counter() - start)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  # Damage within a string or a number is not to be seen.
  assert 200 < refused < 500
  assert peak < 100e6
  assert slowest < 1
