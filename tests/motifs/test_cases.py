"""Runs all golden cases of the family; a kind has one check."""

import builtins
import csv
import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import motifs
from jaxlab.data import connectome
from tests.golden import Golden

GOLDEN = Golden('motif_rnn')
KEY = jax.random.key(0)


@pytest.fixture(autouse=True)
def x64():
  with jax.enable_x64(True):
    yield


def module(name):
  """A module of the family that only some kinds need."""
  full = f'jaxlab.motifs.{name}'
  if importlib.util.find_spec(full) is None:
    pytest.skip(f'{full} is not here')
  return importlib.import_module(full)


def assert_close(found, expected, case, name=''):
  found, expected = np.asarray(found, float), np.asarray(expected, float)
  assert found.shape == expected.shape, name
  allowed = case.get('atol', 0) + case.get('rtol', 0) * np.abs(expected)
  assert (np.abs(found - expected) <= allowed).all(), (name, found, expected)


def graph_of(inputs):
  """The adjacency of a case, with its loops."""
  if 'matrix' in inputs:
    return np.asarray(inputs['matrix'])
  if 'file' in inputs:
    name = inputs['file'].rpartition('/')[2]
    folder = GOLDEN.data_folder(name)
    return connectome.adjacency(connectome.read_file(folder / name))
  A = np.zeros((inputs['num_nodes'],) * 2, int)
  for source, target in inputs['edges']:
    A[source, target] = 1
  return A


def check_triads(found, expected):
  """Compares a `[16]` census, which knows the number of all triples."""
  counts = [int(count) for count in found]
  assert counts[3:] == expected['counts']
  for name, count in expected.get('triads16', {}).items():
    assert counts[motifs.TRIADS.index(name)] == count


def census(case):
  inputs, expected = case['inputs'], case.get('expected', {})
  A = graph_of(inputs)
  checked = motifs.check_adjacency(A)
  found = motifs.triad_census(A)
  assert found.dtype == np.int64
  check_triads(found, expected)
  rows, cols = np.nonzero(A)
  check_triads(motifs.sparse_census(rows, cols, len(A), full=True), expected)
  assert motifs.census(A).tolist() == expected['counts']
  sizes = {
    'loops_ignored': checked.loops_ignored,
    'num_nodes': len(A),
    'num_edges': int(checked.A.sum()),
    'mutual_pairs': int((checked.A & checked.A.T).sum()) // 2,
  }
  for name in sizes.keys() & expected.keys():
    assert sizes[name] == expected[name], name
  if 'file' in inputs:
    check_file(inputs['file'], len(A), sizes['num_edges'])


def check_file(name, num_nodes, num_edges):
  """The reader against the lines of the file."""
  name = name.rpartition('/')[2]
  with (GOLDEN.data_folder(name) / name).open() as stream:
    lines = list(csv.DictReader(stream))
  assert num_edges == len(lines)
  assert num_nodes == len(
    {row[end] for row in lines for end in ('pre', 'post')}
  )


def sparse_census(case):
  inputs = case['inputs']
  edges = inputs['rows'], inputs['cols'], inputs['num_nodes']
  check_triads(motifs.sparse_census(*edges, full=True), case['expected'])
  assert motifs.sparse_census(*edges).tolist() == case['expected']['counts']


def expected_census(case):
  inputs = case['inputs']
  if 'P' in inputs:
    P = np.array(inputs['P'])
  else:
    P = inputs['p'] * (1 - np.eye(inputs['num_nodes']))
  assert_close(motifs.expected_census(P), case['expected']['counts'], case)


def motif_layer(case):
  name, expected = case['inputs']['motif'], case['expected']
  assert motifs.layer_of(name) == expected['layer']
  assert motifs.layer_of(name, by='scc') == expected['layer_by_scc']


def cycle_products(case):
  W = jnp.array(case['inputs']['W'], float)
  found = module('dynamics').origin_stability(W, jnp.ones(3))
  traces = [2 * found.c2, 3 * found.c3]
  names = ['c2', 'c3', 'trace_W2', 'trace_W3']
  for name, value in zip(names, [found.c2, found.c3, *traces], strict=True):
    assert_close(value, case['expected'][name], case, name)
  powers = [np.trace(np.linalg.matrix_power(np.asarray(W), n)) for n in (2, 3)]
  assert_close(powers, traces, case)


def origin_stability(case):
  dynamics = module('dynamics')
  inputs, expected = case['inputs'], case.get('expected', {})
  found = dynamics.origin_stability(
    np.array(inputs['W'], float), np.array(inputs['tau'], float)
  )
  for name, value in expected.items():
    if name == 'state':
      assert dynamics.STATES[int(found.state)] == value
    else:
      assert_close(getattr(found, name), value, case, name)


def lyapunov_spectrum(case):
  inputs, expected = dict(case['inputs']), case['expected']
  system, steps = inputs.pop('system'), inputs.pop('steps')
  x0 = jnp.array(inputs.pop('x0'), float)
  options = {
    name: np.array(value, float) if isinstance(value, list) else value
    for name, value in inputs.items()
  }
  step = getattr(module('systems'), system)(**options)
  spectrum = module('lyapunov').lyapunov_spectrum(
    step, x0, n_steps=steps, dt=inputs.get('dt', 1.0), every=1
  )
  exponents = np.asarray(spectrum.exponents)
  assert (np.diff(exponents) <= case['atol']).all()
  for name, value in expected.items():
    found = {
      'exponents': exponents,
      'sum': exponents.sum(),
      'first': exponents[0],
    }[name]
    assert_close(found, value, case, name)


def rewire(case):
  inputs, expected = case['inputs'], case['expected']
  before = motifs.check_adjacency(graph_of(inputs)).A
  keys = jax.random.split(KEY, 3)
  for graph in np.asarray(
    jax.vmap(lambda k: motifs.rewire(k, before, inputs['null']))(keys)
  ):
    both = [x & x.T for x in (before, graph)]
    kept = {
      'in_degree': (graph.sum(0) == before.sum(0)).all(),
      'out_degree': (graph.sum(1) == before.sum(1)).all(),
      'mutual_degree': (both[0].sum(1) == both[1].sum(1)).all(),
      'simple': graph.dtype == bool and not graph.diagonal().any(),
    }
    assert all(kept[name] for name in expected['keeps']), kept
    assert graph.sum() == expected['num_edges']
    if 'mutual_pairs' in expected:
      assert both[1].sum() // 2 == expected['mutual_pairs']
    if expected.get('unchanged'):
      assert (graph == before).all()
    if expected.get('census_changes'):
      assert motifs.census(graph).tolist() != motifs.census(before).tolist()


def check_target(case):
  assert motifs.check_target(**case['inputs']) == case['expected']['feasible']


def tile(case):
  inputs = case['inputs']
  A, placements = motifs.tile(
    KEY,
    inputs['motif'],
    num_nodes=inputs['num_nodes'],
    copies=inputs['copies'],
  )
  A, nodes = np.asarray(A), np.asarray(placements.nodes)
  assert len(nodes) == case['expected']['copies']
  assert A.sum() == case['expected']['num_edges']
  dyads = [
    frozenset((n[a], n[b])) for n in nodes for a, b in ((0, 1), (0, 2), (1, 2))
  ]
  assert len(set(dyads)) == 3 * len(nodes)
  for each in nodes:
    wanted = motifs.adjacency(inputs['motif'])
    assert (A[np.ix_(each, each)] >= wanted).all()


def period_steps(case):
  found = module('tasks').period_steps(**case['inputs'])
  assert found == case['expected']['steps']


def task_trial(case):
  tasks = module('tasks')
  inputs, expected = case['inputs'], case['expected']
  options = {'periods_ms': inputs['periods_ms'], 'noise': 0.0}

  def sample(dt_ms):
    task = tasks.make(inputs['task'], dt_ms=dt_ms, **options)
    return [np.asarray(x) for x in task.sample(KEY, 8)]

  x, target, mask = sample(inputs['dt_ms'])
  steps = expected['steps']
  for name, count in steps.items():
    period = inputs['periods_ms'][name]
    assert tasks.period_steps(period, inputs['dt_ms']) == count
  total, response = sum(steps.values()), sum(steps.values()) - steps['response']
  shown = slice(steps['fixation'], steps['fixation'] + steps['stimulus'])
  outside = np.ones(len(x), bool)
  outside[shown] = False
  choice = target[response]
  cue, waits = x[:total, :, 0] == 0, target[:total] == 0
  checks = {
    'fixation_cue': (x[:response, :, 0] == 1).all() and cue[response:].all(),
    'stimulus_only_in_its_period': (
      (x[outside, :, 1:] == 0).all() and (x[shown, :, 1:] != 0).any()
    ),
    'target_fixate_then_choice': (
      waits[:response].all()
      and (choice >= 1).all()
      and (target[response:total] == choice).all()
    ),
    'mask_covers_all_steps': (
      (mask[:total] == 1).all() and (mask[total:] == 0).all()
    ),
    'inputs_and_targets_aligned': (cue.argmax(0) == (~waits).argmax(0)).all(),
  }
  if 'other_dt_ms' in inputs:
    other = sample(inputs['other_dt_ms'])[1]
    checks['choice_independent_of_dt'] = (other.max(0) == target.max(0)).all()
  assert len(set(choice.tolist())) > 1
  for name in expected['checks']:
    assert checks[name], name


CHECKS = {
  check.__name__: check
  for check in (
    census,
    sparse_census,
    expected_census,
    motif_layer,
    cycle_products,
    origin_stability,
    lyapunov_spectrum,
    rewire,
    check_target,
    tile,
    period_steps,
    task_trial,
  )
}


@pytest.mark.filterwarnings('ignore:A == A.T')
@pytest.mark.parametrize('case', GOLDEN.parameters())
def test_case(case):
  assert case['kind'] in CHECKS, f'unknown kind {case["kind"]!r}'
  check = CHECKS[case['kind']]
  if 'raises' not in case:
    check(case)
    return
  kind = getattr(motifs, case['raises'], None) or getattr(
    builtins, case['raises']
  )
  with pytest.raises(kind) as caught:
    check(case)
  for part in case['match']:
    assert part in str(caught.value)
