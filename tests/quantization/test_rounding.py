"""Rounding against enumeration and a GPTQ that inverts H step by step."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from jaxlab.errors import UserError
from jaxlab.quantization import rounding

BITS, K, PROBLEMS = 2, 6, 40
ALL_CODES = np.array(list(itertools.product(range(4), repeat=K)))


def _problems():
  rng = np.random.default_rng(0)
  w = rng.uniform(-1.2, 0.7, (PROBLEMS, K))
  root = rng.normal(size=(PROBLEMS, K, K)) * rng.uniform(0.2, 2, K)
  return w, root @ root.transpose(0, 2, 1)


def _value(w, H, codes, scale, zero=2):
  error = scale * (np.asarray(codes) - zero) - w
  return np.einsum('...k,...kl,...l->...', error, H, error)


@pytest.fixture(scope='module')
def found():
  """{method: `[problems]` values}, and the best of all codes."""
  w, H = _problems()
  with jax.enable_x64(True):
    grid = 0.6, 2.0, BITS
    soft = functools.partial(rounding.soft_round, steps=300)
    codes = {
      'rtn': jax.vmap(lambda w: rounding.rtn_round(w, *grid))(w),
      'gptq': jax.vmap(lambda w, H: rounding.gptq_round(w, H, *grid))(w, H),
      'soft': jax.vmap(lambda w, H, key: soft(w, H, *grid, key=key))(
        w, H, jax.random.split(jax.random.key(0), PROBLEMS)
      ),
    }
  values = {name: _value(w, H, c, 0.6) for name, c in codes.items()}
  best = [_value(a, b, ALL_CODES, 0.6).min() for a, b in zip(w, H, strict=True)]
  return values, np.array(best)


def test_no_method_is_below_the_optimum(found):
  values, best = found
  for value in values.values():
    assert (value >= best * (1 - 1e-9)).all()


def test_feedback_and_learning_beat_nearest_on_average(found):
  values, best = found
  for name in ('gptq', 'soft'):
    assert values[name].mean() < 0.7 * values['rtn'].mean()
    assert np.median(values[name] / best) < 2.2
  assert np.median(values['rtn'] / best) > 3
  assert (values['soft'] <= values['rtn'] * (1 + 1e-9)).all()


def _gptq_by_inverses(w, H, scale, zero, order):
  """Each weight in turn; H is inverted anew for those still to come."""
  w, codes = w.copy(), np.zeros(w.shape, int)
  for place, k in enumerate(order):
    rest = order[place:]
    inverse = np.linalg.inv(H[np.ix_(rest, rest)])
    codes[k] = np.clip(np.rint(w[k] / scale[k]) + zero[k], 0, 3)
    error = (w[k] - scale[k] * (codes[k] - zero[k])) / inverse[0, 0]
    w[rest] -= np.outer(inverse[:, 0], error)
  return codes


@pytest.mark.parametrize('activation_order', [False, True])
def test_gptq_equals_elimination_by_inverses(activation_order):
  rng = np.random.default_rng(1)
  inputs = rng.normal(size=(30, 8)) @ rng.normal(size=(8, 8))
  H, w = inputs.T @ inputs, rng.normal(0, 0.4, (8, 3))
  scale, zero = rng.uniform(0.2, 0.5, (4, 3)), rng.integers(0, 4, (4, 3))
  rows = [np.repeat(x, 2, axis=0) for x in (scale, zero)]
  damped = H + 0.02 * np.mean(np.diag(H)) * np.eye(8)
  order = np.argsort(-np.diag(H)) if activation_order else np.arange(8)
  expected = _gptq_by_inverses(w, damped, *rows, order)
  with jax.enable_x64(True):
    fit = functools.partial(
      rounding.gptq_round, damp=0.02, activation_order=activation_order
    )
    codes = fit(w, H, scale, zero, BITS, group_size=2)
    np.testing.assert_array_equal(codes, expected)
    one = fit(w[:, 0], H, scale[:, 0], zero[:, 0], BITS, group_size=2)
    np.testing.assert_array_equal(one, expected[:, 0])


def test_dead_inputs_take_their_nearest_codes():
  w, H = (x[0].astype(np.float32) for x in _problems())
  H[2], H[:, 2] = 0, 0
  near = rounding.rtn_round(w, 0.6, 2.0, BITS)
  for codes in (
    rounding.gptq_round(w, H, 0.6, 2.0, BITS),
    rounding.gptq_round(w, 0 * H, 0.6, 2.0, BITS),
  ):
    assert codes[2] == near[2]
  np.testing.assert_array_equal(codes, near)
  learned = rounding.soft_round(
    w, 0 * H, 0.6, 2.0, BITS, steps=10, key=jax.random.key(0)
  )
  np.testing.assert_allclose(learned, near, atol=1)


def test_columns_are_rounded_on_their_own():
  w, H = _problems()
  w, H = w[:3].T.astype(np.float32), H[0].astype(np.float32)
  scale, zero = np.float32([0.4, 0.6, 0.8]), np.float32([2, 1, 1.5])
  together = rounding.gptq_round(w, H, scale, zero, BITS)
  for n in range(3):
    alone = rounding.gptq_round(w[:, n], H, scale[n], zero[n], BITS)
    np.testing.assert_array_equal(together[:, n], alone)


@pytest.mark.parametrize('group_size', [0, 4])
def test_wrong_groups_are_named(group_size):
  with pytest.raises(UserError, match=f'group_size = {group_size}'):
    rounding.gptq_round(
      np.ones(6), np.eye(6), 1.0, 0.0, BITS, group_size=group_size
    )


def test_rectified_sigmoid_and_penalty():
  with jax.enable_x64(True):
    v = jnp.linspace(-6, 6, 25)
    h = rounding.rectified_sigmoid(v)
    expected = np.clip(1.2 * special.expit(v) - 0.1, 0, 1)
    np.testing.assert_allclose(h, expected, rtol=1e-12)
    share = jnp.linspace(0, 1, 11)
    back = rounding.rectified_sigmoid(rounding.inverse_rectified_sigmoid(share))
    np.testing.assert_allclose(back, share, atol=1e-12)
    penalty = jax.jit(jax.value_and_grad(rounding.rounding_penalty))
    for beta in (2.0, 20.0):
      found, gradient = penalty(v, beta)
      np.testing.assert_allclose(
        found, np.sum(1 - np.abs(2 * expected - 1) ** beta), rtol=1e-9
      )
      assert np.isfinite(gradient).all()
