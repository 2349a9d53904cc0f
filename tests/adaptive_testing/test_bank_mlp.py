"""The rule that describes the item it wants: nearest, not farthest."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import simulate
from jaxlab.adaptive_testing.selectors.bank_mlp import bank_mlp
from jaxlab.errors import UserError
from tests.adaptive_testing import drawn

_E, _N = 6, 9
_BANK = drawn.bank(_N)
_KEY = jax.random.key(0)
_COORDINATES = np.stack([_BANK.a, _BANK.b], axis=1)
_SCALED = (_COORDINATES - _COORDINATES.mean(0)) / _COORDINATES.std(0)


def _init(rule):
  return jax.jit(rule.init)(jax.random.key(1), _BANK)


@functools.partial(jax.jit, static_argnums=0)
def _score(rule, params, state):
  return rule.score(params, _KEY, _BANK, state)


def _wishing(rule, item):
  """Parameters whose prototype is one item, or the mean of several."""
  params = _init(rule)
  network = dict(params['network'])
  network['Dense_1'] = {
    'kernel': jnp.zeros((256, _N)),
    'bias': jnp.full(_N, -50.0).at[np.asarray(item)].set(50.0),
  }
  return {'network': network}


@pytest.mark.parametrize('item', [0, 4, 8])
def test_the_nearest_item_is_asked_and_then_the_next(item):
  rule = bank_mlp(item_embed_dim=0)
  trace = simulate.run_cat(
    *(rule, _wishing(rule, item), _BANK, jnp.zeros((_E, _N))),
    test_length=4,
    key=jax.random.key(2),
  )
  distance = np.linalg.norm(_SCALED - _SCALED[item], axis=1)
  wanted = np.argsort(distance)[:4]
  assert wanted[0] == item
  np.testing.assert_array_equal(trace.items, np.tile(wanted[:, None], (1, _E)))


def test_a_prototype_may_lie_between_items():
  rule = bank_mlp(item_embed_dim=0)
  state = simulate.initial_state(_BANK, 1)
  params = _wishing(rule, [2, 5])
  score = _score(rule, params, state)[0]
  middle = _SCALED[[2, 5]].mean(0)
  wanted = -np.sum((_SCALED - middle) ** 2, axis=1)
  np.testing.assert_allclose(score, wanted, rtol=1e-2, atol=1e-2)


def test_answers_move_the_prototype():
  rule = bank_mlp()
  params = _init(rule)
  state = simulate.initial_state(_BANK, 3)
  state = state._replace(
    asked=state.asked.at[:2, 0].set(True),
    responses=state.responses.at[1, 0].set(1),
    items=state.items.at[:2, 0].set(0),
  )
  none, one = (
    _score(rule, params, each) for each in (state._replace(items=None), state)
  )
  np.testing.assert_allclose(none, one, rtol=1e-5)
  # Wrong, right, not answered: the states -1, 1, 0 are three.
  for first, second in ((0, 1), (0, 2), (1, 2)):
    assert np.max(np.abs(one[first] - one[second])) > 1e-3


def test_a_group_has_an_item_of_each_part_chosen_at_once():
  rule = bank_mlp(num_parallel=3)
  params = _init(rule)
  rng = np.random.default_rng(4)
  y = rng.integers(0, 2, (_E, _N)).astype(float)
  kwargs = {'test_length': 9, 'key': jax.random.key(5)}
  trace = simulate.run_cat(rule, params, _BANK, y, **kwargs)
  np.testing.assert_array_equal(
    trace.items % 3, np.tile(np.arange(9)[:, None] % 3, (1, _E))
  )
  # Other answers to the first group: it is the same, a later one is not.
  other = y.copy()
  np.put_along_axis(
    other, trace.items[:3].T, 1 - np.take_along_axis(y, trace.items[:3].T, 1), 1
  )
  again = simulate.run_cat(rule, params, _BANK, other, **kwargs)
  np.testing.assert_array_equal(trace.items[:3], again.items[:3])
  assert np.any(trace.items[3:6] != again.items[3:6])


@pytest.mark.parametrize('number', [0, 10])
def test_bad_number_of_parallel_items(number):
  with pytest.raises(UserError, match=f'num_parallel is {number}'):
    bank_mlp(num_parallel=number).init(jax.random.key(0), _BANK)
