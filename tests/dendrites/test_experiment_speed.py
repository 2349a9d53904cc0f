"""Timings of the family: what is timed, and the two studies in test mode."""

import functools

import jax
import ml_collections
import numpy as np
import pytest

from jaxlab import data, dendrites, errors, main
from jaxlab.dendrites import experiment_peers as peers
from jaxlab.dendrites import experiment_speed
from jaxlab.dendrites import experiment_timing as timed
from jaxlab.dendrites.experiment_timing import Program
from jaxlab.harness import startup
from tests.runs import once, run, table

BALL_AND_STICK = [
  ('soma', 20.0, 20.0, None),
  ('dend', 400.0, 2.0, ('soma', 1.0)),
]
COUNTS = {'soma': 1, 'dend': 5}
STEPS = 160


@pytest.fixture(autouse=True)
def _devices_stay(monkeypatch):
  monkeypatch.setattr(startup, 'start_jax', lambda device, **_: None)


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
  """Runs each study once: config -> (folder, summary)."""

  def with_data(config: str, folder) -> dict:
    try:
      data.load('neurons', '3_types')
    except errors.MissingDataError as missing:
      pytest.skip(str(missing))
    return run(f'dendrites/{config}', folder)

  return once(tmp_path_factory, with_data)


@pytest.fixture(scope='module')
def stick():
  """Its morphology and its compartments."""
  morph = dendrites.from_cylinders(BALL_AND_STICK)
  return morph, dendrites.discretize(morph, nseg=COUNTS)


def test_neuron_runs_the_same_cells(stick):
  if peers.version('neuron') is None:
    pytest.skip('needs the package neuron')
  morph, tree = stick
  with jax.enable_x64(True):
    job = timed.work(timed.equipped(tree), STEPS, 2)
    found = timed.program(job).call()
  expected = peers.NeuronCells(morph, tree, 2).run(STEPS, tables=False)
  np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
  assert expected.max() > 0
  assert job.units == 2 * STEPS * 6


def test_columns_are_the_runs_that_vmap_makes(stick):
  _, tree = stick
  together = timed.program(timed.mapped(timed.equipped(tree), STEPS, 3)).call()
  columns = timed.program(timed.work(timed.equipped(tree), STEPS, 3)).call()
  np.testing.assert_allclose(together, columns, rtol=0, atol=1e-3)


def test_cylinders_keep_lengths_areas_and_numbers_of_segments():
  cones = dendrites.parse_swc(
    '1 1 0 0 0 8 -1\n2 1 20 0 0 6 1\n3 3 40 0 0 2 2\n4 3 90 0 0 1 3\n'
  )
  tree = dendrites.discretize(cones, max_len=25.0)
  morph, counts = timed.cylinders(cones, tree)
  made = dendrites.discretize(morph, nseg=counts)
  assert [s.L for s in morph.sections] == [s.L for s in cones.sections]
  for index, section in enumerate(morph.sections):
    here, there = (t.section == index for t in (made, tree))
    assert here.sum() == there.sum() == counts[section.name]
    assert made.area[here].sum() == pytest.approx(tree.area[there].sum())


def test_exponents():
  sizes = 10.0, 100.0, 1000.0
  values = np.array([[2.0, 5.0], [20.0, 5.0], [200.0, 5.0]])
  np.testing.assert_allclose(timed.slope(sizes, values), [1, 0], atol=1e-12)


def test_programs_take_turns():
  calls: list[int] = []
  programs = [Program(functools.partial(calls.append, i), 1) for i in (0, 1)]
  taken = timed.cpu_ns(programs, 3, shortest=0.0)
  assert taken.shape == (2, 3)
  assert (taken > 0).all()
  # The first call of each says how many fill a turn.
  assert calls == [0, 1] * 4


@pytest.mark.slow
def test_speed_leaves_its_tables(runs):
  folder, summary = runs('speed')
  rows = table(folder, 'speed')
  own = [row for row in rows if row['system'] == 'jaxlab']
  assert [row['cells'] for row in own] == ['1', '2']
  assert all(float(row['gradient ns']) > 0 for row in own)
  names = ' '.join(row['system'].lower() for row in rows)
  assert 'neuron' in names
  assert 'jaxley' in names
  varied = {row['varies'] for row in table(folder, 'scaling')}
  assert varied == {'compartments', 'cells', 'steps'}
  figures = {figure['name'] for figure in summary['figures']}
  assert figures == {'speed', 'scaling'}
  assert len(summary['claims']) >= 4


@pytest.mark.slow
def test_other_simulators_ran_the_same_cells(runs):
  folder, _ = runs('speed')
  for package, unit, tolerance in (
    ('neuron', 'neuron-1', 1e-4),  # its points are in float32
    # In float32; the axial conductances of so small a cell cost digits.
    ('jaxley', 'jaxley', 2.0),
  ):
    if peers.version(package) is None:
      continue
    found = np.load(folder / 'checkpoints' / f'{unit}.npz')
    assert found['apart'] < tolerance
  if peers.version('jaxley'):
    assert found['spikes'] == 1
    assert found['steps late'] <= 1


def test_an_absent_peer_is_a_row_without_numbers(monkeypatch):
  monkeypatch.setattr(peers, 'version', lambda package: None)
  config = ml_collections.ConfigDict({'peers': True, 'neuron_cells': (1,)})
  rows = experiment_speed._peer_rows(config, {})
  assert [row['system'] for row in rows] == ['NEURON', 'Jaxley']
  assert [row['note'] for row in rows] == ['not installed'] * 2


@pytest.mark.slow
def test_checkpoints_save_memory(runs):
  folder, summary = runs('gap_vs_remat')
  rows = table(folder, 'remat')
  need = {(r['remat'], int(r['steps'])): float(r['MiB']) for r in rows}
  assert need['sqrt', 64] < need['none', 64] / 2
  assert need['sqrt', 64] < 3 * need['sqrt', 16]
  memory, proportional, _ = summary['claims']
  # Twice the memory for four times the steps, and four times.
  assert memory['measured'] < 0.6
  assert proportional['measured'] > 0.7


def test_settings_are_checked(tmp_path):
  for flag in (
    '--config.repeats=1',
    '--config.steps=(4,)',
    '--config.batch_steps=(4,)',
  ):
    code = main.main(
      ['run', 'dendrites/speed:test', f'--workdir={tmp_path / "x"}', flag]
    )
    assert code == 2
