"""MNIST as JSON: a file of images for each digit."""

import json

import numpy as np
import pytest

from jaxlab import data, errors


@pytest.fixture
def folder(tmp_path):
  """Six images of each digit, of one pixel value each."""
  root = tmp_path / 'package' / 'src' / 'digits'
  root.mkdir(parents=True)
  for digit in range(10):
    grey = np.repeat((10 * digit + np.arange(6)) / 255, 784).round(3)
    (root / f'{digit}.json').write_text(json.dumps({'data': grey.tolist()}))
  return tmp_path


def test_every_fifth_image_is_for_testing(folder):
  test = data.load('mnist', 'test', folder=folder)
  assert test.labels.tolist() == list(range(10))
  np.testing.assert_array_equal(
    test.images[:, 5], np.float32(10 * np.arange(10) + 4) / np.float32(255)
  )
  train = data.load('mnist', 'train', folder=folder)
  assert train.images.shape == (50, 784)
  np.testing.assert_array_equal(np.bincount(train.labels), [5] * 10)
  np.testing.assert_allclose(255 * train.images[:5, 0], [0, 1, 2, 3, 5])
  assert len(data.load('mnist', folder=folder).labels) == 60


def test_prepared(folder, raw_root):
  assert 'prepared: 10 files' in data.prepare('mnist', str(folder))
  assert data.load('mnist', 'test').labels.tolist() == list(range(10))


@pytest.mark.parametrize(
  ('content', 'named'),
  [
    ('[]', "3.json does not hold a list 'data'"),
    ('{"data": [0.5, 0.5]}', '784 an image'),
    ('{"data": ', "list 'data'"),
    (json.dumps({'data': [1.5] * 784}), r'not in \[0, 1\]'),
  ],
)
def test_damage_is_named(folder, content, named):
  (folder / 'package/src/digits/3.json').write_text(content)
  with pytest.raises(errors.UserError, match=named):
    data.load('mnist', 'train', folder=folder)
