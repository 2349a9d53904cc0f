"""Safetensors files: both ways with the package, shards, and damaged."""

import json
import os
import stat
import tracemalloc

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy

from jaxlab import errors
from jaxlab.lm import safetensors_io

RNG = np.random.default_rng(0)
ARRAYS = {
  'float': RNG.standard_normal((3, 5)).astype(np.float32),
  'transposed': RNG.standard_normal((3, 5)).T,
  'half': RNG.standard_normal(7).astype(np.float16),
  'brain': RNG.standard_normal((2, 3)).astype(ml_dtypes.bfloat16),
  'byte': np.arange(3, dtype=np.uint8),
  'long': np.array(1 << 40),
  'flag': np.array([True, False]),
  'empty': np.zeros((0, 4), np.float32),
}
SINGLE = 'model.safetensors'
INDEX = 'model.safetensors.index.json'


def _check(found, expected):
  assert sorted(found) == sorted(expected)
  assert len(found) == len(expected)
  for name, array in expected.items():
    assert found[name].dtype == array.dtype
    np.testing.assert_array_equal(found[name], array)


def test_reads_what_the_package_wrote(tmp_path):
  path = tmp_path / SINGLE
  # The package writes the memory of a view, whatever its strides.
  arrays = ARRAYS | {'transposed': ARRAYS['transposed'].copy()}
  safetensors.numpy.save_file(arrays, path)
  _check(safetensors_io.read_safetensors(path), ARRAYS)
  _check(safetensors_io.read_safetensors(str(tmp_path)), ARRAYS)


def test_the_package_reads_what_is_written(tmp_path):
  path = tmp_path / 'deep' / 'm.safetensors'
  safetensors_io.write_safetensors(path, ARRAYS, {'note': 'é'})
  _check(safetensors.numpy.load_file(path), ARRAYS)
  with safetensors.safe_open(path, 'numpy') as file:
    assert file.metadata() == {'note': 'é'}
  safetensors_io.write_safetensors(path, {})
  assert len(safetensors_io.read_safetensors(path)) == 0
  with safetensors.safe_open(path, 'numpy') as file:
    assert file.metadata() == {'format': 'pt'}
  # Others may read it as they may read any new file.
  (tmp_path / 'other').touch()
  modes = [stat.S_IMODE(p.stat().st_mode) for p in (path, tmp_path / 'other')]
  assert modes[0] == modes[1]


def test_arrays_are_views_of_the_file(tmp_path):
  arrays = {name: np.zeros((1 << 20, 8), np.float32) for name in 'ab'}
  safetensors_io.write_safetensors(tmp_path / SINGLE, arrays)
  tracemalloc.start()
  found = safetensors_io.read_safetensors(tmp_path)
  views = dict(found)
  peak = tracemalloc.get_traced_memory()[1]
  tracemalloc.stop()
  assert peak < 1e6
  assert views['a'].shape == (1 << 20, 8)
  with pytest.raises(ValueError, match='read-only'):
    views['a'][...] = 1
  with pytest.raises(KeyError, match='nothing'):
    found['nothing']


def test_shards(tmp_path):
  arrays = {f'{i}': np.full((10, 10), i, np.float32) for i in range(5)}
  safetensors_io.write_safetensors(tmp_path, arrays, max_shard_bytes=900)
  names = [f'model-0000{i}-of-00003.safetensors' for i in (1, 2, 3)]
  found = sorted(path.name for path in tmp_path.iterdir())
  assert found == [*names, INDEX]
  index = json.loads((tmp_path / INDEX).read_text())
  assert index['metadata'] == {'total_size': 2000}
  assert [index['weight_map'][f'{i}'] for i in range(5)] == [
    *(names[0], names[0], names[1], names[1], names[2])
  ]
  _check(safetensors_io.read_safetensors(tmp_path), arrays)
  parts = [safetensors.numpy.load_file(tmp_path / name) for name in names]
  _check(parts[0] | parts[1] | parts[2], arrays)
  with pytest.raises(errors.UserError, match='holds a model already'):
    safetensors_io.write_safetensors(tmp_path, arrays, max_shard_bytes=900)
  small, large = tmp_path / 'small', tmp_path / 'large'
  safetensors_io.write_safetensors(small, arrays, max_shard_bytes=100)
  assert len(list(small.iterdir())) == 6
  safetensors_io.write_safetensors(large, arrays, max_shard_bytes=2000)
  assert [path.name for path in large.iterdir()] == [SINGLE]


def _refused(call, *words):
  with pytest.raises(errors.UserError) as found:
    call()
  message = str(found.value)
  assert '\n' not in message
  assert all(word in message for word in words), message


@pytest.mark.parametrize(
  ('change', 'words'),
  [
    (lambda index: index.pop('weight_map'), ['weight_map']),
    (
      lambda index: index['weight_map'].update(ghost=index['weight_map']['0']),
      ["['ghost']", 'do not hold'],
    ),
    (lambda index: index['weight_map'].update({'0': 'gone'}), ["['gone']"]),
    (lambda index: index['weight_map'].update({'0': '../m'}), ["'../m'"]),
    (lambda index: index['weight_map'].update({'0': '/etc/m'}), ["'/etc/m'"]),
    (lambda index: index['weight_map'].update({'0': '..'}), ["'..'"]),
    (lambda index: index['weight_map'].update({'0': ''}), ["''"]),
    (lambda index: index['weight_map'].update({'0': [1]}), ['[1]']),
    (lambda index: index['weight_map'].update({'0': 'a\0b'}), ['a\\x00b']),
    (lambda index: index['weight_map'].update({'0': 'a' * 999}), ['lacks']),
  ],
)
def test_a_damaged_index(tmp_path, change, words):
  arrays = {f'{i}': np.full(8, i, np.float32) for i in range(2)}
  safetensors_io.write_safetensors(tmp_path, arrays, max_shard_bytes=32)
  index = json.loads((tmp_path / INDEX).read_text())
  change(index)
  (tmp_path / INDEX).write_text(json.dumps(index))
  read = safetensors_io.read_safetensors
  _refused(lambda: read(tmp_path), str(tmp_path / INDEX), *words)


def _file(header, data=b''):
  content = json.dumps(header).encode()
  return len(content).to_bytes(8, 'little') + content + data


def test_damaged_files(tmp_path):
  path = tmp_path / SINGLE
  safetensors_io.write_safetensors(path, ARRAYS)
  content = path.read_bytes()
  rng = np.random.default_rng(1)
  damaged = [b'abc', content[:-1], content + b'x', content[:40], bytes(64)]
  damaged += [b'\xff' * 64, _file([]), _file({'a': 1}), _file({'a': {}})]
  damaged.append(b'[' * 8 + b'\0' * 7)
  for change in (
    {'shape': [3]},
    {'shape': [-2]},
    {'shape': [2.0]},
    {'shape': [True, 2]},
    {'shape': 2},
    {'shape': [0, 1 << 63]},
    {'data_offsets': [0, 9]},
    {'data_offsets': [4, 0]},
    {'data_offsets': [0]},
    {'dtype': 5},
  ):
    row = {'dtype': 'F32', 'shape': [2], 'data_offsets': [0, 8]}
    damaged.append(_file({'a': row | change}, bytes(8)))
  for broken in damaged:
    path.write_bytes(broken)
    _refused(lambda: safetensors_io.read_safetensors(path), SINGLE, 'whole')
  for _ in range(100):
    broken = bytearray(content)
    broken[rng.integers(len(content) // 2)] = rng.integers(256)
    path.write_bytes(broken)
    try:
      found = safetensors_io.read_safetensors(path)
      assert all(array.ndim < 3 for array in found.values())
    except errors.UserError as error:
      assert SINGLE in str(error)


def test_unknown_dtypes_are_named(tmp_path):
  path = tmp_path / SINGLE
  kind = {'dtype': 'F8_E4M3', 'shape': [2], 'data_offsets': [0, 2]}
  path.write_bytes(_file({'a': kind}, bytes(2)))
  found = safetensors_io.read_safetensors(path)
  _refused(lambda: found['a'], SINGLE, "'a'", 'F8_E4M3')


def test_absent_files(tmp_path):
  (tmp_path / 'blank').touch()
  _refused(
    lambda: safetensors_io.read_safetensors(tmp_path / 'blank'), 'is empty'
  )
  read = safetensors_io.read_safetensors
  _refused(lambda: read(tmp_path / 'none'), 'none', 'cannot read')
  _refused(lambda: read(tmp_path), INDEX, SINGLE)
  (tmp_path / INDEX).write_text('{')
  _refused(lambda: read(tmp_path), INDEX, 'JSON')
  (tmp_path / SINGLE).mkdir()
  _refused(lambda: read(tmp_path), 'folder')


def test_config(tmp_path):
  read = safetensors_io.read_hf_config
  _refused(lambda: read(tmp_path), 'config.json', 'cannot read')
  path = tmp_path / 'config.json'
  for content in (b'{"a": 1', b'\xff', b'[' * 10**5):
    path.write_bytes(content)
    _refused(lambda: read(tmp_path), 'config.json', 'valid JSON')
  path.write_text('[1]')
  _refused(lambda: read(tmp_path), 'config.json', 'object')
  config = {'model_type': 'llama', 'rope_scaling': None, 'sizes': [1, 2.5]}
  safetensors_io.write_hf_config(tmp_path / 'new', config)
  assert json.loads((tmp_path / 'new' / 'config.json').read_text()) == config
  assert read(tmp_path / 'new') == config


@pytest.mark.parametrize(
  ('arguments', 'words'),
  [
    (({'a': np.array(['x'])},), ["'a'", '<U1']),
    (({'a': np.ones(2, complex)},), ["'a'", 'complex128']),
    (({'__metadata__': np.ones(2)},), ['__metadata__']),
    (({'a': np.ones(2)}, {'k': 1}), ['texts']),
    (({'a': np.ones(2)}, None, 0), ['positive']),
  ],
)
def test_what_is_not_written(tmp_path, arguments, words):
  path = tmp_path / 'm.safetensors'
  _refused(lambda: safetensors_io.write_safetensors(path, *arguments), *words)
  assert not list(tmp_path.iterdir())
  (tmp_path / 'file').touch()
  below = tmp_path / 'file' / 'm'
  write = safetensors_io.write_safetensors
  _refused(lambda: write(below, {'a': np.ones(2)}), 'cannot write')


def test_pipes_are_neither_read_nor_replaced(tmp_path):
  for name in (SINGLE, 'config.json'):
    os.mkfifo(tmp_path / name)
  read, write = safetensors_io.read_safetensors, safetensors_io.write_hf_config
  _refused(lambda: read(tmp_path / SINGLE), SINGLE, 'pipe')
  _refused(lambda: safetensors_io.read_hf_config(tmp_path), 'config.json')
  _refused(lambda: write(tmp_path, {}), 'config.json', 'a pipe; name a regular')
  assert (tmp_path / 'config.json').is_fifo()
