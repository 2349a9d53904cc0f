"""Training: what it learns, that it can be resumed, what it refuses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab.adaptive_testing import gpm, gpm_losses, gpm_states, synthetic
from jaxlab.adaptive_testing.selectors.bank_mlp import bank_mlp
from jaxlab.adaptive_testing.selectors.itemwise import bank_specific
from jaxlab.errors import UserError
from tests.adaptive_testing import drawn

_E, _N, _T = 400, 12, 5
_CFG = gpm.GPMConfig(
  test_length=_T, rounds=2, steps=120, batch=64, learning_rate=1e-2
)
_KEY = jax.random.key(0)


# It starts from a rule that trusts the model, and has room to do better.
_RULE = bank_specific(horizon=_T, start='mepv')


@pytest.fixture(scope='module')
def copies():
  """A bank whose items come in pairs with the same answer, and examinees.

  A rule that trusts the model asks both items of a good pair; one that has seen
  answers need not.
  """
  half = drawn.bank(_N // 2)
  y = jnp.repeat(drawn.answers(half, 2 * _E), 2, axis=1)
  bank = jax.tree.map(lambda x: jnp.repeat(x, 2), half)
  return bank, y[:_E], y[_E:]


@pytest.fixture(scope='module')
def trained(copies):
  bank, train, _ = copies
  return gpm.train_gpm(_KEY, bank, train, _CFG, selector=_RULE)


def _test(rule, params, bank, y):
  """Tests without noise, by the program of the rollouts."""
  known = jnp.ones(y.shape, bool)
  return gpm_states.record(
    *(rule, params, bank, y, known), key=_KEY, noise=0.0, test_length=_T
  )


@pytest.fixture(scope='module')
def tests(copies, trained):
  """Tests of new examinees, by the trained rule and by that of the start.

  The untrained rule is that of minimum expected posterior variance.
  """
  bank, _, test = copies
  start = gpm.start(_KEY, bank, copies[1], _CFG, selector=_RULE).params
  return [_test(_RULE, own, bank, test) for own in (start, trained[0])]


def test_it_learns_what_the_model_does_not_know(tests):
  def repeated(rollout):
    """Items of which an examinee saw the copy as well."""
    pairs = np.sort(rollout.items, axis=0) // 2
    return np.sum(pairs[1:] == pairs[:-1], axis=0).mean()

  mepv, found = tests
  assert repeated(mepv) > 1
  assert repeated(found) < 0.5 * repeated(mepv)
  assert np.all(found.error[2:] < 0.9 * mepv.error[2:])


def test_the_loss_falls_below_that_of_mepv(copies, trained, tests):
  """Expected match values in states of the start rule."""
  bank, _, _ = copies
  time = jnp.arange(_E) % _T
  start = gpm.start(_KEY, bank, copies[1], _CFG, selector=_RULE).params

  @jax.jit
  def loss_of(params, rollout):
    states = gpm_states.take_states(bank, rollout, jnp.arange(_E), time)
    values = gpm_losses.candidate_values(bank, states)
    score = _RULE.score(params, _KEY, bank, states.cat)
    return gpm_losses.candidate_loss(
      *(score, values, states.cat.available, rollout.error[time], 0.05)
    )

  gap = loss_of(trained[0], tests[0]) - loss_of(start, tests[0])
  assert np.mean(gap) + 3 * np.std(gap) / _E**0.5 < 0
  history = trained[1]
  assert history.loss.shape == (2, _CFG.steps)
  assert history.error.shape == (2, _T)
  assert history.error[1, -1] < history.error[0, -1]


def test_rounds_can_be_stored_and_resumed(copies, trained):
  bank, train, _ = copies
  state = gpm.start(_KEY, bank, train, _CFG, selector=_RULE)
  for number in range(2):
    state = jax.tree.map(jnp.asarray, jax.tree.map(np.asarray, state))
    assert int(state.done) == number
    state, _ = gpm.train_round(_KEY, state, bank, train, _CFG, selector=_RULE)
  jax.tree.map(np.testing.assert_array_equal, state.params, trained[0])


@pytest.mark.parametrize(
  'pool_size', [None, pytest.param(8, marks=pytest.mark.slow)]
)
def test_unknown_answers_do_not_count(copies, pool_size):
  bank, train, _ = copies
  mask = np.random.default_rng(0).random(train.shape) < 0.8
  mask[:, :8] = True
  cfg = dataclasses.replace(_CFG, pool_size=pool_size)
  found = [
    gpm.train_gpm(
      *(_KEY, bank, jnp.where(mask, train, value), cfg),
      selector=_RULE,
      mask=mask,
    )
    for value in (jnp.nan, 1.0)
  ]
  assert np.all(np.isfinite(found[0][1].loss))
  jax.tree.map(np.testing.assert_array_equal, *(params for params, _ in found))


def test_a_sampler_gives_new_examinees_to_each_round(copies):
  bank, _, _ = copies
  seen = []

  def sampler(key):
    theta = synthetic.random_abilities(key, bank, _E)
    seen.append(synthetic.random_responses(key, bank, theta))
    return seen[-1]

  params, history = gpm.train_gpm(_KEY, bank, sampler, _CFG)
  assert len(seen) == 3  # for the correlations, and for two rounds
  assert not np.array_equal(seen[1], seen[2])
  assert np.all(np.isfinite(history.loss))
  assert params['residuals'].correlation.shape == (_N, _N)


@pytest.mark.parametrize(
  'credit',
  [
    pytest.param('all_candidates', marks=pytest.mark.slow),
    'straight_through',
  ],
)
def test_the_bank_mlp_learns_by_both_credits(copies, credit):
  """It begins with a random wish; training makes tests better."""
  bank, train, test = copies
  rule = bank_mlp()
  cfg = gpm.GPMConfig(
    credit=credit,
    test_length=_T,
    rounds=2,
    steps=60,
    batch=32,
    learning_rate=5e-3,
    tau=(1.0, 0.3),
    noise=(1.0, 1.0),
  )
  start = gpm.start(_KEY, bank, train, cfg, selector=rule).params
  params, history = gpm.train_gpm(_KEY, bank, train, cfg, selector=rule)
  before, after = (_test(rule, own, bank, test) for own in (start, params))
  assert np.mean(after.error) < 0.95 * np.mean(before.error)
  assert history.error.shape == (2, _T)


@pytest.mark.parametrize(
  ('kwargs', 'match'),
  [
    ({'num_points': 2}, 'num_points is 2'),
    ({'credit': 'hindsight'}, "credit 'hindsight'"),
    ({'path': 'arc'}, "path 'arc'"),
    ({'match': 'max'}, "match 'max'"),
    ({'weights': 'late'}, "weights 'late'"),
    ({'rounds': 0}, 'rounds is 0'),
    ({'test_length': 2.5}, 'test_length is 2.5'),
    ({'learning_rate': float('nan')}, 'learning_rate is nan'),
    ({'clip': -1.0}, 'clip is -1'),
    ({'tau': (0.2, 0.0)}, r'tau\[1\] is 0.0'),
    ({'newest_share': 7.0}, 'newest_share is 7'),
    ({'bptt': True}, 'straight_through'),
    ({'pool_size': 10}, 'pool_size is 10'),
  ],
)
def test_bad_config(kwargs, match):
  with pytest.raises(UserError, match=match):
    gpm.GPMConfig(**kwargs)


def test_bad_responses(copies):
  bank, train, _ = copies
  with pytest.raises(UserError, match=r'responses\[3, 2\] = 2'):
    gpm.train_gpm(_KEY, bank, train.at[3, 2].set(2), _CFG)
  mask = jnp.ones(train.shape).at[5, 4:].set(0)
  with pytest.raises(UserError, match='examinee 5 has 4 answers'):
    gpm.train_gpm(_KEY, bank, train, _CFG, mask=mask)
