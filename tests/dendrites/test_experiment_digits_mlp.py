"""The digits experiment in its test mode, as a user runs it."""

import shutil

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from jaxlab import data, main
from jaxlab.dendrites.experiment_digits_arms import ARMS
from jaxlab.harness import startup
from tests.runs import holds, run, table


@pytest.fixture(autouse=True)
def _devices_stay(monkeypatch):
  monkeypatch.setattr(startup, 'start_jax', lambda device, **_: None)


@pytest.fixture(scope='module')
def done(tmp_path_factory):
  folder = tmp_path_factory.mktemp('digits_mlp') / 'run'
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(startup, 'start_jax', lambda device, **_: None)
    return folder, run('dendrites/digits_mlp', folder)


def test_split_is_the_one_of_scikit_learn():
  images, labels = load_digits(return_X_y=True)
  _, images, _, labels = train_test_split(
    images, labels, test_size=360, stratify=labels, random_state=0
  )
  test = data.load('digits', 'test', train=1437)
  np.testing.assert_array_equal(test.images, (images / 16).astype(np.float32))
  np.testing.assert_array_equal(test.labels, labels)


@pytest.mark.slow
def test_leaves_what_it_states(done):
  folder, summary = done
  assert (folder / 'DONE').exists()
  assert len(summary['claims']) == 4
  for claim in summary['claims']:
    assert claim['holds'] == holds(claim), claim['text']
    assert claim['paper']
  names = {each['name'] for each in summary['figures']}
  assert names == {'accuracy', 'learning', 'traces'}
  for name in names:
    content = (folder / 'figures' / f'{name}.png').read_bytes()
    assert content.startswith(b'\x89PNG')
  differences = table(folder, 'differences')
  assert len(differences) == len(ARMS) - 2


@pytest.mark.slow
def test_table_holds_every_classifier(done):
  folder, _ = done
  rows = {row['classifier']: row for row in table(folder, 'accuracy')}
  assert tuple(rows) == ARMS
  for row in rows.values():
    assert 0 <= float(row['mean']) <= 100
  for name in ('ball-and-stick', 'read-out frozen', 'point neurons'):
    assert float(rows[name]['moved 1']) > 0.02
    assert float(rows[name]['moved 2']) > 0.02
  images, labels = load_digits(return_X_y=True)
  images, unseen, labels, answers = train_test_split(
    images / 16, labels, train_size=256, stratify=labels, random_state=0
  )
  want = LogisticRegression().fit(images, labels).score(unseen, answers)
  got = float(rows['logistic regression']['mean'])
  np.testing.assert_allclose(got, 100 * want, atol=0.2)


@pytest.mark.slow
def test_unfinished_run_resumes_to_the_same_numbers(done, tmp_path):
  folder, summary = done
  again = tmp_path / 'again'
  shutil.copytree(folder, again)
  for name in ('DONE', 'summary.json', 'checkpoints/rate_MLP.npz'):
    (again / name).unlink()
  shutil.rmtree(again / 'checkpoints' / 'rate_MLP')
  shutil.rmtree(again / 'tables')
  resumed = run('dendrites/digits_mlp', again)
  assert resumed['claims'] == summary['claims']
  assert table(again, 'accuracy') == table(folder, 'accuracy')


@pytest.mark.parametrize(
  ('flag', 'word'),
  [
    ('--config.seeds=1', 'seeds'),
    ('--config.dataset=letters', 'dataset'),
    ('--config.learning_rate=0.0', 'learning_rate'),
  ],
)
def test_bad_settings_are_named(flag, word, tmp_path, capsys):
  command = ['run', 'dendrites/digits_mlp:test', f'--workdir={tmp_path / "w"}']
  assert main.main([*command, flag]) == 2
  assert word in capsys.readouterr().err
