"""The loss of GRPO and its relatives, as functions of log-probabilities.

Shao et al., DeepSeekMath, 2024 (GRPO); Yu et al., DAPO, 2025 (token mean, two
clip ranges); Liu et al., Understanding R1-Zero-Like Training, 2025 (Dr. GRPO);
Ahmadian et al., Back to Basics, 2024 (RLOO).
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

ADVANTAGES = ('grpo', 'dr_grpo', 'rloo')
AGGREGATIONS = ('token', 'sequence', 'constant')


class TokenLoss(NamedTuple):
  """What each token adds before it is weighed; 0 where masked.

  Attributes:
    loss: `[B, T]`.
    kl: `[B, T]` estimate k3 of the divergence from the reference.
    clipped: `[B, T]` bool, where the clipped term is the one that counts.
  """

  loss: jax.Array
  kl: jax.Array
  clipped: jax.Array


def group_advantages(
  rewards: jax.Array, adv: str = 'grpo', eps: float = 1e-4
) -> jax.Array:
  """Compares each completion with the others of its prompt.

  Args:
    rewards: `[P, G]`, of G completions of each of P prompts.
    adv: 'grpo' divides the difference from the mean by the standard deviation
      (of the population) plus `eps`, 'dr_grpo' does not, 'rloo' subtracts the
      mean of the others.
    eps: keeps groups of equal rewards at 0.

  Returns:
    `[P, G]`.

  Raises:
    ValueError: if `adv` is unknown, there is no group of at least two, or a
      concrete reward is not finite.
  """
  rewards = jnp.asarray(rewards)
  if not 0 <= eps < math.inf:
    raise ValueError(f'eps must be a number from 0, got {eps}.')
  if adv not in ADVANTAGES:
    raise ValueError(f'adv={adv!r} is none of {", ".join(ADVANTAGES)}.')
  if rewards.ndim != 2 or rewards.shape[1] < 2:
    raise ValueError(
      'rewards must be [P, G] with G of 2 or more completions a prompt, got'
      f' {list(rewards.shape)}.'
    )
  if not isinstance(rewards, jax.core.Tracer):
    bad = np.argwhere(~np.isfinite(np.asarray(rewards, np.float64)))
    if len(bad):
      row, place = bad[0]
      raise ValueError(
        f'the reward in row {row} of completion {place} is'
        f' {rewards[row, place]}; it must be finite (no NaN).'
      )
  rewards = rewards.astype(jnp.promote_types(rewards.dtype, jnp.float32))
  count = rewards.shape[1]
  # By sums of differences, so that equal rewards give exactly 0.
  differences = rewards[:, :, None] - rewards[:, None, :]
  centred = jnp.mean(differences, axis=2)
  if adv == 'dr_grpo':
    return centred
  if adv == 'rloo':
    return centred * (count / (count - 1))
  std = jnp.sqrt(jnp.mean(centred**2, axis=1, keepdims=True))
  # With eps = 0 a group of equal rewards is still 0 and not 0/0.
  return centred / jnp.where(std + eps > 0, std + eps, 1)


def token_weights(
  mask: jax.Array, aggregation: str = 'token', max_new: int | None = None
) -> jax.Array:
  """Weights whose product with the tokens' losses adds up to the loss.

  Args:
    mask: `[B, T]`, the tokens that count.
    aggregation: 'token' is the mean over all tokens (DAPO), 'sequence' the
      mean over sequences of their means, 0 for one without tokens (GRPO),
      'constant' the sum over `B * max_new` (Dr. GRPO).
    max_new: most tokens of a completion, for 'constant'.

  Returns:
    `[B, T]` float32.

  Raises:
    ValueError: if the aggregation is unknown or misses `max_new`.
  """
  mask = mask.astype(jnp.float32)
  if aggregation == 'token':
    return mask / jnp.maximum(jnp.sum(mask), 1)
  if aggregation == 'sequence':
    lengths = jnp.sum(mask, axis=1, keepdims=True)
    return mask / jnp.maximum(lengths, 1) / mask.shape[0]
  if aggregation != 'constant':
    raise ValueError(
      f'aggregation={aggregation!r} is none of {", ".join(AGGREGATIONS)}.'
    )
  if max_new is None or max_new < 1:
    raise ValueError(
      f"aggregation='constant' needs max_new of at least 1, got {max_new}."
    )
  return mask / (mask.shape[0] * max_new)


def token_loss(
  logp: jax.Array,
  logp_old: jax.Array,
  logp_ref: jax.Array | None,
  advantages: jax.Array,
  mask: jax.Array,
  *,
  eps_low: float = 0.2,
  eps_high: float = 0.28,
  beta: float = 0.0,
) -> TokenLoss:
  """The clipped objective of each token, with the penalty of the reference.

  Args:
    logp: `[B, T]` log-probabilities under the parameters that learn.
    logp_old: under those that drew the tokens.
    logp_ref: under the reference; None has no penalty.
    advantages: `[B]`.
    mask: `[B, T]`, the tokens that count.
    eps_low: a ratio below `1 - eps_low` is clipped.
    eps_high: one above `1 + eps_high` is clipped.
    beta: factor of the penalty.

  Raises:
    ValueError: if shapes do not fit one another.
  """
  _check_shapes(logp, logp_old, logp_ref, advantages, mask)
  check_settings(eps_low, eps_high, beta)
  if logp_ref is None and not isinstance(beta, jax.core.Tracer) and beta:
    raise ValueError('beta needs logp_ref.')
  mask = mask.astype(bool)
  # Masked before `exp`: an infinite ratio has no gradient, not even times 0.
  ratio = jnp.exp(jnp.where(mask, logp - logp_old, 0))
  weighed = ratio * advantages[:, None]
  clipped = jnp.clip(ratio, 1 - eps_low, 1 + eps_high) * advantages[:, None]
  loss = -jnp.minimum(weighed, clipped)
  if logp_ref is None:
    kl = jnp.zeros_like(loss)
  else:
    delta = jnp.where(mask, logp_ref - logp, 0)
    kl = jnp.expm1(delta) - delta
    loss += beta * kl
  counts = mask & (clipped < weighed)
  return TokenLoss(jnp.where(mask, loss, 0), jnp.where(mask, kl, 0), counts)


def check_settings(eps_low: float, eps_high: float, beta: float) -> None:
  """Refuses concrete settings that are out of range.

  Raises:
    ValueError: naming the setting.
  """
  for name, value, most in (
    ('eps_low', eps_low, 1.0),
    ('eps_high', eps_high, math.inf),
    ('beta', beta, math.inf),
  ):
    if not isinstance(value, jax.core.Tracer) and not 0 <= value <= most:
      raise ValueError(f'{name} must be from 0 to {most}, got {value}.')


def policy_loss(
  logp: jax.Array,
  logp_old: jax.Array,
  logp_ref: jax.Array | None,
  advantages: jax.Array,
  mask: jax.Array,
  *,
  eps_low: float = 0.2,
  eps_high: float = 0.28,
  beta: float = 0.0,
  aggregation: str = 'token',
  max_new: int | None = None,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """The loss of a batch of sequences.

  Args:
    logp: as for `token_loss`.
    logp_old: as for `token_loss`.
    logp_ref: as for `token_loss`.
    advantages: as for `token_loss`.
    mask: as for `token_loss`.
    eps_low: as for `token_loss`.
    eps_high: as for `token_loss`.
    beta: as for `token_loss`.
    aggregation: as for `token_weights`.
    max_new: as for `token_weights`.

  Returns:
    The loss, and `clip_fraction` and `kl`, means over the tokens that count.
  """
  found = token_loss(
    *(logp, logp_old, logp_ref, advantages, mask),
    eps_low=eps_low,
    eps_high=eps_high,
    beta=beta,
  )
  loss = jnp.sum(found.loss * token_weights(mask, aggregation, max_new))
  share = token_weights(mask)
  metrics = {
    'clip_fraction': jnp.sum(share * found.clipped),
    'kl': jnp.sum(share * found.kl),
  }
  return loss, metrics


def _check_shapes(logp, logp_old, logp_ref, advantages, mask) -> None:
  others = {'logp_old': logp_old, 'logp_ref': logp_ref, 'mask': mask}
  for name, array in others.items():
    if array is not None and array.shape != logp.shape:
      raise ValueError(
        f'{name} has shape {list(array.shape)}, logp {list(logp.shape)}.'
      )
  if logp.ndim != 2 or advantages.shape != logp.shape[:1]:
    raise ValueError(
      f'advantages has shape {list(advantages.shape)}; logp'
      f' {list(logp.shape)} needs one for each row.'
    )
