"""Runs all golden cases of the family; a kind has one check."""

import builtins

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import errors, fairness
from jaxlab.data import acs, adult, compas, fico, german
from jaxlab.fairness import (
  baselines,
  calibration,
  metrics,
  reliability,
  types,
)
from tests.golden import Golden

GOLDEN = Golden('sufficiency')
# All groups are padded to as many atoms, so that few programs are compiled.
WIDTH = 200
# Rates of a share of people smaller than this are rounding.
NEGLIGIBLE = 1e-9


@pytest.fixture(autouse=True)
def x64():
  with jax.enable_x64(True):
    yield


def assert_close(found, expected, case, name):
  np.testing.assert_allclose(
    np.asarray(found, float),
    np.asarray(expected, float),
    rtol=0,
    atol=case['tolerance'] + 1e-15,
    err_msg=name,
  )


def padded_groups(scores, groups, weight):
  atoms = np.unique(np.stack([groups, scores]), axis=1)[0].astype(int)
  width = max(WIDTH, np.bincount(atoms).max())
  return fairness.make_groups(scores, groups, weight, max_atoms=width)


def listed_groups(case):
  """The `GroupScores` of a case that lists atoms."""
  rows = [
    (score, group, weight * mass)
    for group, (atoms, weight) in enumerate(
      zip(case['groups'], case['weights'], strict=True)
    )
    for score, mass in zip(atoms['scores'], atoms['mass'], strict=True)
  ]
  return padded_groups(
    *(np.array(column) for column in zip(*rows, strict=True))
  )


def fico_groups(case):
  folder = GOLDEN.data_folder('fico*_cdf_*', 'fico*_perf*', 'fico_totals*')
  return padded_groups(*fico.as_rows(fico.load_fico(folder, case['columns'])))


def groups_of(case):
  return fico_groups(case) if 'columns' in case else listed_groups(case)


def costs(case):
  return {name: case.get(name, 1.0) for name in ('cost_fp', 'cost_fn')}


def gap_weights(case):
  return {name: case.get(name, 1.0) for name in ('tpr_weight', 'fpr_weight')}


class Measured:
  """What a rule does, from `rho` and the atoms alone."""

  def __init__(self, gs, rho, cost_fp=1.0, cost_fn=1.0):
    s, w, g = (np.asarray(each) for each in gs[:3])
    rho = np.asarray(rho)
    assert rho.shape == s.shape
    assert ((rho >= 0) & (rho <= 1)).all()
    tp, fp = (w * s * rho).sum(1), (w * (1 - s) * rho).sum(1)
    fn, tn = (w * s * (1 - rho)).sum(1), (w * (1 - s) * (1 - rho)).sum(1)
    self.rate = tp + fp
    self.ppv = self._ratio(tp, tp + fp)
    self.for_ = self._ratio(fn, fn + tn)
    self.tpr = self._ratio(tp, tp + fn)
    self.fpr = self._ratio(fp, fp + tn)
    self.loss = g @ (cost_fp * fp + cost_fn * fn)

  @staticmethod
  def _ratio(part, whole):
    safe = np.where(whole > NEGLIGIBLE, whole, np.nan)
    return part / safe

  def gap(self, *names):
    return max(np.ptp(getattr(self, name)) for name in names)


def check_rule(solution, gs, expected, case, name):
  """Compares a solution with a case, and its numbers with its own rule."""
  for field, value in expected.items():
    assert_close(getattr(solution, field), value, case, f'{name}: {field}')
  rule = Measured(gs, solution.rho, **costs(case))
  assert_close(rule.loss, solution.loss, case, f'{name}: loss of rho')
  assert_close(rule.rate, solution.selection_rate, case, f'{name}: rate of rho')
  for field in ('ppv', 'for_'):
    rates = getattr(rule, field)
    right = np.broadcast_to(np.asarray(getattr(solution, field)), rates.shape)
    seen = np.isfinite(rates)
    assert_close(rates[seen], right[seen], case, f'{name}: {field} of rho')
  for field in ('tpr', 'fpr'):
    gap = getattr(solution, f'{field}_gap')
    assert_close(rule.gap(field), gap, case, f'{name}: {field} gap of rho')


def check_optimum(case, gs=None):
  compare_optimum(case['expect'], groups_of(case) if gs is None else gs, case)


def compare_optimum(expect, gs, case):
  base = jnp.sum(gs.scores * gs.mass, axis=1)
  region = fairness.feasible_region(gs)
  best = fairness.optimal_sufficient(gs, **costs(case))
  closest = fairness.min_separation(gs, **gap_weights(case), **costs(case))
  assert int(region.status) == expect['status']
  for solution in (best, closest):
    assert int(solution.status) == expect['status']
    if expect['status'] == types.INFEASIBLE:
      assert np.isnan(solution.loss)
      assert np.isnan(solution.rho).all()
  weight = gap_weights(case)
  values = {
    'group_base_rates': base,
    'pooled_base_rate': base @ gs.weight,
    'p_interval': [region.lo, region.pmax],
    'lo': region.lo,
    'hi': region.hi,
    'qcap': region.qcap,
    'Q_at_lo': region.q_at_lo,
    'separation_value': weight['tpr_weight'] * closest.tpr_gap
    + weight['fpr_weight'] * closest.fpr_gap,
  }
  for name, expected in expect.items():
    if name in values:  # null stands for nan
      assert_close(values[name], expected, case, name)
  rules = {'loss_optimum': best, 'separation_optimum': closest}
  for name, solution in rules.items():
    if name in expect:
      check_rule(solution, gs, expect[name], case, name)
  known = {'status', *values, *rules}
  assert set(expect) <= known, set(expect) - known


def check_compas_optimum(case):
  folder = GOLDEN.data_folder('compas*')
  table = compas.load_compas(folder, filter=case['filter'])
  pooled = {'pooled': True, 'group': False}[case['score']]
  scores, groups = compas.decile_scores(table, case['races'], pooled=pooled)
  assert scores.size == case['rows']
  check_optimum(case, padded_groups(scores, groups, None))


def check_fico_bayes(case):
  gs, expect = fico_groups(case), case['expect']
  solution = baselines.bayes(gs, **costs(case))
  found = {
    'accuracy': 1 - solution.loss,
    'ppv': solution.ppv,
    'for_': solution.for_,
  }
  for name, value in expect.items():
    assert_close(found[name], value, case, name)
  check_rule(solution, gs, {}, case, 'bayes')


def check_boundary(case):
  gs = padded_groups(
    np.array(case['scores']),
    np.zeros(len(case['scores']), int),
    np.array(case['mass']),
  )
  boundary = fairness.group_boundary(gs)
  assert_close(boundary.pi, [case['base_rate']], case, 'base rate')
  means = case['prefix_means']
  assert_close(boundary.P[0, 1 : len(means) + 1], means, case, 'prefix means')
  p = jnp.array(case['p'])
  found = fairness.for_lower(boundary, p)
  assert_close(found, [case['q_lower']], case, 'lowest FOR')
  outside = fairness.for_lower(
    boundary, jnp.array([means[-1], means[0] + 0.01])
  )
  assert np.isnan(outside).all()


def check_baseline(case):
  gs = groups_of(case)
  equalised = {
    'statistical_parity': ('rate',),
    'equalized_odds': ('tpr', 'fpr'),
    'equal_opportunity': ('tpr',),
  }
  for name, expect in case['expect'].items():
    solution = getattr(baselines, name)(gs, **costs(case))
    check_rule(solution, gs, {'loss': expect['loss']}, case, name)
    rule = Measured(gs, solution.rho, **costs(case))
    found = {
      'gap': rule.gap(*equalised[name]),
      'rate0': rule.rate[0],
      'tpr0': rule.tpr[0],
      'fpr0': rule.fpr[0],
    }
    for field in set(expect) - {'loss'}:
      assert_close(found[field], expect[field], case, f'{name}: {field}')


def check_separation_norm(case):
  gs, norm = groups_of(case), case['norm']
  expect = dict(case['expect'])
  solution = fairness.min_separation(gs, norm=norm, **costs(case))
  base = float(jnp.sum(gs.scores * gs.mass, axis=1) @ gs.weight)
  tpr_gap, fpr_gap = float(solution.tpr_gap), float(solution.fpr_gap)
  value = {
    'sum': tpr_gap + fpr_gap,
    'max': max(tpr_gap, fpr_gap),
    'label_weighted': base * tpr_gap + (1 - base) * fpr_gap,
  }[norm]
  assert_close(value, expect.pop('separation_value'), case, norm)
  check_rule(solution, gs, expect, case, norm)


def check_loose_rule(solution, gs, expect, case, name):
  """As `check_rule`, for a rule whose undefined rates do not count."""
  rule = Measured(gs, solution.rho, **costs(case))
  assert_close([solution.loss, rule.loss], [expect['loss']] * 2, case, name)
  for field in ('ppv', 'for_'):
    for rates in (getattr(rule, field), np.ravel(getattr(solution, field))):
      defined = rates[np.isfinite(rates)]
      assert defined.size
      right = np.full(defined.shape, expect[field])
      assert_close(defined, right, case, f'{name}: {field}')


def check_vacuous(case):
  gs, expect = listed_groups(case), case['expect']
  compare_optimum(expect['closure'], gs, case)
  solution = fairness.optimal_sufficient(gs, vacuous='allow', **costs(case))
  check_loose_rule(solution, gs, expect['allow'], case, 'allow')


def check_branch(case):
  gs = listed_groups(case)
  for branch, expect in case['expect'].items():
    solution = fairness.optimal_sufficient(gs, branch=branch, **costs(case))
    check_rule(solution, gs, expect, case, branch)


def check_isotonic(case):
  x, query = np.array(case['x'], float), np.array(case['query'], float)
  state = calibration.fit_calibrator(
    'isotonic', x, case['y'], np.zeros(x.size, int), case['weight']
  )
  found = calibration.apply_calibrator(state, query, np.zeros(query.size, int))
  assert_close(found, case['expect'], case, 'isotonic')


def check_metrics(found, expect, case):
  for name, value in expect.items():
    assert_close(getattr(found, name), value, case, name)


def check_single_threshold(case):
  rows = [
    (label, score >= case['threshold'], group, joint[label])
    for group, atoms in enumerate(case['groups'])
    for score, joint in zip(atoms['scores'], atoms['joint'], strict=True)
    for label in (0, 1)
  ]
  y, r, groups, weight = (np.array(each) for each in zip(*rows, strict=True))
  number = len(case['groups'])
  found = metrics.group_metrics(y, r.astype(float), groups, number, weight)
  expect = dict(case['expect'])
  equal = expect.pop('equal_across_groups')
  check_metrics(found, expect, case)
  rates = [name for name in expect if name != 'n']
  assert equal == [
    name for name in rates if np.ptp(getattr(found, name)) <= case['tolerance']
  ]


def check_rates_from_counts(case):
  counts = case['counts']
  found = metrics.group_metrics(
    np.array([1, 0, 1, 0]),
    np.array([1.0, 1.0, 0.0, 0.0]),
    np.zeros(4, int),
    1,
    np.array([counts[name] for name in ('tp', 'fp', 'fn', 'tn')]),
  )
  expect = {name: [value] for name, value in case['expect'].items()}
  check_metrics(found, expect, case)


def check_separation_gaps(case):
  found = fairness.separation_gaps(
    jnp.array(case['tpr']), jnp.array(case['fpr'])
  )
  expect = [case['expect'][name] for name in ('sum', 'max')]
  assert_close(found, expect, case, 'gaps')


def check_make_groups(case):
  rows = [case[name] for name in ('scores', 'groups', 'sample_weight')]
  gs, expect = fairness.make_groups(*rows), case['expect']
  assert gs.n_atoms.tolist() == expect['n_atoms']
  assert_close(gs.weight, expect['weight'], case, 'weight')
  for group, count in enumerate(expect['n_atoms']):
    for name in ('scores', 'mass'):
      row = getattr(gs, name)[group]
      assert_close(row[:count], expect[name][group], case, name)
    assert not gs.mass[group, count:].any()


def check_decide_frequency(case):
  draws, expect = case['draws'], case['expect']
  gs = fairness.make_groups([0.5], [0])
  rule = baselines.bayes(gs)._replace(rho=jnp.full((1, 1), case['rho']))

  @jax.jit
  def decisions(seed):
    keys = jax.random.split(jax.random.key(seed), draws)
    one = jnp.full(1, 0.5), jnp.zeros(1, int)
    return jax.vmap(lambda key: fairness.decide(key, rule, gs, *one)[0])(keys)

  first, again, other = (np.asarray(decisions(s)) for s in (0, 0, 1))
  assert_close(first.mean(), expect['mean'], case, 'mean')
  assert (first == again).all() == expect['same_key_same_decision']
  assert (first != other).any() == expect['different_keys_differ']


def check_bad_input(case):
  args, name = dict(case['args']), case['function']
  if isinstance(args.get('groups', [0])[0], dict):
    weights = args.pop('weights')
    args['gs'] = listed_groups(
      {'groups': args.pop('groups'), 'weights': weights}
    )
  rooms = (fairness, baselines, calibration, metrics, reliability)
  rooms += (fico, compas, adult, german, acs)
  function = next(getattr(room, name) for room in rooms if hasattr(room, name))
  raises = next(
    getattr(room, case['raises'])
    for room in (builtins, errors, types)
    if hasattr(room, case['raises'])
  )
  with pytest.raises(raises) as caught:
    function(**args)
  missing = [text for text in case['match'] if text not in str(caught.value)]
  assert not missing, str(caught.value)


CHECKS = {
  'optimum': check_optimum,
  'fico_optimum': check_optimum,
  'compas_optimum': check_compas_optimum,
  'fico_bayes': check_fico_bayes,
  'boundary': check_boundary,
  'baseline': check_baseline,
  'fico_baseline': check_baseline,
  'separation_norm': check_separation_norm,
  'vacuous': check_vacuous,
  'branch': check_branch,
  'isotonic': check_isotonic,
  'single_threshold': check_single_threshold,
  'rates_from_counts': check_rates_from_counts,
  'separation_gaps': check_separation_gaps,
  'make_groups': check_make_groups,
  'decide_frequency': check_decide_frequency,
  'bad_input': check_bad_input,
}


@pytest.mark.parametrize('case', GOLDEN.parameters())
def test_case(case):
  check = CHECKS.get(case['kind'])
  assert check is not None, f'no check for cases of kind {case["kind"]!r}'
  check(case)
