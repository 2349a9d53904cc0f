"""The worm's experiment in its test mode, as a user runs it."""

import shutil

import numpy as np
import pytest

from jaxlab import data, errors, main
from jaxlab.harness import startup
from tests.runs import holds, run, table


@pytest.fixture(autouse=True)
def _devices_stay(monkeypatch):
  monkeypatch.setattr(startup, 'start_jax', lambda device, **_: None)


@pytest.fixture(scope='module')
def done(tmp_path_factory):
  try:
    data.load('neurons')
  except errors.MissingDataError as missing:
    pytest.skip(str(missing))
  folder = tmp_path_factory.mktemp('celegans') / 'run'
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(startup, 'start_jax', lambda device, **_: None)
    return folder, run('dendrites/celegans', folder)


def test_leaves_what_it_states(done):
  folder, summary = done
  assert (folder / 'DONE').exists()
  assert len(summary['claims']) == 5
  for claim in summary['claims']:
    assert claim['holds'] == holds(claim), claim['text']
    assert claim['paper']
  for kind, suffix, names in (
    ('tables', 'csv', {'neurons', 'training', 'losses', 'memory'}),
    ('figures', 'png', {'voltages', 'traces', 'losses', 'weights'}),
  ):
    found = {path.stem for path in (folder / kind).glob(f'*.{suffix}')}
    assert found == names == {each['name'] for each in summary[kind]}
    assert all(each['caption'] for each in summary[kind])


def test_voltages_and_bytes_are_within_their_bounds(done):
  folder, summary = done
  voltages, *_, card, plan = summary['claims']
  for claim in (voltages, card, plan):
    assert claim['verdict'] == 'holds', claim['text']
  for row in table(folder, 'neurons'):
    assert -120 < float(row['lowest mV']) <= float(row['highest mV']) < 80
  worm = table(folder, 'memory')[1]
  assert (worm['neurons'], worm['steps']) == ('302', '10000')
  parts = ('parameters', 'state', 'stored', 'residuals', 'recordings')
  total = sum(float(worm[f'{part} MiB']) for part in parts)
  np.testing.assert_allclose(total, float(worm['planned MiB']))


def test_losses_start_where_the_table_says_and_fall(done):
  folder, _ = done
  losses = table(folder, 'losses')
  for row in table(folder, 'training'):
    first = next(
      float(each['loss'])
      for each in losses
      if (each['goal'], each['seed']) == (row['goal'], row['seed'])
    )
    # Another program, and what the correlations subtract is large.
    np.testing.assert_allclose(first, float(row['loss before']), rtol=0.05)
    assert float(row['loss after']) < float(row['loss before'])
    fall = float(row['loss before']) / float(row['loss after'])
    np.testing.assert_allclose(2 ** float(row['halvings']), fall)


@pytest.mark.slow
def test_unfinished_run_resumes_to_the_same_numbers(done, tmp_path):
  folder, summary = done
  again = tmp_path / 'again'
  shutil.copytree(folder, again)
  for name in ('DONE', 'summary.json', 'checkpoints/window-1.npz'):
    (again / name).unlink()
  shutil.rmtree(again / 'tables')
  resumed = run('dendrites/celegans', again)
  assert resumed['claims'] == summary['claims']
  for name in ('neurons', 'training', 'losses'):
    assert table(again, name) == table(folder, name)


@pytest.mark.parametrize(
  ('flag', 'named'),
  [
    ('neurons=("AWCL","XXX")', "'XXX'"),
    ('driven=("AVAL",)', "'AVAL'"),
    ('t_max=3.0', 't_max = 3.0'),
    ('goals=("speed",)', 'config.goals'),
    ('place=axon', "'axon'"),
    ('learning_rate=-1.0', 'config.learning_rate'),
    ('seeds=1', 'config.seeds'),
  ],
)
def test_refuses_a_bad_config(tmp_path, capsys, flag, named):
  code = main.main(
    [
      *('run', 'dendrites/celegans:test', f'--workdir={tmp_path / "run"}'),
      f'--config.{flag}',
    ]
  )
  assert code == 2
  err = capsys.readouterr().err.strip().splitlines()
  assert named in err[-1]
