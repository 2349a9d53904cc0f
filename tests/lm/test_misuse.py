"""What sampling, training and adapters refuse, in one line."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlab import parallel
from jaxlab.lm import config, lora, model, policy, rlvr, sampling, sft, sharding

CFG = config.tiny('llama', max_len=32)
APPLY = model.apply_fn(model.Decoder(CFG))
TOKENS = jnp.array([[3, 4, 5, 6], [7, 8, 9, 0]])
MASK = jnp.array([[True] * 4, [True] * 3 + [False]])
SP = sampling.SamplingParams(max_new=2)
KEY = jax.random.key(0)


@pytest.fixture(scope='module')
def params():
  return APPLY.model.init(KEY, TOKENS)['params']


def test_stop_tokens_in_an_array_and_outside_the_vocabulary(params):
  sp = sampling.SamplingParams(max_new=2, stop_ids=np.array([3, 5]))
  assert sp.stop_ids == (3, 5)
  hash(sp.stop_ids)
  sp = sampling.SamplingParams(max_new=2, stop_ids=(64,))
  with pytest.raises(ValueError, match='stop_ids hold 64'):
    sampling.generate(APPLY, params, TOKENS, MASK, KEY, sp)


def test_lists_are_taken_and_row_ids_counted(params):
  a = sampling.generate(APPLY, params, TOKENS, MASK, KEY, SP)
  b = sampling.generate(APPLY, params, TOKENS.tolist(), MASK.tolist(), KEY, SP)
  np.testing.assert_array_equal(a.tokens, b.tokens)
  with pytest.raises(ValueError, match='there are 2 prompts'):
    sampling.generate(
      APPLY, params, TOKENS, MASK, KEY, SP, row_ids=jnp.arange(3)
    )


@pytest.mark.parametrize('every', [0, -1])
def test_portions_of_a_stream(params, every):
  with pytest.raises(ValueError, match='every'):
    next(sampling.stream(APPLY, params, [3, 4], KEY, SP, every=every))


def test_the_likeliest_stays_however_small_top_p_is():
  logits = jnp.array([0.0, 2.0, 1.0])
  sp = sampling.SamplingParams(top_p=1e-320)
  kept = np.isfinite(sampling.filter_logits(logits, sp))
  np.testing.assert_array_equal(kept, [False, True, False])


def test_rollouts_of_prompts_padded_on_either_side(params):
  found = []
  for tokens, mask in (
    (TOKENS, MASK),
    (jnp.array([[3, 4, 5, 6], [0, 7, 8, 9]]), MASK[:, ::-1]),
  ):
    prompts = rlvr.Prompts(tokens, mask, np.arange(2))
    batch = rlvr.rollout(
      *(APPLY, params, prompts, KEY, SP, lambda c, t: np.ones(len(c))),
      group_size=2,
      ref_params=params,
    )
    drawn = np.asarray(batch.learned)
    np.testing.assert_allclose(
      batch.logp_old[drawn], np.asarray(batch.logp_ref)[drawn], atol=1e-5
    )
    found.append(batch)
  np.testing.assert_array_equal(found[0].tokens, found[1].tokens)


def test_rollouts_of_a_broken_model_and_of_foreign_tasks(params):
  broken = jax.tree.map(lambda x: x * jnp.nan, params)
  prompts = rlvr.Prompts(TOKENS, MASK, np.arange(2))
  reward = lambda completions, tasks: np.ones(len(completions))  # noqa: E731
  with pytest.raises(ValueError, match='not finite'):
    rlvr.rollout(APPLY, broken, prompts, KEY, SP, reward, group_size=2)
  prompts = prompts._replace(task=np.arange(5))
  with pytest.raises(ValueError, match='2 prompts'):
    rlvr.rollout(APPLY, params, prompts, KEY, SP, reward, group_size=2)


@pytest.mark.parametrize(
  ('name', 'value'),
  [('eps_low', -1.0), ('eps_high', -0.1), ('beta', -0.1), ('eps_low', 1.5)],
)
def test_settings_of_the_policy_loss(name, value):
  tx = optax.sgd(1.0)
  with pytest.raises(ValueError, match=name):
    rlvr.make_grpo_step(APPLY, tx, **{name: value})


def test_losses_that_lack_something():
  logp, ones = jnp.zeros((2, 3)), jnp.ones(2)
  with pytest.raises(ValueError, match='logp_ref'):
    policy.policy_loss(logp, logp, None, ones, logp == 0, beta=0.5)
  with pytest.raises(ValueError, match='max_new'):
    policy.token_weights(logp == 0, 'constant', 0)
  with pytest.raises(ValueError, match='logp_old'):
    policy.policy_loss(logp, logp[:1], None, ones, logp == 0)


def test_equal_rewards_without_eps_are_zero():
  found = policy.group_advantages([[1.0, 1.0], [0.0, 2.0]], eps=0.0)
  np.testing.assert_allclose(found, [[0, 0], [-1, 1]])


def test_examples_of_arrays_and_of_no_tokens():
  rows = sft.batch([np.array([3, 4])], [np.array([5])], 4)
  np.testing.assert_array_equal(rows.tokens, [[3, 4, 5, 0]])
  for bad in ([-5], [1.7]):
    with pytest.raises(ValueError, match='no whole number'):
      sft.batch([bad], [[3]], 4)


def test_adapters_that_do_not_fit(params):
  cfg = lora.LoRAConfig(r=4)
  base, adapter = lora.init(KEY, params, cfg)
  other = lora.LoRAConfig(r=8, alpha=4)
  with pytest.raises(ValueError, match='r is 8'):
    lora.apply(base, adapter, other)
  fn = lora.lora_apply_fn(APPLY.model, cfg)
  with pytest.raises(ValueError, match='base'):
    fn(params, TOKENS)
  unknown = adapter.a['layers'] | {'qq': adapter.a['layers']['q']}
  foreign = adapter._replace(a={'layers': unknown})
  with pytest.raises(ValueError, match='layers/qq/kernel'):
    fn({'base': base, 'lora': foreign}, TOKENS)
  for targets in ('layers/q/kernel', (), ('layers/attn_norm/scale',)):
    with pytest.raises(ValueError, match=r'targets|adapters'):
      lora.init(KEY, params, lora.LoRAConfig(r=1, targets=targets))


def test_rules_of_no_axis_and_of_one_axis_twice():
  mesh = parallel.mesh(devices=jax.devices()[:1])
  with pytest.raises(ValueError, match='widht'):
    sharding.partition_spec('embedding', (64, 48), mesh, {'widht': 'data'})
  rules = {'vocab': 'data', 'width': 'data'}
  spec = sharding.partition_spec('embedding', (64, 48), mesh, rules)
  assert tuple(spec) == ('data', None)
