"""Folders of the data sets, and a cache that no test shares."""

import os
import pathlib

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
  folder = tmp_path / 'cache'
  monkeypatch.setenv('JAXLAB_CACHE', str(folder))
  return folder


@pytest.fixture(scope='session')
def caption_folder():
  checkout = pathlib.Path(__file__).resolve().parents[2]
  default = checkout.parent / 'shared' / 'data'
  root = pathlib.Path(os.environ.get('JAXLAB_DATA', default))
  for name in ('caption_contest', 'box_thirding'):
    if any((root / name).glob('*_summary_*.csv')):
      return root / name
  pytest.skip(f'no caption contest files under {root} (set JAXLAB_DATA)')


@pytest.fixture
def raw_root(tmp_path, monkeypatch):
  """An empty folder of raw data sets."""
  folder = tmp_path / 'raw'
  folder.mkdir()
  monkeypatch.setenv('JAXLAB_DATA', str(folder))
  return folder
