"""Reinforcement learning: advantages, losses, rollouts and their gradients."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlab.lm import config, model, policy, rlvr, sampling, updates
from jaxlab.lm.sampling import SamplingParams
from tests.lm.small_models import apply_of, params_of, tokens_of

CFG = config.tiny('llama', n_layers=1, vocab_size=12)
APPLY = model.apply_fn(model.Decoder(CFG))
PARAMS = params_of(CFG)
KEY = jax.random.key(5)
SP = SamplingParams(max_new=5, stop_ids=(3, 4, 5))
PROMPTS = rlvr.Prompts(
  tokens_of(CFG, 3, 4), np.arange(4) >= np.array([[0], [1], [2]]), np.arange(3)
)
GROUP = 4


def _reward(completions, tasks):
  """Odd sums of tokens are right, where the task is not the last."""
  return [
    (sum(tokens) % 2 if task < 2 else 0.5)
    for tokens, task in zip(completions, tasks, strict=True)
  ]


def _rollout(reward=_reward, **options):
  options = {'group_size': GROUP, 'allow_truncated': True, **options}
  return rlvr.rollout(APPLY, PARAMS, PROMPTS, KEY, SP, reward, **options)


@pytest.fixture(scope='module')
def rolled():
  return _rollout()


_STEPS = {}
_PARTS = {'accumulate': 4}


def _step(state, batch, tx=None, **options):
  """Updates; steps of the same settings are compiled once."""
  tx = tx or optax.sgd(1.0)
  name = repr(sorted(options.items()))
  step = _STEPS.setdefault(
    name, jax.jit(rlvr.make_grpo_step(APPLY, tx, **options))
  )
  return step(state or updates.init_state(PARAMS, tx), batch)


# -- advantages and losses


class AdvantagesTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_against_numpy(self):
    rewards = np.random.default_rng(0).random((5, 4)).astype(np.float32)
    wide = rewards.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    others = [
      [row[i] - np.delete(row, i).mean() for i in range(4)] for row in wide
    ]
    wanted = {
      'grpo': centred / (wide.std(axis=1, keepdims=True) + 1e-4),
      'dr_grpo': centred,
      'rloo': np.array(others),
    }
    assert set(wanted) == set(policy.ADVANTAGES)
    for adv, values in wanted.items():
      found = self.variant(lambda r, adv=adv: rlvr.group_advantages(r, adv))(
        rewards
      )
      np.testing.assert_allclose(found, values, atol=2e-6)

  def test_equal_rewards_give_exactly_nothing(self):
    """Also those that a mean over the group would round."""
    for value in (0.1, 1 / 3, 1e6 + 0.3):
      rewards = jnp.full((2, 7), value)
      for adv in policy.ADVANTAGES:
        assert not np.any(rlvr.group_advantages(rewards, adv))


def loss_by_hand(logp, old, ref, advantages, mask, options):
  """Token by token, in float64."""
  kind, beta = options['aggregation'], options['beta']
  sums, counts, clipped, total = [], [], 0, 0.0
  for row in range(len(logp)):
    losses = []
    for t in np.flatnonzero(mask[row]):
      ratio = np.exp(logp[row, t] - old[row, t])
      inside = min(max(ratio, 1 - options['eps_low']), 1 + options['eps_high'])
      a = advantages[row]
      clipped += inside * a < ratio * a
      delta = ref[row, t] - logp[row, t]
      k3 = np.exp(delta) - delta - 1
      assert k3 >= 0
      losses.append(-min(ratio * a, inside * a) + beta * k3)
    sums.append(sum(losses))
    counts.append(len(losses))
  if kind == 'token':
    total = sum(sums) / sum(counts)
  elif kind == 'sequence':
    means = [s / n if n else 0 for s, n in zip(sums, counts, strict=True)]
    total = np.mean(means)
  else:
    total = sum(sums) / (len(logp) * options['max_new'])
  return total, clipped / sum(counts)


@pytest.mark.parametrize('aggregation', policy.AGGREGATIONS)
@pytest.mark.parametrize('beta', [0.0, 0.3])
def test_policy_loss_against_loops(aggregation, beta):
  rng = np.random.default_rng(1)
  logp, old, ref = rng.normal(-1, 0.5, (3, 6, 9))
  advantages = rng.normal(size=6)
  mask = rng.random((6, 9)) < 0.6
  mask[2] = False
  options = {
    'eps_low': 0.2,
    'eps_high': 0.28,
    'beta': beta,
    'aggregation': aggregation,
    'max_new': 11,
  }
  arrays = [jnp.float32(x) for x in (logp, old, ref, advantages)]
  loss, metrics = rlvr.policy_loss(*arrays, jnp.asarray(mask), **options)
  wanted, clipped = loss_by_hand(logp, old, ref, advantages, mask, options)
  np.testing.assert_allclose(loss, wanted, rtol=1e-5)
  np.testing.assert_allclose(metrics['clip_fraction'], clipped, rtol=1e-6)
  assert 0 < clipped < 1
  assert metrics['kl'] > 0


def test_what_is_masked_has_no_gradient():
  """Not even where a ratio overflows."""
  mask = jnp.array([[True, False]])
  old = jnp.array([[-1.0, -1e30]])

  def loss(logp):
    return rlvr.policy_loss(logp, old, old, jnp.array([1.0]), mask, beta=0.1)[0]

  value, grads = jax.value_and_grad(loss)(jnp.array([[-1.0, 100.0]]))
  assert float(value) == -1
  np.testing.assert_array_equal(grads, [[-1, 0]])


# -- rollouts


def test_rollout_is_what_generate_draws(rolled):
  repeated = [np.repeat(x, GROUP, axis=0) for x in PROMPTS[:2]]
  out = sampling.generate(APPLY, PARAMS, *repeated, KEY, SP)
  drawn = np.asarray(out.tokens)
  np.testing.assert_array_equal(
    rolled.tokens[..., :4].reshape(12, 4), repeated[0]
  )
  np.testing.assert_array_equal(rolled.tokens[..., 4:].reshape(12, 5), drawn)
  mask = np.asarray(out.mask)
  np.testing.assert_array_equal(rolled.learned[..., 4:].reshape(12, 5), mask)
  assert not rolled.learned[..., :4].any()
  np.testing.assert_array_equal(rolled.lengths.ravel(), mask.sum(axis=1))
  np.testing.assert_array_equal(
    rolled.truncated.ravel(), ~np.isin(drawn, SP.stop_ids).any(axis=1)
  )
  assert 0 < rolled.truncated.sum() < 12
  rewards = [
    sum(row[keep]) % 2 for row, keep in zip(drawn[:8], mask, strict=False)
  ]
  np.testing.assert_array_equal(rolled.rewards.ravel()[:8], rewards)
  np.testing.assert_array_equal(rolled.rewards[2], 0.5)
  # Its log-probabilities are those of one pass over the sequences.
  flat = [x.reshape(12, 9) for x in (rolled.tokens, rolled.mask)]
  logits = apply_of(CFG)(PARAMS, flat[0], mask=flat[1]).logits
  logp = np.asarray(sampling.token_logprob(logits[:, :-1], flat[0][:, 1:]))
  learned = rolled.learned.reshape(12, 9)[:, 1:]
  np.testing.assert_allclose(
    rolled.logp_old.reshape(12, 9)[:, 1:][learned], logp[learned], atol=1e-5
  )


def test_truncated_completions():
  plain = _rollout(allow_truncated=False, ref_params=PARAMS)
  cut = plain.truncated
  assert not plain.rewards[cut].any()
  assert plain.rewards[~cut].any()
  assert plain.learned[cut].any()
  masked = _rollout(mask_truncated=True)
  assert not masked.learned[cut].any()
  np.testing.assert_array_equal(masked.learned[~cut], plain.learned[~cut])
  reference = plain.logp_ref[plain.learned]
  np.testing.assert_allclose(
    reference, plain.logp_old[plain.learned], atol=1e-5
  )


# -- updates


def test_a_constant_reward_changes_nothing():
  batch = _rollout(lambda completions, tasks: np.full(len(tasks), 0.1))
  for options in ({}, {'drop_degenerate': True}):
    state, metrics = _step(None, batch, **options)
    chex.assert_trees_all_equal(state.params, jax.tree.map(jnp.asarray, PARAMS))
    assert (metrics['grad_norm'], metrics['loss'], metrics['degenerate']) == (
      *(0, 0, 1),
    )
    assert np.isfinite(list(metrics.values())).all()


def test_metrics(rolled):
  _, metrics = _step(None, rolled)
  right = rolled.rewards > 0
  wanted = {
    'reward': rolled.rewards.mean(),
    'reward_std': rolled.rewards.std(),
    'pass_at_1': right.mean(),
    'pass_at_g': right.any(axis=1).mean(),
    'degenerate': np.mean(np.ptp(rolled.rewards, axis=1) == 0),
    'length': rolled.lengths.mean(),
    'truncated': rolled.truncated.mean(),
    'clip_fraction': 0,
    'kl': 0,
  }
  assert wanted['degenerate'] == pytest.approx(1 / 3)
  for name, value in wanted.items():
    assert float(metrics[name]) == pytest.approx(value, abs=1e-6), name
  flat = [x.reshape(12, 9) for x in (rolled.tokens, rolled.mask)]
  logits = apply_of(CFG)(PARAMS, flat[0], mask=flat[1]).logits[:, :-1]
  probs = np.asarray(jax.nn.softmax(logits), np.float64)
  entropy = -np.sum(probs * np.log(probs), axis=-1)
  learned = rolled.learned.reshape(12, 9)[:, 1:]
  np.testing.assert_allclose(
    metrics['entropy'], entropy[learned].mean(), rtol=1e-4
  )


def test_degenerate_groups_leave_the_count(rolled):
  """Without them the same sum is divided by fewer tokens."""
  kept, dropped = (
    jax.tree.map(
      lambda new, old: new - old,
      _step(None, rolled, drop_degenerate=drop)[0].params,
      jax.tree.map(jnp.asarray, PARAMS),
    )
    for drop in (False, True)
  )
  share = rolled.learned[:2].sum() / rolled.learned.sum()
  chex.assert_trees_all_close(
    kept, jax.tree.map(lambda x: x * share, dropped), rtol=1e-3, atol=1e-6
  )


def test_parts_give_the_step_of_the_whole(rolled):
  whole, parts = (_step(None, rolled, **more) for more in ({}, _PARTS))
  chex.assert_trees_all_close(parts[0].params, whole[0].params, atol=2e-6)
  chex.assert_trees_all_close(parts[1], whole[1], rtol=1e-4, atol=1e-6)
  assert not np.allclose(whole[0].params['embedding'], PARAMS['embedding'])


def test_inner_epochs_are_updates_one_after_the_other(rolled):
  state, metrics = _step(None, rolled, inner_epochs=3)
  again = None
  for _ in range(3):
    again, once = _step(again, rolled)
  chex.assert_trees_all_close(state.params, again.params, atol=1e-6)
  assert int(state.step) == int(again.step) == 3
  np.testing.assert_allclose(metrics['loss'], once['loss'], atol=1e-6)
  assert metrics['clip_fraction'] > 0


def test_the_penalty_draws_to_the_reference():
  """Away from the reference, with equal rewards, only the penalty pulls."""
  batch = _rollout(lambda _, tasks: np.ones(len(tasks)), ref_params=PARAMS)
  away = jax.tree.map(
    lambda x: x + 0.01 * np.random.default_rng(0).standard_normal(x.shape),
    PARAMS,
  )
  away = jax.tree.map(jnp.float32, away)
  state, kls = updates.init_state(away, optax.sgd(0.01)), []
  for _ in range(5):
    state, metrics = _step(state, batch, optax.sgd(0.01), beta=1.0)
    kls.append(float(metrics['kl']))
  assert kls[0] > 0
  assert kls == sorted(kls, reverse=True)


def test_gradient_is_that_of_the_expected_reward():
  """One token of 12: the mean over draws against the sum over all tokens."""
  prompt = tokens_of(CFG, 1, 4)
  group = 4096
  gold = np.random.default_rng(0).random(CFG.vocab_size)

  def expected(params):
    logits = apply_of(CFG)(params, prompt).logits[0, -1]
    return jnp.sum(jax.nn.softmax(logits) * gold)

  wanted = jax.jit(jax.grad(expected))(PARAMS)
  batch = rlvr.rollout(
    *(APPLY, PARAMS),
    rlvr.Prompts(prompt, np.ones((1, 4), bool), np.zeros(1)),
    *(KEY, SamplingParams(max_new=1)),
    lambda completions, _: gold[[tokens[0] for tokens in completions]],
    group_size=group,
    allow_truncated=True,
  )
  state, _ = _step(
    None, batch, adv='dr_grpo', aggregation='constant', max_new=1
  )
  found = jax.tree.map(lambda new, old: new - old, state.params, PARAMS)
  norm = np.sqrt(sum(np.sum(x**2) for x in jax.tree.leaves(wanted)))
  apart = jax.tree.map(lambda a, b: a - b, found, wanted)
  error = np.sqrt(sum(np.sum(x**2) for x in jax.tree.leaves(apart)))
  assert error < 0.15 * norm
  # The frequencies that were drawn, summed over all tokens: exactly.
  drawn = batch.tokens[0, :, -1]
  advantages = gold[drawn] - gold[drawn].mean()

  def surrogate(params):
    logp = jax.nn.log_softmax(apply_of(CFG)(params, prompt).logits[0, -1])
    return jnp.mean(logp[drawn] * advantages)

  exact = jax.jit(jax.grad(surrogate))(PARAMS)
  chex.assert_trees_all_close(found, exact, atol=2e-4 * norm)


# -- what is refused


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'group_size': 1}, 'group_size must be at least 2 .* got 1'),
    ({'reward': lambda *_: [1.0]}, r'of shape \[1\] for 12 completions'),
    ({'reward': lambda c, t: np.ones((len(c), 1))}, r'shape \[12, 1\]'),
    ({'reward': lambda c, t: [*[0] * 7, np.nan, *[0] * 4]},
     'the reward of completion 7 is nan'),
  ],
)  # fmt: skip
def test_bad_rollouts(options, message):
  with pytest.raises(ValueError, match=message):
    _rollout(**options)


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'adv': 'ppo'}, "adv='ppo' is none of grpo"),
    ({'aggregation': 'mean'}, "aggregation='mean' is none of token"),
    ({'aggregation': 'constant'}, 'needs max_new'),
    ({'inner_epochs': 0}, 'inner_epochs must be a positive'),
    ({'beta': 0.1}, 'beta needs rollouts with ref_params'),
    ({'accumulate': 5}, r'accumulate=5 does not divide the batch of \[12\]'),
  ],
)
def test_bad_steps(options, message, rolled):
  tx = optax.sgd(1.0)
  with pytest.raises(ValueError, match=message):
    step = rlvr.make_grpo_step(APPLY, tx, **options)
    step(updates.init_state(PARAMS, tx), rolled)


def test_bad_groups():
  for shape in ((3,), (3, 1), (2, 2, 2)):
    with pytest.raises(ValueError, match='G of 2 or more completions'):
      rlvr.group_advantages(jnp.zeros(shape))
