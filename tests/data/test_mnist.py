"""MNIST: eight images in every format, and the whole where it is."""

import gzip
import io

import numpy as np
import pytest

from jaxlab import data, errors
from jaxlab.data import mnist, paths
from tests.golden import Golden

PARTS = {'train': 'train', 'test': 't10k'}


def eight(part):
  """Eight images that tell parts, images, rows and columns apart."""
  images = np.arange(8 * 28 * 28).reshape(8, 28, 28) % 251
  return (images + 3 * (part == 'test')).astype(np.uint8), np.arange(8) + (
    part == 'test'
  )


def idx(array):
  """An array of bytes as an IDX file."""
  head = bytes([0, 0, 8, array.ndim])
  sizes = b''.join(size.to_bytes(4, 'big') for size in array.shape)
  return head + sizes + array.astype(np.uint8).tobytes()


def write_idx(folder, joint='-', pack=bytes, ending=''):
  folder.mkdir(exist_ok=True)
  for part, name in PARTS.items():
    for what, array in zip(('images', 'labels'), eight(part), strict=True):
      file = f'{name}-{what}{joint}idx{array.ndim}-ubyte{ending}'
      (folder / file).write_bytes(pack(idx(array)))


def write_npz(folder):
  folder.mkdir(exist_ok=True)
  arrays = {}
  for part in PARTS:
    arrays[f'x_{part}'], arrays[f'y_{part}'] = eight(part)
  np.savez(folder / 'mnist.npz', **arrays)


def write_tfds(root):
  """A copy with the features and the version of the data set `mnist`."""
  tfds = pytest.importorskip('tensorflow_datasets')
  image = pytest.importorskip('PIL.Image')

  root.mkdir(parents=True)

  def examples(part):
    for i, (pixels, label) in enumerate(zip(*eight(part), strict=True)):
      stream = io.BytesIO()
      image.fromarray(pixels).save(stream, 'png')
      yield i, {'image': stream.getvalue(), 'label': int(label)}

  with tfds.core.registered.skip_registration():

    class MNIST(tfds.core.GeneratorBasedBuilder):
      VERSION = tfds.core.Version('3.0.1')
      pkg_dir_path = tfds.core.Path(root)

      def _info(self):
        features = {
          'image': tfds.features.Image(shape=(28, 28, 1)),
          'label': tfds.features.ClassLabel(num_classes=10),
        }
        return self.dataset_info_from_configs(
          features=tfds.features.FeaturesDict(features)
        )

      def _split_generators(self, dl_manager):
        return {part: examples(part) for part in PARTS}

      def _generate_examples(self):
        raise NotImplementedError

  tfds.disable_progress_bar()
  MNIST(data_dir=root, file_format='array_record').download_and_prepare()


def check(**options):
  for part in PARTS:
    found = data.load('mnist', part, **options)
    images, labels = eight(part)
    order = np.argsort(found.labels)
    assert found.images.dtype == np.float32
    assert found.labels.dtype == np.int32
    np.testing.assert_array_equal(found.labels[order], labels)
    np.testing.assert_array_equal(
      np.rint(found.images[order] * 255), images.reshape(8, 784)
    )
    assert found.images.max() == np.float32(images.max() / 255)
  both = data.load('mnist', **options)
  np.testing.assert_array_equal(both.labels[8:], found.labels)


@pytest.mark.parametrize('joint', ['-', '.'])
@pytest.mark.parametrize('ending', ['', '.gz'])
def test_idx(raw_root, joint, ending):
  write_idx(
    raw_root / 'mnist', joint, gzip.compress if ending else bytes, ending
  )
  check()
  rows = dict(data.describe('mnist', 'test'))
  assert rows['images'].startswith('[8, 784]')
  assert 'sound' in data.prepare('mnist')


def test_npz(tmp_path, raw_root):
  write_npz(tmp_path / 'mine')
  check(folder=tmp_path / 'mine')
  assert 'prepared: 1 files' in data.prepare('mnist', str(tmp_path / 'mine'))
  check()


def test_tensorflow_datasets(raw_root, monkeypatch, tmp_path):
  write_tfds(paths.prepared_root())
  check()
  assert 'TensorFlow Datasets' in data.prepare('mnist')
  copy = paths.prepared_root()
  monkeypatch.setenv('JAXLAB_CACHE', str(tmp_path / 'other'))
  monkeypatch.setenv('TFDS_DATA_DIR', str(copy))
  check()


def test_idx_of_other_types(tmp_path):
  file = tmp_path / 'x'
  numbers = np.array([[1.5, -2.0, 3.25]])
  head = bytes([0, 0, 14, 2, 0, 0, 0, 1, 0, 0, 0, 3])
  file.write_bytes(head + numbers.astype('>f8').tobytes())
  np.testing.assert_array_equal(mnist.read_idx(file), numbers)


@pytest.mark.parametrize(
  ('content', 'named'),
  [
    (b'', 'not an IDX'),
    (b'\0\0\x08\x03\0\0', 'not an IDX'),
    (b'\0\0\x07\x01\0\0\0\x01\0', 'not an IDX'),
    (idx(np.zeros((2, 3)))[:-1], r'\[2, 3\].*5 bytes'),
    (gzip.compress(idx(np.zeros(99)))[:-9], 'gzip'),
  ],
)
def test_damaged_idx_is_named(tmp_path, content, named):
  (tmp_path / 'x').write_bytes(content)
  with pytest.raises(errors.UserError, match=named) as caught:
    mnist.read_idx(tmp_path / 'x')
  assert str(tmp_path / 'x') in str(caught.value)


@pytest.mark.parametrize(
  ('images', 'labels', 'named'),
  [
    (np.zeros((8, 28, 27), np.uint8), np.zeros(8, int), r'\[8, 28, 27\]'),
    (np.zeros((8, 28, 28)), np.zeros(8, int), 'float64'),
    (np.zeros((8, 28, 28), np.uint8), np.zeros(7, int), '8 images'),
    (np.zeros((8, 28, 28), np.uint8), np.arange(8) + 3, r'3\.\.10'),
  ],
)
def test_wrong_arrays_are_named(tmp_path, images, labels, named):
  np.savez(tmp_path / 'mnist.npz', x_train=images, y_train=labels)
  with pytest.raises(errors.UserError, match=named):
    data.load('mnist', 'train', folder=tmp_path)
  with pytest.raises(errors.UserError, match='x_test and y_test'):
    data.load('mnist', 'test', folder=tmp_path)


def test_missing_is_named(raw_root, monkeypatch, tmp_path):
  monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path / 'none'))
  with pytest.raises(errors.MissingDataError, match='tfds build mnist'):
    data.load('mnist', 'train')
  with pytest.raises(errors.MissingDataError, match='elsewhere'):
    data.prepare('mnist', str(tmp_path / 'elsewhere'))
  with pytest.raises(errors.UserError, match="'valid'"):
    data.load('mnist', 'valid')
  (tmp_path / 'mnist.npz').write_bytes(b'nothing')
  with pytest.raises(errors.UserError, match='no npz'):
    data.load('mnist', 'train', folder=tmp_path)


def test_the_public_files():
  folder = Golden('mnist').data_folder('t10k-*')
  test = data.load('mnist', 'test', folder=folder)
  counts = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
  assert np.bincount(test.labels).tolist() == counts
  assert test.labels[:5].tolist() == [7, 2, 1, 0, 4]
  np.testing.assert_allclose(test.images.mean(), 0.1325, atol=5e-5)
