"""Rules made of rules."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing.selectors import combined, itemwise, selector
from jaxlab.errors import UserError
from tests.adaptive_testing import drawn

_E, _N, _T = 20, 10, 3
_KEY = jax.random.key(0)


@pytest.fixture(scope='module')
def setting():
  bank = drawn.bank(_N)
  return bank, drawn.answers(bank, _E)


@functools.partial(jax.jit, static_argnums=0)
def _score(rule, params, bank, state):
  return rule.score(params, _KEY, bank, state)


def test_the_score_is_the_mean_score(setting):
  bank, y = setting
  rule = itemwise.skip_only()
  params = jax.jit(rule.init)(_KEY, bank)
  members = [
    {**params, 'network': {'kappa': jnp.array(kappa)}}
    for kappa in ([1.0, 0.0, 0.0], [0.5, 2.0, 1.0])
  ]
  items = drawn.random_items(_N, _E, 1)
  state = drawn.state_after(bank, y, items, test_length=_T)
  found = _score(
    combined.averaged(rule), combined.stack_networks(members), bank, state
  )
  each = [_score(rule, params, bank, state) for params in members]
  assert np.max(np.abs(each[0] - each[1])) > 0.1
  np.testing.assert_allclose(found, (each[0] + each[1]) / 2, rtol=1e-5)


def test_one_rule_follows_the_other(setting):
  bank, y = setting
  first, then = selector('mfi'), selector('mpwi')
  both = combined.in_turn(first, then, 2)
  params = jax.jit(both.init)(_KEY, bank)
  for turns, rule, own in ((1, first, params[0]), (2, then, params[1])):
    items = drawn.random_items(_N, _E, turns)
    state = drawn.state_after(bank, y, items, test_length=_T)
    found = _score(both, params, bank, state)
    np.testing.assert_allclose(found, _score(rule, own, bank, state))
  assert np.max(np.abs(found - _score(first, params[0], bank, state))) > 1e-3


def test_no_training_to_average():
  with pytest.raises(UserError, match='trained is empty'):
    combined.stack_networks([])
