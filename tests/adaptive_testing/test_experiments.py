"""Every experiment of the family in its test mode, as a user runs it."""

import pathlib
import shutil

import jax
import numpy as np
import pytest

from jaxlab import data, errors, main
from jaxlab.adaptive_testing import metrics
from jaxlab.adaptive_testing.experiment_compare import Comparison
from jaxlab.adaptive_testing.experiment_rules import RULES
from jaxlab.harness import startup
from tests.runs import holds, once, run, table

# Config -> tables, figures, number of claims at least.
_ACCURACY = (
  ['errors', 'saved', 'exposure', 'split', 'training'],
  ['errors', 'saved', 'exposure', 'recovery', 'training'],
  5,
)
_EXPERIMENTS = {
  'ablation': (['variants', 'saved', 'errors'], ['errors', 'saved'], 2),
  'enumeration': (['values'], ['values'], 3),
  'lsat': (['items', 'fits'], ['lsat6_1PL', 'lsat6_2PL'], 4),
  'national_maths': _ACCURACY,
  'ncd': _ACCURACY,
  'scaling': (['choices', 'slopes'], ['time', 'memory'], 3),
  'sim_2pl': _ACCURACY,
  'sim_3pl': _ACCURACY,
  'sim_mirt': _ACCURACY,
  'swesat_quant': _ACCURACY,
  'swesat_verbal': _ACCURACY,
  'transfer': (['errors_simulated', 'saved_swesat_verbal'], [], 6),
  'triplet_data': _ACCURACY,
}
_QUICK = ('lsat', 'swesat_quant')
_NEEDS = {
  **dict.fromkeys(('swesat_quant', 'triplet_data', 'ncd', 'ablation'), 'quant'),
  **dict.fromkeys(('swesat_verbal', 'transfer'), 'verbal'),
}


@pytest.fixture(autouse=True)
def _devices_stay(monkeypatch):
  monkeypatch.setattr(startup, 'start_jax', lambda device, **_: None)


def _run(config: str, folder, *flags: str) -> dict:
  return run(f'adaptive_testing/{config}', folder, *flags)


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  """Runs each experiment once: config -> (folder, summary)."""
  return once(tmp_path_factory, _run)


def _skip_without(name: str) -> None:
  try:
    data.load(name)
  except errors.MissingDataError as missing:
    pytest.skip(str(missing))


def _skip_without_data_of(config: str) -> None:
  if config in _NEEDS:
    _skip_without(f'swesat_{_NEEDS[config]}')
  if config == 'national_maths':
    _skip_without('national_maths')
  if config == 'lsat':
    _skip_without('lsat6')


@pytest.mark.parametrize(
  'config',
  [
    pytest.param(name, marks=[pytest.mark.slow] * (name not in _QUICK))
    for name in _EXPERIMENTS
  ],
)
def test_leaves_what_it_states(runs, config):
  _skip_without_data_of(config)
  folder, summary = runs(config)
  tables, figures, num_claims = _EXPERIMENTS[config]
  assert (folder / 'DONE').exists()
  assert len(summary['claims']) >= num_claims
  for claim in summary['claims']:
    assert claim['holds'] == holds(claim), claim['text']
    assert claim['paper']
  assert summary['headline']
  for name in tables:
    assert table(folder, name), name
  for name in figures:
    content = (folder / 'figures' / f'{name}.png').read_bytes()
    assert content.startswith(b'\x89PNG')
  listed = {each['name'] for each in summary['tables']}
  assert listed == {path.stem for path in (folder / 'tables').glob('*.csv')}


def test_no_examinee_is_in_training_and_test(runs):
  _skip_without('swesat_quant')
  folder, _ = runs('swesat_quant')
  for row in table(folder, 'split'):
    assert row['in both'] == '0'
    assert int(row['train']) == int(row['test']) == 60


def test_errors_are_those_of_the_stored_tests(runs):
  _skip_without('swesat_quant')
  folder, _ = runs('swesat_quant')
  rows = {(x['rule'], x['T']): float(x['MSE']) for x in table(folder, 'errors')}
  assert set(rows) == {
    (rule, length) for rule in ('random', 'mfi', 'gpm') for length in '24'
  }
  with np.load(folder / 'checkpoints' / 'mfi' / 'fold-0.npz') as found:
    items, theta = found['items'], found['theta']
  assert items.shape == theta.shape == (5, 60)
  # Nobody is asked an item twice, and all start with the same one.
  assert all(len(set(row)) == 5 for row in items.T)
  assert len(set(items[0])) == 1


def test_unfinished_run_resumes_to_the_same_numbers(runs, tmp_path):
  _skip_without('swesat_quant')
  folder, summary = runs('swesat_quant')
  again = tmp_path / 'again'
  shutil.copytree(folder, again)
  for name in ('DONE', 'summary.json', 'checkpoints/gpm/fold-1.npz'):
    (again / name).unlink()
  shutil.rmtree(again / 'tables')
  resumed = _run('swesat_quant', again)
  assert resumed['claims'] == summary['claims']
  assert resumed['headline'] == summary['headline']
  for name in ('errors', 'saved', 'exposure', 'predictions'):
    assert table(again, name) == table(folder, name)


@pytest.mark.parametrize(
  ('flags', 'words'),
  [
    (["--config.rules=('mfi', 'best')"], "config.rules names 'best'"),
    (['--config.lengths=(2, 9)'], 'config.lengths must be whole numbers from'),
    (['--config.lengths=(2.5, 4)'], 'config.lengths must be whole numbers'),
    (["--config.lengths=(2, 'x')"], 'config.lengths must be two or more'),
    (['--config.held_out=0.9'], 'config.held_out must be small enough'),
    (
      ['--config.most_examinees=-1'],
      'must be a positive number',
    ),
    (['--config.folds=6'], 'config.folds must be at most 5'),
    (['--config.data=digits'], 'config.data must be one of simulated'),
    (['--config.data=simulated'], 'need config.num_items: start from'),
    (['--config.model=NCD'], 'need config.hidden: start from'),
    (['--config.model=5PL'], 'config.model must be one of 1PL'),
    (['--config.held_out=1.0'], 'config.held_out must be in [0, 1)'),
    (['--config.folder=/nowhere'], '/nowhere'),
    (['--config.min_answers=9999'], 'leaves no item: lower it'),
    (['--config.study=speed'], 'choose one of ablation'),
  ],
)
def test_wrong_settings_are_one_line(flags, words, tmp_path, capsys):
  folder = tmp_path / 'run'
  code = main.main(
    ['run', 'adaptive_testing/swesat_quant:test', f'--workdir={folder}', *flags]
  )
  message = capsys.readouterr().err
  assert code == 2
  assert words in message
  assert len(message.strip().splitlines()) == 1
  assert not (folder / 'summary.json').exists()


def test_missing_logs_say_where_to_put_them(tmp_path, capsys, monkeypatch):
  monkeypatch.setenv('JAXLAB_DATA', str(tmp_path / 'nothing'))
  monkeypatch.setenv('JAXLAB_CACHE', str(tmp_path / 'cache'))
  code = main.main(
    ['run', 'adaptive_testing/triplet_data', f'--workdir={tmp_path / "run"}']
  )
  assert code == 2
  assert 'assistments2009' in capsys.readouterr().err


# Three folds; the error of `old` is 1 / t, that of `new` is s / t.
_FOLD = np.repeat([0, 1, 2], 4)
_SHARE = np.repeat([0.5, 0.6, 0.7], 4)


def _comparison(spread: float = 0.0) -> Comparison:
  t = np.arange(1, 41)[:, None]
  rng = np.random.default_rng(0)
  noise = 1 + spread * rng.uniform(-1, 1, (2, 1, len(_FOLD)))
  found = {'old': noise[0] / t, 'new': noise[1] * _SHARE / t}
  return Comparison(
    {**found, 'far': 9 * found['old']},
    _FOLD,
    jax.random.key(0),
    resamples=200,
  )


def test_saving_of_proportional_errors():
  found = _comparison().saved('new', ['old'], (10, 20))
  # 1/10 is reached where share / x = 1/10: x = 10 share, up to interpolation.
  np.testing.assert_allclose(found[0].by_fold, 1 - np.unique(_SHARE), atol=0.01)
  np.testing.assert_allclose(found[0].value, 0.4, atol=0.01)
  np.testing.assert_allclose(
    found[-1].value, (found[0].value + found[1].value) / 2, atol=1e-6
  )
  # t interval of (.5, .4, .3): .4 +- 4.303 * .1 / sqrt(3).
  half = 4.302653 * 0.1 / 3**0.5
  ends = found[0].fold_low, found[0].fold_high
  np.testing.assert_allclose(ends, (0.4 - half, 0.4 + half), atol=0.02)
  claim = found[0].claim('text', 'paper', 0.1, '>')
  assert (claim.low, claim.high) == ends
  assert claim.holds


def test_the_best_of_rules_is_taken_length_by_length():
  compared = _comparison(0.2)
  alone = compared.saved('new', ['old'], (10,))[-1]
  both = compared.saved('new', ['old', 'far'], (10,))[-1]
  assert alone.value == both.value
  assert (alone.low, alone.high) == (both.low, both.high)
  assert compared.is_censored('far', ['new'], (10,))
  assert not compared.is_censored('new', ['old', 'far'], (10,))


def test_changes_are_paired():
  t = np.arange(1, 6)[:, None]
  errors_ = np.random.default_rng(1).exponential(size=50) / t
  compared = Comparison(
    {'a': errors_, 'b': 0.8 * errors_},
    np.zeros(50, int),
    jax.random.key(0),
    resamples=100,
  )
  for found in compared.change('b', 'a'):
    np.testing.assert_allclose(
      (found.value, found.low, found.high), -0.2, atol=1e-6
    )
    assert np.isnan(found.fold_low)
  # Without folds a claim takes the bootstrap.
  claim = compared.error('a')[0].claim('text', 'paper', 0.0, '>')
  assert claim.low < claim.measured < claim.high


def test_bootstrap_of_curves_has_the_error_of_a_mean():
  values = np.random.default_rng(2).normal(size=(2, 3, 400)).astype(np.float32)
  drawn = np.asarray(
    metrics.resampled_curves(jax.random.key(0), values, num_resamples=500)
  )
  assert drawn.shape == (500, 2, 3)
  np.testing.assert_allclose(drawn.mean(0), values.mean(-1), atol=0.01)
  expected = values.std(-1) / 20
  np.testing.assert_allclose(drawn.std(0), expected, rtol=0.15)


def test_every_rule_has_one_name():
  assert len(set(RULES)) == len(RULES) > 25


def test_every_config_says_what_to_expect():
  for path in sorted(pathlib.Path('configs/adaptive_testing').glob('*.py')):
    words = path.read_text().split('"""')[1]
    assert 'TODO' not in words, path
    for heading in ('Command: ', 'Time: ', 'Claims: ', 'Expected: '):
      assert heading in words, (path, heading)
