"""The experiments in their test mode, and what they make of what they find."""

import dataclasses
import importlib.util
import pathlib

import numpy as np
import pytest

from jaxlab import data, errors, main
from jaxlab.certified import experiment_claims as claims
from jaxlab.certified import experiment_front as front
from jaxlab.certified import experiment_measures as measures
from jaxlab.certified import experiment_problem as problems
from jaxlab.certified import experiment_report as report
from jaxlab.certified import search_space
from jaxlab.certified.experiment_study import Trial
from jaxlab.harness import startup
from tests.runs import holds, once, run, table

_FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'configs'
_CONFIGS = ('pareto_digits', 'pareto_mnist', 'pareto_cifar10')
_TABLES = (
  *('trials', 'front', 'published', 'hypervolume'),
  *('complementarity', 'cascade'),
)
_FIGURES = ('front', 'attainment', 'verifier', 'complementarity')


def _config(name, mode='test'):
  spec = importlib.util.spec_from_file_location(
    name, _FOLDER / 'certified' / f'{name}.py'
  )
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module.get_config(mode)


@pytest.fixture(autouse=True, scope='module')
def _jax_as_it_is():
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(startup, 'start_jax', lambda device, **_: None)
    yield


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  def with_data(name, folder):
    try:
      problems.load(_config(name))
    except errors.MissingDataError as missing:
      pytest.skip(str(missing))
    return run(f'certified/{name}', folder)

  return once(tmp_path_factory, with_data)


@pytest.mark.parametrize(
  'name',
  [
    pytest.param(n, marks=() if n == 'pareto_digits' else pytest.mark.slow)
    for n in _CONFIGS
  ],
)
def test_leaves_what_it_states(runs, name):
  folder, summary = runs(name)
  assert (folder / 'DONE').exists()
  assert summary['claims']
  for claim in summary['claims']:
    assert claim['holds'] == holds(claim), claim['text']
  # Trainings this short may leave nothing beside the published settings.
  members = table(folder, 'front')
  rivals = [row for row in members if row['setting'] != 'published']
  for found in _TABLES:
    expected = rivals if found == 'published' else members
    assert bool(table(folder, found)) == bool(expected), found
  for found in _FIGURES:
    assert (folder / 'figures' / f'{found}.png').stat().st_size > 1000


def test_equal_budgets_and_published_settings_first(runs):
  folder, _ = runs('pareto_digits')
  config = _config('pareto_digits')
  rows = table(folder, 'trials')
  for method in config.methods:
    own = [row for row in rows if row['method'] == method]
    assert [int(row['trial']) for row in own] == list(range(config.trials))
    known = search_space.published(method, 'digits')['published'].values
    assert own[0]['published'] == 'published'
    for knob, value in known.items():
      assert float(own[0][knob]) == pytest.approx(value)


def test_stages_never_lose_a_picture(runs):
  folder, _ = runs('pareto_digits')
  for row in table(folder, 'cascade'):
    reached = [float(row[stage]) for stage in measures.STAGES]
    assert reached == sorted(reached)
    ordered = [reached[-1], float(row['under attack']), float(row['natural'])]
    assert ordered == sorted(ordered)


def test_two_runs_give_the_same_numbers(runs, tmp_path):
  folder, summary = runs('pareto_digits')
  again = run('certified/pareto_digits', tmp_path / 'again')
  assert again['claims'] == summary['claims']
  for name in _TABLES:
    assert table(tmp_path / 'again', name) == table(folder, name)


def test_a_study_that_is_shared_is_not_searched_again(tmp_path, runs):
  study = tmp_path / 'shared.db'
  flags = (f'--config.storage={study}',)
  first = run('certified/pareto_digits', tmp_path / 'a', *flags)
  second = run('certified/pareto_digits', tmp_path / 'b', *flags)
  assert first['claims'] == second['claims']
  assert not list((tmp_path / 'b' / 'checkpoints').glob('*/*/trials-*'))
  assert table(tmp_path / 'b', 'trials') == table(
    runs('pareto_digits')[0], 'trials'
  )


@pytest.mark.parametrize(
  ('flag', 'words'),
  [
    ('--config.eps=(-0.1,)', ['eps', '-0.1']),
    ('--config.eps=(0.2,)', ['mnist_0.2']),
    ('--config.methods=("ibp","magic")', ['magic', 'crown_ibp']),
    ('--config.sampler=grid', ['sampler', 'motpe']),
    ('--config.network=cnn7', ['network', 'mlp']),
    ('--config.seeds=1', ['seeds']),
    ('--config.test=5000', ['digits', 'config.test']),
    ('--config.lanes=0', ['lanes']),
  ],
)
def test_bad_settings_are_one_line(tmp_path, capsys, flag, words):
  name = 'pareto_mnist' if 'eps=(0.2' in flag else 'pareto_digits'
  if 'mnist' in name:
    try:
      data.load('mnist', 'train')
    except errors.MissingDataError as missing:
      pytest.skip(str(missing))
  folder = tmp_path / 'run'
  code = main.main(
    ['run', f'certified/{name}:test', f'--workdir={folder}', flag]
  )
  assert code == 2
  line = capsys.readouterr().err.strip().splitlines()[-1]
  assert all(word in line for word in words), line
  assert not (folder / 'summary.json').exists()


@pytest.mark.parametrize('name', _CONFIGS)
@pytest.mark.parametrize('mode', ['', 'full', 'test'])
def test_every_mode_can_be_run(name, mode):
  problems.check_config(_config(name, mode))


# -- what is made of the trials


def _trial(number, natural, certified, published=''):
  return Trial(number, {}, (natural, certified), published)


def test_the_front_keeps_what_adds_most():
  trials = [
    _trial(0, 0.5, 0.5),
    _trial(1, 0.9, 0.1),
    _trial(2, 0.8, 0.4),
    _trial(3, 0.5, 0.5),
    _trial(4, 0.4, 0.6),
    _trial(5, 0.3, 0.3),
  ]
  assert [t.number for t in front.on_front(trials, 9)] == [0, 1, 2, 4]
  # .8 x .4 is the largest; then .5 x .5 adds .05, .4 x .6 adds .08.
  assert [t.number for t in front.on_front(trials, 2)] == [2, 4]


def _member(natural, certified, validation, **changes):
  """Two seeds, ten pictures."""
  masks = [np.arange(10) < count for count in (natural, certified)]
  right, proved = (np.stack([mask, mask]) for mask in masks)
  trial = _trial(changes.pop('number', 1), *validation, changes.pop('name', ''))
  member = front.Member(
    'ibp',
    trial,
    True,
    right,
    dict.fromkeys(measures.STAGES, proved),
    right,
    right & ~proved,
  )
  return member._replace(**changes)


def test_the_rival_is_chosen_by_validation_alone():
  published = _member(5, 5, (0.5, 0.5), number=0, name='published')
  lucky = _member(10, 10, (0.5, 0.5), number=1)
  better = _member(6, 6, (0.7, 0.6), number=2)
  one_sided = _member(9, 9, (0.9, 0.4), number=3)
  found = [published, lucky, better, one_sided]
  assert claims.rival(found) == (published, better)
  assert claims.rival([published]) is None
  assert claims.rival([better]) is None


def test_points_are_accuracies():
  np.testing.assert_allclose(
    _member(7, 4, (0.1, 0.1)).points, [[0.7, 0.4], [0.7, 0.4]]
  )


def test_a_broken_certificate_stops_the_report():
  good = _member(7, 4, (0.1, 0.1))
  report._check_sound({'ibp': [good]})
  broken = good._replace(survives=np.zeros((2, 10), bool))
  with pytest.raises(RuntimeError, match='breaks 8 certified'):
    report._check_sound({'ibp': [broken]})
  first = measures.STAGES[0]
  lost = good._replace(stages=good.stages | {first: np.ones((2, 10), bool)})
  with pytest.raises(RuntimeError, match='loses'):
    report._check_sound({'ibp': [lost]})


def test_a_training_that_diverged_is_wrong_everywhere():
  split = problems.Split(np.zeros((3, 64), np.float32), np.zeros(3, np.int32))
  config = _config('pareto_digits')
  network = problems.make_network('digits', 'mlp', 4)
  found = measures.Measure(config, network, split, 0.1).whole(None)
  assert set(found) == {'natural', 'survives', 'open', *measures.STAGES}
  assert not any(mask.any() for mask in found.values())


def test_splits_are_disjoint():
  config = _config('pareto_digits')
  problem = problems.load(config)
  rows = [
    {row.tobytes() for row in getattr(problem, name).x}
    for name in ('train', 'validation', 'test')
  ]
  assert [len(r) for r in rows] == [200, 50, 50]
  assert len(set.union(*rows)) == 300
  assert dataclasses.is_dataclass(problem.network)
