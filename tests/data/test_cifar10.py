"""CIFAR-10: ten pictures in every format, and the JPEG files where they are."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from jaxlab import data, errors
from jaxlab.data import cifar10, paths, pictures
from tests.golden import Golden


def ten(split):
  """A picture of each class, that tells splits, rows, columns, colours apart.

  Each is one colour to the left and one to the right: JPEG keeps these.
  """
  images = np.zeros((10, 32, 32, 3), np.uint8)
  images[..., :16, 0] = 200
  images[..., 16:, 2] = 150
  images[:, :16, :, 1] = (20 * np.arange(10) + 5 * (split == 'test'))[
    :, None, None
  ]
  return images, np.arange(10)


def jpeg(image):
  stream = io.BytesIO()
  Image.fromarray(image).save(stream, 'jpeg', quality=95, subsampling=0)
  return stream.getvalue()


def write_binary(folder):
  folder.mkdir(parents=True)
  for split, images in (('train', 5), ('test', 1)):
    pixels, labels = ten(split)
    records = np.concatenate(
      [labels[:, None], pixels.transpose(0, 3, 1, 2).reshape(10, -1)], axis=1
    ).astype(np.uint8)
    for i in range(images):
      name = 'test_batch' if split == 'test' else f'data_batch_{i + 1}'
      share = records[2 * i : 2 * i + 2] if split == 'train' else records
      (folder / f'{name}.bin').write_bytes(share.tobytes())


def write_zips(folder):
  folder.mkdir(parents=True)
  for split in ('train', 'test'):
    with zipfile.ZipFile(folder / f'{split}.zip', 'w') as archive:
      for image, label in zip(*ten(split), strict=True):
        name = cifar10.CLASSES[label]
        archive.writestr(f'{name}/0000.jpg', jpeg(image))
      archive.writestr('README.txt', 'pictures')


def write_subset(folder):
  folder.mkdir(parents=True)
  for split, names in cifar10._PARTS.items():
    images, labels = ten(split)
    for i, name in enumerate(names):
      rows = slice(i, None, len(names))
      content = [jpeg(image) for image in images[rows]]
      ends = np.cumsum([0, *map(len, content)], dtype=np.int32)
      joined = np.frombuffer(b''.join(content), np.uint8)
      np.savez(folder / name, jpeg=joined, offsets=ends, label=labels[rows])


def check(right, tolerance, **options):
  for split in ('train', 'test'):
    found = data.load('cifar10', split, **options)
    images, labels = ten(split)
    assert found.source == right
    assert found.images.dtype == np.float32
    assert found.labels.dtype == np.int32
    order = np.argsort(found.labels)
    np.testing.assert_array_equal(found.labels[order], labels)
    np.testing.assert_allclose(
      255 * found.images[order], images, atol=tolerance
    )
  both = data.load('cifar10', **options)
  assert both.images.shape == (20, 32, 32, 3)
  np.testing.assert_array_equal(both.images[10:], found.images)


def test_binary(tmp_path, raw_root):
  write_binary(raw_root / 'cifar10' / 'cifar-10-batches-bin')
  check('binary', 1e-4)
  rows = dict(data.describe('cifar10', 'test'))
  assert rows['images'].startswith('[10, 32, 32, 3]')
  write_binary(tmp_path / 'mine')
  message = data.prepare('cifar10', str(tmp_path / 'mine'))
  assert 'prepared: 6 files' in message
  assert (paths.cache_root() / 'raw/cifar10/test_batch.bin').is_file()


def test_zips_are_decoded_once(raw_root, monkeypatch):
  write_zips(raw_root / 'cifar10')
  check('jpeg', 6)
  monkeypatch.setattr(pictures, 'decode', None)
  check('jpeg', 6)
  assert 'sound' in data.prepare('cifar10')


def test_subset(raw_root, tmp_path):
  write_subset(raw_root / 'sharp_q')
  check('subset', 6)
  # Files of several sources: the first of the list is read.
  write_zips(raw_root / 'cifar10')
  check('jpeg', 6)
  check('subset', 6, source='subset')
  check('jpeg', 6, folder=raw_root / 'cifar10')


def test_tensorflow_datasets(raw_root, monkeypatch):
  tfds = pytest.importorskip('tensorflow_datasets')
  root = paths.prepared_root()
  root.mkdir(parents=True)

  def examples(split):
    for i, (image, label) in enumerate(zip(*ten(split), strict=True)):
      stream = io.BytesIO()
      Image.fromarray(image).save(stream, 'png')
      yield i, {'image': stream.getvalue(), 'label': int(label)}

  with tfds.core.registered.skip_registration():

    class CIFAR10(tfds.core.GeneratorBasedBuilder):
      name = 'cifar10'
      VERSION = tfds.core.Version('3.0.2')
      pkg_dir_path = tfds.core.Path(root)

      def _info(self):
        features = {
          'image': tfds.features.Image(shape=(32, 32, 3)),
          'label': tfds.features.ClassLabel(names=cifar10.CLASSES),
        }
        return self.dataset_info_from_configs(
          features=tfds.features.FeaturesDict(features)
        )

      def _split_generators(self, dl_manager):
        return {split: examples(split) for split in ('train', 'test')}

      def _generate_examples(self):
        raise NotImplementedError

  tfds.disable_progress_bar()
  CIFAR10(data_dir=root, file_format='array_record').download_and_prepare()
  check('tfds', 1e-4)
  assert 'TensorFlow Datasets' in data.prepare('cifar10')


def test_damage_is_named(tmp_path):
  write_binary(tmp_path / 'a')
  file = tmp_path / 'a' / 'test_batch.bin'
  file.write_bytes(file.read_bytes()[:-1])
  with pytest.raises(errors.UserError, match=r'test_batch\.bin has 30,729'):
    data.load('cifar10', 'test', folder=tmp_path / 'a')
  file.write_bytes(bytes([10]) + bytes(3072))
  with pytest.raises(errors.UserError, match=r'labels of 0\.\.9'):
    data.load('cifar10', 'test', folder=tmp_path / 'a')
  (tmp_path / 'test.zip').write_bytes(b'nothing')
  with pytest.raises(errors.UserError, match=r'test\.zip is no zip'):
    data.load('cifar10', 'test', folder=tmp_path)
  with zipfile.ZipFile(tmp_path / 'test.zip', 'w') as archive:
    archive.writestr('cat/1.jpg', b'nothing')
  with pytest.raises(errors.UserError, match=r'cat/1\.jpg in .*no readable'):
    data.load('cifar10', 'test', folder=tmp_path)
  with zipfile.ZipFile(tmp_path / 'test.zip', 'w') as archive:
    archive.writestr('cat/1.jpg', jpeg(np.zeros((31, 32, 3), np.uint8)))
  with pytest.raises(errors.UserError, match=r'cat/1\.jpg.*\[31, 32, 3\]'):
    data.load('cifar10', 'test', folder=tmp_path)
  np.savez(tmp_path / 'cifar10_test.npz', jpeg=np.zeros(3, np.uint8))
  with pytest.raises(errors.UserError, match='jpeg, offsets and label'):
    data.load('cifar10', 'test', folder=tmp_path, source='subset')


def test_missing_and_unknown_are_named(raw_root, monkeypatch, tmp_path):
  monkeypatch.setenv('TFDS_DATA_DIR', str(tmp_path / 'none'))
  with pytest.raises(errors.MissingDataError, match='tfds build cifar10'):
    data.load('cifar10', 'train')
  with pytest.raises(errors.MissingDataError, match='tfds build cifar10'):
    data.load('cifar10', 'train', source='tfds')
  with pytest.raises(errors.UserError, match="'valid'"):
    data.load('cifar10', 'valid')
  with pytest.raises(errors.UserError, match=r"'png'.*subset"):
    data.load('cifar10', 'test', source='png')


def test_the_subset_is_the_start_of_the_zip():
  whole = Golden('cifar10_jpeg').data_folder('test.zip')
  part = Golden('sharp_q').data_folder('cifar10_*.npz')
  zipped = data.load('cifar10', 'test', folder=whole)
  subset = data.load('cifar10', 'test', folder=part)
  assert np.bincount(zipped.labels).tolist() == [1000] * 10
  assert (zipped.source, subset.source) == ('jpeg', 'subset')
  assert len(subset.images) == 2000
  np.testing.assert_array_equal(zipped.labels[:2000], subset.labels)
  np.testing.assert_array_equal(zipped.images[:2000], subset.images)
  # The mean of each colour over the test pictures of the binary files.
  means = zipped.images.mean((0, 1, 2), dtype=float)
  np.testing.assert_allclose(means, [0.4942, 0.4851, 0.4504], atol=2e-3)
