"""What the functions of the family refuse, as far as it is known on the host.

Inside `jit` values are unknown and nothing but shapes and types is checked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from jaxlab import errors
from jaxlab.lm import names
from jaxlab.lm.cache import KVCache
from jaxlab.lm.config import ModelConfig

_SHOWN = 10
# What other programs store beside the weights, and we compute.
_COMPUTED = ('rope_freqs.weight', 'rotary_emb.inv_freq')


def check_call(
  cfg: ModelConfig,
  tokens: jax.Array,
  positions: jax.Array | None,
  mask: jax.Array | None,
  cache: KVCache | None,
  return_hidden: Sequence[int],
) -> None:
  """Refuses arguments of `Decoder.__call__` that do not fit.

  Raises:
    ValueError: naming the argument.
  """
  if tokens.ndim != 2 or not tokens.size:
    raise ValueError(
      f'tokens must be [batch, length] with rows, got {tokens.shape}.'
    )
  if not jnp.issubdtype(tokens.dtype, jnp.integer):
    raise ValueError(f'tokens must be whole numbers, got {tokens.dtype}.')
  check_tokens(tokens, cfg.vocab_size)
  if positions is not None and positions.shape != tokens.shape:
    raise ValueError(
      f'positions has shape {positions.shape}, but tokens {tokens.shape}.'
    )
  if mask is not None and cache is not None:
    raise ValueError('a cache knows where rows start: leave out mask.')
  length = tokens.shape[1]
  if mask is not None and mask.shape not in (
    tokens.shape,
    (*tokens.shape, length),
  ):
    raise ValueError(
      f'mask has shape {mask.shape}, but tokens {tokens.shape}: give'
      f' {tokens.shape} or {(*tokens.shape, length)}.'
    )
  if cache is not None:
    _check_cache(cfg, tokens, cache)
  for number, block in enumerate(return_hidden):
    if block in return_hidden[:number]:
      raise ValueError(f'return_hidden asks for block {block} twice.')
    if not 0 <= block < cfg.n_layers:
      raise ValueError(
        f'return_hidden asks for block {block}; the model has blocks 0 to'
        f' {cfg.n_layers - 1}.'
      )


def check_tokens(tokens: Any, vocab_size: int) -> None:
  """Refuses concrete tokens outside the vocabulary.

  Raises:
    ValueError: naming the first one and its place.
  """
  if isinstance(tokens, jax.core.Tracer):
    return
  found = np.asarray(tokens)
  bad = np.argwhere((found < 0) | (found >= vocab_size))
  if len(bad):
    place = tuple(map(int, bad[0]))
    raise ValueError(
      f'token id {found[place]} at {list(place)} is outside [0, {vocab_size}).'
    )


def check_float(dtype: DTypeLike) -> np.dtype:
  """Refuses a dtype that cannot hold parameters.

  Raises:
    UserError: naming it.
  """
  try:
    found = jnp.dtype(dtype)
    name, good = found.name, jnp.issubdtype(found, jnp.floating)
  except TypeError:
    name, good = str(dtype), False
  if not good:
    raise errors.UserError(
      f'dtype {name} cannot hold parameters; choose float32 or bfloat16.'
    )
  return found


def check_params(cfg: ModelConfig, params: Mapping[str, Any]) -> None:
  """Refuses parameters of another model, which would be written in part.

  Raises:
    UserError: naming the first that differs.
  """
  found = {
    jax.tree_util.keystr(path, simple=True, separator='/'): np.shape(leaf)
    for path, leaf in jax.tree_util.tree_leaves_with_path(params)
  }
  wanted = {
    '/'.join(each.path): each.tree_shape(cfg) for each in names.named(cfg)
  }
  for name in {**wanted, **found}:
    has, needs = found.get(name, 'absent'), wanted.get(name, 'none')
    if has != needs:
      raise errors.UserError(
        f'params do not fit the config: {name} is {has}, the config needs'
        f' {needs}.'
      )


def check_tensors(
  what: str, cfg: ModelConfig, kind: str, found: Mapping[str, tuple[int, ...]]
) -> None:
  """Refuses a file that does not hold the tensors of its model.

  Args:
    what: names the file.
    cfg: the model.
    kind: 'gguf' or 'hub', whose names the tensors have.
    found: shapes of the tensors in the file.

  Raises:
    UserError: naming up to ten tensors.
  """
  # A damaged number of layers would fill memory with names.
  if cfg.n_layers > len(found):
    key = 'block_count' if kind == 'gguf' else 'num_hidden_layers'
    raise errors.UserError(
      f'{what} holds {len(found)} tensors, too few for {key}={cfg.n_layers};'
      ' download the model again.'
    )
  wanted = {
    getattr(parameter, kind).format(layer): parameter.file_shape
    for parameter in names.named(cfg)
    for layer in range(cfg.n_layers if parameter.is_stacked else 1)
  }
  missing = [name for name in wanted if name not in found]
  unexpected = [
    name
    for name in found
    if name not in wanted and not name.endswith(_COMPUTED)
  ]
  problems = [
    f'{title}: {", ".join(some[:_SHOWN])}'
    + (f' and {len(some) - _SHOWN} more' if len(some) > _SHOWN else '')
    for title, some in (('missing', missing), ('unexpected', unexpected))
    if some
  ]
  if problems:
    raise errors.UserError(
      f'{what} does not hold the tensors of its model; {"; ".join(problems)}.'
    )
  for name, shape in wanted.items():
    if tuple(found[name]) != shape:
      raise errors.UserError(
        f'{what} has {name} of shape {list(found[name])}; its model needs'
        f' {list(shape)}.'
      )


def _check_cache(cfg, tokens, cache) -> None:
  """Refuses a cache of another model or batch, or without room."""
  batch, length = tokens.shape
  wanted = (cfg.n_layers, batch, cfg.n_kv_heads, cfg.head_dim)
  found = (*cache.k.shape[:2], *cache.k.shape[3:])
  if found != wanted:
    raise ValueError(
      f'the cache holds [layers, rows, heads, width] {list(found)}; the model'
      f' and the tokens need {list(wanted)}.'
    )
  written, room = cache.index, cache.k.shape[2]
  # Where the index is traced a loop has to count; writes would be clamped.
  used = 0 if isinstance(written, jax.core.Tracer) else int(written)
  if used + length > room:
    raise ValueError(
      f'{length} tokens do not fit a cache of {room} places, of which {used}'
      ' are written.'
    )
