import subprocess
import sys

import pytest

from jaxlab import data, errors
from jaxlab.data import paths


def test_import_is_light():
  code = (
    'import sys, jaxlab.data;'
    'print([m for m in ("tensorflow_datasets", "grain", "jax", "numpy")'
    ' if m in sys.modules])'
  )
  printed = subprocess.run(
    [sys.executable, '-c', code], check=True, capture_output=True, text=True
  )
  assert printed.stdout.strip() == '[]'


def test_every_data_set_has_the_three_functions():
  assert set(data.datasets()) >= {'caption_contest', 'digits'}
  for name, line in data.datasets().items():
    module = data._module(name)
    assert '\n' not in line
    assert all(hasattr(module, f) for f in ('load', 'prepare', 'describe'))


@pytest.mark.parametrize('function', [data.load, data.prepare, data.describe])
def test_unknown_name_lists_the_known(function):
  with pytest.raises(errors.UserError, match=r"'mnist9'.*caption_contest.*dig"):
    function('mnist9')


def test_datasets_is_a_copy():
  data.datasets().clear()
  assert data.datasets()


def test_folders_follow_the_environment(monkeypatch, tmp_path):
  monkeypatch.setenv('JAXLAB_DATA', str(tmp_path / 'a'))
  monkeypatch.setenv('JAXLAB_CACHE', '~/b')
  monkeypatch.setenv('HOME', str(tmp_path))
  assert paths.data_root() == tmp_path / 'a'
  assert paths.cache_root() == tmp_path / 'b'
  assert paths.prepared_root().parent == tmp_path / 'b'


def test_data_root_without_shared_folder_is_in_the_cache(monkeypatch, tmp_path):
  monkeypatch.delenv('JAXLAB_DATA', raising=False)
  monkeypatch.setenv('JAXLAB_CACHE', str(tmp_path))
  monkeypatch.setattr(paths, '__file__', str(tmp_path / 'x/jaxlab/data/p.py'))
  assert paths.data_root() == tmp_path / 'data'


def test_missing_data_says_how_to_get_it(raw_root):
  with pytest.raises(errors.MissingDataError) as caught:
    data.load('caption_contest', '651')
  message = str(caught.value)
  for part in (
    str(raw_root / 'caption_contest'),
    'jaxlab data prepare caption_contest --manual_dir=DIR',
    'JAXLAB_DATA',
    'nextml/caption-contest-data-api',
    'contests/summaries',
  ):
    assert part in message
  assert '\n' not in message
  with pytest.raises(errors.MissingDataError, match='elsewhere'):
    data.prepare('caption_contest', str(raw_root / 'elsewhere'))
