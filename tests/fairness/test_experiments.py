"""Every experiment of the family in its test mode, as a user runs it."""

import math
import pathlib
import shutil
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

from jaxlab import data, errors, main
from jaxlab.data import records as people
from jaxlab.fairness import comparison, experiment_calibration
from jaxlab.fairness import experiment_learned as learned
from jaxlab.fairness import experiment_records as records
from jaxlab.fairness.types import GroupScores, Solution
from jaxlab.harness import startup
from tests.runs import holds, once, run, table

_FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'configs' / 'fairness'
_CONFIGS = sorted(path.stem for path in _FOLDER.glob('*.py'))
_LEARNED = (['held_out'], ['separation', 'sufficiency'], 3)
_PUBLISHED = (['front', 'methods'], ['front', 'regions', 'rules'], 6)
# Config -> tables, figures, least number of claims; of another one of each.
_LEFT = {
  'sufficiency_adult': _LEARNED,
  'sufficiency_calibration': (['gaps'], ['gaps'], 1),
  'sufficiency_compas': _PUBLISHED,
  'sufficiency_embedded': _LEARNED,
  'sufficiency_fico': _PUBLISHED,
  'sufficiency_german': _LEARNED,
  'sufficiency_scaling': (['time'], ['time'], 2),
  'sufficiency_synthetic': (['instances', 'one_threshold'], ['extra_loss'], 6),
}
# The quick ones, with the methods that they are cut down to: to compile them
# all takes long.
_QUICK = {
  'sufficiency_calibration': (),
  'sufficiency_embedded': (
    comparison.BAYES,
    comparison.SUFFICIENT,
    comparison.NON_VACUOUS,
  ),
}
_CUT_DOWN = {
  **_QUICK,
  'sufficiency_compas': (
    comparison.BAYES,
    comparison.SUFFICIENT,
    comparison.SEPARATED,
    'Equalized odds',
  ),
  'sufficiency_synthetic': (),
}
_ALL_METHODS = comparison.methods


@pytest.fixture(autouse=True)
def _devices_stay(monkeypatch):
  monkeypatch.setattr(startup, 'start_jax', lambda device, **_: None)


def _run(config: str, folder, *flags: str) -> dict:
  def few_methods(**options):
    return {name: _ALL_METHODS(**options)[name] for name in _CUT_DOWN[config]}

  with pytest.MonkeyPatch.context() as patch:
    if config in _CUT_DOWN:
      patch.setattr(comparison, 'methods', few_methods)
    return run(f'fairness/{config}', folder, *flags)


def _need_data_of(config: str) -> None:
  """Skips the test where the data set of the config is not here."""
  name = config.removeprefix('sufficiency_')
  if name in data.datasets():
    try:
      data.load(name)
    except errors.MissingDataError as missing:
      pytest.skip(str(missing))


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  """Runs each experiment once: config -> (folder, summary)."""

  def with_data(config: str, folder) -> dict:
    _need_data_of(config)
    return _run(config, folder)

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
  tables, figures, num_claims = _LEFT.get(config, ([], [], 1))
  assert (folder / 'DONE').exists()
  assert len(summary['claims']) >= num_claims
  for claim in summary['claims']:
    assert claim['holds'] == holds(claim), claim['text']
    assert claim['paper']
  for kind, names, suffix in (
    ('tables', tables, 'csv'),
    ('figures', figures, 'png'),
  ):
    found = {path.stem for path in (folder / kind).glob(f'*.{suffix}')}
    assert found
    assert found >= set(names)
    assert {each['name'] for each in summary[kind]} == found
    assert all(each['caption'] for each in summary[kind])
  for each in summary['tables']:
    assert table(folder, each['name']), each
  for path in (folder / 'figures').glob('*.png'):
    assert path.read_bytes().startswith(b'\x89PNG')


def _methods(folder) -> dict[str, dict[str, float]]:
  """The rows of the table of methods, by method, those that are feasible."""
  found = {}
  for row in table(folder, 'methods'):
    method = row.pop('method')
    if row.pop('feasible') == 'True':
      found[method] = {name: float(value) for name, value in row.items()}
  return found


def _assert_printed(found: float, printed: str) -> None:
  """Agrees with a number to the digits that are printed."""
  digits = len(printed.partition('.')[2])
  assert abs(found - float(printed)) <= 0.501 * 10**-digits, (found, printed)


_WHITE, _BLACK = 'Non- Hispanic white', 'Black'
_FICO = {
  'Bayes': {
    'accuracy': '0.8819',
    f'PPV {_WHITE}': '0.910',
    f'PPV {_BLACK}': '0.785',
    f'FOR {_WHITE}': '0.198',
    f'FOR {_BLACK}': '0.129',
    'drawn by lot': '0.000',
  },
  'Sufficiency, least loss': {
    'accuracy': '0.8676',
    f'PPV {_WHITE}': '0.9116',
    f'PPV {_BLACK}': '0.9116',
    f'FOR {_WHITE}': '0.2346',
    f'FOR {_BLACK}': '0.2346',
  },
  'Sufficiency, closest to separation': {
    'accuracy': '0.8668',
    f'PPV {_WHITE}': '0.9035',
    f'PPV {_BLACK}': '0.9035',
    f'FOR {_WHITE}': '0.2239',
    f'FOR {_BLACK}': '0.2239',
  },
  'Sufficiency, least larger gap': {f'PPV {_BLACK}': '0.8711'},
  'Statistical parity': {'accuracy': '0.8455'},
  'Equalized odds': {
    'accuracy': '0.8405',
    'TPR gap': '0.000000',
    'FPR gap': '0.000000',
  },
  'Equal opportunity': {'accuracy': '0.8627'},
}


@pytest.mark.slow
def test_fico_figures_are_the_published_ones(runs):
  folder, summary = runs('sufficiency_fico')
  found = _methods(folder)
  for method, figures in _FICO.items():
    for name, printed in figures.items():
      _assert_printed(found[method][name], printed)
  close = found['Sufficiency, closest to separation']
  _assert_printed(close['TPR gap'] + close['FPR gap'], '0.7827')
  least = found['Sufficiency, least larger gap']
  _assert_printed(max(least['TPR gap'], least['FPR gap']), '0.40407')
  published = [c for c in summary['claims'] if 'as published' in c['text']]
  assert len(published) == 6
  assert all(claim['holds'] for claim in published)
  (more,) = (c for c in published if 'four groups' in c['text'])
  assert '3 groups: loss 0.165853' in more['note']
  assert '4 groups: loss 0.165029' in more['note']


# ProPublica's filter -> loss, PPV and FOR; those closest to separation.
_COMPAS = {
  'none': (('0.350063', '0.628893', '0.332814'), ('0.6094', '0.3140')),
  'propublica': (('0.343715', '0.644558', '0.334563'), ('0.6807', '0.3620')),
}


def _assert_compas(folder, rows: str) -> None:
  found = _methods(folder)
  (loss, *rates), close_rates = _COMPAS[rows]
  best, close = found[comparison.SUFFICIENT], found[comparison.SEPARATED]
  _assert_printed(1 - best['accuracy'], loss)
  for group in ('Caucasian', 'African-American'):
    for label, rate, close_rate in zip(
      ('PPV', 'FOR'), rates, close_rates, strict=True
    ):
      _assert_printed(best[f'{label} {group}'], rate)
      _assert_printed(close[f'{label} {group}'], close_rate)
  # One threshold is the cheapest of all rules, and not sufficient.
  free = found[comparison.BAYES]
  assert free['accuracy'] > best['accuracy'] > close['accuracy']
  assert free['PPV African-American'] - free['PPV Caucasian'] > 0.01
  assert free['drawn by lot'] == 0 < best['drawn by lot']


@pytest.mark.slow
def test_compas_figures_are_the_published_ones(runs):
  folder, summary = runs('sufficiency_compas')
  _assert_compas(folder, 'none')
  assert all(claim['holds'] for claim in summary['claims'])


@pytest.mark.slow
def test_published_claims_are_those_of_the_rows(runs, tmp_path):
  _, summary = runs('sufficiency_compas')
  folder = tmp_path / 'run'
  other = _run('sufficiency_compas', folder, '--config.filter=propublica')
  _assert_compas(folder, 'propublica')
  verdicts = {claim['text']: claim['verdict'] for claim in other['claims']}
  assert verdicts.keys() == {claim['text'] for claim in summary['claims']}
  assert verdicts['Least loss, PPV and FOR as published'] == 'holds'
  assert verdicts['Rule closest to separation as published'] == 'holds'
  assert verdicts['A hard threshold for Black defendants'] == 'holds'


@pytest.mark.slow
def test_front_runs_from_least_loss_to_least_separation(runs):
  folder, _ = runs('sufficiency_compas')
  front = [
    {k: float(v) for k, v in row.items()} for row in table(folder, 'front')
  ]
  columns = {name: np.array([row[name] for row in front]) for name in front[0]}
  loss, separation = columns['loss'], columns['TPR gap + FPR gap']
  assert (np.diff(loss) >= -1e-9).all()
  assert (np.diff(separation) <= 1e-9).all()
  found = _methods(folder)
  ends = {0: comparison.SUFFICIENT, -1: comparison.SEPARATED}
  for end, method in ends.items():
    row = found[method]
    assert math.isclose(loss[end], 1 - row['accuracy'], abs_tol=1e-9)
    assert math.isclose(
      separation[end], row['TPR gap'] + row['FPR gap'], abs_tol=1e-9
    )


@pytest.mark.slow
def test_unfinished_run_resumes_to_the_same_numbers(runs, tmp_path):
  folder, summary = runs('sufficiency_synthetic')
  again = tmp_path / 'again'
  shutil.copytree(folder, again)
  for name in ('DONE', 'summary.json', 'checkpoints/criteria.npz'):
    (again / name).unlink()
  shutil.rmtree(again / 'tables')
  resumed = _run('sufficiency_synthetic', again)
  assert resumed['claims'] == summary['claims']
  assert resumed['headline'] == summary['headline']
  for name in ('instances', 'one_threshold'):
    assert table(again, name) == table(folder, name)


@pytest.mark.slow
def test_one_threshold_breaks_sufficiency_alone(runs):
  folder, summary = runs('sufficiency_synthetic')
  gaps = {
    row['the score meets']: float(row['largest gap'])
    for row in table(folder, 'one_threshold')
  }
  assert gaps['independence'] < 1e-12
  assert gaps['separation'] < 1e-12
  assert gaps['sufficiency'] > 0.05
  (row,) = table(folder, 'instances')
  assert int(row['solved']) == round(24 * (1 - float(row['infeasible'])))
  assert abs(float(row['off the linear program'])) < 1e-9
  assert float(row['loss above the grid']) < 1e-12
  assert float(row['extra loss, mean']) >= 0
  assert all(claim['holds'] for claim in summary['claims'])


def test_learned_table_has_intervals_around_its_means(runs):
  folder, _ = runs('sufficiency_embedded')
  found = {row['method']: row for row in table(folder, 'held_out')}
  methods = _QUICK['sufficiency_embedded']
  assert set(found) >= {*methods, 'Chance'}
  assert found['Chance']['accuracy'] in ('', 'nan')
  measures = ('accuracy', 'PPV gap', 'FOR gap', 'TPR gap', 'FPR gap')
  known = 0
  for row in found.values():
    for name in measures:
      ends = [float(row[f'{name}{end}']) for end in (' low', '', ' high')]
      if not np.isfinite(ends).all():
        continue
      low, mean, high = ends
      assert low <= mean <= high
      assert 0 <= mean <= 1
      known += 1
  assert known >= 4 * len(methods)


def test_parts_of_the_people_are_disjoint():
  class Config:
    shares, max_people = (0.3, 0.5, 0.2), 0

  n = 50
  rows = people.Records(
    numeric=np.arange(n, dtype=float)[:, None],
    categorical=np.zeros((n, 0), 'U1'),
    labels=np.arange(n) % 2,
    weight=np.ones(n),
    attributes={},
    numeric_names=['row'],
    categorical_names=[],
  )
  group = np.arange(n) % 3
  key = jax.random.key(0)
  parts = learned._split(Config, rows, group, key)
  assert [len(part.y) for part in parts] == [15, 25, 10]
  x = np.concatenate([part.x[:, 0] for part in parts])
  assert len(np.unique(x)) == n
  # Standardised by the first part alone, the rows keep their order.
  np.testing.assert_allclose(parts[0].x.mean(), 0, atol=1e-6)
  np.testing.assert_allclose(parts[0].x.std(), 1, rtol=1e-6)
  rank = np.argsort(np.argsort(x))
  np.testing.assert_array_equal(
    np.concatenate([part.group for part in parts]), group[rank]
  )
  Config.max_people = 20
  parts = learned._split(Config, rows, group, key)
  assert [len(part.y) for part in parts] == [6, 10, 4]


def test_true_gaps_are_integrals():
  """Of the rule `z > 0`, with the integrals by adaptive quadrature."""
  each = jnp.ones((2, 2)) / 2
  sure = jnp.asarray([[1.0, 0.0]] * 2)
  gs = GroupScores(sure, each, jnp.ones(2) / 2, jnp.full(2, 2, jnp.int32))
  rule = Solution(*[sure] * len(Solution._fields))._replace(status=0)
  found = experiment_calibration._rates(gs, rule, lambda z, _: z > 0.0)

  def good(slope, shift, low, high):
    value, _ = scipy.integrate.quad(
      lambda z: (
        2 * scipy.stats.norm.pdf(z) * scipy.special.expit(slope * z + shift)
      ),
      low,
      high,
    )
    return value

  groups = (1.6, 0.2), (0.7, -0.5)
  ppv = [good(*group, 0, 12) for group in groups]
  for_ = [good(*group, -12, 0) for group in groups]
  np.testing.assert_allclose(
    found, [abs(ppv[0] - ppv[1]), abs(for_[0] - for_[1])], atol=1e-4
  )


def test_room_for_scores_is_named_with_the_group():
  config = types.SimpleNamespace(groups=('old', 'young'), max_atoms=2)
  scores, group = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0, 1, 1, 1])
  with pytest.raises(errors.UserError, match=r"is 2, .* 'young' has 3"):
    learned._distribution(config, scores, group)


def test_published_claim_counts_units_of_the_last_digit():
  claim = records.published_claim('', {'a': 0.12345}, {'a': 0.1235}, 4)
  assert math.isclose(claim.measured, 0.5, rel_tol=1e-6)
  assert claim.verdict == 'holds'
  found = {'a': 0.12345, 'b': 2.0}
  claim = records.published_claim('', found, {'a': 0.1235, 'b': 2.0002}, 4)
  assert math.isclose(claim.measured, 2, rel_tol=1e-6)
  assert claim.verdict == 'fails'
  assert 'worst: b' in claim.note


@pytest.mark.parametrize(
  ('threshold', 'sense', 'verdict'),
  [
    (5, '<', 'holds'),
    (5, '>', 'fails'),
    (0, '>', 'undecided'),
    (-1, '>', 'holds'),
  ],
)
def test_mean_claim_is_judged_by_the_t_interval(threshold, sense, verdict):
  claim = records.mean_claim(
    '', np.array([1.0, 2.0, 3.0]), threshold=threshold, sense=sense
  )
  # t of 2 degrees of freedom at 97.5 % is 4.302653.
  half = 4.302653 / math.sqrt(3)
  np.testing.assert_allclose(
    (claim.low, claim.measured, claim.high), (2 - half, 2, 2 + half), rtol=1e-5
  )
  assert claim.verdict == verdict


@pytest.mark.parametrize(
  ('threshold', 'verdict'), [(0.02, 'holds'), (0.5, 'undecided'), (1, 'fails')]
)
def test_quantile_claim_is_judged_by_percentiles(threshold, verdict):
  draws = np.append(np.arange(101) / 100, np.nan)
  claim = records.quantile_claim('', 0.5, draws, threshold=threshold, sense='>')
  np.testing.assert_allclose((claim.low, claim.high), (0.025, 0.975))
  assert claim.verdict == verdict


_EMBEDDED, _COMPAS_RUN = 'sufficiency_embedded', 'sufficiency_compas'
_CALIBRATION = 'sufficiency_calibration'
_SYNTHETIC = 'sufficiency_synthetic'


@pytest.mark.parametrize(
  ('config', 'flag', 'message'),
  [
    (_EMBEDDED, 'study=none', "config.study is 'none'; choose one of"),
    (_EMBEDDED, 'dataset=none', "unknown data set 'none'; known: acs, "),
    (_EMBEDDED, 'attribute=none', "config.attribute is 'none'"),
    (_EMBEDDED, "groups=('smooth','bumpy')", "config.groups names 'bumpy'"),
    (_EMBEDDED, 'seeds=0', 'config.seeds must be a positive number, got 0'),
    (_COMPAS_RUN, 'dataset=adult', "config.dataset is 'adult'; choose one of"),
    (_COMPAS_RUN, "groups=('Caucasian','Green')", 'Green'),
    (_EMBEDDED, 'hidden=(-1,)', 'config.hidden must be widths above 0'),
    (_EMBEDDED, 'learning_rate=0.0', 'config.learning_rate must be a positive'),
    (_EMBEDDED, 'weight_decay=-1.0', 'config.weight_decay must be at least 0'),
    (
      _EMBEDDED,
      'calibrator=none',
      "config.calibrator is 'none'; choose",
    ),
    (_EMBEDDED, 'max_people=12', 'config.max_people is 12'),
    (_CALIBRATION, 'seeds=1', 'config.seeds must be at least 3, got 1'),
    (_CALIBRATION, 'sizes=(400,400)', 'config.sizes must be two or more diff'),
    (_CALIBRATION, 'methods=()', 'config.methods must be different names'),
    (_CALIBRATION, "methods=('none',)", "config.methods names 'none'"),
    (_SYNTHETIC, 'sizes=((2,),)', 'config.sizes must be pairs'),
    (_COMPAS_RUN, 'replications=1', 'config.replications must be at least 2'),
    (_COMPAS_RUN, "groups=('Caucasian',)", 'config.groups must be two or more'),
    (_COMPAS_RUN, "more_groups=('Green',)", "config.more_groups names 'Green'"),
    (
      _COMPAS_RUN,
      "groups=('Caucasian','Caucasian')",
      'config.groups must be different names',
    ),
    (
      _COMPAS_RUN,
      "more_groups=('Caucasian',)",
      "config.more_groups names 'Caucasian', which config.groups has",
    ),
    (_COMPAS_RUN, 'score=none', "config.score is 'none'; choose 'pooled'"),
    (_COMPAS_RUN, 'filter=none_such', 'none_such'),
  ],
)
def test_mistakes_are_named_in_one_line(
  tmp_path, capsys, config, flag, message
):
  _need_data_of(config)
  folder = tmp_path / 'run'
  code = main.main(
    [
      'run',
      f'fairness/{config}:test',
      f'--workdir={folder}',
      f'--config.{flag}',
    ]
  )
  assert code == 2
  (line,) = capsys.readouterr().err.strip().splitlines()
  assert line.startswith('error: ')
  assert message in line
  assert not (folder / 'config.json').exists()
  assert not (folder / 'tables').exists()
