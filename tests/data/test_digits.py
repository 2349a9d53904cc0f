import numpy as np
import pytest
import sklearn.datasets

from jaxlab import data, errors


def test_all_digits_are_the_bundled_ones():
  bundled = sklearn.datasets.load_digits()
  digits = data.load('digits')
  assert digits.images.dtype == np.float32
  assert digits.labels.dtype == np.int32
  np.testing.assert_array_equal(digits.images * 16, bundled.data)
  np.testing.assert_array_equal(digits.labels, bundled.target)


def test_splits_partition_the_digits():
  train, test = data.load('digits', 'train'), data.load('digits', 'test')
  assert (len(train.labels), len(test.labels)) == (597, 1200)

  def rows(*parts):
    return sorted(
      (*image.tolist(), label)
      for part in parts
      for image, label in zip(part.images, part.labels.tolist(), strict=True)
    )

  assert rows(train, test) == rows(data.load('digits'))


def test_splits_are_stratified():
  total = np.bincount(data.load('digits').labels)
  train = np.bincount(data.load('digits', 'train').labels)
  assert np.abs(train - total * 597 / 1797).max() <= 1


def test_splits_depend_on_the_seed_alone():
  first = data.load('digits', 'test', seed=3)
  again = data.load('digits', 'test', seed=3)
  other = data.load('digits', 'test', seed=4)
  np.testing.assert_array_equal(first.images, again.images)
  assert (first.images != other.images).any()
  assert len(data.load('digits', 'train', train=100).labels) == 100


@pytest.mark.parametrize(
  ('options', 'named'),
  [
    ({'split': 'valid'}, "'valid'"),
    ({'split': 'train', 'train': 5}, 'train=5'),
    ({'split': 'train', 'train': 1797}, 'train=1797'),
  ],
)
def test_bad_options(options, named):
  with pytest.raises(errors.UserError, match=named):
    data.load('digits', **options)


def test_describe_and_prepare():
  rows = dict(data.describe('digits', 'test'))
  assert '1,200' in rows['images']
  assert 'nothing' in data.prepare('digits')
