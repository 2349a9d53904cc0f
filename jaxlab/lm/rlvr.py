"""Reinforcement learning from verifiable rewards: rollouts and their update.

    def reward(completions, tasks):  # lists of tokens, what is asked
      texts = [tokenizer.decode(tokens) for tokens in completions]
      return rewards.score_batch('gsm8k', texts, tasks)

    tokens, mask = tokenizer.encode_batch(questions, 'left')
    prompts = Prompts(tokens, mask, np.array(answers))
    step = jax.jit(make_grpo_step(apply_fn, tx))
    state = updates.init_state(params, tx)
    batch = rollout(apply_fn, state.params, prompts, key, sp, reward)
    state, metrics = step(state, batch)

The reward is the only work on the host, between two compiled functions.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxlab.lm import policy, sampling, updates
from jaxlab.lm.policy import group_advantages, policy_loss
from jaxlab.lm.sampling import LENGTH, SamplingParams

__all__ = [
  'Prompts',
  'RolloutBatch',
  'group_advantages',
  'make_grpo_step',
  'policy_loss',
  'rollout',
]

Reward = Callable[[Sequence[Sequence[int]], np.ndarray], Any]


class Prompts(NamedTuple):
  """Questions to draw answers to.

  Attributes:
    tokens: `[P, T]` int32, padded on either side.
    mask: `[P, T]` bool, which are no padding.
    task: `[P]` whole number of each prompt, by which the reward knows the
      right answer.
  """

  tokens: Any
  mask: Any
  task: Any


class RolloutBatch(NamedTuple):
  """Completions with their rewards: P prompts, G completions of each.

  Attributes:
    tokens: `[P, G, T]` int32, prompt and completion.
    mask: `[P, G, T]` bool, which are no padding.
    learned: `[P, G, T]` bool, drawn tokens that the update counts.
    logp_old: `[P, G, T]` log-probability of drawn tokens under the policy that
      drew them, without temperature and filters; else 0.
    logp_ref: the same under the reference; None without one.
    rewards: `[P, G]` float32.
    lengths: `[P, G]` number of drawn tokens.
    truncated: `[P, G]` bool, those without a stop token.
  """

  tokens: Any
  mask: Any
  learned: Any
  logp_old: Any
  logp_ref: Any
  rewards: Any
  lengths: Any
  truncated: Any


def rollout(
  apply_fn: Any,
  params: Any,
  prompts: Prompts,
  key: jax.Array,
  sp: SamplingParams,
  reward: Reward,
  *,
  group_size: int = 8,
  ref_params: Any = None,
  allow_truncated: bool = False,
  mask_truncated: bool = False,
) -> RolloutBatch:
  """Draws completions and has them judged.

  Args:
    apply_fn: the model.
    params: of the policy that draws.
    prompts: P prompts.
    key: PRNG key; a completion depends on it, its prompt's place and its own
      number alone.
    sp: how tokens are drawn.
    reward: `(completions, tasks) -> [B]` on the host, of `B = P*G` lists of
      drawn tokens with the stop token, and `[B]` tasks; completions of a
      prompt follow one another.
    group_size: number G of completions a prompt.
    ref_params: of the reference, for a penalty.
    allow_truncated: whether completions without a stop token may be rewarded;
      else they get 0.
    mask_truncated: whether their tokens are left out of the update.

  Returns:
    Arrays for `make_grpo_step`'s update.

  Raises:
    ValueError: if `group_size` is below 2, or rewards have another shape or
      are not finite.
  """
  if group_size < 2:
    raise ValueError(
      f'group_size must be at least 2 to compare completions, got {group_size}.'
    )
  prompts = _left_padded(prompts)
  count = prompts.tokens.shape[0]
  repeated = Prompts(*(np.repeat(x, group_size, axis=0) for x in prompts))
  out = sampling.generate(
    apply_fn, params, repeated.tokens, repeated.mask, key, sp
  )
  drawn, kept, reasons, logp_old = jax.device_get(
    (out.tokens, out.mask, out.stop_reason, out.model_logprobs)
  )
  if not np.isfinite(logp_old).all():
    raise ValueError(
      'the policy gives logits that are not finite: its parameters hold NaN or'
      ' infinity.'
    )
  completions = [
    row[alive].tolist() for row, alive in zip(drawn, kept, strict=True)
  ]
  truncated = reasons == LENGTH
  rewards = checked_rewards(reward(completions, repeated.task), len(drawn))
  if not allow_truncated:
    rewards = np.where(truncated, 0, rewards)
  prompt = repeated.tokens.shape[1]
  before = ((0, 0), (prompt, 0))
  tokens = np.concatenate([repeated.tokens, drawn], axis=1).astype(np.int32)
  mask = np.concatenate([repeated.mask, kept], axis=1).astype(bool)
  logp_ref = None
  if ref_params is not None:
    logp_ref = _logp(apply_fn, ref_params, jnp.asarray(tokens), mask)
  left_out = truncated[:, None] & mask_truncated
  batch = RolloutBatch(
    tokens=tokens,
    mask=mask,
    learned=np.pad(kept & ~left_out, before),
    logp_old=np.pad(logp_old, before),
    logp_ref=logp_ref,
    rewards=rewards,
    lengths=kept.sum(axis=1).astype(np.int32),
    truncated=truncated,
  )
  return jax.tree.map(
    lambda x: x.reshape(count, group_size, *x.shape[1:]), batch
  )


def _left_padded(prompts: Prompts) -> Prompts:
  """Returns checked NumPy arrays with each row's padding on its left."""
  tokens, mask, task = (np.asarray(x) for x in prompts)
  mask = mask.astype(bool)
  if tokens.ndim != 2 or mask.shape != tokens.shape:
    raise ValueError(
      f'prompts have tokens {list(tokens.shape)} and mask {list(mask.shape)};'
      ' both must be [P, T].'
    )
  if task.shape[:1] != tokens.shape[:1]:
    raise ValueError(
      f'there are {len(tokens)} prompts, but tasks {list(task.shape)}.'
    )
  order = np.argsort(mask, axis=1, kind='stable')
  tokens, mask = (np.take_along_axis(x, order, 1) for x in (tokens, mask))
  return Prompts(tokens, mask, task)


def checked_rewards(rewards: Any, count: int) -> np.ndarray:
  """Returns `[count]` float32 rewards.

  Raises:
    ValueError: if there are not so many, or one is not finite.
  """
  found = np.asarray(rewards, np.float32)
  if found.shape != (count,):
    raise ValueError(
      f'the reward gave an array of shape {list(found.shape)} for {count}'
      ' completions.'
    )
  bad = np.flatnonzero(~np.isfinite(found))
  if bad.size:
    raise ValueError(
      f'the reward of completion {bad[0]} is {found[bad[0]]}; it must be'
      ' finite.'
    )
  return found


def make_grpo_step(
  apply_fn: Callable[..., Any],
  tx: optax.GradientTransformation,
  *,
  eps_low: float = 0.2,
  eps_high: float = 0.28,
  beta: float = 0.0,
  adv: str = 'grpo',
  aggregation: str = 'token',
  max_new: int | None = None,
  inner_epochs: int = 1,
  drop_degenerate: bool = False,
  accumulate: int = 1,
) -> Callable[[Any, RolloutBatch], tuple[Any, dict[str, jax.Array]]]:
  """Returns the update `(state, rollout) -> (state, metrics)`; pure.

  Args:
    apply_fn: the model.
    tx: the optimizer.
    eps_low: as for `policy.token_loss`.
    eps_high: as for `policy.token_loss`.
    beta: as for `policy.token_loss`; needs rollouts with `logp_ref`.
    adv: as for `group_advantages`.
    aggregation: as for `policy.token_weights`.
    max_new: as for `policy.token_weights`.
    inner_epochs: updates from one rollout.
    drop_degenerate: whether groups of equal rewards are left out of the
      counts of tokens as well.
    accumulate: parts of the `P*G` completions that are computed one after the
      other; the gradient is that of all of them.

  Returns:
    The function. Its metrics: `loss`, `grad_norm`, `clip_fraction`, `kl` to
    the reference, `entropy` of the policy at the drawn tokens in nats (all of
    the last inner epoch), `reward`, `reward_std`, `pass_at_1` (mean share of
    a prompt's completions with a positive reward), `pass_at_g` (share of
    prompts with one), `degenerate` (share of groups of equal rewards),
    `length`, `truncated`.

  Raises:
    ValueError: if a setting is unknown, or a penalty has no reference.
  """
  policy.token_weights(jnp.ones((1, 1)), aggregation, max_new)
  policy.group_advantages(jnp.zeros((1, 2)), adv)
  policy.check_settings(eps_low, eps_high, beta)
  if not isinstance(inner_epochs, int) or inner_epochs < 1:
    raise ValueError(
      f'inner_epochs must be a positive whole number, got {inner_epochs}.'
    )

  def loss(params, rows):
    logits = apply_fn(params, rows['tokens'], mask=rows['mask']).logits[:, :-1]
    logp = jnp.pad(
      sampling.token_logprob(logits, rows['tokens'][:, 1:]), ((0, 0), (1, 0))
    )
    found = policy.token_loss(
      logp,
      rows['logp_old'],
      rows.get('logp_ref'),
      rows['advantages'],
      rows['learned'],
      eps_low=eps_low,
      eps_high=eps_high,
      beta=beta,
    )
    share = rows['share']
    metrics = {
      'clip_fraction': jnp.sum(share * found.clipped),
      'kl': jnp.sum(share * found.kl),
      'entropy': jnp.sum(share[:, 1:] * _entropy(logits)),
    }
    return jnp.sum(rows['weights'] * found.loss), metrics

  def step(state, batch):
    if beta and batch.logp_ref is None:
      raise ValueError('beta needs rollouts with ref_params.')
    if batch.rewards.shape != batch.tokens.shape[:2]:
      raise ValueError(
        f'rewards have shape {list(batch.rewards.shape)}, completions'
        f' {list(batch.tokens.shape[:2])}.'
      )
    advantages = group_advantages(batch.rewards, adv)
    equal = jnp.ptp(batch.rewards, axis=1) == 0
    learned = batch.learned
    if drop_degenerate:
      learned &= ~equal[:, None, None]
    flat = jax.tree.map(
      lambda x: x.reshape(-1, *x.shape[2:]), batch._replace(learned=learned)
    )
    rows = {
      'tokens': flat.tokens,
      'mask': flat.mask,
      'learned': flat.learned,
      'logp_old': flat.logp_old,
      'advantages': advantages.reshape(-1),
      'weights': policy.token_weights(flat.learned, aggregation, max_new),
      'share': policy.token_weights(flat.learned),
    }
    if batch.logp_ref is not None:
      rows['logp_ref'] = flat.logp_ref

    def once(state, _):
      return updates.update(state, rows, loss, tx, accumulate)

    state, found = jax.lax.scan(once, state, length=inner_epochs)
    last = jax.tree.map(lambda x: x[-1], found)
    return state, {**last, **_judged(batch, equal)}

  return step


def _judged(batch: RolloutBatch, equal: jax.Array) -> dict[str, jax.Array]:
  right = batch.rewards > 0
  return {
    'reward': jnp.mean(batch.rewards),
    'reward_std': jnp.std(batch.rewards),
    'pass_at_1': jnp.mean(right.astype(jnp.float32)),
    'pass_at_g': jnp.mean(jnp.any(right, axis=1).astype(jnp.float32)),
    'degenerate': jnp.mean(equal.astype(jnp.float32)),
    'length': jnp.mean(batch.lengths.astype(jnp.float32)),
    'truncated': jnp.mean(batch.truncated.astype(jnp.float32)),
  }


def _entropy(logits: jax.Array) -> jax.Array:
  """Entropy `[...]` in nats of distributions `[..., V]`; no gradient."""
  logp = jax.nn.log_softmax(jax.lax.stop_gradient(logits))
  return -jnp.sum(jnp.exp(logp) * logp, axis=-1)


def _logp(apply_fn, params, tokens, mask) -> jax.Array:
  found = _sequence_logprob(apply_fn, params, tokens, mask)
  return jnp.pad(found, ((0, 0), (1, 0)))


_sequence_logprob = jax.jit(sampling.sequence_logprob, static_argnums=0)
