"""Paths and match values against NumPy, brute force and invariances."""

import functools
import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import gradients, paths, synthetic
from jaxlab.adaptive_testing.types import ItemBank
from jaxlab.errors import UserError
from tests.adaptive_testing import drawn

_E, _N, _K = 3, 7, 4


def _bank(kind):
  if kind == 'neural':
    draw = functools.partial(
      synthetic.random_neural_bank, num_dimensions=2, hidden=(4,)
    )
    return jax.jit(draw, static_argnums=1)(jax.random.key(3), _N)
  # Guessing, so that information is not the curvature.
  return drawn.bank(_N, kind)._replace(c=jnp.linspace(0, 0.3, _N))


@functools.cache
def _problem(kind):
  """A bank, answers, a subset of three items, points of a path."""
  bank = _bank(kind)
  rng = np.random.default_rng(0)
  y = jnp.asarray(rng.integers(0, 2, (_E, _N)), float)
  subset = np.zeros((_E, _N), bool)
  for row in subset:
    row[rng.permutation(_N)[:3]] = True
  shape = (_K, _E, *bank.latent_shape)
  return bank, y, jnp.asarray(subset), jnp.asarray(rng.normal(size=shape))


def _double(tree):
  """In float64, where that is enabled."""
  floating = (jnp.float32, jnp.float64)
  return jax.tree.map(
    lambda x: jnp.asarray(x, float) if x.dtype in floating else x, tree
  )


def _numpy_value(bank, y, subset, points, match):
  """The definition, one examinee and one point at a time."""
  a, b, c = (np.asarray(x, float) for x in bank[:3])
  a = a.reshape(_N, -1)
  dims = a.shape[1]
  total = np.zeros(_E)
  for point, e in itertools.product(range(_K), range(_E)):
    theta = np.asarray(points)[point, e].reshape(dims)
    z = a @ theta + b if bank.latent_shape else a[:, 0] * (theta[0] - b)
    s = 1 / (1 + np.exp(-z))
    p = c + (1 - c) * s
    slope = ((1 - c) * s * (1 - s))[:, None] * a
    grads = ((p - np.asarray(y)[e]) / (p * (1 - p)))[:, None] * slope
    info = slope[:, :, None] * slope[:, None, :]
    info = info / (p * (1 - p))[:, None, None]
    moves = []
    for members in (np.asarray(subset)[e], np.ones(_N, bool)):
      pull, size = grads[members].sum(0), members.sum()
      if match == 'newton':
        precision = info[members].sum(0) + np.eye(dims)
        moves.append(np.linalg.solve(precision, pull + theta))
      else:
        moves.append(pull / size)
    total[e] += np.sum((moves[0] - moves[1]) ** 2)
  return total / _K


@pytest.mark.parametrize('kind', ['3pl', 'mirt'])
def test_match_value_is_its_definition(kind):
  problem = _problem(kind)

  @jax.jit
  def values(*problem):
    return [paths.match_value(*problem, match) for match in gradients.MATCHES]

  with jax.enable_x64(True):
    found = values(*_double(problem))
  for match, value in zip(gradients.MATCHES, found, strict=True):
    wanted = _numpy_value(*problem, match)
    np.testing.assert_allclose(value, wanted, rtol=1e-6, err_msg=match)


@pytest.mark.parametrize('kind', ['3pl', 'mirt', 'neural'])
def test_candidates_are_grown_subsets(kind):
  bank, y, subset, points = _problem(kind)
  mask = np.ones((_E, _N), bool)
  mask[1, np.argmin(subset[1])] = False
  y = jnp.where(mask, y, jnp.nan)
  grown = subset[:, None, :] | np.eye(_N, dtype=bool)  # [E, item, n]

  @jax.jit
  def both(bank, y, points):
    pairs = []
    for match, diagonal in itertools.product(gradients.MATCHES, (False, True)):
      kwargs = {'mask': mask, 'diagonal': diagonal}
      found = paths.candidate_values(bank, y, subset, points, match, **kwargs)

      def value(each, match=match, kwargs=kwargs):
        return paths.match_value(bank, y, each, points, match, **kwargs)

      pairs.append((found, jax.vmap(value, 1, 1)(grown)))
    return pairs

  open_items = mask & ~np.asarray(subset)
  with jax.enable_x64(True):
    pairs = both(*_double((bank, y, points)))
  for found, wanted in pairs:
    assert np.isinf(found).tolist() == (~open_items).tolist()
    np.testing.assert_allclose(
      np.asarray(found)[open_items], np.asarray(wanted)[open_items], rtol=1e-9
    )


def test_the_diagonal_leaves_out_what_dimensions_share():
  bank, y, subset, points = _problem('mirt')

  @jax.jit
  def both(bank):
    return [
      paths.match_value(bank, y, subset, points, diagonal=flag)
      for flag in (False, True)
    ]

  with jax.enable_x64(True):
    full, diagonal = both(_double(bank))
    assert np.abs(np.asarray(full) / diagonal - 1).min() > 1e-3
    # Items that ask for one dimension each: there is nothing to leave out.
    simple = bank._replace(a=bank.a * np.eye(2)[np.arange(_N) % 2])
    simple = _double(simple)
    full, diagonal = both(simple)
  np.testing.assert_allclose(full, diagonal, rtol=1e-9)


class MatchTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_all_items_match_and_order_is_no_matter(self):
    bank, y, subset, points = _problem('3pl')
    value = self.variant(paths.match_value, static_argnames='match')
    np.testing.assert_allclose(
      value(bank, y, jnp.ones_like(y), points), 0, atol=1e-10
    )
    order = jnp.array([4, 2, 6, 0, 1, 5, 3])
    shuffled = ItemBank(*(x[order] for x in bank[:4]))
    np.testing.assert_allclose(
      value(shuffled, y[:, order], subset[:, order], points),
      value(bank, y, subset, points),
      rtol=1e-5,
    )

  @chex.variants(with_jit=True, without_jit=True)
  def test_linear_and_full(self):
    bank, y, _, points = _problem('3pl')
    theta0, target = points[0], points[1]

    def both(theta0, target):
      return [
        paths.path_points(
          bank, y, theta0, num_points=5, kind=kind, target=target
        )
        for kind in ('linear', 'full')
      ]

    linear, full = self.variant(both)(theta0, target)
    share = np.arange(5)[:, None] / 4
    wanted = np.asarray(theta0) * (1 - share) + np.asarray(target) * share
    np.testing.assert_allclose(linear, wanted, atol=1e-6)
    grid = np.array([-4, -2, 0, 2, 4])
    np.testing.assert_allclose(full, np.tile(grid[:, None], (1, _E)), atol=1e-6)


def test_a_masked_answer_does_not_count():
  bank, y, _, points = _problem('3pl')
  mask = np.ones(y.shape, bool)
  mask[:, 2] = False

  @jax.jit
  def linear(y):
    return paths.path_points(bank, y, points[0], num_points=3, mask=mask)

  found = [linear(y.at[:, 2].set(value)) for value in (0.0, 1.0, jnp.nan)]
  for other in found[1:]:
    np.testing.assert_array_equal(other, found[0])


def test_the_teacher_takes_half_newton_steps_to_the_target():
  bank, y, _, points = _problem('2pl')
  bank = bank._replace(c=jnp.zeros(_N))

  @jax.jit
  def teachers(bank, theta0):
    return [
      paths.path_points(bank, y, theta0, num_points=num, kind='teacher')
      for num in (6, 40)
    ]

  with jax.enable_x64(True):
    found, far = (np.asarray(x) for x in teachers(*_double((bank, points[0]))))
  a, b = np.asarray(bank.a, float), np.asarray(bank.b, float)
  theta, wanted = np.asarray(points[0]), []
  for _ in range(5):
    wanted.append(theta)
    p = 1 / (1 + np.exp(-a * (theta[:, None] - b)))
    slope = ((p - np.asarray(y)) * a).sum(1) + theta
    info = (p * (1 - p) * a**2).sum(1) + 1
    theta = theta - np.clip(slope / info / 2, -1, 1)
  np.testing.assert_allclose(found[:-1], wanted, rtol=1e-6)
  # The last point is the estimate, to which the steps converge.
  np.testing.assert_allclose(found[-1], far[-2], atol=1e-8)


def test_the_student_descends_the_loss_of_the_subset():
  bank, y, subset, points = _problem('2pl')
  bank = bank._replace(c=jnp.zeros(_N))

  @jax.jit
  def student(subset):
    path = paths.path_points(
      *(bank, y, points[0]),
      num_points=3,
      kind='student',
      subset_mask=subset,
      rate=0.2,
      inner_steps=4,
    )
    return path[0].sum(), path

  with jax.enable_x64(True):
    slope, found = jax.grad(student, has_aux=True)(subset.astype(float))
  a, b = np.asarray(bank.a, float), np.asarray(bank.b, float)
  subset = np.asarray(subset)

  def items(theta):
    p = 1 / (1 + np.exp(-a * (theta[:, None] - b)))
    return (p - np.asarray(y)) * a

  theta, wanted = np.asarray(points[0]), []
  for _ in range(5):
    theta = theta - 0.2 * ((subset * items(theta)).sum(1) + theta) / 3
    wanted.append(theta)
  np.testing.assert_allclose(found, np.array(wanted)[[0, 2, 4]], rtol=1e-6)
  # More of an item moves the first point against the item's gradient.
  own = items(np.asarray(points[0]))
  pull = (subset * own).sum(1) + np.asarray(points[0])
  wanted = -0.2 * (own / 3 - pull[:, None] / 9)
  np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-9)


def test_enumeration_is_at_most_greedy_and_greedy_takes_the_least():
  bank, y, _, points = _problem('3pl')
  best, value = paths.best_subset(bank, y[0], 3, points[:, 0])
  greedy = jax.jit(paths.greedy_subset, static_argnums=2)
  items, grown = greedy(bank, y, 3, points)
  assert value <= grown[0] * (1 + 1e-5)
  assert len(set(best.tolist())) == 3

  @jax.jit
  def values_of(asked):
    return paths.candidate_values(bank, y, asked, points)

  asked = np.zeros((_E, _N))
  for turn in range(3):
    values = values_of(asked)
    np.testing.assert_array_equal(items[:, turn], np.argmin(values, axis=1))
    asked[np.arange(_E), items[:, turn]] = 1
  np.testing.assert_allclose(grown, np.min(values, axis=1), rtol=1e-5)


@pytest.mark.parametrize(
  ('call', 'match'),
  [
    (lambda b, y, p: paths.path_points(b, y, p[0], num_points=1), 'num_points'),
    (
      lambda b, y, p: paths.path_points(b, y, p[0], num_points=3, kind='arc'),
      "'arc'",
    ),
    (
      lambda b, y, p: paths.path_points(
        b, y, p[0], num_points=3, kind='student'
      ),
      'subset_mask',
    ),
    (lambda b, y, p: paths.match_value(b, y, y, p, 'max'), "'max'"),
    (lambda b, y, p: paths.greedy_subset(b, y, 8, p), 'test_length is 8'),
    (lambda b, y, p: paths.best_subset(b, y[0], 0, p[:, 0]), 'test_length'),
  ],
)
def test_bad_input(call, match):
  bank, y, _, points = _problem('2pl')
  with pytest.raises(UserError, match=match):
    call(bank, y, points)


def test_large_banks_are_not_enumerated():
  bank = drawn.bank(21)
  with pytest.raises(UserError, match='21 items'):
    paths.best_subset(bank, jnp.zeros(21), 2, jnp.zeros(3))
