"""The closed form of what an item tells about the others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import models
from jaxlab.adaptive_testing.selectors import features, selector
from jaxlab.adaptive_testing.selectors.pool import pool_reduction
from jaxlab.errors import UserError
from tests.adaptive_testing import drawn

_E, _N, _T = 5, 8, 3
_KEY = jax.random.key(0)


@pytest.fixture(scope='module')
def setting():
  bank = drawn.bank(_N)
  y = drawn.answers(bank, _E)
  items = drawn.random_items(_N, _E, 2)
  return bank, drawn.state_after(bank, y, items, test_length=_T)


def test_it_is_the_fall_of_a_gaussian_variance(setting):
  """By conditioning the joint distribution of target and residuals."""
  bank, state = setting
  rng = np.random.default_rng(0)
  C = rng.normal(size=(_N, _N)) * 0.1
  C = C + C.T - np.diag(np.diag(C + C.T))
  residuals = features.Residuals(
    jnp.asarray(C), jnp.asarray(C.sum(0)), jnp.zeros((_N, 0)), None
  )
  rule = pool_reduction()
  found = jax.jit(lambda p, s: rule.score(p, _KEY, bank, s))(residuals, state)
  info = np.asarray(models.item_information(bank, state.theta), float)
  for e in range(_E):
    rest = np.flatnonzero(~np.asarray(state.asked[e]))
    s, v = np.sqrt(info[e, rest]), 1 / float(state.info[e])
    cov = v * np.outer(s, s) + np.eye(len(rest)) + C[np.ix_(rest, rest)]
    for place, item in enumerate(rest):
      before = s @ cov @ s
      known = cov[:, place]
      after = cov - np.outer(known, known) / cov[place, place]
      fall = before - s @ after @ s
      np.testing.assert_allclose(found[e, item], fall, rtol=1e-4)


def test_without_correlations_it_is_maximum_information(setting):
  bank, state = setting
  rule, mfi = pool_reduction(), selector('mfi')

  @jax.jit
  def scores(state):
    return [
      each.score(each.init(_KEY, bank), _KEY, bank, state)
      for each in (rule, mfi)
    ]

  found, wanted = scores(state)
  np.testing.assert_array_equal(np.argsort(found, 1), np.argsort(wanted, 1))


def test_one_dimension_only():
  bank = drawn.bank(_N, 'mirt')
  with pytest.raises(UserError, match='one dimension'):
    pool_reduction().score(None, _KEY, bank, None)
