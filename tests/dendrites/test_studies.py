"""Studies of correctness and of fitting in test mode, as a user runs them."""

import shutil

import numpy as np
import pytest

from jaxlab import data, dendrites, errors, main
from jaxlab.dendrites import rival
from jaxlab.harness import startup
from tests.runs import holds, once, run, table

# Config -> reconstruction that it needs, tables, figures, number of claims.
_LEFT = {
  'dhs_steps': ('ca1_n120', ['steps'], ['steps'], 2),
  'fit_conductances': (None, ['conductances'], ['loss', 'traces'], 2),
  'grad_check': ('minimal', ['differences'], ['errors'], 2),
  'hh_equivalence': ('ca1_n120', ['differences'], ['orders', 'traces'], 4),
}


@pytest.fixture(autouse=True)
def _devices_stay(monkeypatch):
  monkeypatch.setattr(startup, 'start_jax', lambda device, **_: None)


def _need(config: str) -> None:
  """Skips the test where what the config needs is not here."""
  name = _LEFT[config][0]
  try:
    if name is not None:
      data.load('neurons', name)
    if config == 'dhs_steps':
      data.load('neurons')
    if config == 'hh_equivalence':
      rival.neuron()
  except errors.UserError as missing:
    pytest.skip(str(missing))


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  """Runs each study once: config -> (folder, summary)."""

  def with_data(config: str, folder) -> dict:
    _need(config)
    return run(f'dendrites/{config}', folder)

  return once(tmp_path_factory, with_data)


@pytest.mark.parametrize('config', _LEFT)
def test_leaves_what_it_states(runs, config):
  folder, summary = runs(config)
  _, tables, figures, num_claims = _LEFT[config]
  assert (folder / 'DONE').exists()
  assert summary['headline']
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
  for path in (folder / 'figures').glob('*.png'):
    assert path.read_bytes().startswith(b'\x89PNG')


def test_voltages_are_those_of_neuron(runs):
  folder, _ = runs('hh_equivalence')
  rows = table(folder, 'differences')
  pairs = {(row['cell'], row['method']) for row in rows}
  assert len(rows) == len(pairs) == 6
  for row in rows:
    assert float(row['largest difference (mV)']) < 1e-6
    assert row['runs with equal spike times'] == row['runs'] == '2'
  for method, order in ((0, 1), (2, 2)):
    found = np.load(folder / 'checkpoints' / f'order-{method}.npz')
    np.testing.assert_allclose(found['slopes'], order, atol=0.1)
  # What is compared is no flat line.
  traces = np.load(folder / 'checkpoints' / 'ca1-0.npz')
  assert np.ptp(traces['neuron'][:, 0]) > 1


def level_first(parent, k):
  """Steps if the k deepest of the nodes without children go at once.

  Hu 1961, Operations Research 9: 841-848: no order needs fewer.
  """
  depth = np.zeros(len(parent), int)
  for i in range(1, len(parent)):
    depth[i] = depth[parent[i]] + 1
  left, steps = set(range(len(parent))), 0
  while left:
    ready = left - {parent[i] for i in left}
    left -= set(sorted(ready, key=lambda i: -depth[i])[:k])
    steps += 1
  return steps


def test_schedules_need_as_few_steps_as_hus(runs):
  folder, summary = runs('dhs_steps')
  rows = table(folder, 'steps')
  assert [row['neuron'] for row in rows[:2]] == ['ca1_n120', 'PVDL']
  assert len({row['neuron'] for row in rows}) == len(rows) == 1 + 3
  for row in rows[:2]:
    swc = data.load('neurons', row['neuron']).swc
    tree = dendrites.discretize(dendrites.parse_swc(swc), max_len=40.0)
    assert int(row['nodes']) == tree.n
    for k in (1, 4, 16):
      assert int(row[f'k={k}']) == level_first(tree.parent.tolist(), k)
  assert all(claim['measured'] == 1 for claim in summary['claims'])


def test_gradients_are_right(runs):
  folder, _ = runs('grad_check')
  rows = table(folder, 'differences')
  kinds = {row['parameter'] for row in rows}
  assert kinds == {'g_Na', 'g_K', 'radius', 'Ra', 'synaptic weight'}
  for row in rows:
    assert float(row['largest relative error']) < 1e-5
    assert float(row['smallest derivative']) > 0
  generic = np.load(folder / 'checkpoints' / 'generic.npz')['error']
  assert generic.shape == (2,)
  assert generic.max() < 1e-9


def test_updates_lower_the_loss(runs):
  folder, _ = runs('fit_conductances')
  rows = table(folder, 'conductances')
  assert len({row['conductance'] for row in rows}) == len(rows) == 6
  blocks = sorted((folder / 'checkpoints').glob('block-*.npz'))
  losses = np.concatenate([np.load(block)['losses'] for block in blocks])
  assert losses.shape[1] == 2
  assert np.isfinite(losses).all()
  assert (losses[-1] < losses[0]).all()


def test_unfinished_fit_resumes_to_the_same_numbers(runs, tmp_path):
  folder, summary = runs('fit_conductances')
  again = tmp_path / 'again'
  shutil.copytree(folder, again)
  last = sorted((again / 'checkpoints').glob('block-*.npz'))[-1]
  for path in (again / 'DONE', again / 'summary.json', last):
    path.unlink()
  resumed = run('dendrites/fit_conductances', again)
  assert resumed['claims'] == summary['claims']
  assert table(again, 'conductances') == table(folder, 'conductances')


@pytest.mark.parametrize(
  ('config', 'flag', 'message'),
  [
    ('dhs_steps', 'study=none', "config.study is 'none'; choose one of"),
    ('dhs_steps', "cells=('none',)", "config.cells names 'none'; choose from"),
    ('dhs_steps', 'threads=(0,4)', 'config.threads must be positive numbers'),
    ('dhs_steps', 'worms=-1', 'config.worms must be 0 or more, got -1'),
    ('fit_conductances', 'block=3', 'config.block must be a divisor of'),
    ('fit_conductances', 'rate=0.0', 'config.rate must be a positive number'),
    ('fit_conductances', 'seeds=1', 'config.seeds must be at least 2, got 1'),
    ('grad_check', 'steps=0', 'config.steps must be a positive number, got 0'),
    (
      'grad_check',
      'differences=()',
      'config.differences must be positive numbers',
    ),
    (
      'hh_equivalence',
      'dt=-0.1',
      'config.dt must be a positive number, got -0.1',
    ),
    ('hh_equivalence', 'seeds=1', 'config.seeds must be at least 2, got 1'),
    (
      'hh_equivalence',
      'order_dts=()',
      'config.order_dts must be positive numbers',
    ),
  ],
)
def test_mistakes_are_named_in_one_line(
  tmp_path, capsys, config, flag, message
):
  folder = tmp_path / 'run'
  code = main.main(
    [
      *('run', f'dendrites/{config}:test', f'--workdir={folder}'),
      f'--config.{flag}',
    ]
  )
  assert code == 2
  (line,) = capsys.readouterr().err.strip().splitlines()
  assert line.startswith('error: ')
  assert message in line
  assert not (folder / 'config.json').exists()
  assert not (folder / 'tables').exists()
