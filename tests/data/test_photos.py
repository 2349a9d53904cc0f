"""Photographs in packages: crops are squares of them, splits share no scene."""

import builtins

import numpy as np
import pytest
from PIL import Image

from jaxlab import data, errors
from jaxlab.data import photos


@pytest.fixture(autouse=True)
def skimage():
  return pytest.importorskip('skimage')


def test_crops_are_squares_of_the_photographs():
  # Red counts columns, green counts rows: a crop says where it lies.
  rows, columns = np.mgrid[:100, :200]
  pixels = np.stack([columns, rows, 0 * rows], -1).astype(np.uint8)
  found = 255 * photos.crops([Image.fromarray(pixels)], 20, 32, 0)
  assert found.shape == (20, 32, 32, 3)
  sides = np.stack(
    [
      found[:, 0, -1, 0] - found[:, 0, 0, 0],
      found[:, -1, 0, 1] - found[:, 0, 0, 1],
    ]
  )
  np.testing.assert_allclose(sides[0], sides[1], atol=2.5)
  assert 44 < sides.min() < 60
  assert 80 < sides.max() < 100
  corners = found[:, 0, 0, :2]
  assert (np.ptp(corners, axis=0) > [40, 15]).all()


def test_load():
  every = data.load('photos', n=14, size=16)
  assert every.images.shape == (14, 16, 16, 3)
  assert every.images.dtype == np.float32
  assert 0 <= every.images.min() < 0.1
  assert 0.9 < every.images.max() <= 1
  assert len(every.names) == 11
  assert every.photo.tolist() == [*range(11), 0, 1, 2]
  again = data.load('photos', n=14, size=16)
  np.testing.assert_array_equal(again.images, every.images)
  other = data.load('photos', n=14, size=16, seed=1)
  assert np.abs(other.images - every.images).max() > 0.1
  assert np.abs(every.images[0] - every.images[11]).max() > 0.1


def test_splits_share_no_photograph():
  first = data.load('photos', 'calibration', n=2, size=8).names
  second = data.load('photos', 'test', n=2, size=8).names
  assert not set(first) & set(second)
  assert len(first) + len(second) == 11
  assert 'china' in dict(data.describe('photos', 'calibration'))['photographs']
  assert 'nothing to prepare' in data.prepare('photos')


def test_mistakes_are_named(monkeypatch):
  with pytest.raises(errors.UserError, match="'train'"):
    data.load('photos', 'train')
  with pytest.raises(errors.UserError, match='n=0'):
    data.load('photos', n=0)
  real = builtins.__import__

  def without(name, *rest, **named):
    if name == 'skimage':
      raise ImportError(name)
    return real(name, *rest, **named)

  monkeypatch.setattr(builtins, '__import__', without)
  with pytest.raises(errors.MissingDataError, match=r'jaxlab\[pretrained\]'):
    data.load('photos')
