"""The learned rule and its features: closed forms, flips, permutations."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import errors
from jaxlab.adaptive_testing import estimate, models, simulate, synthetic
from jaxlab.adaptive_testing.selectors import features, itemwise, selector
from jaxlab.adaptive_testing.types import ItemBank
from tests.adaptive_testing import drawn

_E, _N, _T, _ASKED = 40, 12, 5, 3
_KEY = jax.random.key(0)
_RULE = itemwise.bank_specific(horizon=_T)
_prob, _information = jax.jit(models.prob), jax.jit(models.item_information)


@functools.cache
def _state(model):
  """A bank, answers, and states after three items."""
  bank = drawn.bank(_N, model)
  y = drawn.answers(bank, _E)
  items = drawn.random_items(_N, _E, _ASKED)
  return bank, y, drawn.state_after(bank, y, items, test_length=_T)


@pytest.fixture(scope='module')
def problem():
  """With residuals, and a rule none of whose parts is zero."""
  bank, y, state = _state('3pl')

  @jax.jit
  def prepare(bank, y):
    theta = estimate.map_newton(bank, y)
    found = features.residual_correlation(bank, y, theta)
    params = itemwise.for_bank(_RULE.init(_KEY, bank), bank, found)
    return theta, found, params

  theta, found, params = prepare(bank, y)
  return bank, y, state, theta, found, _shaken(params)


def _shaken(params, seed=4):
  rng = np.random.default_rng(seed)
  moved = jax.tree.map(
    lambda leaf: leaf + 0.3 * rng.normal(size=leaf.shape).astype('f'),
    params['network'],
  )
  return {**params, 'network': moved}


@functools.partial(jax.jit, static_argnums=0)
def _score(rule, params, bank, state):
  return rule.score(params, _KEY, bank, state)


@functools.partial(jax.jit, static_argnums=0)
def _init(rule, bank):
  return rule.init(_KEY, bank)


def _untrained(rule, bank, state):
  return _score(rule, _init(rule, bank), bank, state)


@pytest.mark.parametrize('model', ['3pl', 'mirt'])
def test_an_untrained_rule_may_be_mepv(model):
  bank, _, state = _state(model)
  rule = itemwise.itemwise(horizon=_T, start='mepv')
  found = _untrained(rule if model == '3pl' else _RULE, bank, state)
  wanted = _untrained(selector('mepv'), bank, state)
  np.testing.assert_allclose(found, np.log(wanted), rtol=1e-4, atol=1e-4)


def test_an_untrained_rule_is_the_closed_form(problem):
  bank, _, state, _, found, _ = problem
  # Correlations of rank two, which the factors hold exactly.
  right = np.asarray(found.right)[:, :2]
  left = np.asarray(found.left)[:, :2]
  simple = features.Residuals(
    left @ right.T, (left @ right.T).sum(0), left, right
  )
  params = itemwise.for_bank(_init(_RULE, bank), bank, simple)
  wanted = _score(selector('pool_reduction'), simple, bank, state)
  scores = _score(_RULE, params, bank, state)
  np.testing.assert_allclose(scores, np.log(wanted), rtol=1e-3, atol=1e-3)


def test_unknown_start():
  with pytest.raises(errors.UserError, match="start 'random' is unknown"):
    itemwise.itemwise(start='random')


def test_parts_set_to_zero_leave_mepv(problem):
  bank, _, state, _, _, params = problem
  network = dict(params['network'])
  network['kappa'] = jnp.array([1.0, 0.0, 0.0])
  for name in ('table', 'pair_effect'):
    network[name] = jnp.zeros_like(network[name])
  network['Dense_0'] = jax.tree.map(jnp.zeros_like, network['Dense_0'])
  wanted = _untrained(selector('mepv'), bank, state)
  zeroed = _score(_RULE, {**params, 'network': network}, bank, state)
  np.testing.assert_allclose(zeroed, np.log(wanted), rtol=1e-4, atol=1e-4)
  shaken = _score(_RULE, params, bank, state)
  assert np.mean(np.argmax(shaken, 1) != np.argmax(wanted, 1)) > 0.2


@pytest.mark.parametrize(
  'name', ['kappa', 'table', 'pair_effect', 'embedding', 'Dense_0', 'residuals']
)
def test_each_part_counts(problem, name):
  bank, _, state, _, _, params = problem
  if name == 'residuals':
    zero = jax.tree.map(jnp.zeros_like, params[name])
    other = {**params, name: zero}
  else:
    zero = jax.tree.map(jnp.zeros_like, params['network'][name])
    other = {**params, 'network': {**params['network'], name: zero}}
  one, two = (_score(_RULE, each, bank, state) for each in (params, other))
  assert np.max(np.abs(one - two)) > 1e-2


def test_skip_only_has_three_numbers():
  rule = itemwise.skip_only()
  shapes = jax.eval_shape(rule.init, _KEY, drawn.bank(_N))['network']
  assert {name: leaf.shape for name, leaf in shapes.items()} == {'kappa': (3,)}


def test_features_are_their_definitions(problem):
  bank, _, state, _, found, params = problem
  describe = jax.jit(features.item_features, static_argnums=4)
  seen = describe(bank, state, params['tables'], found, _T)
  p = np.asarray(_prob(bank, state.theta))
  z = (state.responses - p) / np.sqrt(p * (1 - p)) * state.asked
  C, asked = np.asarray(found.correlation), np.asarray(state.asked)
  info = np.asarray(_information(bank, state.theta))
  low_rank = np.asarray(found.left @ found.right.T)
  wanted = {
    0: p,
    1: np.full(p.shape, _ASKED / _T),
    2: np.log(info),
    7: bank.b - state.theta[:, None],
    12: asked @ C,
    13: z @ C,
    14: ~asked @ C,
    15: (~asked * np.sqrt(info)) @ low_rank,
  }
  assert seen.inputs.shape == (_E, _N, 16)
  for column, value in wanted.items():
    np.testing.assert_allclose(
      seen.inputs[..., column], value, rtol=2e-4, atol=2e-5, err_msg=column
    )
  # Without the order of the items, the sums are the same.
  without = state._replace(items=None)
  again = describe(bank, without, params['tables'], found, _T)
  np.testing.assert_allclose(again.inputs, seen.inputs, rtol=1e-4, atol=1e-5)


def test_residual_correlations_are_numpys(problem):
  bank, y, _, theta, found, _ = problem
  gap = np.asarray(y - _prob(bank, theta), float)
  wanted = np.corrcoef(gap.T) - np.eye(_N)
  np.testing.assert_allclose(found.correlation, wanted, atol=1e-5)
  np.testing.assert_allclose(found.total, wanted.sum(0), atol=1e-4)
  values, vectors = np.linalg.eigh(wanted)
  best = np.argsort(-np.abs(values))[:8]
  low_rank = (vectors[:, best] * values[best]) @ vectors[:, best].T
  np.testing.assert_allclose(found.left @ found.right.T, low_rank, atol=1e-4)
  # With missing answers, over the examinees that a pair has in common.
  mask = np.random.default_rng(1).random(y.shape) < 0.7
  holes = jnp.where(mask, y, jnp.nan)
  partial = jax.jit(features.residual_correlation)(bank, holes, theta, mask)
  both = mask[:, 2] & mask[:, 7]
  wanted = np.corrcoef(gap[both, 2], gap[both, 7])[0, 1]
  assert partial.correlation[2, 7] == pytest.approx(wanted, abs=1e-5)


def test_answers_that_were_not_given_have_no_influence(problem):
  bank, y, _, _, _, params = problem
  run = functools.partial(
    simulate.run_cat, _RULE, params, bank, test_length=_T, key=_KEY
  )
  trace = run(y)
  again = run(jnp.where(trace.asked, y, 1 - y))
  np.testing.assert_array_equal(trace.items, again.items)
  # What was given has: the same items for all would pass the test above.
  other = run(1 - y)
  assert np.mean(trace.items[1:] != other.items[1:]) > 0.3


def test_the_default_rule_knows_no_item(problem):
  bank, _, state, _, _, _ = problem
  rule = itemwise.itemwise(horizon=_T)
  params = _shaken(_init(rule, bank))
  order = np.random.default_rng(2).permutation(_N)
  back = np.argsort(order)
  shuffled = ItemBank(*(x[order] for x in bank[:4]))
  moved = state._replace(
    asked=state.asked[:, order],
    responses=state.responses[:, order],
    items=jnp.where(state.items >= 0, back[state.items], -1),
  )

  @jax.jit
  def score_there(params, bank, state):
    return rule.score(itemwise.for_bank(params, bank), _KEY, bank, state)

  scores = score_there(params, bank, state)
  found = score_there(params, shuffled, moved)
  np.testing.assert_allclose(found, scores[:, order], rtol=1e-4, atol=1e-4)
  larger = drawn.bank(_N + 8)
  larger = jax.tree.map(lambda new, old: new.at[:_N].set(old), larger, bank)
  wider = state._replace(
    asked=jnp.pad(state.asked, ((0, 0), (0, 8))),
    responses=jnp.pad(state.responses, ((0, 0), (0, 8))),
  )
  # The closed form knows how much all items tell together; the rest does not.
  kappa = params['network']['kappa'].at[2].set(0)
  params = {**params, 'network': {**params['network'], 'kappa': kappa}}
  scores = score_there(params, bank, state)
  found = score_there(params, larger, wider)
  np.testing.assert_allclose(found[:, :_N], scores, rtol=1e-4, atol=1e-4)


def test_examinees_are_scored_one_by_one():
  bank, _, state = _state('mirt')
  params = _shaken(_init(_RULE, bank))
  order = np.random.default_rng(3).permutation(_E)
  mixed = jax.tree.map(lambda x: x[order] if x.ndim else x, state)
  found, wanted = (_score(_RULE, params, bank, x) for x in (mixed, state))
  np.testing.assert_allclose(found, wanted[order], rtol=1e-4, atol=1e-4)


def test_a_neural_bank_is_scored():
  draw = functools.partial(
    synthetic.random_neural_bank, num_dimensions=3, hidden=(4,)
  )
  bank = jax.jit(draw, static_argnums=1)(_KEY, _N)

  @jax.jit
  def start(bank):
    state = simulate.initial_state(bank, 2, test_length=_T)
    params = _RULE.init(_KEY, bank)
    seen = features.item_features(bank, state, params['tables'], None, _T)
    info = models.item_information(bank, state.theta)
    return seen, info, _RULE.score(params, _KEY, bank, state)

  seen, info, scores = start(bank)
  trace = np.trace(info, axis1=-2, axis2=-1)
  np.testing.assert_allclose(seen.inputs[..., 2], np.log(trace), rtol=1e-4)
  # Before the first item the precision is that of the prior.
  wanted = np.log(trace / (1 + trace))
  np.testing.assert_allclose(scores, wanted, rtol=1e-3, atol=1e-3)
