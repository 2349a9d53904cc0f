"""Rules learned by bilevel optimization and by Q-learning beat chance."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import simulate, types
from jaxlab.adaptive_testing.selectors import (
  bobcat,
  ncat,
  random,
  train_bobcat,
  train_ncat,
)
from jaxlab.errors import UserError
from tests.adaptive_testing import reference

bobcat_module = importlib.import_module(train_bobcat.__module__)
N, E, T = 20, 1000, 3
RNG = np.random.default_rng(0)
A, B, C = RNG.lognormal(0, 0.8, N), RNG.normal(size=N), np.zeros(N)
THETA = RNG.normal(size=E)
Y = (RNG.random((E, N)) < reference.prob(A, B, C, THETA[:, None])).astype(float)
TRAIN, TEST = Y[:600], Y[600:]
KEY = jax.random.key(4)


@pytest.fixture(scope='module')
def bank():
  return types.item_bank(A, B)


@pytest.fixture(scope='module')
def target():
  return np.array([reference.map_estimate(A, B, C, y) for y in TEST])


def error(rule, params, bank, target):
  trace = simulate.run_cat(
    rule, params, bank, TEST, test_length=T, key=jax.random.key(1)
  )
  return np.mean((np.asarray(trace.theta[-1]) - target) ** 2)


@pytest.fixture(scope='module')
def chance(bank, target):
  return error(random(), (), bank, target)


@pytest.mark.parametrize(
  ('form', 'num_steps'),
  [
    pytest.param('straight_through', 80, marks=pytest.mark.slow),
    ('reinforce', 150),
  ],
)
def test_bobcat_beats_chance(bank, target, chance, form, num_steps):
  params, losses = train_bobcat(
    *(KEY, bank, TRAIN),
    test_length=T,
    form=form,
    num_steps=num_steps,
    batch=32,
    width=32,
    learning_rate=1e-2,
  )
  assert losses.shape == (num_steps,)
  assert np.mean(losses[-40:]) < np.mean(losses[:40])
  assert error(bobcat(width=32), params, bank, target) < 0.75 * chance


@pytest.mark.slow
def test_ncat_beats_chance(bank, target, chance):
  params, distance = train_ncat(
    *(KEY, bank, TRAIN),
    test_length=T,
    num_rounds=40,
    batch=128,
    updates=5,
    width=16,
    learning_rate=1e-2,
    discount=0.3,
    target_rate=0.05,
  )
  assert distance.shape == (40,)
  assert np.mean(distance[-10:]) < 0.8 * np.mean(distance[:10])
  assert error(ncat(width=16), params, bank, target) < 0.75 * chance


def test_the_implicit_gradient_is_that_of_the_estimate(bank):
  """Weights of items move the estimate as finite differences say."""
  with jax.enable_x64(True):
    bank = types.item_bank(A, B)
    items, held = np.array([3, 8, 11]), np.array([0, 5, 6, 14])
    y, weight = Y[7], np.zeros(N)
    weight[items] = 1

    def outer(weight):
      """Loss of what is held out, at the weighted MAP estimate."""
      theta = 0.0
      for _ in range(40):
        p = reference.prob(A, B, C, theta)
        slope = weight @ (A * (p - y)) + theta
        theta -= slope / (1 + weight @ (A**2 * p * (1 - p)))
      p = reference.prob(A, B, C, theta)[held]
      loss = -np.mean(np.log(np.where(y[held] == 1, p, 1 - p)))
      return loss, theta

    theta = outer(weight)[1]
    pool = ~np.isin(np.arange(N), held)
    tests = bobcat_module._Batch(
      *(jnp.asarray(x)[None] for x in (y, pool, ~pool, items, theta))
    )

    def uniform(params, tests):
      del tests
      return params[None, None]

    # At probability 1 the gradient by its logarithm is the worth itself.
    found = jax.grad(bobcat_module._straight_through)(
      jnp.zeros(N), uniform, bank, tests, None
    )
    step = 1e-5
    for item in np.flatnonzero(pool):
      change = np.zeros(N)
      change[item] = step
      slope = (outer(weight + change)[0] - outer(weight - change)[0]) / 2 / step
      np.testing.assert_allclose(found[item], slope, rtol=1e-5, atol=1e-9)


def test_attention_sees_neither_order_nor_padding(bank):
  rule = ncat(width=16)
  params = rule.init(KEY, bank)
  net = ncat_values(rule, params, bank)
  whole = net([[3, 5, 9, -1]], [[1, 0, 1, 0]])
  np.testing.assert_allclose(
    whole, net([[9, 3, 5, -1]], [[1, 1, 0, 0]]), atol=1e-5
  )
  np.testing.assert_allclose(
    whole, net([[-1, 3, 5, 9]], [[1, 1, 0, 1]]), atol=1e-5
  )
  assert np.abs(whole - net([[3, 5, 9, -1]], [[1, 1, 1, 0]])).max() > 1e-3
  assert np.all(np.isfinite(net([[-1] * 4], [[0] * 4])))


def ncat_values(rule, params, bank):
  def values(items, answers):
    items, answers = np.array(items), np.array(answers)
    cat = simulate.initial_state(bank, 1, test_length=items.shape[1])
    y = np.zeros((1, N), np.int8)
    y[0, items[items >= 0]] = answers[items >= 0]
    return rule.score(params, KEY, bank, cat._replace(items=items, responses=y))

  return values


def test_forms_are_named(bank):
  with pytest.raises(UserError, match='straight_through or reinforce'):
    train_bobcat(KEY, bank, TRAIN, test_length=T, form='ppo')
  with pytest.raises(UserError, match=r'responses\[0, 0\]'):
    train_ncat(KEY, bank, TRAIN + 2, test_length=T)


def test_policies_see_answers_as_signs():
  asked = jnp.asarray([[True, True, False]])
  found = bobcat_module._signed(asked, jnp.asarray([[1, 0, 0]], jnp.int8))
  assert found.tolist() == [[1, -1, 0]]
