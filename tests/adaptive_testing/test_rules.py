"""Scores of rules against closed forms, quadrature and enumeration."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

from jaxlab.adaptive_testing import models, simulate, state, types
from jaxlab.adaptive_testing.selectors import (
  becat,
  kullback_leibler,
  oracle_selector,
  selector,
)
from jaxlab.adaptive_testing.selectors.maat import (
  coverage_gain,
  model_change,
)
from jaxlab.errors import UserError
from tests.adaptive_testing import reference

N, KEY = 7, jax.random.key(0)
RNG = np.random.default_rng(11)
A, B = RNG.lognormal(0, 0.4, N), RNG.normal(size=N)
C = np.array([0, 0.1, 0.2, 0, 0.25, 0.1, 0])
ITEMS, ANSWERS = [[4, 1, -1], [2, 5, -1]], [[1, 0, 0], [1, 1, 0]]
SLOPES = RNG.lognormal(0, 0.6, (N, 2))
model_prob = jax.jit(models.prob)
ask = jax.jit(simulate.choose_items, static_argnums=0)


@pytest.fixture(scope='module', autouse=True)
def in_float64():
  with jax.enable_x64(True):
    yield


@pytest.fixture(scope='module')
def bank(in_float64):
  return types.item_bank(A, B, C)


@pytest.fixture(scope='module')
def cat(bank):
  return jax.jit(state.recorded_state)(bank, ITEMS, ANSWERS)


@pytest.fixture(scope='module')
def flat(in_float64):
  return types.item_bank(SLOPES, B)


@pytest.fixture(scope='module')
def flat_cat(flat):
  return jax.jit(state.recorded_state)(flat, ITEMS, ANSWERS)


def score(name, bank, cat, **options):
  rule = selector(name, **options)
  params = jax.jit(rule.init)(KEY, bank)
  return np.asarray(jax.jit(rule.score)(params, KEY, bank, cat))


def prob(theta):
  return reference.prob(A, B, C, np.asarray(theta)[..., None])


def test_random_scores_are_uniform():
  many = types.item_bank(np.ones(5), np.zeros(5))
  blank = state.initial_state(many, 4000)
  found = score('random', many, blank)
  assert found.min() >= 0
  assert found.max() < 1
  best = np.bincount(found.argmax(1), minlength=5)
  assert abs(best - 800).max() < 4 * np.sqrt(4000 * 0.2 * 0.8)
  # No two examinees have the same order.
  assert len(np.unique(found[:, 0])) > 3900


def test_weighted_information_is_its_mean_over_the_posterior(bank, cat):
  found = score('mpwi', bank, cat)
  for row, (items, y) in enumerate(zip(ITEMS, ANSWERS, strict=True)):
    own = np.array(items[:2])

    def density(theta, own=own, y=y):
      p = reference.prob(A[own], B[own], C[own], theta)
      return np.prod(np.where(np.array(y[:2]) == 1, p, 1 - p)) * np.exp(
        -(theta**2) / 2
      )

    total = integrate.quad(density, -5, 5)[0]
    for item in range(N):
      mean = integrate.quad(
        lambda t, i=item, f=density: (
          f(t) * reference.information(A[i], B[i], C[i], t)
        ),
        *(-5, 5),
      )[0]
      np.testing.assert_allclose(found[row, item], mean / total, rtol=1e-5)


def test_expected_variance_by_both_answers(bank, cat):
  found = score('mepv', bank, cat)
  grid, p = reference.GRID, prob(reference.GRID)

  def variance(weight):
    weight = weight / weight.sum(0)
    mean = grid @ weight
    return grid**2 @ weight - mean**2

  for row in range(2):
    own, y = np.array(ITEMS[row][:2]), np.array(ANSWERS[row][:2])
    weight = np.exp(reference.log_posterior(A[own], B[own], C[own], y))
    right = weight @ p
    after = right * variance(weight[:, None] * p)
    after += (1 - right) * variance(weight[:, None] * (1 - p))
    np.testing.assert_allclose(
      found[row], variance(weight) - after, rtol=1e-6, atol=1e-12
    )


def test_divergence_around_the_estimate(bank, cat):
  found = score('kli', bank, cat)
  for row in range(2):
    middle = float(cat.theta[row])
    p = prob(middle)
    for item in range(N):

      def divergence(theta, i=item, p=p):
        q = prob(theta)[i]
        return p[i] * np.log(p[i] / q) + (1 - p[i]) * np.log(
          (1 - p[i]) / (1 - q)
        )

      half = 3 / np.sqrt(2)
      wanted = integrate.quad(divergence, middle - half, middle + half)[0]
      np.testing.assert_allclose(found[row, item], wanted, rtol=1e-4)


def test_divergence_over_a_square(flat, flat_cat):
  delta = jnp.asarray([0.5, 1.5])
  found = jax.jit(kullback_leibler.kl_integral)(flat, flat_cat.theta, delta)
  nodes, weights = np.polynomial.legendre.leggauss(20)
  for row in range(2):
    corner = np.stack(np.meshgrid(nodes, nodes), -1) * float(delta[row])
    q = np.asarray(model_prob(flat, flat_cat.theta[row] + corner))
    p = np.asarray(model_prob(flat, flat_cat.theta[row]))
    gap = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    wanted = np.einsum('i,j,ijn->n', weights, weights, gap)
    np.testing.assert_allclose(
      found[row], wanted * float(delta[row]) ** 2, rtol=0.02
    )


def test_determinants_and_traces_in_several_dimensions(flat, flat_cat):
  each = np.asarray(jax.jit(models.item_information)(flat, flat_cat.theta))
  before = np.asarray(flat_cat.info)
  after = before[:, None] + each
  found = score('mfi', flat, flat_cat)
  wanted = np.linalg.det(after) / np.linalg.det(before)[:, None]
  np.testing.assert_allclose(np.exp(found), wanted, rtol=1e-9)
  found = score('mepv', flat, flat_cat)
  traces = [
    np.trace(np.linalg.inv(x), axis1=-2, axis2=-1) for x in (before, after)
  ]
  np.testing.assert_allclose(found, traces[0][:, None] - traces[1], rtol=1e-9)


def test_weighted_information_in_several_dimensions(flat, flat_cat):
  found = score('mpwi', flat, flat_cat)
  rng = np.random.default_rng(0)
  for row in range(2):
    covariance = np.linalg.inv(flat_cat.info[row])
    draws = rng.multivariate_normal(flat_cat.theta[row], covariance, 20_000)
    p = np.asarray(model_prob(flat, draws))
    size = (p * (1 - p)).mean(0)
    wanted = size * np.einsum('nd,df,nf->n', SLOPES, covariance, SLOPES)
    np.testing.assert_allclose(found[row], wanted, rtol=0.04)


def facility(distance, chosen):
  """F(S) = sum_i max_{j in S} w_ij, by its definition."""
  weight = distance.max() - distance
  return sum(max(weight[i][j] for j in chosen) for i in range(len(weight)))


@pytest.mark.parametrize('name', ['becat_full', 'becat_point'])
def test_gain_of_facility_location(bank, cat, name):
  found = score(name, bank, cat)
  grid = np.linspace(-4, 4, 81)
  for row in range(2):
    theta = float(cat.theta[row])
    p = prob(theta)
    places = grid if name == 'becat_full' else np.array([theta])
    distance = np.zeros((N, N))
    for y, z in itertools.product((0, 1), repeat=2):
      slopes = [loss_slope(places, answer) for answer in (y, z)]
      gap = abs(slopes[0][:, :, None] - slopes[1][:, None]).max(0)
      chance = [np.where(answer, p, 1 - p) for answer in (y, z)]
      distance += np.outer(*chance) * gap
    asked = ITEMS[row][:2]
    before = facility(distance, asked)
    for item in set(range(N)) - set(asked):
      gain = facility(distance, [*asked, item]) - before
      np.testing.assert_allclose(found[row, item], gain, atol=1e-9)


def loss_slope(theta, y):
  """Derivative of the loss of each item for one answer, `[G, n]`."""
  p = prob(theta)
  s = (p - C) / (1 - C)
  return (p - y) / (p * (1 - p)) * A * (1 - C) * s * (1 - s)


def test_distances_in_several_dimensions(flat):
  grid = jnp.asarray([[0.0, 0.0], [1.0, -1.0]])
  table = np.asarray(jax.jit(becat.distance_table)(flat, grid))
  p = np.asarray(model_prob(flat, grid))
  gap = (p[:, 2] - 1)[:, None] * SLOPES[2] - p[:, 5][:, None] * SLOPES[5]
  np.testing.assert_allclose(
    table[1, 0, 2, 5], np.linalg.norm(gap, axis=1).max(), rtol=1e-9
  )


def test_items_stand_for_those_near_them():
  distance = jnp.asarray(
    [[0, 1, 4, 2], [1, 0, 3, 9], [4, 3, 0, 5], [2, 9, 5, 0.0]]
  )
  sizes = becat.cluster_sizes(distance, jnp.asarray([True, False, True, False]))
  assert sizes.tolist() == [3, 0, 1, 0]


def test_items_that_are_not_of_the_examinee_do_not_count(bank):
  most = np.ones((1, N))
  most[0, 3] = 0
  cat = state.initial_state(bank, 1, most)
  rest = np.delete(np.arange(N), 3)
  fewer = types.item_bank(A[rest], B[rest], C[rest])
  found = score('becat_point', bank, cat)[:, rest]
  wanted = score('becat_point', fewer, state.initial_state(fewer, 1))
  np.testing.assert_allclose(found, wanted, rtol=1e-9)
  found = score('newton_match', bank, cat)[:, rest]
  wanted = score('newton_match', fewer, state.initial_state(fewer, 1))
  np.testing.assert_allclose(found, wanted, rtol=1e-9)


def test_newton_steps_match_on_average_over_all_answers(bank, cat):
  found = score('newton_match', bank, cat, num_points=3, bound=2.0)
  for row in range(2):
    asked = ITEMS[row][:2]
    rest = [item for item in range(N) if item not in asked]
    p = prob(float(cat.theta[row]))
    wanted = np.zeros(N)
    for answers in itertools.product((0, 1), repeat=len(rest)):
      y = np.zeros(N)
      y[rest], y[asked] = answers, ANSWERS[row][:2]
      chance = np.prod(np.where(y == 1, p, 1 - p)[rest])
      for theta in (-2.0, 0.0, 2.0):
        slope = loss_slope(np.array([theta]), y)[0]
        info = reference.information(A, B, C, theta)
        full = (slope.sum() + theta) / (info.sum() + 1)
        for item in rest:
          own = [*asked, item]
          step = (slope[own].sum() + theta) / (info[own].sum() + 1)
          wanted[item] += chance * (step - full) ** 2 / 3
    np.testing.assert_allclose(-found[row, rest], wanted[rest], rtol=1e-9)


def test_newton_match_is_for_one_dimension(flat, flat_cat):
  with pytest.raises(UserError, match='one dimension'):
    score('newton_match', flat, flat_cat)


def test_concepts_are_covered_by_the_most_informative_items(bank, cat):
  needs = np.eye(3)[[0, 0, 1, 1, 1, 2, 2]]
  bank = bank._replace(q_matrix=jnp.asarray(needs))
  change = jax.jit(model_change)(bank, cat)[0]
  p, theta = prob(float(cat.theta[0])), np.array([float(cat.theta[0])])
  info = reference.information(A, B, C, theta[0])
  steps = [abs(loss_slope(theta, y)[0]) / (cat.info[0] + info) for y in (0, 1)]
  wanted = (1 - p) * steps[0] + p * steps[1]
  np.testing.assert_allclose(change, wanted, rtol=1e-9)

  def coverage(items):
    count = needs[items].sum(0)
    return (needs.sum(0) / needs.sum()) @ (count / (count + 1))

  gains = [coverage([4, 1, item]) - coverage([4, 1]) for item in range(N)]
  np.testing.assert_allclose(
    jax.jit(coverage_gain)(bank, cat)[0], gains, rtol=1e-6
  )
  open_ = [item for item in range(N) if item not in (4, 1)]
  for count in (1, 3):
    best = sorted(open_, key=lambda item: -wanted[item])[:count]
    picked = max(best, key=lambda item: (round(gains[item], 9), wanted[item]))
    rule = selector('maat', num_candidates=count)
    item, _ = ask(rule, (), bank, cat, KEY)
    assert item[0] == picked


def test_model_change_in_several_dimensions(flat, flat_cat):
  found = jax.jit(model_change)(flat, flat_cat)
  p = np.asarray(model_prob(flat, flat_cat.theta))
  for row, item in itertools.product(range(2), range(N)):
    a, q = SLOPES[item], p[row, item]
    after = flat_cat.info[row] + q * (1 - q) * np.outer(a, a)
    step = np.linalg.norm(np.linalg.solve(after, a))
    np.testing.assert_allclose(
      found[row, item], 2 * q * (1 - q) * step, rtol=1e-9
    )


def test_the_oracle_is_an_upper_bound_that_uses_all_answers(bank):
  rng = np.random.default_rng(5)
  theta = rng.normal(size=60)
  y = (rng.random((60, N)) < prob(theta)).astype(float)
  target = np.array([reference.map_estimate(A, B, C, row) for row in y])
  run = {'test_length': 3, 'key': KEY}
  found = simulate.run_cat(oracle_selector(y), None, bank, y, **run)
  everything = np.ones(N, bool)
  paths = [reference.run_mfi(A, B, C, row, everything, 3)[1] for row in y]
  errors = [
    np.mean((path - target) ** 2, axis=1)
    for path in (np.asarray(found.theta), np.transpose(paths))
  ]
  assert np.all(errors[0][1:] < 0.3 * errors[1][1:])
  with pytest.raises(UserError, match='without chunk'):
    simulate.run_cat(oracle_selector(y), None, bank, y, chunk=20, **run)
