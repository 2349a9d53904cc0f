"""Every experiment of the family in its test mode, as a user runs it."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import scipy.stats

from jaxlab import data, errors, main
from jaxlab.harness import startup
from jaxlab.quantization import experiment_networks as networks
from jaxlab.quantization.experiment_cells import Cell, Found, Table
from tests.runs import holds, once, run, table

_FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'configs'
_CONFIGS = sorted(path.stem for path in (_FOLDER / 'quantization').glob('*.py'))
# To compile them all takes long: these two alone share most programs.
_QUICK = 'cnn_w2a2', 'train_cnn'
_MEASURED = (
  ['accuracy', 'choices', 'differences', 'float', 'layers', 'packed'],
  ['accuracy', 'candidates', 'layers'],
)
# Config -> tables, figures that are among those that it leaves.
_LEFT = {
  'fidelity': (['fidelity', 'spectra'], ['spectra']),
  'pretrained_effnet': (['agreement'], ['agreement']),
  'bits_sweep': (['accuracy', 'layers'], ['accuracy', 'bits-cnn_tiny']),
  'nonuniform': (['accuracy', 'verdicts', 'published'], ['accuracy']),
  **dict.fromkeys(
    ('train_cnn', 'train_ssm', 'train_vit'), (['networks'], ['networks'])
  ),
}


@pytest.fixture(autouse=True, scope='module')
def _alone(tmp_path_factory):
  """Keeps trained networks out of the user's cache, and JAX as it is."""
  cache = tmp_path_factory.mktemp('cache')
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(startup, 'start_jax', lambda device, **_: None)
    patch.setenv('JAXLAB_CACHE', str(cache))
    yield cache


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  """Runs each experiment once: config -> (folder, summary)."""

  def with_data(config: str, folder) -> dict:
    if config == 'pretrained_effnet':
      try:
        data.load('photos', n=1, size=8)
      except errors.MissingDataError as missing:
        pytest.skip(str(missing))
    return run(f'quantization/{config}', folder)

  return once(tmp_path_factory, with_data)


@pytest.mark.parametrize(
  'config',
  [
    pytest.param(name, marks=() if name in _QUICK else pytest.mark.slow)
    for name in _CONFIGS
  ],
)
def test_leaves_what_it_states(runs, config):
  folder, summary = runs(config)
  assert (folder / 'DONE').exists()
  assert summary['claims']
  for claim in summary['claims']:
    assert claim['holds'] == holds(claim), claim['text']
    assert claim['paper']
  for kind, suffix, names in zip(
    ('tables', 'figures'),
    ('csv', 'png'),
    _LEFT.get(config, _MEASURED),
    strict=True,
  ):
    found = {path.stem for path in (folder / kind).glob(f'*.{suffix}')}
    assert found >= set(names)
    assert found == {each['name'] for each in summary[kind]}
    assert all(each['caption'] for each in summary[kind])


def test_tables_fit_one_another(runs):
  folder, _ = runs('cnn_w2a2')
  rows = {row['method']: row for row in table(folder, 'accuracy')}
  assert tuple(rows) == ('rtn_mse', 'sharp')
  for row in rows.values():
    assert int(row['bytes']) < int(row['float bytes'])
    assert float(row['bits per weight']) > 2
    assert row['diverged'] == '0'
  (gap,) = table(folder, 'differences')
  seeds = [float(gap['seed 0']), float(gap['seed 1'])]
  mean = float(rows['sharp']['accuracy']) - float(rows['rtn_mse']['accuracy'])
  np.testing.assert_allclose(np.mean(seeds), mean)
  half = scipy.stats.t.ppf(0.975, 1) * np.std(seeds, ddof=1) / 2**0.5
  np.testing.assert_allclose(float(gap['ahead low']), mean - half, rtol=1e-4)
  for row in table(folder, 'choices'):
    assert float(row['best']) <= float(row['identity'])
    least = min(float(v) for k, v in row.items() if k.startswith('try ') and v)
    assert float(row['best']) == least == float(row[f'try {row["chosen"]}'])


def test_refreshes_move_the_fisher_form(runs):
  folder, _ = runs('cnn_w2a2')
  learned = [row for row in table(folder, 'layers') if row['change 1']]
  assert learned
  for row in learned:
    assert row['method'] == 'sharp'
    assert float(row['change 1']) > 0
    assert float(row['change 2']) > 0


def test_unfinished_run_resumes_to_the_same_numbers(runs, tmp_path):
  folder, summary = runs('cnn_w2a2')
  again = tmp_path / 'again'
  shutil.copytree(folder, again)
  for name in ('DONE', 'summary.json'):
    (again / name).unlink()
  unit = again / 'checkpoints' / 'cnn_tiny-0' / 'W2A2' / 'sharp-1.npz'
  unit.unlink()
  (again / 'checkpoints' / 'float' / 'cnn_tiny-0.npz').unlink()
  shutil.rmtree(again / 'tables')
  resumed = run('quantization/cnn_w2a2', again)
  assert resumed['claims'] == summary['claims']
  for name in ('differences', 'layers', 'choices', 'packed', 'float'):
    assert table(again, name) == table(folder, name)


def test_trained_networks_are_kept_for_other_runs(runs, _alone, tmp_path):
  runs('train_cnn')
  (kept,) = (_alone / 'networks').glob('cnn_tiny-*.npz')
  before = kept.stat().st_mtime_ns
  run('quantization/train_cnn', tmp_path / 'run')
  assert not (tmp_path / 'run' / 'checkpoints' / 'network-cnn_tiny-0').exists()
  assert kept.stat().st_mtime_ns == before


def test_draws_come_from_training_pictures_and_do_not_overlap():
  pictures = networks.pictures_of('vit_tiny')
  train = {x.tobytes() for x in pictures.train}
  calibration, held_out = map(
    np.asarray, networks.draw(pictures, seed=3, count=200)
  )
  assert len(calibration) == 200
  assert len(held_out) == 100
  drawn = [x.tobytes() for x in (*calibration, *held_out)]
  assert set(drawn) <= train
  # A few digits are in the data set twice.
  assert len(set(drawn)) >= 298
  other, _ = networks.draw(pictures, seed=4, count=200)
  assert {x.tobytes() for x in np.asarray(other)} != set(drawn[:200])
  with pytest.raises(errors.UserError, match='calibration = 1000'):
    networks.draw(pictures, seed=0, count=1000)


def test_logits_of_many_pictures_are_those_of_each():
  x = np.random.default_rng(0).normal(size=(1003, 3)).astype(np.float32)
  got = networks.logits_of(lambda part: 2 * part, x)
  np.testing.assert_array_equal(got, 2 * x)


def _found(accuracy):
  return Found(accuracy, (0.0, 0.0, 0.0), (0, 0), 0.0, 1.0, {'sites': {}})


def test_several_networks_are_the_replications():
  cells = {
    Cell('vit', net, 'W2A2', method, seed): _found(10 * net + seed + base)
    for net in range(2)
    for seed in range(3)
    for method, base in (('sharp', 5), ('qdrop', 2))
  }
  both = Table(cells)
  np.testing.assert_allclose(both.accuracy('vit', 'W2A2', 'sharp'), [6, 16])
  np.testing.assert_allclose(both.gain('vit', 'W2A2', 'sharp', 'qdrop'), [3, 3])
  assert '2 trained networks' in both.note
  one = Table({cell: each for cell, each in cells.items() if not cell.net})
  np.testing.assert_allclose(one.accuracy('vit', 'W2A2', 'qdrop'), [2, 3, 4])
  assert one.note == ''


@pytest.mark.parametrize(
  ('flag', 'word'),
  [
    ('study=nothing', 'study'),
    ('networks=("cnn9",)', "'cnn9'"),
    ('methods=("sharper",)', "'sharper'"),
    ('bits=("W2A9",)', 'config.bits'),
    ('steps=0', 'config.steps'),
    ('calibration=100000', 'config.calibration'),
  ],
)
def test_bad_settings_are_named(flag, word, tmp_path, capsys):
  command = ['run', 'quantization/cnn_w2a2:test', f'--workdir={tmp_path / "w"}']
  assert main.main([*command, f'--config.{flag}']) == 2
  assert word in capsys.readouterr().err


def test_reports_are_kept_whole(runs):
  folder, _ = runs('cnn_w2a2')
  path = folder / 'checkpoints' / 'cnn_tiny-0' / 'W2A2' / 'sharp-0.npz'
  with np.load(path) as stored:
    report = json.loads(str(stored['report']))
  assert report['method'] == 'sharp'
  assert sum(report['bytes'].values()) == 2 * report['bytes']['total']
