"""Tests of one examinee, asked and told item by item."""

import jax
import numpy as np
import pytest

from jaxlab.adaptive_testing import (
  content,
  exposure,
  live,
  types,
)
from jaxlab.adaptive_testing.selectors import selector
from jaxlab.errors import UserError
from tests.adaptive_testing import reference

N, T = 90, 80
RNG = np.random.default_rng(0)
A, B = RNG.lognormal(0, 0.3, N), RNG.normal(size=N)
C = np.zeros(N)
Y = (RNG.random(N) < reference.prob(A, B, C, 0.8)).astype(int)


@pytest.fixture(scope='module')
def bank():
  return types.item_bank(A, B)


def sit(bank, name, length):
  rule = selector(name)
  params = rule.init(jax.random.key(0), bank)
  test = live.start(bank)
  for _ in range(length):
    item = live.next_item(params, bank, test.items, test.answers, selector=rule)
    test = live.tell(test, item, Y[item])
  return test


def test_items_and_ability_are_those_of_a_loop(bank):
  test = sit(bank, 'mfi', T)  # beyond the room of the first program
  items, path = reference.run_mfi(A, B, C, Y, np.ones(N, bool), T)
  assert list(test.items) == items
  assert list(test.answers) == Y[items].tolist()
  found = live.ability(test)
  np.testing.assert_allclose(found.theta, path[-1], atol=1e-4)
  assert 0 < found.se < 0.3
  fewer = live.ability(
    test._replace(items=test.items[:9], answers=test.answers[:9])
  )
  np.testing.assert_allclose(fewer.theta, path[8], atol=1e-4)
  assert fewer.se > found.se


def test_one_program_serves_all_lengths(bank):
  sit(bank, 'mfi', 1)
  before = live._next._cache_size()
  sit(bank, 'mfi', 20)
  assert live._next._cache_size() == before


def test_masks_areas_and_exposure_are_obeyed(bank):
  rule = selector('mfi')

  def ask(**options):
    return live.next_item((), bank, [3], [1], selector=rule, **options)

  few = np.arange(N) % 10 == 3
  assert ask(available=few) % 10 == 3
  areas = np.where(np.arange(N) < 5, 0, 1)  # item 3 was of area 0
  assert ask(content=content.content_balance(areas, [0.9, 0.1])) >= 5
  assert ask(content=content.content_balance(1 - areas, [0.9, 0.1])) >= 5
  assert ask(content=content.content_balance(0 * areas + 1, [1, 0])) == ask()
  control = exposure.Randomesque(4)
  drawn = {
    ask(exposure=control, key=jax.random.key(seed)) for seed in range(40)
  }
  assert len(drawn) == 4
  assert ask() in drawn


@pytest.mark.parametrize(
  ('items', 'answers', 'words'),
  [
    ([2, 5, 2], [1, 1, 0], r'answered_items\[2\] = 2 was asked before'),
    ([2, N], [1, 1], f'items 0 to {N - 1}'),
    ([-1], [1], r'answered_items\[0\] = -1'),
    ([2, 3], [1, 2], r'answers\[1\] = 2'),
    ([2, 3], [1], '1 for 2 items'),
    (list(range(N)), [1] * N, f'no item is left after {N}'),
  ],
)
def test_bad_records(bank, items, answers, words):
  with pytest.raises(UserError, match=words):
    live.next_item((), bank, items, answers, selector=selector('mfi'))


def test_bad_news(bank):
  test = live.tell(live.start(bank), 4, 1)
  with pytest.raises(UserError, match='asked before'):
    live.tell(test, 4, 1)
  with pytest.raises(UserError, match='answers are 0 or 1'):
    live.tell(test, 5, 3)
  with pytest.raises(UserError, match=r'= 0\.7: answers are 0 or 1'):
    live.tell(test, 5, 0.7)
  with pytest.raises(UserError, match=r'= 1\.5: give the number of an item'):
    live.tell(test, 1.5, 1)
  with pytest.raises(UserError, match="estimator 'best' is unknown"):
    live.ability(test, 'best')
  with pytest.raises(UserError, match="estimator 'best' is unknown"):
    live.next_item(
      *((), bank, [], []), selector=selector('mfi'), estimator='best'
    )
  with pytest.raises(UserError, match='available has the shape'):
    live.next_item(
      *((), bank, [], []), selector=selector('mfi'), available=np.ones(3)
    )
  with pytest.raises(UserError, match='no item is left'):
    live.next_item(
      *((), bank, [4], [1]),
      selector=selector('mfi'),
      available=np.arange(N) == 4,
    )
