"""How often items are asked, against the rates that were wanted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import (
  exposure,
  simulate,
  state,
  sympson_hetter,
  ties,
  types,
)
from jaxlab.adaptive_testing.selectors import mfi
from jaxlab.errors import UserError

N, E, T = 12, 2000, 3
RNG = np.random.default_rng(0)
THETA = RNG.normal(size=E)
KEY = jax.random.key(2)


@pytest.fixture(scope='module')
def bank():
  return types.item_bank(RNG.lognormal(0, 0.3, N), RNG.normal(size=N))


@pytest.fixture(scope='module')
def calibrated(bank):
  return sympson_hetter.calibrate_chance(
    *(mfi(), (), bank, THETA),
    test_length=T,
    key=KEY,
    max_rate=0.4,
    iterations=15,
    estimator='eap',
  )


def test_no_item_is_asked_more_often_than_allowed(bank, calibrated):
  chance, largest = calibrated
  assert largest[0] > 0.9  # the first item is the same for all
  assert np.all(np.asarray(largest[-5:]) < 0.45)
  control = sympson_hetter.SympsonHetter(chance)
  run = {'test_length': T, 'key': jax.random.key(9), 'estimator': 'eap'}
  fresh = np.random.default_rng(1).normal(size=E)
  found = simulate.run_cat(
    mfi(), (), bank, true_theta=fresh, exposure=control, **run
  )
  rates = np.asarray(found.asked).mean(0)
  assert rates.max() < 0.45
  np.testing.assert_allclose(rates.sum(), T, rtol=1e-6)
  # T items at least are always asked when they are taken.
  assert np.sum(np.asarray(chance) == 1) >= T
  assert np.asarray(chance).min() > 0


def test_coins_decide_in_the_order_of_the_scores():
  chance = jnp.asarray([0.25, 0.5, 1.0, 0.0])
  control = sympson_hetter.SympsonHetter(chance)
  scores = jnp.broadcast_to(jnp.asarray([4.0, 3, 2, 1]), (E, 4))
  cat = state.initial_state(types.item_bank(np.ones(4), np.zeros(4)), E)
  items = control.choose(KEY, scores, cat)
  share = np.bincount(items, minlength=4) / E
  wanted = np.array([0.25, 0.75 * 0.5, 0.75 * 0.5, 0])
  assert np.all(abs(share - wanted) <= 4 * np.sqrt(wanted * (1 - wanted) / E))
  # What was turned down stays so at the next step, while there is another.
  closed = jnp.where(jnp.arange(4) == items[:, None], -jnp.inf, scores)
  after = control.choose(KEY, closed, cat._replace(step=cat.step + 1))
  after, items = np.asarray(after), np.asarray(items)
  assert set(after[items == 0]) == {1, 2}
  assert set(after[items == 1]) == {2}
  assert set(after[items == 2]) == {0}
  # Nothing is left but the last one, which is asked although its chance is 0.
  last = jnp.where(jnp.arange(4) < 3, -jnp.inf, scores)
  assert np.all(control.choose(KEY, last, cat) == 3)


def test_one_of_the_best_is_drawn():
  scores = jnp.broadcast_to(jnp.asarray([1.0, 5, 4, -jnp.inf]), (E, 4))
  cat = state.initial_state(types.item_bank(np.ones(4), np.zeros(4)), E)
  items = exposure.Randomesque(2).choose(KEY, scores, cat)
  share = np.bincount(items, minlength=4) / E
  assert share[1] + share[2] == 1
  assert abs(share[1] - 0.5) < 4 * 0.5 / np.sqrt(E)
  # More than there are: what is not eligible is never drawn.
  items = exposure.Randomesque(9).choose(KEY, scores, cat)
  share = np.bincount(items, minlength=4) / E
  assert share[3] == 0
  assert abs(share[:3] - 1 / 3).max() < 4 * np.sqrt(2 / 9 / E)
  later = exposure.Randomesque(9).choose(
    KEY, scores, cat._replace(step=cat.step + 1)
  )
  assert np.mean(np.asarray(later) == np.asarray(items)) < 0.5


def test_chance_gives_way_to_information():
  scores = jnp.broadcast_to(jnp.asarray([1.0, 3, 0, -jnp.inf]), (E, 4))
  cat = state.initial_state(types.item_bank(np.ones(4), np.zeros(4)), E)
  control = exposure.Progressive(4)
  shares = []
  for step in range(5):
    items = control.choose(KEY, scores, cat._replace(step=jnp.asarray(step)))
    shares.append(np.bincount(items, minlength=4) / E)
  shares = np.array(shares)
  assert np.all(shares[:, 3] == 0)
  assert abs(shares[0, :3] - 1 / 3).max() < 4 * np.sqrt(2 / 9 / E)
  # At step 1 of 4 item 1 loses to item 0 when 3 r_0 / 4 + 1 / 4 is larger
  # than 3 r_1 / 4 + 3 / 4, with r in [0, 3], and to item 2 alike.
  draws = np.random.default_rng(0).random((400_000, 3)) * 3 * 0.75
  mixed = draws + np.array([1, 3, 0]) / 4
  wanted = np.mean(mixed.argmax(1) == 1)
  assert abs(shares[1, 1] - wanted) < 4 * np.sqrt(0.25 / E)
  assert shares[4, 1] == 1


def test_randomesque_needs_an_item():
  with pytest.raises(UserError, match='k = 0'):
    exposure.Randomesque(0)


def test_the_first_of_the_best():
  scores = np.random.default_rng(0).integers(0, 4, (50, 9)).astype(np.float32)
  scores[scores == 3] = -np.inf
  scores[7] = -np.inf
  found = ties.first_best(jnp.asarray(scores))
  np.testing.assert_array_equal(found, scores.argmax(1))
