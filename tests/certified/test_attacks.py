"""Attacks stay inside of the ball and find what closed forms say is there."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.certified import attacks
from jaxlab.errors import UserError

EPS = 0.15


def linear(params, x):
  return x @ params['w'] + params['b']


def hidden(params, x):
  return jax.nn.relu(x @ params['w']) @ params['v']


@pytest.fixture(scope='module')
def problem():
  rng = np.random.default_rng(0)
  params = {
    'w': rng.normal(size=(5, 2)).astype(np.float32),
    'b': np.array([0.1, -0.1], np.float32),
  }
  x = rng.uniform(size=(7, 5)).astype(np.float32)
  return params, x, np.array([0, 1, 0, 1, 0, 1, 1])


@pytest.fixture(scope='module')
def relu_problem():
  rng = np.random.default_rng(1)
  params = {'w': rng.normal(size=(5, 8)), 'v': rng.normal(size=(8, 3))}
  params = jax.tree.map(jnp.float32, params)
  x = rng.uniform(size=(6, 5)).astype(np.float32)
  return params, x, np.array([0, 1, 2, 0, 1, 2])


def _in_ball(point, x, eps):
  assert np.all(np.abs(point - x) <= eps + 1e-6)
  assert np.all((point >= 0) & (point <= 1))


def _linear_corner(params, x, y):
  """Where the margin of two classes is smallest."""
  w = params['w'][:, 0] - params['w'][:, 1]
  down = np.where(y == 0, -1, 1)[:, None] * np.sign(w)
  return np.clip(x + EPS * down, 0, 1)


class Variants(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_margin_is_to_the_best_rival(self):
    logits = jnp.array([[1.0, 4.0, 2.0], [5.0, -1.0, 4.5], [0.0, 3.0, 7.0]])
    found = self.variant(attacks.margin)(logits, jnp.array([1, 0, 1]))
    np.testing.assert_allclose(found, [2.0, 0.5, -4.0])


@pytest.mark.parametrize('loss', ['margin', 'ce'])
def test_pgd_finds_the_corner_of_a_linear_classifier(problem, loss):
  params, x, y = problem
  found = attacks.pgd(
    linear, params, x, y, EPS, jax.random.key(0), steps=10, loss=loss
  )
  _in_ball(found, x, EPS)
  corner = _linear_corner(params, x, y)
  np.testing.assert_allclose(found, corner, atol=1e-6)


def test_radius_zero_gives_the_example_itself(relu_problem):
  params, x, y = relu_problem
  found = attacks.pgd(hidden, params, x, y, 0.0, jax.random.key(0), steps=3)
  np.testing.assert_array_equal(found, x)


def test_a_traced_radius_and_more_work_only_help(relu_problem):
  params, x, y = relu_problem

  @functools.partial(jax.jit, static_argnames=('steps', 'restarts'))
  def worst(eps, steps, restarts):
    point = attacks.pgd(
      hidden,
      params,
      x,
      y,
      eps,
      jax.random.key(3),
      steps=steps,
      restarts=restarts,
    )
    return attacks.margin(hidden(params, point), y), point

  clean = attacks.margin(hidden(params, x), y)
  radii = jnp.array([0.0, 0.05, 0.3])
  margins, points = jax.vmap(lambda eps: worst(eps, 20, 3))(radii)
  np.testing.assert_allclose(margins[0], clean, atol=1e-6)
  assert np.all(np.diff(margins, axis=0) < 1e-6)
  _in_ball(points[2], x, 0.3)
  # Restarts share their keys: the first is among three.
  one, _ = worst(0.3, 20, 1)
  three, _ = worst(0.3, 20, 3)
  assert np.all(three <= one + 1e-6)


def test_one_radius_for_each_example(relu_problem):
  params, x, y = relu_problem
  eps = np.linspace(0, 0.25, len(x)).astype(np.float32)
  found = attacks.pgd(hidden, params, x, y, eps, jax.random.key(0), steps=5)
  _in_ball(found, x, eps[:, None])
  assert np.abs(found[-1] - x[-1]).max() > 0.2


def test_random_corners_find_the_minimum_where_corners_are_few(problem):
  params, x, y = problem
  found = attacks.random_corners(
    linear, params, x, y, EPS, jax.random.key(1), trials=400
  )
  _in_ball(found, x, EPS)
  corner = _linear_corner(params, x, y)
  np.testing.assert_allclose(found, corner, atol=1e-6)


def test_bad_input(problem):
  params, x, y = problem
  key = jax.random.key(0)
  with pytest.raises(UserError, match='hinge'):
    attacks.pgd(linear, params, x, y, EPS, key, loss='hinge')
  with pytest.raises(UserError, match=r'eps.*-0\.1'):
    attacks.pgd(linear, params, x, y, -0.1, key)
  with pytest.raises(UserError, match='outside the range'):
    attacks.pgd(linear, params, x + 1.5, y, EPS, key, clip=(0, 1.4))
