"""Response models against NumPy in float64, and derivatives against jax's."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import models, synthetic
from jaxlab.adaptive_testing.types import ItemBank, item_bank

RNG = np.random.default_rng(0)
NUM_ITEMS, NUM_DIMS = 6, 2
THETA = RNG.normal(size=(5, NUM_DIMS)) * 2
Y = RNG.integers(0, 2, (5, NUM_ITEMS)).astype(float)
MASK = RNG.integers(0, 2, (5, NUM_ITEMS))
random_neural_bank = jax.jit(
  synthetic.random_neural_bank,
  static_argnames=('num_items', 'num_dimensions', 'hidden'),
)


def banks():
  b = RNG.normal(size=NUM_ITEMS)
  c, d = RNG.uniform(0.05, 0.3, NUM_ITEMS), RNG.uniform(0.8, 1, NUM_ITEMS)
  slopes = RNG.uniform(0.4, 2, NUM_ITEMS)
  wide = RNG.normal(size=(NUM_ITEMS, NUM_DIMS))
  return {
    '2PL': item_bank(slopes, b),
    '4PL': item_bank(slopes, b, c, d),
    'MIRT': item_bank(wide, b, c),
    'NCD': random_neural_bank(
      jax.random.key(1), NUM_ITEMS, num_dimensions=NUM_DIMS, hidden=(5, 3)
    ),
  }


BANKS = banks()
prob, log_prob, prob_slope, neural_prob = map(
  jax.jit,
  (models.prob, models.log_prob, models.prob_slope, models.neural_prob),
)
item_information, information, information_root = map(
  jax.jit,
  (models.item_information, models.information, models.information_root),
)
nll, nll_grad, item_grads, logit_curvature = map(
  jax.jit,
  (models.nll, models.nll_grad, models.item_grads, models.logit_curvature),
)


@pytest.fixture(params=['2PL', '4PL', 'MIRT', 'NCD'])
def model(request):
  with jax.enable_x64(True):
    bank = jax.tree.map(lambda x: jnp.asarray(x, float), BANKS[request.param])
    theta = THETA if bank.latent_shape else THETA[:, 0]
    yield bank, jnp.asarray(theta)


def reference(bank, theta):
  """Probabilities by loops in NumPy."""
  p = np.zeros((len(theta), bank.num_items))
  for e, at in enumerate(np.asarray(theta)):
    for j in range(bank.num_items):
      if isinstance(bank, ItemBank):
        a, b, c, d = (np.asarray(x[j]) for x in bank[:4])
        z = a @ at + b if bank.latent_shape else a * (at - b)
        p[e, j] = c + (d - c) / (1 + np.exp(-z))
      else:
        p[e, j] = network(bank, at, j)
  return p


def network(bank, at, j):
  def sigmoid(x):
    return 1 / (1 + np.exp(-np.asarray(x)))

  x = np.asarray(bank.q_matrix[j]) * (sigmoid(at) - sigmoid(bank.difficulty[j]))
  x = x * 10 * sigmoid(bank.discrimination[j])
  for kernel, bias in bank.layers:
    x = sigmoid(x @ np.log1p(np.exp(np.asarray(kernel))) + np.asarray(bias))
  return x[0]


def test_probabilities(model):
  bank, theta = model
  expected = reference(bank, theta)
  np.testing.assert_allclose(prob(bank, theta), expected, rtol=1e-9)
  wrong, right = log_prob(bank, theta)
  np.testing.assert_allclose(right, np.log(expected), rtol=1e-7)
  np.testing.assert_allclose(wrong, np.log1p(-expected), rtol=1e-7)


def test_information_is_the_square_of_the_slope(model):
  bank, theta = model
  slope = jax.jit(jax.vmap(jax.jacfwd(models.prob, 1), (None, 0)))(bank, theta)
  np.testing.assert_allclose(
    prob_slope(bank, theta), slope, rtol=1e-8, atol=1e-12
  )
  p = reference(bank, theta)
  if bank.latent_shape:
    square, p = slope[..., :, None] * slope[..., None, :], p[..., None, None]
  else:
    square = slope**2
  found = item_information(bank, theta)
  np.testing.assert_allclose(found, square / (p * (1 - p)), rtol=1e-7)
  root = information_root(bank, theta)
  again = root**2 if root.ndim == 2 else jnp.einsum('enf,eng->enfg', root, root)
  np.testing.assert_allclose(again, found, rtol=1e-7, atol=1e-12)
  seen = MASK.reshape(MASK.shape + (1,) * (found.ndim - 2))
  np.testing.assert_allclose(
    information(bank, theta, MASK), (seen * found).sum(1), rtol=1e-7
  )


def test_losses_and_gradients(model):
  bank, theta = model
  p = reference(bank, theta)
  each = -np.where(Y > 0, np.log(p), np.log1p(-p))
  np.testing.assert_allclose(
    nll(bank, theta, Y, MASK), (each * MASK).sum(1), rtol=1e-7
  )
  np.testing.assert_allclose(nll(bank, theta, Y), each.sum(1), rtol=1e-7)
  slope = jax.jit(jax.vmap(jax.grad(models.nll, 1), (None, 0, 0, 0)))(
    bank, theta, jnp.asarray(Y), MASK
  )
  found = nll_grad(bank, theta, Y, MASK)
  np.testing.assert_allclose(found, slope, rtol=1e-7, atol=1e-10)
  parts = item_grads(bank, theta, Y, MASK)
  assert parts.shape == (5, NUM_ITEMS, *bank.latent_shape)
  np.testing.assert_allclose(parts.sum(1), slope, rtol=1e-7, atol=1e-10)


def test_curvature_of_logistic_items(model):
  bank, theta = model
  if not isinstance(bank, ItemBank):
    pytest.skip('has no logit')
  size = logit_curvature(bank, theta, Y, MASK)
  found = models.weigh(bank, size)
  bend = jax.jit(jax.vmap(jax.hessian(models.nll, 1), (None, 0, 0, 0)))(
    bank, theta, jnp.asarray(Y), MASK
  )
  np.testing.assert_allclose(found, bend, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize('value', [0.0, 7.0, np.nan])
def test_what_is_masked_has_no_effect(model, value):
  bank, theta = model
  dirty = np.where(MASK, Y, value)
  for function in (nll, nll_grad):
    np.testing.assert_array_equal(
      function(bank, theta, dirty, MASK), function(bank, theta, Y, MASK)
    )


def test_slopes_scale_and_shift():
  """In one dimension a MIRT item is a 2PL item with b = -intercept / a."""
  a, b = np.array([0.5, 1.2, 2]), np.array([0.3, -1, 0])
  theta = np.linspace(-3, 3, 7)
  plain = prob(item_bank(a, b), theta)
  wide = prob(item_bank(a[:, None], -a * b), theta[:, None])
  np.testing.assert_allclose(wide, plain, rtol=1e-5)


def test_a_right_answer_never_gets_less_likely_with_ability():
  bank = random_neural_bank(
    jax.random.key(2), 20, num_dimensions=3, hidden=(8, 4)
  )
  low = jax.random.normal(jax.random.key(3), (30, 3))
  high = low + jax.random.uniform(jax.random.key(4), (30, 3))
  gain = prob(bank, high) - prob(bank, low)
  assert gain.min() >= -1e-6
  assert gain.max() > 1e-3
  alone = prob(bank, low.at[:, 0].add(1)) - prob(bank, low)
  moved = np.asarray(jnp.abs(alone) > 1e-6).any(0)
  assert not moved[np.asarray(bank.q_matrix)[:, 0] == 0].any()
  assert moved[np.asarray(bank.q_matrix)[:, 0] == 1].any()


def test_dropout_keeps_the_mean():
  bank = random_neural_bank(
    jax.random.key(2), 4, num_dimensions=2, hidden=(64,)
  )
  theta = jnp.zeros((4000, 2))
  dropped = neural_prob(bank, theta, dropout=0.1, key=jax.random.key(0))
  whole = prob(bank, theta[0])
  assert dropped.std(0).min() > 1e-3
  np.testing.assert_allclose(dropped.mean(0), whole, atol=0.02)


def test_information_peaks_where_it_is_said_to():
  bank = item_bank([0.5, 1.3, 2.5, 0], [0.4, -1, 0, 2], [0, 0.1, 0.25, 0.2])
  grid = np.linspace(-6, 6, 24001)
  best = grid[np.argmax(item_information(bank, grid), axis=0)]
  peak = models.max_information_theta(bank)
  np.testing.assert_allclose(peak[:3], best[:3], atol=0.02)
  assert peak[3] == 2


class VariantsTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_extreme_abilities_stay_finite(self):
    bank = item_bank(
      [3.0, 1, 1, 0], [0, 2, -1, 0], [0, 0.2, 0, 0], [1, 1, 0.9, 1]
    )

    @self.variant
    def everything(theta):
      y = jnp.array([[0.0] * 4, [1] * 4])
      both = theta[:, None]
      return (
        models.nll(bank, both, y),
        models.nll_grad(bank, both, y),
        models.logit_curvature(bank, both, y),
        models.item_information(bank, theta),
      )

    found = everything(jnp.array([-300.0, -50, 50, 300]))
    chex.assert_tree_all_finite(found)
    assert (np.asarray(found[-1]) >= 0).all()
    # A wrong answer to a hard item at -300 costs nothing, a right one 3 * 300.
    np.testing.assert_allclose(
      nll(bank._replace(c=bank.c * 0), -300.0, [1, 0, 0, 0], [1, 1, 0, 0]),
      900,
      rtol=1e-5,
    )
