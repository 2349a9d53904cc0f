"""Random banks and answers: distributions and what they are for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from jaxlab.adaptive_testing import models, synthetic
from jaxlab.errors import UserError

random_bank = jax.jit(
  synthetic.random_bank,
  static_argnames=('num_items', 'model', 'num_dimensions'),
)
random_responses = jax.jit(synthetic.random_responses)
prob = jax.jit(models.prob)


def test_parameters_follow_their_distributions():
  bank = random_bank(jax.random.key(0), 2000, model='3PL')
  laws = {
    'a': scipy.stats.lognorm(0.35),
    'b': scipy.stats.norm(),
    'c': scipy.stats.beta(5, 17),
  }
  for name, law in laws.items():
    assert scipy.stats.kstest(getattr(bank, name), law.cdf).pvalue > 1e-3, name
  assert np.all(bank.d == 1)


def test_lengths_of_slopes_in_several_dimensions():
  bank = random_bank(jax.random.key(1), 2000, model='MIRT', num_dimensions=3)
  length = np.linalg.norm(bank.a, axis=1)
  law = scipy.stats.lognorm(0.35)
  assert scipy.stats.kstest(length, law.cdf).pvalue > 1e-3
  assert bank.latent_shape == (3,)
  assert np.all(bank.a >= 0)


def test_answers_are_right_as_often_as_the_model_says():
  bank = random_bank(jax.random.key(2), 6, model='3PL')
  theta = jnp.tile(jnp.array([-1.0, 1.0]), 4000)
  y = random_responses(jax.random.key(3), bank, theta)
  assert set(np.unique(y)) == {0, 1}
  share = y.reshape(4000, 2, 6).mean(0)
  np.testing.assert_allclose(share, prob(bank, theta[:2]), atol=0.03)


def test_a_neural_bank_is_monotone_and_neither_easy_nor_hard():
  draw = jax.jit(synthetic.random_neural_bank, static_argnums=1)
  bank = draw(jax.random.key(4), 50)
  count = np.asarray(bank.q_matrix).sum(1)
  assert set(count) == {1, 2}
  theta = synthetic.random_abilities(jax.random.key(5), bank, 100)
  p, higher = prob(bank, theta), prob(bank, theta + 0.5)
  assert np.all(higher >= p - 1e-6)
  assert 0.3 < p.mean() < 0.7
  assert p.std() > 0.1


@pytest.mark.parametrize(
  ('kwargs', 'match'),
  [({'model': '5pl'}, "'5pl'"), ({'num_items': 0}, 'num_items is 0')],
)
def test_bad_input(kwargs, match):
  with pytest.raises(UserError, match=match):
    synthetic.random_bank(jax.random.key(0), **{'num_items': 5, **kwargs})
