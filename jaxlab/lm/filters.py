"""Which tokens may be drawn: temperature, top-k, top-p and min-p."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Logits that are divided by less overflow; the likeliest token has all of the
# probability long before.
_GREEDY_BELOW = 1e-30


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=['temperature', 'top_k', 'top_p', 'min_p'],
  meta_fields=['max_new', 'stop_ids', 'pad_id'],
)
@dataclasses.dataclass(frozen=True)
class SamplingParams:
  """How tokens are drawn; numbers may be traced, mapped over or one a row.

  Attributes:
    temperature: divides the logits; 0, as any number below 1e-30, takes the
      likeliest token.
    top_k: number of likeliest tokens that stay; 0 keeps all.
    top_p: smallest set of likeliest tokens of this probability; 1 keeps all.
    min_p: least probability as a share of the highest one; 0 keeps all.
    max_new: most tokens that are drawn; static.
    stop_ids: tokens that end a row, themselves included in it; static.
    pad_id: fills rows after their end; static.
  """

  temperature: Any = 1.0
  top_k: Any = 0
  top_p: Any = 1.0
  min_p: Any = 0.0
  max_new: int = 64
  stop_ids: tuple[int, ...] = ()
  pad_id: int = 0

  def __post_init__(self) -> None:
    """Takes stop tokens in any sequence or array; static fields are hashed."""
    ids = tuple(int(x) for x in np.ravel(np.asarray(self.stop_ids, np.int64)))
    object.__setattr__(self, 'stop_ids', ids)

  def check(self) -> None:
    """Checks what is concrete.

    Raises:
      ValueError: if a number is out of range.
    """
    for name, low, high, text in (
      ('temperature', 0.0, np.inf, 'a positive number, or 0 for greedy'),
      ('top_k', 0, np.inf, 'a whole number from 0'),
      ('top_p', np.nextafter(0, 1), 1.0, 'in (0, 1]'),
      ('min_p', 0.0, 1.0, 'in [0, 1]'),
    ):
      value = getattr(self, name)
      if isinstance(value, jax.core.Tracer):
        continue
      array = np.asarray(value, np.float64)
      good = (array >= low) & (array <= high) & np.isfinite(array)
      if name == 'top_k':
        good &= array == np.floor(array)
      if not np.all(good):
        raise ValueError(f'{name} must be {text}, got {value}.')
    if not isinstance(self.max_new, int | np.integer) or self.max_new < 1:
      raise ValueError(
        f'max_new must be a positive whole number, got {self.max_new}.'
      )


def filter_logits(logits: jax.Array, sp: SamplingParams) -> jax.Array:
  """Scales logits and drops tokens: temperature, top-k, top-p, min-p.

  Tokens are in falling order of their logits, equal ones by their number.
  Top-p looks at the distribution of those that top-k keeps, and keeps a token
  where the probability of those before it is below p.

  Args:
    logits: `[..., V]`.
    sp: numbers that broadcast against `[...]`.

  Returns:
    `[..., V]`: -inf where dropped, so that a softmax gives the distribution
    that is drawn from. With temperature 0 only the first of the highest stays.

  Raises:
    ValueError: if a number is out of range.
  """
  sp.check()
  wide = jnp.promote_types(logits.dtype, jnp.float32)
  rows = logits.shape[:-1]
  temperature, top_k, top_p, min_p = (
    jnp.broadcast_to(jnp.asarray(x), rows)[..., None]
    for x in (sp.temperature, sp.top_k, sp.top_p, sp.min_p)
  )
  greedy = temperature < _GREEDY_BELOW
  scaled = logits.astype(wide) / jnp.where(greedy, 1, temperature).astype(wide)
  size = logits.shape[-1]
  sorts = jnp.any((top_k > 0) & (top_k < size)) | jnp.any(top_p < 1)
  kept = jax.lax.cond(
    sorts,
    _kept_of_sorted,
    lambda scaled, top_k, top_p: jnp.ones(scaled.shape, bool),
    *(scaled, top_k, top_p.astype(wide)),
  )
  scaled = jnp.where(kept, scaled, -jnp.inf)
  highest = jnp.max(scaled, axis=-1, keepdims=True)
  share = jnp.exp(scaled - highest)
  scaled = jnp.where(share >= min_p.astype(wide), scaled, -jnp.inf)
  first = jnp.argmax(logits, axis=-1, keepdims=True) == jnp.arange(size)
  return jnp.where(greedy & ~first, -jnp.inf, scaled)


def _kept_of_sorted(scaled, top_k, top_p):
  """Top-k and top-p, which need the order of the tokens."""
  size = scaled.shape[-1]
  ids = jnp.broadcast_to(jnp.arange(size), scaled.shape)
  falling, order = jax.lax.sort((-scaled, ids), num_keys=1, is_stable=True)
  rank = jnp.arange(size)
  within = (top_k == 0) | (rank < top_k)
  probs = jax.nn.softmax(jnp.where(within, -falling, -jnp.inf), axis=-1)
  # Shifted, for `cumsum - probs` rounds once more.
  sums = jnp.cumsum(probs, axis=-1)[..., :-1]
  before = jnp.concatenate([jnp.zeros_like(probs[..., :1]), sums], axis=-1)
  # The likeliest stays, however small top_p is in float32.
  within &= (top_p >= 1) | (before < top_p) | (rank == 0)
  _, kept = jax.lax.sort((order, within.astype(jnp.int8)), num_keys=1)
  return kept.astype(bool)
