"""Many-dimensional calibration: what was simulated is found again."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxlab.adaptive_testing import estimate, joint, models, synthetic
from jaxlab.adaptive_testing.types import item_bank
from jaxlab.errors import UserError

NUM_EXAMINEES, NUM_ITEMS = 800, 24
CONCEPTS = np.tile(np.eye(2), (NUM_ITEMS // 2, 1))
KEY = jax.random.key(0)


def drawn(bank):
  keys = jax.random.split(jax.random.key(1))
  draw = jax.jit(synthetic.random_abilities, static_argnums=2)
  theta = draw(keys[0], bank, NUM_EXAMINEES)
  responses = jax.jit(synthetic.random_responses)(keys[1], bank, theta)
  return np.asarray(theta), np.asarray(responses)


def auc(right, score):
  """Area under the ROC curve, from ranks."""
  ranks = stats.rankdata(score)
  hits = right > 0
  count = hits.sum()
  total = ranks[hits].sum() - count * (count + 1) / 2
  return total / count / (len(right) - count)


def procrustes(found, wanted):
  """The rotation that brings `found` closest to `wanted`."""
  left, _, right = np.linalg.svd(np.asarray(found).T @ wanted)
  return left @ right


@pytest.fixture(scope='module')
def plane():
  """Items of two dimensions, fitted with a fifth of the answers missing."""
  rng = np.random.default_rng(0)
  slopes = rng.uniform(0.5, 2, (NUM_ITEMS, 2)) * rng.choice(
    [0, 1], (NUM_ITEMS, 1)
  )
  slopes[:, 1] = np.where(slopes[:, 0] > 0, slopes[:, 1] / 4, 1.5)
  slopes[::3, 0] = 0.2
  bank = item_bank(slopes, rng.normal(size=NUM_ITEMS), 0.1)
  theta, responses = drawn(bank)
  mask = rng.random(responses.shape) < 0.8
  dirty = np.where(mask, responses, np.nan)
  options = joint.MIRT_OPTIONS._replace(num_steps=600)
  fitted = joint.fit_mirt(
    dirty, mask, dims=2, key=KEY, guessing=0.1, options=options
  )
  return bank, theta, responses, mask, fitted


class TestMirt:
  def test_items_up_to_rotation(self, plane):
    bank, _, _, _, (found, _, _) = plane
    turned = np.asarray(found.a) @ procrustes(found.a, bank.a)
    wanted = np.asarray(bank.a)
    assert np.corrcoef(turned.ravel(), wanted.ravel())[0, 1] > 0.93
    scale = (turned * wanted).sum() / (wanted**2).sum()
    assert 0.92 < scale < 1.08
    assert np.corrcoef(found.b, bank.b)[0, 1] > 0.97
    np.testing.assert_allclose(found.c, 0.1, rtol=1e-6)

  def test_abilities_up_to_rotation(self, plane):
    bank, theta, responses, mask, (found, own, _) = plane
    turned = np.asarray(own) @ procrustes(found.a, bank.a)
    known = np.asarray(estimate.map_newton(bank, responses, mask))
    for axis in range(2):
      reached = np.corrcoef(turned[:, axis], theta[:, axis])[0, 1]
      possible = np.corrcoef(known[:, axis], theta[:, axis])[0, 1]
      assert reached > possible - 0.05

  def test_abilities_have_about_mean_0_and_covariance_1(self, plane):
    _, _, responses, mask, (found, own, _) = plane
    precision = estimate.posterior_precision(found, own, mask)
    own = np.asarray(own)
    covariance = np.cov(own.T) + np.linalg.inv(precision).mean(0)
    np.testing.assert_allclose(own.mean(0), 0, atol=0.12)
    np.testing.assert_allclose(covariance, np.eye(2), atol=0.12)
    again = estimate.map_newton(found, responses, mask)
    np.testing.assert_allclose(own, again, atol=1e-4)

  def test_axes_are_the_principal_ones(self, plane):
    slopes = np.asarray(plane[4][0].a)
    gram = slopes.T @ slopes
    np.testing.assert_allclose(gram[0, 1], 0, atol=1e-3)
    assert gram[0, 0] > gram[1, 1]
    assert (slopes.sum(0) >= 0).all()

  def test_missing_answers_are_predicted(self, plane):
    bank, theta, responses, mask, (found, own, history) = plane
    p = np.asarray(models.prob(found, own))
    best = np.asarray(models.prob(bank, theta))
    share = (responses * mask).sum(0) / mask.sum(0)
    held = ~mask
    reached = auc(responses[held], p[held])
    assert reached > auc(responses[held], np.tile(share, (800, 1))[held]) + 0.05
    assert reached > auc(responses[held], best[held]) - 0.06
    assert history.shape == (600,)
    assert history[-50:].mean() < history[0] - 0.03

  def test_a_q_matrix_keeps_slopes_at_zero(self):
    wanted = item_bank(1.4 * CONCEPTS, np.linspace(-1, 1, NUM_ITEMS))
    _, responses = drawn(wanted)
    options = joint.MIRT_OPTIONS._replace(num_steps=300)
    found, _, _ = joint.fit_mirt(
      responses, dims=2, key=KEY, q_matrix=CONCEPTS, options=options
    )
    np.testing.assert_array_equal(np.asarray(found.a)[CONCEPTS == 0], 0)
    slopes = np.abs(np.asarray(found.a)[CONCEPTS == 1])
    np.testing.assert_allclose(slopes.mean(), 1.4, atol=0.2)


@pytest.fixture(scope='module')
def diagnosed():
  """Two concepts, a fifth of the answers missing."""
  bank = synthetic.random_neural_bank(
    jax.random.key(5), NUM_ITEMS, num_dimensions=2, hidden=(8, 4), gain=6.0
  )._replace(q_matrix=jnp.asarray(CONCEPTS, jnp.float32))
  theta, responses = drawn(bank)
  mask = np.random.default_rng(0).random(responses.shape) < 0.8
  dirty = np.where(mask, responses, np.nan)
  options = joint.NCD_OPTIONS._replace(num_steps=400)
  fitted = joint.fit_ncd(
    dirty, mask, CONCEPTS, key=KEY, hidden=(16, 8), options=options
  )
  return bank, theta, responses, mask, fitted


class TestNcd:
  def test_missing_answers_are_predicted(self, diagnosed):
    bank, theta, responses, mask, (found, own, history) = diagnosed
    held = ~mask
    p = np.asarray(models.prob(found, own))
    best = np.asarray(models.prob(bank, theta))
    share = (responses * mask).sum(0) / mask.sum(0)
    plain = np.tile(share, (NUM_EXAMINEES, 1))
    reached = auc(responses[held], p[held])
    assert reached > auc(responses[held], plain[held]) + 0.03
    assert reached > auc(responses[held], best[held]) - 0.06
    assert history.shape == (400,)
    assert history[-50:].mean() < history[0] - 0.03

  def test_abilities_are_found(self, diagnosed):
    theta, own = diagnosed[1], np.asarray(diagnosed[4][1])
    assert own.shape == theta.shape
    for axis in range(2):
      assert np.corrcoef(own[:, axis], theta[:, axis])[0, 1] > 0.6
    # Joint modes without spread would shrink to a fraction of this.
    assert 0.5 < own.std() < 1.2

  def test_the_bank_knows_its_concepts(self, diagnosed):
    found = diagnosed[4][0]
    np.testing.assert_array_equal(found.q_matrix, CONCEPTS)
    low = np.zeros((1, 2))
    gain = models.prob(found, np.array([[1, 0]])) - models.prob(found, low)
    gain = np.asarray(gain)[0]
    np.testing.assert_allclose(gain[1::2], 0, atol=1e-6)
    assert (gain[::2] >= 0).all()
    assert gain[::2].mean() > 0.02


@pytest.mark.parametrize(
  ('function', 'args', 'settings', 'named'),
  [
    (joint.fit_mirt, [[[0, 2]]], {'dims': 1}, r'responses\[0, 1\] = 2'),
    (joint.fit_mirt, [[0, 1]], {'dims': 1}, 'responses has the shape'),
    (joint.fit_mirt, [[[0, 1]]], {'dims': 0}, 'dims = 0'),
    (
      joint.fit_mirt,
      [[[0, 1]]],
      {'dims': 2, 'q_matrix': [[1], [1]]},
      r'q_matrix has the shape \(2, 1\)',
    ),
    (joint.fit_ncd, [[[0, 1]], [[1]]], {}, 'mask has the shape'),
    (
      joint.fit_ncd,
      [[[0, 1]], None, [[1], [0]]],
      {},
      'item 1 needs no concept',
    ),
    (joint.fit_ncd, [[[0, 1]]], {'dropout': 1}, 'dropout = 1 is not'),
  ],
)
def test_bad_input_is_named(function, args, settings, named):
  with pytest.raises(UserError, match=named):
    function(*args, key=KEY, **settings)
