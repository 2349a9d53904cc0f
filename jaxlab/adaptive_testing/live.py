"""One examinee in front of a screen: ask and tell.

    test = start(bank)
    item = next_item(params, bank, test.items, test.answers, selector=rule)
    test = tell(test, item, answer)
    ability(test)

The record of a test is two tuples, which are easy to store. Every function
checks what it is given, and computes from the record alone.
"""

import functools
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.typing import ArrayLike

from jaxlab.adaptive_testing import state
from jaxlab.adaptive_testing.content import ContentBalance
from jaxlab.adaptive_testing.exposure import Exposure
from jaxlab.adaptive_testing.simulate import choose_items
from jaxlab.adaptive_testing.types import Ability, Bank, Selector
from jaxlab.errors import UserError

_LEAST_ROOM = 64  # answers for which a program is compiled, at least


class LiveTest(NamedTuple):
  """A test of one examinee.

  Attributes:
    bank: of n items.
    items: what was asked, in that order.
    answers: 0 or 1 to each of them.
  """

  bank: Bank
  items: tuple[int, ...] = ()
  answers: tuple[int, ...] = ()


def start(bank: Bank) -> LiveTest:
  """A test without items yet."""
  return LiveTest(bank)


def next_item(
  params: Any,
  bank: Bank,
  answered_items: Sequence[int],
  answers: Sequence[int],
  *,
  selector: Selector,
  key: jax.Array | None = None,
  available: ArrayLike | None = None,
  estimator: str = 'map',
  exposure: Exposure | None = None,
  content: ContentBalance | None = None,
) -> int:
  """The item to ask next; compiled once for up to 64 answers, once for 128...

  Args:
    params: of the rule, from `selector.init` or from training; None for those
      of `selector.init`, which are computed anew at each call.
    bank: of n items.
    answered_items: what was asked, in that order.
    answers: 0 or 1 to each of them.
    selector: the rule.
    key: of the examinee, where the rule or the exposure control draws random
      numbers; None for `jax.random.key(0)`.
    available: `[n]`, not 0 where an item may be asked; None for all.
    estimator: one of `state.ESTIMATORS`.
    exposure: who takes an item from the scores; None for the highest score.
    content: which items are eligible; None for all.

  Raises:
    UserError: an unknown item, one that was asked twice, answers other than 0
      and 1, or of another number, no item left.
  """
  items, y = _record(bank, answered_items, answers)
  state.check_estimator(estimator)
  n = bank.num_items
  open_ = np.ones(n, bool) if available is None else np.asarray(available) != 0
  if open_.shape != (n,):
    raise UserError(f'available has the shape {open_.shape}; give ({n},).')
  left = open_.copy()
  left[list(map(int, answered_items))] = False
  if not left.any():
    raise UserError(
      f'no item is left after {len(answers)} of {n}: end the test.'
    )
  key = _first_key() if key is None else key
  if params is None:
    params = selector.init(key, bank)
  found = _next(
    selector, estimator, params, bank, items, y, open_, (exposure, content), key
  )
  return int(found)


def tell(test: LiveTest, item: int, answer: int) -> LiveTest:
  """The test after an answer.

  Raises:
    UserError: an unknown item, one that was asked before, an answer other than
      0 and 1.
  """
  items, answers = (*test.items, item), (*test.answers, answer)
  _record(test.bank, items, answers)
  return LiveTest(
    test.bank,
    (*test.items, operator.index(item)),
    (*test.answers, int(answer)),
  )


def ability(test: LiveTest, estimator: str = 'map') -> Ability:
  """The estimate and its standard error, each `[*latent]`."""
  items, y = _record(test.bank, test.items, test.answers)
  state.check_estimator(estimator)
  return _estimate(estimator, test.bank, items, y)


def _record(
  bank: Bank, answered_items: Sequence[int], answers: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
  """Checked arrays `[1, room]` of items, -1 behind the last, and answers."""
  count = len(answered_items)
  if len(answers) != count:
    raise UserError(
      f'answers: {len(answers)} for {count} items; give one for each.'
    )
  seen = set()
  for place, item in enumerate(answered_items):
    if not isinstance(item, int | np.integer):
      raise UserError(
        f'answered_items[{place}] = {item}: give the number of an item.'
      )
    if not 0 <= item < bank.num_items:
      raise UserError(
        f'answered_items[{place}] = {item}: the bank has the items 0 to '
        f'{bank.num_items - 1}.'
      )
    if item in seen:
      raise UserError(f'answered_items[{place}] = {item} was asked before.')
    seen.add(item)
  for place, answer in enumerate(answers):
    if answer not in (0, 1):
      raise UserError(f'answers[{place}] = {answer}: answers are 0 or 1.')
  room = _LEAST_ROOM
  while room < count:
    room *= 2
  items, y = np.full((1, room), -1, np.int32), np.zeros((1, room), np.int8)
  items[0, :count], y[0, :count] = answered_items, answers
  return items, y


@functools.cache
def _first_key() -> jax.Array:
  return jax.random.key(0)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _next(
  selector, estimator, params, bank, items, y, open_, controls, key
) -> jax.Array:
  known = state.recorded_state(bank, items, y, open_[None], estimator)
  exposure, content = controls
  item, _ = choose_items(
    selector, params, bank, known, key, exposure=exposure, content=content
  )
  return item[0]


@functools.partial(jax.jit, static_argnums=0)
def _estimate(estimator, bank, items, y) -> Ability:
  known = state.recorded_state(bank, items, y, None, estimator)
  se = state.standard_error(bank, known, estimator)
  return Ability(known.theta[0], se[0])
