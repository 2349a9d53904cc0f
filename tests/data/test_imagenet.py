"""Folders of pictures: three of them, in two classes."""

import numpy as np
import pytest
from PIL import Image

from jaxlab import data, errors


@pytest.fixture
def tree(raw_root):
  """Pictures whose columns, or rows, count up along the longer side."""
  root = raw_root / 'imagenet' / 'val'
  ramp = np.linspace(0, 255, 512).astype(np.uint8)
  wide = np.broadcast_to(ramp[None, :, None], (256, 512, 3))
  tall = np.broadcast_to(ramp[:, None], (512, 256))
  for name, pixels in (
    ('n02/b.JPEG', wide),
    ('n02/a.png', tall),
    ('n01/x.png', np.full((128, 128, 3), [255, 0, 51], np.uint8)),
  ):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(root / name)
  (root / 'n01' / 'notes.txt').write_text('not a picture')
  return root


def test_three_pictures(tree):
  found = data.load('imagenet', 'val')
  assert found.images.shape == (3, 224, 224, 3)
  assert found.images.dtype == np.float32
  assert found.labels.tolist() == [0, 1, 1]
  assert found.labels.dtype == np.int32
  assert found.classes == ('n01', 'n02')
  np.testing.assert_allclose(
    found.images[0], np.broadcast_to([1, 0, 0.2], (224, 224, 3)), atol=1e-6
  )
  # Sides of 256 stay as they are: the middle is pixels 144..367 of the ramp.
  ramp = np.linspace(0, 255, 512).astype(np.uint8)[144:368] / 255
  np.testing.assert_allclose(found.images[1, :, 7, 1], ramp, atol=1e-6)
  np.testing.assert_allclose(found.images[2, 7, :, 1], ramp, atol=0.02)


def test_the_shorter_side_is_scaled(tree):
  found = data.load('imagenet', 'val', size=128, resize=128)
  assert found.images.shape == (3, 128, 128, 3)
  column = found.images[1, :, 64, 0]
  # Every other pixel of the middle 256 of the ramp.
  middle = (np.arange(128, 384).reshape(128, 2).mean(1)) / 511
  np.testing.assert_allclose(column, middle, atol=0.01)


def test_index_and_fewer_pictures(tree, tmp_path):
  index = tmp_path / 'synsets.txt'
  index.write_text('n02 a class, of things\nn00\nn01 another\n')
  found = data.load(
    'imagenet', None, folder=tree, index=index, per_class=1, size=8, resize=8
  )
  assert found.labels.tolist() == [0, 2]
  assert found.classes == ('n02', 'n00', 'n01')
  # a.png, the tall one, comes before b.JPEG.
  assert found.images[0, -1, 0, 0] > 0.6 > found.images[0, 0, 0, 0]
  index.write_text('n02\n')
  with pytest.raises(errors.UserError, match="'n01' is not in"):
    data.load('imagenet', 'val', index=index)


def test_described(tree):
  rows = dict(data.describe('imagenet', 'val'))
  assert rows['images'].startswith('3,')
  assert rows['labels'] == '2, 1..2 pictures each'
  assert '3 pictures' in data.prepare('imagenet', str(tree.parent))


def test_damage_and_absence_are_named(tree, raw_root):
  (tree / 'n01' / 'y.png').write_bytes(b'nothing')
  with pytest.raises(errors.UserError, match=r'y\.png is no readable picture'):
    data.load('imagenet', 'val')
  with pytest.raises(errors.MissingDataError, match=r'train.*JAXLAB_DATA'):
    data.load('imagenet', 'train')
  with pytest.raises(errors.MissingDataError, match='elsewhere'):
    data.prepare('imagenet', str(raw_root / 'elsewhere'))
  with pytest.raises(errors.UserError, match='size=300'):
    data.load('imagenet', 'val', size=300)
  with pytest.raises(errors.UserError, match='per_class=0'):
    data.load('imagenet', 'val', per_class=0)
  with pytest.raises(errors.UserError, match='cannot be read'):
    data.load('imagenet', 'val', index=raw_root / 'none.txt')
