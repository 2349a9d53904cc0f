"""Keys and values of the positions that a model has read."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.lm.config import ModelConfig


class KVCache(NamedTuple):
  """Keys and values, written at one place for all rows.

  Prompts are padded on the left, so that all rows write their next token at
  the same index and none has to be gathered.

  Attributes:
    k: `[L, B, S, K, H]` rotated keys.
    v: `[L, B, S, K, H]` values.
    index: `[]` int32, number of places written, padding included.
    start: `[B]` int32, first place of each row that is no padding.
  """

  k: jax.Array
  v: jax.Array
  index: jax.Array  # type: ignore[assignment]
  start: jax.Array


def init_cache(
  cfg: ModelConfig, batch: int, max_len: int, dtype=jnp.float32
) -> KVCache:
  """Returns an empty cache.

  Args:
    cfg: the model.
    batch: number B of rows.
    max_len: number S of places, for prompt and answer.
    dtype: of keys and values; bfloat16 halves the memory.
  """
  shape = (cfg.n_layers, batch, max_len, cfg.n_kv_heads, cfg.head_dim)
  return KVCache(
    k=jnp.zeros(shape, dtype),
    v=jnp.zeros(shape, dtype),
    index=jnp.int32(0),
    start=jnp.zeros(batch, jnp.int32),
  )


def visible(cache: KVCache, count: int) -> jax.Array:
  """Which places each of the next `count` tokens may look at.

  Returns:
    `[B, count, S]` bool: from the row's start up to the token itself.
  """
  places = jnp.arange(cache.k.shape[2])
  own = cache.index + jnp.arange(count)
  before = places[None, None, :] <= own[None, :, None]
  return before & (places[None, None, :] >= cache.start[:, None, None])
