"""Estimators of ability against exhaustive search and quadrature in float64."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import estimate, models, posterior, ridge
from jaxlab.adaptive_testing.types import GRID, item_bank
from jaxlab.errors import UserError

NUM_ITEMS, NUM_EXAMINEES = 30, 200
FINE = np.linspace(-7, 7, 14001)


@pytest.fixture(scope='module')
def world():
  """Items of the 4PL model, and answers of all sorts of examinees."""
  rng = np.random.default_rng(0)
  bank = item_bank(
    rng.lognormal(0, 0.5, NUM_ITEMS),
    rng.normal(size=NUM_ITEMS),
    rng.beta(5, 17, NUM_ITEMS),
    rng.uniform(0.9, 1, NUM_ITEMS),
  )
  theta = 2 * rng.normal(size=NUM_EXAMINEES)
  p = np.asarray(models.prob(bank, jnp.asarray(theta)))
  y = (rng.random(p.shape) < p).astype(float)
  y[:20], y[20:40] = 0, 1
  y[40:70] = rng.random((30, NUM_ITEMS)) < 0.5
  asked = rng.random(p.shape).argsort(1) < rng.integers(0, 31, (len(y), 1))
  return bank, y, asked


def heights(bank, y, asked, prior_precision=1.0):
  """`[E, G]` logarithms of posteriors, not normalised, in float64."""
  a, b, c, d = (np.asarray(x, float) for x in bank[:4])
  p = c + (d - c) / (1 + np.exp(-a * (FINE[:, None] - b)))
  height = (asked * y) @ np.log(p).T + (asked * (1 - y)) @ np.log1p(-p).T
  return height - prior_precision * FINE**2 / 2


def test_map_is_the_highest_of_all_modes(world):
  found = np.asarray(estimate.estimate_ability(*world).theta)
  height = heights(*world)
  best = FINE[height.argmax(1)]
  lost = (
    height.max(1) - height[np.arange(len(found)), np.searchsorted(FINE, found)]
  )
  assert lost.max() < 2e-3
  assert (abs(found - best) > 0.01).sum() <= 2
  np.testing.assert_array_less(abs(found), 7)


def test_map_from_a_bad_start(world):
  bank, y, asked = world
  bank = bank._replace(c=0 * bank.c, d=0 * bank.d + 1)
  best = FINE[heights(bank, y, asked).argmax(1)]
  for start in (-5.0, 5.0):
    found = estimate.map_newton(bank, y, asked, theta0=start, iterations=16)
    np.testing.assert_allclose(found, best, atol=2e-3)


def test_more_right_answers_raise_the_map():
  bank = item_bank(np.full(10, 1.4), np.linspace(-2, 2, 10))
  y = np.tril(np.ones((11, 10)), -1)
  theta = estimate.estimate_ability(bank, y).theta
  assert (np.diff(theta) > 0.05).all()
  np.testing.assert_allclose(theta, -theta[::-1], atol=1e-4)


def test_mle_within_hard_bounds(world):
  bank, y, asked = world
  bounds = (-2.0, 1.5)
  found = estimate.estimate_ability(bank, y, asked, method='mle', bounds=bounds)
  inside = (bounds[0] <= FINE) & (bounds[1] >= FINE)
  height = heights(bank, y, asked, 0)
  best = FINE[inside][height[:, inside].argmax(1)]
  some = asked.any(1)
  theta = np.asarray(found.theta)
  assert (abs(theta - best)[some] > 0.01).mean() < 0.02
  assert theta.min() == bounds[0]
  assert theta.max() == bounds[1]
  np.testing.assert_allclose(theta[~some], -0.25)  # the middle
  info = models.information(bank, found.theta, asked)
  np.testing.assert_allclose(found.se, (info + 1) ** -0.5, rtol=1e-4)


def test_moments_of_the_posterior(world):
  weight = np.exp(heights(*world))
  weight /= weight.sum(1, keepdims=True)
  mean = weight @ FINE
  sd = np.sqrt(weight @ FINE**2 - mean**2)
  found = estimate.estimate_ability(*world, method='eap')
  # Posteriors reach a little beyond the quadrature, which ends at 5.
  np.testing.assert_allclose(found.theta, mean, atol=1e-3)
  np.testing.assert_allclose(found.se, sd, atol=2e-3)
  mode = estimate.estimate_ability(*world)
  np.testing.assert_array_equal(mode.se, found.se)


def test_log_posterior_on_the_grid(world):
  found = np.asarray(estimate.log_posterior(*world))
  at = np.searchsorted(FINE, GRID - 1e-9)
  expected = heights(*world)[:, at]
  expected -= np.log(np.exp(expected).sum(1, keepdims=True))
  likely = expected > -20
  np.testing.assert_allclose(found[likely], expected[likely], atol=1e-3)


def test_precision_before_any_answer(world):
  bank, y, _ = world
  nothing = np.zeros(y.shape)
  found = estimate.estimate_ability(bank, y, nothing)
  np.testing.assert_allclose(found.theta, 0, atol=1e-6)
  np.testing.assert_allclose(found.se, 1, atol=1e-4)
  precision = estimate.posterior_precision(bank, found.theta, nothing)
  np.testing.assert_allclose(precision, 1)


def test_gradient_descent_by_hand():
  bank = item_bank([1.2, 0.8, 2.0], [0.0, 0.5, -0.5])
  y, mask, theta = np.array([1.0, 0, 5]), np.array([1, 1, 0]), 0.3
  path = estimate.gd_path(bank, y, mask, 0.3, num_steps=4, rate=0.1)
  for found in path:
    np.testing.assert_allclose(found, theta, rtol=1e-5)
    p = 1 / (1 + np.exp(-np.array([1.2, 0.8]) * (theta - np.array([0, 0.5]))))
    slope = np.array([1.2, 0.8]) @ (p - y[:2]) + theta
    theta -= 0.1 * slope / 2
  long = estimate.gd_path(bank, y, mask, 0.3, num_steps=800, rate=0.5)[-1]
  np.testing.assert_allclose(
    long, estimate.map_newton(bank, y, mask), atol=1e-4
  )
  short = estimate.estimate_ability(bank, y, mask, method='gd')
  ten = estimate.gd_path(bank, y, mask, 0.0)
  assert ten.shape == (11,)
  np.testing.assert_allclose(short.theta, ten[-1])


def test_another_prior(world):
  """A prior N(m, s^2) is N(0, 1) after a change of scale."""
  bank, y, asked = world
  prior = posterior.Prior(jnp.array(1.5), jnp.array(1 / 0.25))
  moved = bank._replace(a=bank.a * 0.5, b=(bank.b - 1.5) / 0.5)
  for method in ('map', 'eap'):
    found = estimate.estimate_ability(
      bank, y, asked, method=method, prior=prior
    )
    plain = estimate.estimate_ability(moved, y, asked, method=method)
    np.testing.assert_allclose(found.theta, 1.5 + plain.theta / 2, atol=2e-3)
    np.testing.assert_allclose(found.se, plain.se / 2, atol=1e-4)


@pytest.fixture(scope='module')
def plane():
  """Items of two dimensions with guessing."""
  rng = np.random.default_rng(1)
  bank = item_bank(
    rng.normal(size=(NUM_ITEMS, 2)),
    rng.normal(size=NUM_ITEMS),
    rng.beta(5, 17, NUM_ITEMS),
  )
  theta = rng.normal(size=(24, 2))
  y = (rng.random((24, NUM_ITEMS)) < models.prob(bank, theta)).astype(float)
  asked = rng.random(y.shape).argsort(1) < np.arange(1, 25)[:, None]
  return bank, y, asked


class TestManyDimensions:
  def test_map_and_eap_by_exhaustive_search(self, plane):
    bank, y, asked = plane
    axis = np.linspace(-4.5, 4.5, 181)
    at = np.stack(np.meshgrid(axis, axis, indexing='ij'), -1).reshape(-1, 2)
    a, b, c = (np.asarray(x, float) for x in bank[:3])
    p = c + (1 - c) / (1 + np.exp(-at @ a.T - b))
    height = (asked * y) @ np.log(p).T + (asked * (1 - y)) @ np.log1p(-p).T
    height -= (at**2).sum(1) / 2
    mode = estimate.estimate_ability(bank, y, asked)
    found = np.asarray(mode.theta, float)
    p = c + (1 - c) / (1 + np.exp(-found @ a.T - b))
    own = (asked * np.where(y > 0, np.log(p), np.log1p(-p))).sum(1)
    own -= (found**2).sum(1) / 2
    assert (own - height.max(1)).min() > -1e-4
    precision = models.information(bank, mode.theta, asked) + jnp.eye(2)
    np.testing.assert_allclose(
      mode.se**2, np.diagonal(np.linalg.inv(precision), 0, 1, 2), rtol=1e-3
    )
    weight = np.exp(height - height.max(1, keepdims=True))
    weight /= weight.sum(1, keepdims=True)
    mean = estimate.estimate_ability(bank, y, asked, method='eap')
    np.testing.assert_allclose(mean.theta, weight @ at, atol=2e-3)
    sd = np.sqrt(weight @ at**2 - (weight @ at) ** 2)
    np.testing.assert_allclose(mean.se, sd, atol=2e-3)

  def test_one_item_tells_about_its_direction_alone(self, plane):
    bank, y, _ = plane
    first = np.zeros(y.shape)
    first[:, 0] = 1
    theta = np.asarray(estimate.map_newton(bank, y, first))
    a = np.asarray(bank.a[0])
    np.testing.assert_allclose(theta @ [-a[1], a[0]], 0, atol=1e-5)
    assert abs(theta @ a).min() > 0.01

  def test_mle_in_a_box(self, plane):
    bank, y, asked = plane
    found = estimate.estimate_ability(
      bank, y, asked, method='mle', bounds=(-1, 1)
    )
    theta = np.asarray(found.theta)
    assert abs(theta).max() == 1
    slope = np.asarray(models.nll_grad(bank, theta, y, asked))
    inside, low, high = abs(theta) < 1, theta == -1, theta == 1
    assert abs(slope[inside]).max() < 0.02
    assert (slope[low] > -1e-3).all()
    assert (slope[high] < 1e-3).all()

  def test_eap_says_when_there_are_too_many(self):
    bank = item_bank(np.ones((2, 4)), [0, 0])
    with pytest.raises(UserError, match='eap is for at most 3 dimensions'):
      estimate.estimate_ability(bank, np.ones((1, 2)), method='eap')


def test_derivatives_of_the_map_by_differences():
  with jax.enable_x64(True):
    bank = item_bank([1.2, 0.8, 2.0], [0.0, 0.5, -0.5], [0.2, 0, 0.1])
    y = jnp.array([1.0, 0, 1])

    def mode(b):
      return estimate.map_newton(bank._replace(b=b), y, theta0=0.0)

    found = jax.grad(mode)(bank.b)
    for j in range(3):
      step = 1e-5 * jnp.eye(3)[j]
      slope = (mode(bank.b + step) - mode(bank.b - step)) / 2e-5
      np.testing.assert_allclose(found[j], slope, rtol=1e-5)


@pytest.mark.slow
def test_jit_vmap_and_the_order_of_items():
  bank = item_bank([1.2, 0.8, 2.0], [0.0, 0.5, -0.5], 0.1)
  y = jnp.array([[1, 0, jnp.nan], [1, 1, 0.0]])
  mask = jnp.array([[1, 1, 0], [1, 1, 1]])
  order = jnp.array([2, 0, 1])

  @jax.jit
  def one_by_one(bank, y, mask):
    moved = jax.tree.map(lambda x: x[order], bank)
    return {
      name: jax.vmap(method, (None, 0, 0, None))(
        moved, y[:, order], mask[:, order], None
      )
      for name, method in estimate.estimators().items()
    }

  for name, found in one_by_one(bank, y, mask).items():
    whole = estimate.estimate_ability(bank, y, mask, method=name)
    chex.assert_trees_all_close(found, whole, atol=1e-5)


@pytest.fixture(scope='module')
def tests():
  """Items whose slopes are not those of the bank; some have been asked."""
  rng = np.random.default_rng(2)
  b = np.tile(np.linspace(-1, 1, 10), 2)
  theta, slopes = rng.normal(size=2000), np.repeat([0.4, 2.5], 10)
  p = 1 / (1 + np.exp(-slopes * (theta[:, None] - b)))
  y = (rng.random(p.shape) < p).astype(float)
  items = rng.random(p.shape).argsort(1)[:, :8].T
  asked = np.asarray(ridge.asked_after(items, 20))[[2, 4]]
  return item_bank(np.full(20, 1.3), b), y, asked, items


class TestRidge:
  """What a logistic model misses is corrected, and nothing else."""

  def test_asked_after(self, tests):
    _, _, asked, items = tests
    assert asked[1, 5].nonzero()[0].tolist() == sorted(items[:5, 5].tolist())
    assert (asked.sum(-1) == np.array([[3], [5]])).all()
    ended = ridge.asked_after(np.array([[1], [-1]]), 3)
    assert ended[1, 0].tolist() == [False, True, False]

  def test_new_examinees_are_closer_to_their_full_estimate(self, tests):
    bank, y, asked, _ = tests
    train, test = slice(1000), slice(1000, None)
    fitted = estimate.fit_ridge(bank, y[train], asked[:, train])
    target = estimate.map_newton(bank, y[test])
    plain = estimate.estimate_ability(
      bank, np.stack([y[test]] * 2), asked[:, test]
    )
    dirty = np.where(asked[:, test], y[test], np.nan)
    found = estimate.estimate_ability(
      bank, dirty, asked[:, test], method='map_ridge', ridge=fitted
    )
    before = ((plain.theta - target) ** 2).mean(1)
    after = ((found.theta - target) ** 2).mean(1)
    assert (after < 0.94 * before).all()
    np.testing.assert_array_equal(found.se, plain.se)

  def test_weights_are_those_of_least_squares(self, tests):
    bank, y, asked, _ = tests
    few = slice(1000)
    fitted = estimate.fit_ridge(bank, y[few], asked[:, few], penalty=0.1)
    rows, gaps = [], []
    target = np.asarray(estimate.map_newton(bank, y[few]))
    for seen in asked[:, few]:
      theta = estimate.map_newton(bank, y[few], seen)
      p = np.asarray(models.prob(bank, theta))
      z = seen * (y[few] - p) / np.sqrt(p * (1 - p))
      theta = np.asarray(theta)
      x = np.concatenate([seen, z, np.ones((1000, 1)), theta[:, None]], 1)
      variance = 1 / (1 + (seen * 1.3**2 * p * (1 - p)).sum(1, keepdims=True))
      rows.append(variance * x)
      gaps.append(target - theta)
    rows, gaps = np.concatenate(rows), np.concatenate(gaps)
    gram = rows.T @ rows
    gram += 0.1 * np.trace(gram) / len(gram) * np.eye(len(gram))
    expected = np.linalg.solve(gram, rows.T @ gaps)
    np.testing.assert_allclose(fitted.weights[:, 0], expected, atol=2e-3)

  def test_it_must_be_given(self, tests):
    bank, y, _, _ = tests
    with pytest.raises(UserError, match='needs ridge; take that of fit_ridge'):
      estimate.estimate_ability(bank, y, method='map_ridge')


@pytest.mark.parametrize(
  ('change', 'named'),
  [
    ({'y': [[1, 0, 2]]}, r'y\[0, 2\] = 2: responses are 0 or 1'),
    ({'y': [[1, 0, np.nan]]}, r'y\[0, 2\] = nan.*mask what is missing'),
    ({'y': [[1, 0]]}, r'y has the shape \(1, 2\); give 3 responses'),
    ({'mask': [1, 1, 1]}, r'mask has the shape \(3,\), y \(1, 3\)'),
    ({'method': 'wle'}, "method = 'wle' is not one of map, mle, eap, gd, map"),
    ({'method': 'mle', 'bounds': (2, 2)}, r'bounds = \(2, 2\)'),
  ],
)
def test_bad_input_is_named(change, named):
  bank = item_bank([1.0, 1.2, 0.8], [0.0, 0.5, -0.5])
  given = {'y': [[1, 0, 1]]} | change
  with pytest.raises(UserError, match=named) as caught:
    estimate.estimate_ability(bank, **given)
  assert '\n' not in str(caught.value)
