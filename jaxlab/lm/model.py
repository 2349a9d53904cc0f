"""The decoder: one flax module for Llama, Qwen2, Qwen3 and Gemma 3.

    model = Decoder(cfg)
    params = model.init(key, tokens)['params']
    logits = model.apply({'params': params}, tokens).logits

The blocks run under a scan over parameters that are stacked along their first
axis, so that the time to compile does not grow with depth. `apply_fn(model)`
gives the function of (params, tokens) that sampling and training take.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from jaxlab.lm import attention, checks, rope
from jaxlab.lm.cache import KVCache, init_cache, visible
from jaxlab.lm.config import ModelConfig

_EMBEDDING_STD = 0.02


class ModelOutput(NamedTuple):
  """What a forward pass gives.

  Attributes:
    logits: `[B, T, V]` float32, or `[B, 1, V]` of the last token.
    cache: the cache with the tokens added; None without one.
    hidden: `[n, B, T, D]`, the sum of the branches after each of the asked
      blocks, before the last norm; None if none was asked for.
  """

  logits: jax.Array
  cache: KVCache | None
  hidden: jax.Array | None


class _Step(NamedTuple):
  """What all blocks of a pass share.

  Attributes:
    turned: angles of the global layers and of the local ones.
    seen: `[B, T, S]` masks of the global layers and of the local ones.
    index: where in the cache the tokens are written; None without a cache.
  """

  turned: tuple[rope.Angles, rope.Angles | None]
  seen: tuple[jax.Array, jax.Array | None]
  index: jax.Array | None  # type: ignore[assignment]


class _Carry(NamedTuple):
  """What goes from block to block.

  Attributes:
    x: `[B, T, D]`.
    k: `[L, B, S, K, H]` keys of the cache, or None.
    v: the same of values.
    hidden: `[n, B, T, D]`, or None.
  """

  x: jax.Array
  k: jax.Array | None
  v: jax.Array | None
  hidden: jax.Array | None


class _Layer(NamedTuple):
  """What differs from block to block.

  Attributes:
    number: `[]` int32.
    is_global: `[]` bool.
    slot: `[]` int32, where in `hidden` its output goes; n for nowhere.
  """

  number: jax.Array
  is_global: jax.Array
  slot: jax.Array


class RMSNorm(nn.Module):
  """Divides by the root of the mean square, in float32 at least.

  Attributes:
    eps: added to the mean square.
    param_dtype: of the scale.
  """

  eps: float
  param_dtype: DTypeLike = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps `[..., d]` to the same shape and dtype."""
    ones = nn.initializers.ones
    scale = self.param('scale', ones, (x.shape[-1],), self.param_dtype)
    wide = jnp.promote_types(x.dtype, jnp.float32)
    y = x.astype(wide)
    y *= jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + self.eps)
    return (y * scale.astype(wide)).astype(x.dtype)


class Linear(nn.Module):
  """`x @ kernel`, with the low-rank addition `(x @ a) @ b` where there is one.

  The addition is read from the collection `lora`; see `jaxlab.lm.lora`.

  Attributes:
    features: width of the result.
    use_bias: whether a bias is added.
    param_dtype: of the parameters.
  """

  features: int
  use_bias: bool = False
  param_dtype: DTypeLike = jnp.float32

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Maps `[..., k]` to `[..., features]` in the dtype of `x`."""
    shape = (x.shape[-1], self.features)
    init = nn.initializers.lecun_normal()
    kernel = self.param('kernel', init, shape, self.param_dtype)
    y = x @ kernel.astype(x.dtype)
    if self.use_bias:
      zeros = nn.initializers.zeros
      bias = self.param('bias', zeros, (self.features,), self.param_dtype)
      y += bias.astype(x.dtype)
    if self.has_variable('lora', 'a'):
      a: jax.Array = self.get_variable('lora', 'a')
      b: jax.Array = self.get_variable('lora', 'b')
      y += (x @ a.astype(x.dtype)) @ b.astype(x.dtype)
    return y


class Block(nn.Module):
  """Attention and a gated MLP, each added to what came before.

  Attributes:
    cfg: the model.
    param_dtype: of the parameters.
    attention: as for `attention.attend`.
  """

  cfg: ModelConfig
  param_dtype: DTypeLike = jnp.float32
  attention: str | None = None

  @nn.compact
  def __call__(
    self, carry: _Carry, layer: _Layer, step: _Step
  ) -> tuple[_Carry, None]:
    """Applies the block; the second result is for `nn.scan`."""
    cfg = self.cfg
    x = carry.x
    y = self._norm('attn_norm', x)
    mixed, k, v = self._attention(y, carry, layer, step)
    if cfg.post_norms:
      mixed = self._norm('post_attn_norm', mixed)
    x += mixed
    y = self._norm('mlp_norm', x)
    gate = self._linear('gate', cfg.d_ff)(y)
    act = nn.silu(gate) if cfg.act == 'silu' else nn.gelu(gate)
    y = self._linear('down', cfg.d_model)(act * self._linear('up', cfg.d_ff)(y))
    if cfg.post_norms:
      y = self._norm('post_mlp_norm', y)
    x += y
    hidden = carry.hidden
    if hidden is not None:
      hidden = hidden.at[layer.slot].set(x.astype(hidden.dtype), mode='drop')
    return _Carry(x, k, v, hidden), None

  def _attention(self, x, carry, layer, step):
    """Returns the mixed values, and the cache with the new ones."""
    cfg = self.cfg

    def heads(name, count):
      y = self._linear(name, count * cfg.head_dim, cfg.attn_bias)(x)
      return y.reshape(*x.shape[:2], count, cfg.head_dim)

    q, k = heads('q', cfg.n_heads), heads('k', cfg.n_kv_heads)
    v = heads('v', cfg.n_kv_heads)
    if cfg.qk_norm:
      q, k = self._norm('q_norm', q), self._norm('k_norm', k)
    turned, seen = step.turned[0], step.seen[0]
    if step.turned[1] is not None:
      choose = lambda wide, near: jnp.where(layer.is_global, wide, near)  # noqa: E731
      turned, seen = jax.tree.map(
        choose, (turned, seen), (step.turned[1], step.seen[1])
      )
    q, k = rope.rotate(q, turned), rope.rotate(k, turned)
    stored = carry.k, carry.v
    if step.index is not None:
      stored = tuple(
        _write(old, new, layer.number, step.index)
        for old, new in zip(stored, (k, v), strict=True)
      )
      k, v = (_of_layer(x, layer.number).astype(q.dtype) for x in stored)
    mixed = attention.attend(
      q, k, v, seen, cfg.score_scale, self.attention
    ).reshape(*x.shape[:2], -1)
    return self._linear('o', cfg.d_model)(mixed), *stored

  def _norm(self, name: str, x: jax.Array) -> jax.Array:
    return RMSNorm(self.cfg.norm_eps, self.param_dtype, name=name)(x)

  def _linear(self, name: str, features: int, bias: bool = False) -> Linear:
    return Linear(features, bias, self.param_dtype, name=name)


class Decoder(nn.Module):
  """Predicts the next token at every position.

  Attributes:
    cfg: the model.
    dtype: in which it computes; None takes that of the parameters. Norms,
      rotations, softmax and logits are in float32 at least.
    param_dtype: of new parameters.
    remat: whether a gradient computes each block again instead of storing
      what it needs.
    attention: as for `attention.attend`.
  """

  cfg: ModelConfig
  dtype: DTypeLike | None = None
  param_dtype: DTypeLike = jnp.float32
  remat: bool = False
  attention: str | None = None

  @nn.compact
  def __call__(
    self,
    tokens: jax.Array,
    positions: jax.Array | None = None,
    mask: jax.Array | None = None,
    cache: KVCache | None = None,
    return_hidden: Sequence[int] = (),
    last_only: bool = False,
  ) -> ModelOutput:
    """Reads tokens.

    Args:
      tokens: `[B, T]` int32.
      positions: `[B, T]` int32; by default those of the tokens that are no
        padding, from 0, or those that follow in the cache.
      mask: `[B, T]` bool, which tokens are no padding, on either side; or
        `[B, T, T]` bool, which tokens see which, among those before them
        (packed sequences, with `positions`). Not with a cache, which knows
        where each row starts.
      cache: keys and values of what was read before.
      return_hidden: numbers of blocks, from 0, whose output is wanted.
      last_only: whether only the last position's logits are computed.

    Returns:
      Logits, the new cache and the asked hidden states.

    Raises:
      ValueError: if shapes do not fit, a block does not exist or is asked for
        twice, or both `mask` and `cache` are given.
    """
    cfg = self.cfg
    checks.check_call(cfg, tokens, positions, mask, cache, return_hidden)
    init = nn.initializers.normal(_EMBEDDING_STD)
    shape = (cfg.vocab_size, cfg.d_model)
    table = self.param('embedding', init, shape, self.param_dtype)
    x = table[tokens].astype(table.dtype if self.dtype is None else self.dtype)
    if cfg.embed_scale:
      # Rounded to the dtype first, as in the models' own code.
      x *= jnp.asarray(cfg.d_model**0.5, x.dtype)
    step = _step(cfg, tokens, positions, mask, cache)
    x, cache, hidden = self._blocks(x, step, cache, tuple(return_hidden))
    if last_only:
      x = x[:, -1:]
    x = RMSNorm(cfg.norm_eps, self.param_dtype, name='final_norm')(x)
    wide = jnp.promote_types(x.dtype, jnp.float32)
    if cfg.tie_embeddings:
      head = table.astype(x.dtype)
      logits = jnp.einsum('btd,vd->btv', x, head, preferred_element_type=wide)
    else:
      shape = (cfg.d_model, cfg.vocab_size)
      head = self.param(
        'head', nn.initializers.lecun_normal(), shape, self.param_dtype
      ).astype(x.dtype)
      logits = jnp.einsum('btd,dv->btv', x, head, preferred_element_type=wide)
    return ModelOutput(logits, cache, hidden)

  def _blocks(self, x, step, cache, wanted):
    """Runs all blocks; returns their output, the cache and hidden states."""
    cfg = self.cfg
    numbers = jnp.arange(cfg.n_layers)
    slots = jnp.full(cfg.n_layers, len(wanted))
    slots = slots.at[jnp.array(wanted, jnp.int32)].set(jnp.arange(len(wanted)))
    layers = _Layer(numbers, jnp.array(cfg.is_global), slots)
    carry = _Carry(
      x,
      None if cache is None else cache.k,
      None if cache is None else cache.v,
      jnp.zeros((len(wanted), *x.shape), x.dtype) if wanted else None,
    )
    block = nn.remat(Block, prevent_cse=False) if self.remat else Block
    blocks = nn.scan(
      block,
      variable_axes={'params': 0, 'lora': 0},
      split_rngs={'params': True},
      in_axes=(0, nn.broadcast),
      length=cfg.n_layers,
    )(cfg, self.param_dtype, self.attention, name='layers')
    carry, _ = blocks(carry, layers, step)
    if cache is not None:
      index = cache.index + x.shape[1]
      cache = cache._replace(k=carry.k, v=carry.v, index=index)
    return carry.x, cache, carry.hidden


@dataclasses.dataclass(frozen=True)
class ApplyFn:
  """A decoder as a function of (params, tokens): hashable, static under jit.

  Attributes:
    model: the decoder.
  """

  model: Decoder

  def __call__(self, params: Any, tokens: jax.Array, **options) -> ModelOutput:
    """Applies the model; options as for `Decoder.__call__`."""
    return self.model.apply(self.variables(params), tokens, **options)  # type: ignore[return-value]

  def variables(self, params: Any) -> Mapping[str, Any]:
    """Returns the collections of the module."""
    return {'params': params}

  def compute_dtype(self, params: Any) -> jnp.dtype:
    """Returns the dtype in which the model computes with these parameters."""
    own = self.model.dtype
    stored = self.variables(params)['params']['embedding'].dtype
    return jnp.dtype(stored if own is None else own)

  def init_cache(self, batch: int, max_len: int, dtype=None) -> KVCache:
    """Returns an empty cache, by default of the dtype of the model."""
    if dtype is None:
      dtype = self.model.dtype or self.model.param_dtype
    return init_cache(self.model.cfg, batch, max_len, dtype)


def apply_fn(model: Decoder) -> ApplyFn:
  """Returns the function of (params, tokens) that a decoder is."""
  return ApplyFn(model)


def _step(cfg, tokens, positions, mask, cache) -> _Step:
  """Returns angles, masks and where to write."""
  batch, length = tokens.shape
  if cache is not None:
    index = cache.index
    seen = visible(cache, length)
    places = jnp.arange(cache.k.shape[2])[None] - cache.start[:, None]
    own = index + jnp.arange(length)[None] - cache.start[:, None]
    own = jnp.maximum(own, 0) if positions is None else positions
  else:
    index = None
    seen = jnp.tril(jnp.ones((length, length), bool))[None]
    seen = jnp.broadcast_to(seen, (batch, length, length))
    own = jnp.broadcast_to(jnp.arange(length), tokens.shape)
    if mask is not None:
      mask = mask.astype(bool)
      seen &= mask if mask.ndim == 3 else mask[:, None, :]
      if mask.ndim == 2:
        own = jnp.maximum(jnp.cumsum(mask, axis=1) - 1, 0)
    own = own if positions is None else positions
    places = own
  factors = cfg.rope_factors
  turned = rope.angles(own, cfg.head_dim, cfg.rope_theta, factors)
  if not cfg.has_local_layers:
    return _Step((turned, None), (seen, None), index)
  near = own[:, :, None] - places[:, None, :] < cfg.sliding_window
  local = rope.angles(own, cfg.head_dim, cfg.rope_local_theta)
  return _Step((turned, local), (seen, seen & near), index)


def _write(stored, new, layer, index):
  """Writes `[B, T, K, H]` into the places of a layer from `index` on."""
  zero = jnp.zeros_like(index)
  where = (layer.astype(index.dtype), zero, index, zero, zero)
  return jax.lax.dynamic_update_slice(
    stored, new[None].astype(stored.dtype), where
  )


def _of_layer(stored, layer):
  return jax.lax.dynamic_index_in_dim(stored, layer, keepdims=False)
