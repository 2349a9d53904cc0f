"""The scan over items, beside tests of one examinee after the other."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import (
  simulate,
  synthetic,
  types,
)
from jaxlab.adaptive_testing.selectors import SELECTORS, mfi, random, selector
from jaxlab.errors import UserError
from tests.adaptive_testing import reference
from tests.adaptive_testing.small import (
  KEY,
  OPEN,
  RECORDED,
  THETA,
  A,
  B,
  C,
  E,
  N,
  T,
  Y,
  answer,
  ask,
  play,
)


def test_fisher_information_asks_as_a_loop_in_float64_does(trace):
  for row in range(E):
    items, path = reference.run_mfi(A, B, C, Y[row], OPEN[row], T)
    np.testing.assert_array_equal(trace.items[:, row], items)
    np.testing.assert_allclose(trace.theta[:, row], path, atol=2e-4)


def test_standard_errors_are_those_of_the_posterior(trace):
  for row in (0, 5, 9):
    items = np.asarray(trace.items[:, row])
    log_post = reference.log_posterior(
      A[items], B[items], C[items], Y[row, items]
    )
    weight = np.exp(log_post)
    mean = weight @ reference.GRID
    sd = np.sqrt(weight @ (reference.GRID - mean) ** 2)
    np.testing.assert_allclose(trace.se[-1, row], sd, rtol=1e-4)


def sit(bank, rule, y, available=OPEN):
  """Items by the steps of the scan, which all rules have in common."""
  params = jax.jit(rule.init)(KEY, bank)
  cat = simulate.initial_state(bank, E, available, test_length=T)
  for _ in range(T):
    item, _ = ask(rule, params, bank, cat, KEY)
    cat = answer(bank, cat, item, y[np.arange(E), item], 'eap')
  return cat


@pytest.mark.parametrize('name', SELECTORS)
def test_no_rule_sees_what_was_not_asked(bank, name):
  before = sit(bank, selector(name), Y)
  assert np.all(OPEN | ~np.asarray(before.asked))
  np.testing.assert_array_equal(before.asked.sum(1), np.full(E, T))
  flipped = np.where(before.asked, Y, 1 - Y)
  chex.assert_trees_all_equal(before, sit(bank, selector(name), flipped))
  # The answers to what was asked do matter to what follows.
  if name != 'random':
    other = sit(bank, selector(name), 1 - Y)
    assert np.any(np.asarray(other.items) != np.asarray(before.items))


def test_the_scan_sees_nothing_that_was_not_asked(bank, trace):
  flipped = np.where(trace.asked, RECORDED, 1 - RECORDED)
  chex.assert_trees_all_equal(play(bank, responses=flipped), trace)


@pytest.mark.parametrize('name', ['mfi', 'kli', 'mpwi', 'mepv', 'maat'])
def test_ties_go_to_the_lowest_index_and_empty_items_come_last(name):
  a = np.zeros(N)
  a[[3, 5, 6, 9]] = [1.2, 1.2, 1.2, 0.4]
  twins = types.item_bank(a, np.where(a == 1.2, 0.3, 1.0))
  everything = np.ones((E, N), bool)
  found = sit(twins, selector(name), Y, everything)
  for items in np.asarray(found.items).tolist():
    assert sorted(items[:4]) == [3, 5, 6, 9]
    assert [item for item in items[:4] if item != 9] == [3, 5, 6]
    assert items[4:] == [0, 1]


def test_answers_where_nothing_is_available_do_not_matter(bank, trace):
  for value in (0, 1, 7):
    found = play(bank, responses=np.where(OPEN, Y, value))
    chex.assert_trees_all_equal(found, trace)


def test_order_of_examinees_does_not_matter(bank, trace):
  order = np.random.default_rng(0).permutation(E)
  found = play(bank, responses=RECORDED[order], available=OPEN[order])
  np.testing.assert_array_equal(found.items, trace.items[:, order])
  np.testing.assert_allclose(found.theta, trace.theta[:, order], atol=1e-5)


def test_order_of_items_does_not_matter(trace):
  order = np.random.default_rng(1).permutation(N)
  shuffled = types.item_bank(A[order], B[order], C[order])
  found = play(shuffled, responses=RECORDED[:, order], available=OPEN[:, order])
  np.testing.assert_array_equal(order[np.asarray(found.items)], trace.items)


class Variants(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_jit_changes_nothing(self):
    bank = types.item_bank(A, B, C)
    run = functools.partial(simulate.run_cat, mfi(), test_length=T, key=KEY)
    found = self.variant(
      lambda bank, y, open_: run((), bank, y, available=open_)
    )(bank, jnp.asarray(RECORDED), jnp.asarray(OPEN))
    wanted = play(bank)
    chex.assert_trees_all_close(found, wanted, atol=1e-5)


def test_banks_may_be_vmapped(bank):
  scale = jnp.asarray([0.5, 1.0, 2.0])

  def run(scale):
    return play(bank._replace(a=scale * bank.a)).theta[-1]

  found = jax.vmap(run)(scale)
  for row, factor in zip(found, scale, strict=True):
    np.testing.assert_allclose(row, run(factor), atol=1e-4)


@pytest.mark.slow
def test_gradients_flow_through_the_estimates(bank):
  def last(a):
    return jnp.sum(play(bank._replace(a=a)).theta[-1])

  slope = np.asarray(jax.jit(jax.grad(last))(bank.a))
  steepest = int(np.argmax(np.abs(slope)))
  step = jnp.zeros(N).at[steepest].set(3e-3)
  wanted = (last(bank.a + step) - last(bank.a - step)) / 6e-3
  np.testing.assert_allclose(slope[steepest], wanted, rtol=0.02)


def draw(bank, rule=None, **options):
  options = {'test_length': T, 'key': KEY} | options
  return simulate.run_cat(rule or mfi(), (), bank, true_theta=THETA, **options)


def test_chunks_change_nothing(bank):
  whole, parts = draw(bank), draw(bank, chunk=7)
  chex.assert_trees_all_close(whole, parts, atol=1e-5)


def test_drawn_answers_have_the_chances_of_the_model(bank):
  rounds = 200
  first = int(draw(bank).items[0, 0])
  # One answer: the estimate tells which it was.
  right = [
    draw(bank, key=jax.random.key(i)).theta[0] > 0 for i in range(rounds)
  ]
  p = reference.prob(A[first], B[first], C[first], THETA)
  deviation = (np.sum(right, axis=0) - rounds * p) / np.sqrt(
    rounds * p * (1 - p)
  )
  assert abs(deviation).max() < 4
  assert np.sqrt(np.mean(deviation**2)) < 1.4


def test_an_examinee_answers_an_item_alike_whoever_asks(bank):
  six = np.zeros((E, N))
  six[:, [0, 2, 3, 7, 8, 11]] = 1
  one, other = (draw(bank, rule, available=six) for rule in (mfi(), random()))
  assert np.any(np.asarray(one.items) != np.asarray(other.items))
  np.testing.assert_allclose(one.theta[-1], other.theta[-1], atol=2e-4)
  again = draw(bank, available=six, key=jax.random.key(1))
  assert np.any(np.abs(again.theta[-1] - one.theta[-1]) > 0.1)


def test_all_right_and_all_wrong(bank):
  same = np.broadcast_to(np.arange(E)[:, None] % 2, (E, N))
  found = play(bank, responses=same)
  theta = np.asarray(found.theta)
  assert np.all(np.isfinite(theta))
  assert np.all(np.diff(theta[:, 0::2], axis=0) < 0)
  assert np.all(np.diff(theta[:, 1::2], axis=0) > 0)


@pytest.mark.slow
def test_float64_is_kept():
  with jax.enable_x64(True):
    found = play(types.item_bank(A, B, C))
    assert found.theta.dtype == jnp.float64
    items, path = reference.run_mfi(A, B, C, Y[2], OPEN[2], T)
    np.testing.assert_array_equal(found.items[:, 2], items)
    np.testing.assert_allclose(found.theta[:, 2], path, atol=1e-7)


@pytest.mark.parametrize(
  ('change', 'words'),
  [
    ({'responses': None}, 'responses or true_theta'),
    ({'responses': Y + 1}, r'responses\[0, \d+\] = 2'),
    ({'available': OPEN[:, :3]}, 'available has the shape'),
    ({'responses': RECORDED[0]}, 'responses has the shape'),
    ({'test_length': 0}, 'test_length = 0'),
    ({'test_length': N}, 'examinee 0 has'),
    ({'estimator': 'wle'}, 'map, eap, mle'),
    ({'chunk': 0}, 'chunk = 0'),
  ],
)
def test_bad_input(bank, change, words):
  with pytest.raises(UserError, match=words):
    play(bank, **change)


def test_the_first_examinee_with_too_few_items_is_named(bank):
  few = np.ones((E, N))
  few[[5, 9], 2:] = 0
  with pytest.raises(UserError, match='examinee 5 has 2 available items'):
    play(bank, responses=Y, available=few)


def test_true_abilities_must_fit_the_bank(bank):
  with pytest.raises(UserError, match='responses has no examinee'):
    play(bank, responses=np.zeros((0, N)), available=None)
  with pytest.raises(UserError, match='true_theta has the shape'):
    simulate.run_cat(
      *(mfi(), (), bank), true_theta=np.zeros((3, 2)), test_length=2, key=KEY
    )


def test_unknown_rules_are_told_the_names():
  with pytest.raises(UserError, match='mfi, kli'):
    selector('best')
  assert all(selector(name) is selector(name) for name in SELECTORS)


def test_rules_that_do_not_fit_are_named(bank):
  flat = types.Selector(lambda key, bank: (), lambda *_: jnp.zeros(E), 'flat')
  with pytest.raises(UserError, match="rule 'flat' gives scores of the shape"):
    play(bank, rule=flat)
  other = synthetic.random_bank(jax.random.key(1), N + 1)
  mepv = selector('mepv')
  with pytest.raises(
    UserError, match=r"rule 'mepv' gives scores .* params of another bank"
  ):
    simulate.run_cat(
      *(mepv, mepv.init(jax.random.key(0), other), bank),
      true_theta=np.zeros(3),
      test_length=2,
      key=jax.random.key(0),
    )
  for rule, theta, words in (
    ('mfi', np.zeros(3), 'selector is .mfi.: give a rule'),
    (selector('mfi'), np.array([np.nan]), 'true_theta has a NaN'),
  ):
    with pytest.raises(UserError, match=words):
      simulate.run_cat(
        *(rule, (), bank),
        true_theta=theta,
        test_length=2,
        key=jax.random.key(0),
      )
