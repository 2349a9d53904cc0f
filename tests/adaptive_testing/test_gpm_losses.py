"""Losses of path matching: expectations, straight-through and bilevel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import (
  estimate,
  gpm_losses,
  gpm_states,
  paths,
  simulate,
)
from jaxlab.adaptive_testing.selectors import itemwise, selector
from jaxlab.errors import UserError
from tests.adaptive_testing import drawn

_E, _N, _T = 6, 8, 3
_KEY = jax.random.key(0)


_RULE = itemwise.bank_specific(
  horizon=_T, hidden=(), item_embed_dim=0, pair_rank=2
)


@pytest.fixture(scope='module')
def setting():
  """A bank, answers and a rule with random parameters, in float64."""
  with jax.enable_x64(True):
    bank = drawn.bank(_N)
    y = drawn.answers(bank, _E)
    params = jax.jit(_RULE.init)(_KEY, bank)
    network = dict(params['network'])
    rng = np.random.default_rng(3)
    network['table'] = jnp.asarray(rng.normal(size=network['table'].shape))
    network['pair_effect'] = jnp.ones((_N, 2))
    yield bank, y, {**params, 'network': network}


@pytest.fixture(scope='module')
def rollout(setting):
  """Tests with noise, each from a pool of five items."""
  bank, y, params = setting
  with jax.enable_x64(True):
    yield gpm_states.record(
      *(_RULE, params, bank, y, jnp.ones(y.shape, bool)),
      key=_KEY,
      noise=0.5,
      test_length=_T,
      pool_size=5,
    )


def test_a_pick_is_judged_by_its_expected_value():
  rng = np.random.default_rng(0)
  score, values = rng.normal(size=(2, 4, 5))
  available = rng.random((4, 5)) < 0.7
  available[:, 0] = True
  values[~available] = np.inf
  scale, tau = np.array([1.0, 2.0, 0.5, 3.0]), 0.3
  found = gpm_losses.candidate_loss(
    *map(jnp.asarray, (score, values, available, scale)), tau
  )
  for row in range(4):
    members = available[row]
    chance = np.exp(score[row, members] / tau)
    value = values[row, members]
    wanted = chance / chance.sum() @ (value - value.mean()) / scale[row]
    assert found[row] == pytest.approx(wanted, rel=1e-4, abs=1e-6)
  flat = gpm_losses.candidate_loss(
    *(jnp.zeros((4, 5)), jnp.asarray(values), jnp.asarray(available)), 1.0, tau
  )
  np.testing.assert_allclose(flat, 0, atol=1e-6)


@pytest.mark.parametrize('path', paths.PATHS)
def test_values_of_candidates_on_each_path(setting, rollout, path):
  bank, y, _ = setting
  time = jnp.array([0, 1, 2, 2, 1, 0])

  @jax.jit
  def both(rollout):
    states = gpm_states.take_states(bank, rollout, jnp.arange(_E), time)
    found = gpm_losses.candidate_values(bank, states, path=path, num_points=3)
    item = jnp.argmax(~states.cat.asked, axis=1)
    subset = states.cat.asked | jax.nn.one_hot(item, _N, dtype=bool)
    points = paths.path_points(
      *(bank, y, states.cat.theta),
      num_points=3,
      kind=path,
      subset_mask=subset,
    )
    return found, item, paths.match_value(bank, y, subset, points)

  with jax.enable_x64(True):
    found, item, wanted = both(rollout)
  np.testing.assert_allclose(
    found[np.arange(_E), item], wanted, rtol=1e-6, atol=1e-12
  )


@pytest.mark.parametrize(
  ('weights', 'wanted'),
  [
    ('linear', [1 / 6, 2 / 6, 3 / 6]),
    ('uniform', [1 / 3, 1 / 3, 1 / 3]),
    (0.5, [4 / 7, 2 / 7, 1 / 7]),
  ],
)
def test_weights_of_the_picks(weights, wanted):
  found = gpm_losses.time_weights(weights, 3)
  np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_unknown_weights():
  with pytest.raises(UserError, match="'late'"):
    gpm_losses.time_weights('late', 3)


def test_sampled_tests_are_matched_as_a_replay_says(setting):
  bank, y, params = setting

  @jax.jit
  def sample(params):
    return gpm_losses.gpm_loss(
      *(params, _KEY, bank, y), selector=_RULE, test_length=_T, num_points=3
    )

  @jax.jit
  def value_of(theta, subset):
    points = paths.path_points(bank, y, theta, num_points=3)
    error = jnp.mean((theta - estimate.map_newton(bank, y)) ** 2)
    return jnp.mean(paths.match_value(bank, y, subset, points)), error

  with jax.enable_x64(True):
    loss, found = sample(params)
    subset, values = np.zeros(y.shape), []
    for turn, item in enumerate(found['items']):
      asked = np.full((_T, _E), -1, np.int32)
      asked[:turn] = found['items'][:turn]
      state = drawn.state_after(bank, y, asked, test_length=_T)
      subset[np.arange(_E), item] = 1
      value, error = value_of(state.theta, subset)
      values.append(value)
      np.testing.assert_allclose(found['error'][turn], error, rtol=1e-6)
  assert subset.sum(1).tolist() == [_T] * _E
  np.testing.assert_allclose(found['match'], values, rtol=1e-6)
  wanted = np.array(values) @ np.arange(1, _T + 1) / 6
  np.testing.assert_allclose(loss, wanted, rtol=1e-6)


def _gradient(setting, **kwargs):
  bank, y, params = setting

  def loss(network):
    return gpm_losses.gpm_loss(
      {**params, 'network': network},
      *(_KEY, bank, y),
      selector=_RULE,
      num_points=3,
      **kwargs,
    )[0]

  with jax.enable_x64(True):
    found = jax.jit(jax.grad(loss))(params['network'])
    return np.asarray(found['table'])


@pytest.mark.slow
def test_bilevel_gradients_are_those_through_the_look_ahead_step(setting):
  bank, y, params = setting

  def exact(network):
    """The loss of one pick, differentiated through the step itself."""
    state = simulate.initial_state(bank, _E, test_length=1)
    keys = jax.random.split(jax.random.fold_in(_KEY, 0))
    score = _RULE.score({**params, 'network': network}, keys[0], bank, state)
    noisy = score + jax.random.gumbel(keys[1], score.shape)
    soft = jax.nn.softmax(noisy, axis=-1)
    hard = jax.nn.one_hot(jnp.argmax(noisy, axis=-1), _N)
    subset = hard + soft - jax.lax.stop_gradient(soft)
    ahead = paths.path_points(
      *(bank, y, state.theta),
      num_points=2,
      kind='student',
      subset_mask=subset,
    )[0]
    points = paths.path_points(bank, y, ahead, num_points=3)
    return jnp.mean(paths.match_value(bank, y, subset, points))

  found = _gradient(setting, test_length=1, darts=True)
  plain = _gradient(setting, test_length=1)
  with jax.enable_x64(True):
    wanted = jax.jit(jax.grad(exact))(params['network'])['table']
  size = np.max(np.abs(wanted))
  np.testing.assert_allclose(found, wanted, atol=1e-4 * size)
  assert np.max(np.abs(plain - wanted)) > 2e-3 * size


@pytest.mark.slow
def test_through_time_gradients_go_back_through_estimates(setting):
  one_step = _gradient(setting, test_length=2)
  through = _gradient(setting, test_length=2, bptt=True)
  assert np.all(np.isfinite(through))
  assert np.max(np.abs(one_step - through)) > 1e-3 * np.max(np.abs(one_step))


def test_estimates_move_with_shares_of_items_as_the_optimum_does(setting):
  """The derivative of the next estimate by the weight of an asked item."""
  bank, y, _ = setting
  with jax.enable_x64(True):
    cat = simulate.initial_state(bank, _E, test_length=_T)
    subset = jnp.zeros_like(y).at[:, 2].set(1.0)
    item = jnp.full(_E, 2)

    def estimate_of(subset):
      following = gpm_losses.next_state(
        bank, y, cat, subset, item, 0, lambda x: x
      )
      return following.theta

    slope = jax.jit(jax.grad(lambda s: estimate_of(subset * s).sum()))(1.0)
    # The optimum for a weight w solves w (p - y) a + theta = 0.
    a, b = float(bank.a[2]), float(bank.b[2])
    answer = np.asarray(y)[:, 2]

    def optimum(weight):
      theta = np.zeros(_E)
      for _ in range(100):
        p = 1 / (1 + np.exp(-a * (theta - b)))
        pull = weight * (p - answer) * a + theta
        theta -= pull / (weight * p * (1 - p) * a**2 + 1)
      return theta.sum()

  wanted = (optimum(1 + 1e-5) - optimum(1 - 1e-5)) / 2e-5
  assert slope == pytest.approx(wanted, rel=1e-5)


def test_recorded_states_are_those_of_the_simulation(setting, rollout):
  bank, y, _ = setting
  take = jax.jit(gpm_states.take_states)
  assert rollout.pool.sum(1).tolist() == [5] * _E
  assert len({tuple(row) for row in rollout.pool.tolist()}) > 1
  with jax.enable_x64(True):
    for turn in range(_T):
      time = jnp.full(_E, turn)
      found = take(bank, rollout, jnp.arange(_E), time).cat
      asked = np.full((_T, _E), -1, np.int32)
      asked[:turn] = rollout.items[:turn]
      state = drawn.state_after(bank, y, asked, rollout.pool, test_length=_T)
      for name in found._fields:
        if name not in ('step', 'items'):
          np.testing.assert_allclose(
            *(np.asarray(getattr(x, name), float) for x in (found, state)),
            rtol=1e-6,
            atol=1e-9,
            err_msg=name,
          )
      item = rollout.items[turn]
      assert np.all(np.asarray(found.available)[np.arange(_E), item])
      np.testing.assert_array_equal(found.items, asked.T)
    state = drawn.state_after(bank, y, rollout.items, test_length=_T)
    target = jax.jit(estimate.map_newton)(bank, y)
  error = np.mean((np.asarray(state.theta) - target) ** 2)
  np.testing.assert_allclose(rollout.error[-1], error, rtol=1e-6)


def test_noise_draws_by_a_softmax_of_scores():
  bank = drawn.bank(3)
  mfi = selector('mfi')
  state = jax.jit(lambda: simulate.initial_state(bank, 20_000))()
  score = np.asarray(mfi.score((), _KEY, bank, state))[0]
  noise = 0.1
  found = gpm_states.noisy(mfi).score(((), noise), _KEY, bank, state)
  share = np.bincount(np.argmax(found, axis=1)) / 20_000
  wanted = np.exp(score / noise)
  np.testing.assert_allclose(share, wanted / wanted.sum(), atol=0.015)
