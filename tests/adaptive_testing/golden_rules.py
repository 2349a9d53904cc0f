"""Checks of the golden cases about rules that choose items."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.adaptive_testing import exposure, models, simulate, state
from jaxlab.adaptive_testing.selectors import becat, kullback_leibler, selector
from jaxlab.adaptive_testing.types import item_bank

KEY = jax.random.key(0)
ask = jax.jit(simulate.choose_items, static_argnums=0)
recorded = jax.jit(state.recorded_state)
item_information = jax.jit(models.item_information)


@functools.partial(jax.jit, static_argnums=0)
def score(rule, params, bank, cat):
  return rule.score(params, KEY, bank, cat)


def at(bank, theta, answered=(), **known):
  """One examinee whose estimate is theta after some items."""
  items = np.full((1, bank.num_items), -1, np.int32)
  items[0, : len(answered)] = answered
  cat = recorded(bank, items, np.zeros(items.shape))
  theta = jnp.asarray(theta, cat.theta.dtype)[None]
  return cat._replace(theta=theta, **known)


def chosen(name, bank, cat, **options):
  rule = selector(name)
  params = rule.init(KEY, bank)
  return ask(rule, params, bank, cat, KEY, **options)[0]


def case_select_mfi(case):
  bank = item_bank(case['a'], case['b'], case['c'])
  cat = at(bank, case['theta'], case.get('answered', ()))
  info = score(selector('mfi'), (), bank, cat)[0]
  np.testing.assert_allclose(
    info, case['expect']['info'], atol=case['tolerance']
  )
  assert chosen('mfi', bank, cat)[0] == case['expect']['selected']


def case_kli(case):
  bank = item_bank(case['a'], case['b'], case['c'])
  theta, delta = jnp.asarray([case['theta']]), jnp.asarray([case['delta']])
  found = jax.jit(kullback_leibler.kl_integral)(bank, theta, delta)[0]
  wanted = case['expect']['kli']
  np.testing.assert_allclose(found, wanted, atol=case['tolerance'])
  # The rule finds the same width from the number of answers.
  answered = state.initial_state(bank, 1)
  count = case['n_answered']
  asked = (jnp.arange(bank.num_items) < count)[None]
  cat = answered._replace(asked=asked, theta=theta)
  found = score(selector('kli'), (), bank, cat)[0]
  np.testing.assert_allclose(found, wanted, atol=case['tolerance'])


def case_select_doptimal(case):
  bank = item_bank(np.array(case['a']), case['intercept_d'])
  expect, answered = case['expect'], case['answered']
  theta = jnp.asarray(case['theta'])
  each = item_information(bank, theta)
  close = {'atol': case['tolerance']}
  np.testing.assert_allclose(each, expect['item_information'], **close)
  before = jnp.asarray(case['prior_precision'])
  before = before + each[jnp.asarray(answered)].sum(0)
  cat = at(bank, theta, answered, info=before[None])
  gain = score(selector('mfi'), (), bank, cat)[0]
  after = np.linalg.det(before) * np.exp(gain)
  for item, wanted in enumerate(expect['det_after']):
    if wanted is not None:
      np.testing.assert_allclose(after[item], wanted, **close)
  assert chosen('mfi', bank, cat)[0] == expect['selected']


def case_randomesque(case):
  bank = item_bank(case['a'], case['b'])
  cat = state.initial_state(bank, case['n_draws'])
  theta = jnp.full(case['n_draws'], case['theta'])
  items = chosen(
    *('mfi', bank, cat._replace(theta=theta)),
    exposure=exposure.Randomesque(case['k']),
  )
  expect = case['expect']
  share = np.bincount(items, minlength=bank.num_items) / case['n_draws']
  assert set(np.flatnonzero(share)) == set(expect['allowed'])
  assert share[expect['allowed']].min() >= expect['each_allowed_min_freq']


def case_becat_full(case):
  bank, grid = item_bank(case['a'], case['b']), case['grid']
  assert grid['high'] == -grid['low']
  options = {'num_points': grid['num'], 'bound': grid['high']}
  rule = selector('becat_full', **options)
  table = jax.jit(rule.init)(KEY, bank)
  chance = models.prob(bank, case['theta'])
  expect = case['expect']
  np.testing.assert_allclose(
    becat.expected_distance(table, chance),
    expect['expected_max_gradient_difference'],
    atol=case['tolerance'],
  )
  order = []
  for _ in range(case['test_length']):
    cat = at(bank, case['theta'], order)
    item, _ = ask(rule, table, bank, cat, KEY)
    order.append(int(item[0]))
  assert order == expect['greedy_order']
