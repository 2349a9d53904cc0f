"""The prepared copy: same arrays as the files, complete or not there."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from jaxlab import data, errors
from jaxlab.data import caption_contest

HEADER = 'rank,funny,somewhat_funny,unfunny,count,score,caption'
ROWS = '1,2,1,1,4,2.25,"a, ""b""\n\u00fc"\n2,0,0,2,2,1.0,\n3,0,0,0,0,,x\n'


@pytest.fixture
def raw(raw_root):
  folder = raw_root / 'caption_contest'
  folder.mkdir()
  for name in ('508-round1_summary_A', '700_summary_A_b-c', '700_summary_D'):
    (folder / f'{name}.csv').write_text(f'{HEADER}\n{ROWS}', encoding='utf-8')
  return folder


def assert_equal(left, right):
  for a, b in zip(left, right, strict=True):
    if isinstance(a, list):
      assert a == b
    else:
      assert a.dtype == b.dtype
      np.testing.assert_array_equal(a, b)


def test_prepared_copy_of_the_real_files(
  caption_folder, monkeypatch, cache, tmp_path
):
  monkeypatch.setenv('JAXLAB_DATA', str(caption_folder.parent))
  splits = ['651', '600_KLUCB', '510_LilUCB', '560_KLUCB_original']
  warnings.simplefilter('ignore')
  read = [data.load('caption_contest', split) for split in splits]
  done = data.prepare('caption_contest')
  assert str(cache) in done
  assert f'{len(caption_contest.contests(caption_folder))} files' in done
  monkeypatch.setenv('JAXLAB_DATA', str(tmp_path / 'absent'))
  for split, expected in zip(splits, read, strict=True):
    assert_equal(data.load('caption_contest', split), expected)
  fewer = data.load('caption_contest', '600', drop_suspect=True, min_count=50)
  assert fewer.counts.min() >= 50
  assert fewer.mu.max() < 0.6
  rows = dict(data.describe('caption_contest'))
  assert rows['651_KLUCB'] == '9,250 captions, 2,249,813 votes'
  assert str(cache) in rows['read from']


@pytest.mark.filterwarnings('ignore:.*count = 0')
def test_odd_names_and_captions_survive(raw):
  names = ['508-round1', '700_A_b-c', '700_D']
  before = [data.load('caption_contest', name) for name in names]
  data.prepare('caption_contest')
  for file in raw.iterdir():
    file.unlink()
  for name, expected in zip(names, before, strict=True):
    got = data.load('caption_contest', name)
    assert_equal(got, expected)
    assert got.captions == ['a, "b"\n\u00fc', '']
  named = data.load('caption_contest', 700, algorithm='D')
  assert named.counts.tolist() == [4, 2]


def test_prepare_again_only_when_files_changed(raw, cache):
  assert 'already' not in data.prepare('caption_contest')
  written = {file: file.stat().st_mtime_ns for file in cache.rglob('*-of-*')}
  assert len(written) == 3
  assert 'already' in data.prepare('caption_contest', str(raw))
  assert all(f.stat().st_mtime_ns == time for f, time in written.items())
  (raw / '700_summary_D.csv').write_text(f'{HEADER}\n1,1,0,0,1,3.0,new\n')
  assert 'already' not in data.prepare('caption_contest')
  assert data.load('caption_contest', '700_D').captions == ['new']


def test_damaged_file_leaves_the_earlier_copy(raw):
  data.prepare('caption_contest')
  (raw / '700_summary_D.csv').write_text(f'{HEADER}\n1,1,0,0,2,3.0,new\n')
  with pytest.raises(errors.UserError, match=r"700_summary_D.csv.*'count'"):
    data.prepare('caption_contest')
  with pytest.warns(UserWarning, match='count = 0'):
    assert len(data.load('caption_contest', '700_D').captions) == 2


def test_killed_prepare_leaves_nothing_prepared(raw, cache):
  code = (
    'import os\n'
    'from jaxlab import data\n'
    'from jaxlab.data.caption_contest import caption_contest_dataset_builder\n'
    'builder = caption_contest_dataset_builder.Builder\n'
    'generate = builder._generate_examples\n'
    'def killed(self, folder, contest):\n'
    '  yield from generate(self, folder, contest)\n'
    '  if contest.contest == "700": os._exit(9)\n'
    'builder._generate_examples = killed\n'
    'data.prepare("caption_contest")\n'
  )
  ended = subprocess.run([sys.executable, '-c', code], check=False)
  assert ended.returncode == 9
  assert any(cache.rglob('*'))
  rows = dict(data.describe('caption_contest'))
  assert rows['read from'] == str(raw)
  assert 'already' not in data.prepare('caption_contest')
  assert 'already' in data.prepare('caption_contest')


def test_unwritable_cache_is_a_user_error(raw, cache):
  cache.write_text('a file where the folder should be')
  with pytest.raises(errors.UserError, match='JAXLAB_CACHE') as caught:
    data.prepare('caption_contest')
  assert '\n' not in str(caught.value)


def test_split_must_be_named(raw):
  with pytest.raises(errors.UserError, match='508-round1_A, 700_A_b-c, 700_D'):
    data.load('caption_contest')
  with pytest.raises(errors.UserError, match="split='700_A_b-c'"):
    data.load('caption_contest', '700')
  with pytest.raises(errors.MissingDataError, match='999'):
    data.describe('caption_contest', '999')


def test_describe_a_split(raw):
  rows = dict(data.describe('caption_contest', '700_D'))
  assert rows['licence'] == 'CC BY 4.0'
  assert rows['votes'] == '6'
  assert rows['votes a caption'].startswith('2 / 3 / 4')
