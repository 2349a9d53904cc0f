"""Every experiment of the family in its test mode, as a user runs it."""

import math
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import data, errors, main
from jaxlab.harness import startup
from jaxlab.motifs import experiment_records as records
from jaxlab.motifs import experiment_simplex_dynamics as simplex
from jaxlab.motifs import tasks, train
from jaxlab.motifs.rnn import MotifRNN
from tests.runs import holds, once, run, table

_FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'configs' / 'motifs'
_CONFIGS = sorted(path.stem for path in _FOLDER.glob('*.py'))
# Config -> tables, figures, number of claims.
_LEFT = {
  'connectome_census': (['census', 'chains'], ['profiles', 'z_scores'], 5),
  'generator_fidelity': (['fidelity', 'census', 'requests'], ['errors'], 5),
  'heterogeneous_tau': (['regimes'], ['regimes'], 4),
  'regime_atlas': (['regimes'], ['regimes', 'regime_map', 'motifs'], 6),
  'robust_flexible': (['scores', 'differences'], ['plane'], 5),
  'simplex_dynamics': (['simplex', 'ordering'], ['exponents', 'gains'], 3),
  'spectra_theory': (['spectra'], ['spectra'], 2),
}
# The others take long to compile.
_QUICK = ('connectome_census', 'generator_fidelity', 'heterogeneous_tau')


@pytest.fixture(autouse=True)
def _devices_stay(monkeypatch):
  monkeypatch.setattr(startup, 'start_jax', lambda device, **_: None)


def _run(config: str, folder, *flags: str) -> dict:
  return run(f'motifs/{config}', folder, *flags)


def _need_data_of(config: str) -> None:
  """Skips the test where the data set of the config is not here."""
  if config == 'connectome_census':
    try:
      data.load('connectome', 'witvliet1')
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
  tables, figures, num_claims = _LEFT[config]
  assert (folder / 'DONE').exists()
  assert len(summary['claims']) == num_claims
  for claim in summary['claims']:
    assert claim['holds'] == holds(claim), claim['text']
    assert claim['paper']
  for kind, names, suffix in (
    ('tables', tables, 'csv'),
    ('figures', figures, 'png'),
  ):
    found = {path.stem for path in (folder / kind).glob(f'*.{suffix}')}
    assert found == set(names)
    assert {each['name'] for each in summary[kind]} == found
    assert all(each['caption'] for each in summary[kind])
  for each in summary['tables']:
    assert table(folder, each['name']), each
  for path in (folder / 'figures').glob('*.png'):
    assert path.read_bytes().startswith(b'\x89PNG')


def test_census_has_the_known_counts_of_the_young_worm(runs):
  folder, summary = runs('connectome_census')
  rows = [r for r in table(folder, 'census') if r['graph'] == 'witvliet1']
  # networkx 3.6.1, `triadic_census`.
  known = [1322, 1749, 1898, 510, 429, 234, 5, 40, 41, 53, 15, 15, 12]
  assert [int(row['count']) for row in rows] == known
  assert summary['claims'][0]['verdict'] == 'holds'


def test_generated_graphs_keep_degrees_and_edges(runs):
  folder, _ = runs('generator_fidelity')
  for row in table(folder, 'fidelity'):
    assert int(row['largest degree gap']) == 0
    assert int(row['edges']) == 72
  requests = table(folder, 'requests')
  assert len(requests) == 7
  for row in requests:
    assert float(row['refused']) == (row['possible'] == 'False'), row


def test_unfinished_run_resumes_to_the_same_numbers(runs, tmp_path):
  folder, summary = runs('generator_fidelity')
  again = tmp_path / 'again'
  shutil.copytree(folder, again)
  for name in ('DONE', 'summary.json', 'checkpoints/mixture-1.npz'):
    (again / name).unlink()
  shutil.rmtree(again / 'tables')
  resumed = _run('generator_fidelity', again)
  assert resumed['claims'] == summary['claims']
  assert table(again, 'fidelity') == table(folder, 'fidelity')


def test_regime_shares_sum_to_one(runs):
  folder, _ = runs('heterogeneous_tau')
  rows = table(folder, 'regimes')
  assert len(rows) == 10
  for row in rows:
    names = ('fixed', 'multistable', 'oscillating', 'chaotic', 'undecided')
    assert math.isclose(sum(float(row[name]) for name in names), 1)
    low, mean, high = (
      float(row[f'oscillating{end}']) for end in (' low', '', ' high')
    )
    assert low <= mean <= high


@pytest.mark.slow
@pytest.mark.parametrize(
  ('config', 'kind', 'group', 'radius', 'columns'),
  [
    ('simplex_dynamics', 'simplex', ('law', 'layer 1'), 'radius', ('edges',)),
    (
      'robust_flexible',
      'scores',
      ('mixture',),
      'spectral_radius',
      ('edges', 'parameters'),
    ),
  ],
)
def test_arms_share_edges_and_radius(
  runs, config, kind, group, radius, columns
):
  folder, _ = runs(config)
  groups: dict = {}
  for row in table(folder, kind):
    groups.setdefault(tuple(row[name] for name in group), []).append(row)
  for rows in groups.values():
    for name in columns:
      assert len({row[name] for row in rows}) == 1
    values = [float(row[radius]) for row in rows]
    np.testing.assert_allclose(values, values[0], rtol=1e-4)
    assert all(float(row.get('off_graph', 0)) == 0 for row in rows)


def test_controls_deal_the_same_weights():
  config = simplex_config()
  W, _ = simplex.networks(config, simplex.Case((0.0, 0.0, 1.0), 'free'), 0)
  sizes = [np.sort(np.abs(w[w != 0])) for w in np.asarray(W)]
  for each in sizes:
    assert len(each) == config.num_edges
    # Equal up to the factor that restores the radius.
    np.testing.assert_allclose(
      each / each[-1], sizes[0] / sizes[0][-1], rtol=1e-4
    )
  radii = [np.abs(np.linalg.eigvals(w)).max() for w in np.asarray(W)]
  np.testing.assert_allclose(radii, 1, rtol=1e-3)
  degree = [(w != 0).sum(axis=1) for w in np.asarray(W)]
  np.testing.assert_array_equal(degree[0], degree[1])


def simplex_config():
  class Config:
    seed, num_nodes, num_edges = 0, 20, 60

  return Config


def test_simplex_covers_its_grid():
  points = np.array(simplex.simplex(5))
  assert len(points) == 21
  assert len(np.unique(points, axis=0)) == 21
  np.testing.assert_allclose(points.sum(axis=1), 1)
  assert (points >= 0).all()


def test_training_learns_and_keeps_the_graph():
  task = tasks.make('copy', periods_ms={'delay': 20})
  model = MotifRNN(12, task.num_outputs, alpha=0.5)
  init, update = train.learner(model, task, batch=16, learning_rate=0.02)
  key = jax.random.key(0)
  graphs = jnp.stack(
    [jnp.ones((12, 12)) - jnp.eye(12), jnp.eye(12, k=1) + jnp.eye(12, k=-11)]
  )
  inputs = task.sample(key, 2).inputs

  def start(A):
    return model.init(key, inputs, adjacency=A)

  variables = jax.vmap(start)(graphs)
  keys = jnp.broadcast_to(key, 2)
  state, losses = train.train_population(
    init, update, variables, keys, num_steps=60
  )
  assert losses.shape == (2, 60)
  assert (losses[:, -10:].mean(1) < losses[:, :5].mean(1)).all()
  before, after = (
    np.asarray(v['params']['recurrent']) for v in (variables, state.variables)
  )
  off = np.asarray(jnp.swapaxes(graphs, 1, 2)) == 0
  assert (after[off] == 0).all()
  assert np.abs(after - before)[~off].max() > 1e-3
  # One at a time they end the same.
  alone, _ = train.train(
    update,
    init(jax.tree.map(lambda x: x[1], variables)),
    key,
    num_steps=60,
  )
  np.testing.assert_allclose(
    alone.variables['params']['recurrent'], after[1], atol=2e-3
  )


def test_share_claim_has_the_wilson_interval():
  claim = records.share_claim(
    '', np.array([True] * 5 + [False] * 45), threshold=0.3, sense='<'
  )
  # Wilson (1927) with z = 1.959964, n = 50, p = 0.1.
  np.testing.assert_allclose(
    (claim.low, claim.high), (0.043476, 0.213602), rtol=1e-4
  )
  assert claim.verdict == 'holds'
  empty = records.share_claim('', np.array([]), threshold=0.3, sense='<')
  assert empty.verdict == 'undecided'


def test_keys_depend_on_names_alone():
  a, b, c = (
    jax.random.key_data(records.key_of(0, *path))
    for path in (('x', 1), ('x', 1), ('y', 1))
  )
  assert (a == b).all()
  assert (a != c).any()


@pytest.mark.parametrize(
  ('config', 'flag', 'message'),
  [
    ('regime_atlas', 'study=none', "config.study is 'none'; choose one of"),
    ('regime_atlas', 'claim_gain=7.0', 'config.gains must be gains with'),
    ('regime_atlas', 'draws=0', 'config.draws must be a positive number'),
    ('heterogeneous_tau', 'dt=0.5', 'config.dt must be at most half'),
    ('spectra_theory', "arms=('none',)", "config.arms names 'none'"),
    ('spectra_theory', 'seeds=1', 'config.seeds must be at least 2, got 1'),
    ('generator_fidelity', 'targets=()', 'config.targets must be different'),
    ('simplex_dynamics', "laws=('none',)", "config.laws names 'none'"),
    ('simplex_dynamics', 'claim_gain=9.0', 'config.claim_gain must be one of'),
    ('robust_flexible', "mixtures=('none',)", "config.mixtures names 'none'"),
    ('connectome_census', "graphs=('none',)", "config.graphs names 'none'"),
  ],
)
def test_mistakes_are_named_in_one_line(
  tmp_path, capsys, config, flag, message
):
  folder = tmp_path / 'run'
  code = main.main(
    ['run', f'motifs/{config}:test', f'--workdir={folder}', f'--config.{flag}']
  )
  assert code == 2
  (line,) = capsys.readouterr().err.strip().splitlines()
  assert line.startswith('error: ')
  assert message in line
  assert not (folder / 'config.json').exists()
  assert not (folder / 'tables').exists()
