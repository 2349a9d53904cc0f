"""Measures against closed forms, brute force and scikit-learn."""

import itertools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import metrics as reference

from jaxlab.adaptive_testing import metrics, models
from jaxlab.errors import UserError
from tests.adaptive_testing import drawn


class SavingTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_by_hand(self):
    # 1 / t against 1 / (2 t): half of the questions.
    lengths = (4, 10)
    turn = np.arange(1, 11)
    saved = self.variant(metrics.questions_saved, static_argnums=2)
    found = saved(1 / turn, 0.5 / turn, lengths)
    np.testing.assert_allclose(found.fraction, [0.5, 0.5], atol=1e-6)
    assert not np.any(found.censored)
    # The error 0.25 lies one third of the way from 0.3 to 0.15.
    found = saved(1 / turn, np.array([0.5, 0.3, 0.15, 0.12]), lengths)
    assert found.fraction[0] == pytest.approx(1 - (2 + 1 / 3) / 4, abs=1e-6)
    assert found.censored.tolist() == [False, True]

  @chex.variants(with_jit=True, without_jit=True)
  def test_a_loss_counts_up_to_the_longest_test(self):
    turn = np.arange(1, 26)
    saved = self.variant(metrics.questions_saved, static_argnums=2)
    slow = saved(1 / turn[:20], 1.2 / turn, (10, 20))
    np.testing.assert_allclose(slow.fraction, [-0.2, -0.2], atol=1e-5)
    assert not np.any(slow.censored)
    cut = saved(1 / turn[:20], 1.2 / turn[:20], (10, 20))
    np.testing.assert_allclose(cut.fraction, [-0.2, 0.0], atol=1e-5)
    assert cut.censored.tolist() == [False, True]


def test_savings_are_numpys_interpolation():
  rng = np.random.default_rng(0)
  old = np.sort(rng.random((6, 12)))[:, ::-1]
  new = np.sort(rng.random((6, 15)))[:, ::-1] * 0.9
  new[:, -1] = 0
  lengths = (3, 7, 12)
  found = metrics.questions_saved(old, new, lengths)
  for row, curve in enumerate(new):
    wanted = np.interp(
      old[row, np.array(lengths) - 1], curve[::-1], np.arange(15, 0, -1)
    )
    np.testing.assert_allclose(
      found.fraction[row], 1 - wanted / lengths, atol=1e-5
    )


@pytest.mark.parametrize('lengths', [(), (0, 3), (3, 13)])
def test_lengths_outside_of_the_reference(lengths):
  with pytest.raises(UserError, match='lengths'):
    metrics.questions_saved(jnp.ones(12), jnp.ones(12), lengths)


def test_intervals_pair_examinees():
  rng = np.random.default_rng(1)
  size = np.exp(rng.normal(size=400))  # examinees differ far more than rules
  turn = np.arange(1, 11)[:, None]
  old = size / turn
  new = 0.5 * old + 0 * size
  key = jax.random.key(0)
  saved = metrics.saving_interval(key, old, new, (4, 10), num_resamples=200)
  np.testing.assert_allclose(saved.low, 0.5, atol=1e-5)
  np.testing.assert_allclose(saved.high, 0.5, atol=1e-5)
  change = metrics.error_change_interval(key, old, new, num_resamples=200)
  np.testing.assert_allclose(change.low, -0.5, atol=1e-5)
  np.testing.assert_allclose(change.high, -0.5, atol=1e-5)
  noisy = new * np.exp(0.5 * rng.normal(size=new.shape) - 0.125)
  change = metrics.error_change_interval(key, old, noisy, num_resamples=200)
  assert np.all(change.low < -0.5 + 0.1)
  assert np.all((change.high - change.low > 0.01) & (change.high < -0.2))


def test_squared_errors_add_dimensions():
  theta = np.random.default_rng(2).normal(size=(4, 3, 2))
  target = np.ones((3, 2))
  found = metrics.squared_errors(theta, target)
  np.testing.assert_allclose(
    found, np.linalg.norm(theta - target, axis=-1) ** 2, rtol=1e-5
  )
  np.testing.assert_allclose(
    metrics.mse_curve(theta[..., 0], target[:, 0]),
    ((theta[..., 0] - 1) ** 2).mean(1),
    rtol=1e-5,
  )


def test_exposure_and_overlap_are_counts():
  rng = np.random.default_rng(3)
  asked = np.zeros((7, 10), bool)
  for row in asked:
    row[rng.permutation(10)[:4]] = True
  pairs = itertools.combinations(asked, 2)
  shared = np.mean([np.sum(one & other) for one, other in pairs]) / 4
  assert metrics.overlap_rate(asked) == pytest.approx(shared, rel=1e-5)
  np.testing.assert_allclose(metrics.exposure_rates(asked), asked.mean(0))
  same = np.tile(asked[:1], (5, 1))
  assert metrics.overlap_rate(same) == pytest.approx(1)


def test_predictions_are_scikit_learns():
  bank = drawn.bank(12, '3pl')
  y = drawn.answers(bank, 40)
  theta = jnp.round(jnp.linspace(-2, 2, 40))  # with ties
  held = np.random.default_rng(6).random(y.shape) < 0.3
  p = np.asarray(models.prob(bank, theta))[held]
  predict = jax.jit(metrics.predict_held_out)
  found = predict(bank, theta, jnp.where(held, y, jnp.nan), held)
  truth = np.asarray(y)[held]
  auc = reference.roc_auc_score(truth, p)
  assert found.auc == pytest.approx(auc, abs=1e-5)
  assert found.accuracy == pytest.approx(np.mean((p >= 0.5) == truth))
