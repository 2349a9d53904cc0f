"""A model's sizes, as GGUF files and the Hugging Face hub write them."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jaxlab import errors
from jaxlab.lm import rope
from jaxlab.lm.config import ARCHITECTURES, ModelConfig

_GEMMA_EVERY = 6
_GEMMA_LOCAL_THETA = 10_000.0
# What a `config.json` of Gemma 3 may leave out.
_GEMMA_HUB = {
  'vocab_size': 262_208,
  'num_attention_heads': 8,
  'num_key_value_heads': 4,
  'head_dim': 256,
  'sliding_window': 4096,
  'query_pre_attn_scalar': 256,
  'max_position_embeddings': 131_072,
}
# Gemma 3 27B alone scales scores by the width of a head of a narrower model.
_GEMMA_27B_LAYERS = 62


def from_gguf_metadata(
  metadata: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]
) -> ModelConfig:
  """Reads the sizes from the keys of a GGUF file.

  Args:
    metadata: the keys.
    shapes: of the tensors, `[out, in]`; say which optional parts there are.

  Raises:
    UserError: if the architecture is not one of ours, a key is missing, or
      the model needs something that the decoder has not.
  """
  arch = metadata.get('general.architecture')
  if arch not in ARCHITECTURES:
    raise errors.UserError(
      f'general.architecture is {arch!r}; the decoder knows'
      f' {", ".join(ARCHITECTURES)}.'
    )
  keys = _Keys(metadata, arch)
  if 'token_embd.weight' not in shapes:
    raise errors.UserError('the file has no tensor token_embd.weight.')
  d_model = int(keys['embedding_length'])
  n_heads = int(keys['attention.head_count'])
  head_dim = int(keys.get('attention.key_length', d_model // n_heads))
  _check_heads(keys, head_dim)
  gemma = arch == 'gemma3'
  n_layers = int(keys['block_count'])
  window = int(keys.get('attention.sliding_window', 0)) if gemma else 0
  old = gemma and n_layers == _GEMMA_27B_LAYERS
  return ModelConfig(
    arch=arch,
    n_layers=n_layers,
    d_model=d_model,
    n_heads=n_heads,
    n_kv_heads=int(keys.get('attention.head_count_kv', n_heads)),
    head_dim=head_dim,
    d_ff=int(keys['feed_forward_length']),
    vocab_size=shapes['token_embd.weight'][0],
    rope_theta=float(keys.get('rope.freq_base', 10_000.0)),
    rope_factors=_linear(
      str(keys.get('rope.scaling.type', 'linear')),
      float(keys.get('rope.scaling.factor', 1.0)),
      head_dim,
    ),
    rope_local_theta=_GEMMA_LOCAL_THETA,
    sliding_window=window,
    global_every=_GEMMA_EVERY if window else 0,
    qk_norm='blk.0.attn_q_norm.weight' in shapes,
    attn_bias='blk.0.attn_q.bias' in shapes,
    act='gelu_tanh' if gemma else 'silu',
    post_norms=gemma,
    embed_scale=gemma,
    tie_embeddings='output.weight' not in shapes,
    norm_eps=float(keys['attention.layer_norm_rms_epsilon']),
    query_scale=(d_model / n_heads) ** -0.5 if old else None,
    max_len=int(keys.get('context_length', 2048)),
  )


def to_gguf_metadata(cfg: ModelConfig) -> dict[str, Any]:
  """Returns the keys of a GGUF file for a model.

  Raises:
    UserError: if such a file cannot say what the model needs.
  """
  arch = cfg.arch
  every = _GEMMA_EVERY if cfg.has_local_layers else 0
  if cfg.global_every != every or cfg.query_scale is not None:
    raise errors.UserError(
      f'a GGUF file cannot say global_every={cfg.global_every} or'
      f' query_scale={cfg.query_scale}.'
    )
  keys = {
    'block_count': cfg.n_layers,
    'context_length': cfg.max_len,
    'embedding_length': cfg.d_model,
    'feed_forward_length': cfg.d_ff,
    'attention.head_count': cfg.n_heads,
    'attention.head_count_kv': cfg.n_kv_heads,
    'attention.key_length': cfg.head_dim,
    'attention.value_length': cfg.head_dim,
    'attention.layer_norm_rms_epsilon': float(cfg.norm_eps),
    'rope.freq_base': float(cfg.rope_theta),
    'vocab_size': cfg.vocab_size,
  }
  if arch != 'gemma3':
    keys['rope.dimension_count'] = cfg.head_dim
  if cfg.has_local_layers:
    keys['attention.sliding_window'] = cfg.sliding_window
  found = {f'{arch}.{key}': value for key, value in keys.items()}
  return {'general.architecture': arch, **found}


def from_hub_config(config: Mapping[str, Any]) -> ModelConfig:
  """Reads the sizes from a `config.json` of the Hugging Face hub.

  Args:
    config: of a Llama, Qwen2, Qwen3 or Gemma 3 model; of a Gemma 3 that also
      sees, its part `text_config` is read.

  Raises:
    UserError: if the model is of another kind, a key is missing, or the
      model needs something that the decoder has not.
  """
  kind = str(config.get('model_type'))
  if kind == 'gemma3' and 'text_config' in config:
    return from_hub_config({**config['text_config'], 'model_type': kind})
  arch = kind.removesuffix('_text')
  if arch not in ARCHITECTURES:
    raise errors.UserError(
      f'config.json has model_type {kind!r}; the decoder knows'
      f' {", ".join(ARCHITECTURES)}.'
    )
  gemma = arch == 'gemma3'
  config = {**_GEMMA_HUB, **config} if gemma else config
  keys = _Keys(config)
  _check_hub(config, kind, gemma)
  d_model, n_heads = int(keys['hidden_size']), int(keys['num_attention_heads'])
  n_layers = int(keys['num_hidden_layers'])
  head_dim = int(keys.get('head_dim') or d_model // n_heads)
  window = int(keys.get('sliding_window') or 0) if gemma else 0
  theta, local, factors = _hub_rope(config, head_dim, gemma)
  return ModelConfig(
    arch=arch,
    n_layers=n_layers,
    d_model=d_model,
    n_heads=n_heads,
    n_kv_heads=int(keys.get('num_key_value_heads') or n_heads),
    head_dim=head_dim,
    d_ff=int(keys['intermediate_size']),
    vocab_size=int(keys['vocab_size']),
    rope_theta=theta,
    rope_factors=factors,
    rope_local_theta=local,
    sliding_window=window,
    global_every=_hub_pattern(config, n_layers) if window else 0,
    qk_norm=arch in ('qwen3', 'gemma3'),
    attn_bias=arch == 'qwen2' or bool(config.get('attention_bias')),
    act='gelu_tanh' if gemma else 'silu',
    post_norms=gemma,
    embed_scale=gemma,
    tie_embeddings=bool(config.get('tie_word_embeddings', gemma)),
    norm_eps=float(keys.get('rms_norm_eps', 1e-6)),
    query_scale=_hub_query_scale(config, head_dim) if gemma else None,
    max_len=int(keys.get('max_position_embeddings', 2048)),
  )


def to_hub_config(cfg: ModelConfig) -> dict[str, Any]:
  """Returns the `config.json` of a model.

  Raises:
    UserError: if rotary frequencies have factors of their own.
  """
  if len(set(cfg.rope_factors)) > 1:
    raise errors.UserError(
      'config.json cannot hold rope_factors that differ; write a GGUF file.'
    )
  name = {'llama': 'Llama', 'qwen2': 'Qwen2', 'qwen3': 'Qwen3'}
  found = {
    'architectures': [f'{name.get(cfg.arch, "Gemma3")}ForCausalLM'],
    'model_type': 'gemma3_text' if cfg.arch == 'gemma3' else cfg.arch,
    'hidden_size': cfg.d_model,
    'intermediate_size': cfg.d_ff,
    'num_hidden_layers': cfg.n_layers,
    'num_attention_heads': cfg.n_heads,
    'num_key_value_heads': cfg.n_kv_heads,
    'head_dim': cfg.head_dim,
    'vocab_size': cfg.vocab_size,
    'rms_norm_eps': cfg.norm_eps,
    'rope_theta': cfg.rope_theta,
    'tie_word_embeddings': cfg.tie_embeddings,
    'max_position_embeddings': cfg.max_len,
    'attention_bias': cfg.attn_bias,
    'torch_dtype': 'float32',
  }
  key = 'hidden_activation' if cfg.arch == 'gemma3' else 'hidden_act'
  found[key] = 'silu' if cfg.act == 'silu' else 'gelu_pytorch_tanh'
  if cfg.rope_factors:
    scaling = {'rope_type': 'linear', 'factor': cfg.rope_factors[0]}
    found['rope_scaling'] = scaling
  if cfg.arch == 'gemma3':
    local = {False: 'sliding_attention', True: 'full_attention'}
    scalar = round(cfg.score_scale**-2, 6)
    found |= {
      'rope_local_base_freq': cfg.rope_local_theta,
      'sliding_window': cfg.sliding_window,
      'layer_types': [local[each] for each in cfg.is_global],
      # transformers refuses a float.
      'query_pre_attn_scalar': int(scalar) if scalar.is_integer() else scalar,
    }
  return found


class _Keys:
  """Keys that must be there, with the error where one is not."""

  def __init__(self, found: Mapping[str, Any], arch: str | None = None):
    self._found = found
    self._prefix = '' if arch is None else f'{arch}.'

  def __getitem__(self, key: str) -> Any:
    name = self._prefix + key
    if name not in self._found:
      raise errors.UserError(f'the model does not say {name}.')
    return self._checked(name)

  def get(self, key: str, default: Any = None) -> Any:
    name = self._prefix + key
    return self._checked(name) if name in self._found else default

  def _checked(self, name: str) -> Any:
    value = self._found[name]
    if isinstance(value, list | tuple | np.ndarray):
      # Some converters write one number a block.
      if len(value) and len(set(np.ravel(value).tolist())) == 1:
        return np.ravel(value)[0]
      raise errors.UserError(f'{name} differs from block to block.')
    return value


def _check_heads(keys: _Keys, head_dim: int) -> None:
  for key in ('rope.dimension_count', 'attention.value_length'):
    if int(keys.get(key, head_dim)) != head_dim:
      raise errors.UserError(
        f'{key} is {keys[key]}, but heads are {head_dim} wide; the decoder'
        ' turns whole heads, and values are as wide as keys.'
      )


def _linear(kind: str, factor: float, head_dim: int) -> tuple[float, ...]:
  if kind == 'none' or factor == 1:
    return ()
  if kind != 'linear':
    raise errors.UserError(
      f'rotary scaling {kind!r} is not known; the decoder has linear and'
      ' llama3.'
    )
  return (factor,) * (head_dim // 2)


def _hub_rope(
  config: Mapping[str, Any], head_dim: int, gemma: bool
) -> tuple[float, float, tuple[float, ...]]:
  """Returns the two bases and the factors, old way of writing or new."""
  parameters = config.get('rope_parameters') or {}
  everywhere = parameters.get('full_attention', parameters)
  nearby = parameters.get('sliding_attention', {})
  scaling = config.get('rope_scaling') or everywhere
  default = 1_000_000.0 if gemma else 10_000.0
  theta = float(
    everywhere.get('rope_theta') or config.get('rope_theta') or default
  )
  local = float(
    nearby.get('rope_theta')
    or config.get('rope_local_base_freq')
    or _GEMMA_LOCAL_THETA
  )
  kind = scaling.get('rope_type', scaling.get('type', 'default'))
  factor = float(scaling.get('factor', 1.0))
  if kind != 'llama3':
    kind = 'none' if kind == 'default' else kind
    return theta, local, _linear(kind, factor, head_dim)
  factors = rope.llama3_factors(
    head_dim,
    theta,
    factor=factor,
    low_freq_factor=scaling['low_freq_factor'],
    high_freq_factor=scaling['high_freq_factor'],
    original_len=scaling['original_max_position_embeddings'],
  )
  return theta, local, factors


def _check_hub(config: Mapping[str, Any], kind: str, gemma: bool) -> None:
  """Refuses what would be another model without it."""
  foreign = ['attn_logit_softcapping', 'final_logit_softcapping']
  foreign += ['use_bidirectional_attention']
  foreign += [] if gemma else ['use_sliding_window']
  for key in foreign:
    if config.get(key):
      raise errors.UserError(
        f'config.json of {kind} has {key} {config[key]}, which the decoder does'
        ' not know there.'
      )
  key, wanted = ('hidden_act', 'silu')
  if gemma:
    key, wanted = 'hidden_activation', 'gelu_pytorch_tanh'
  if config.get(key, wanted) != wanted:
    raise errors.UserError(
      f'config.json of {kind} has {key} {config[key]!r}; the decoder knows'
      f' {wanted} there.'
    )


def _hub_pattern(config: Mapping[str, Any], n_layers: int) -> int:
  """Returns how manyth layer is global."""
  kinds: Iterable[str] = config.get('layer_types') or ()
  kinds = list(kinds)
  if not kinds:
    return int(config.get('sliding_window_pattern', _GEMMA_EVERY))
  wide = [i + 1 for i, kind in enumerate(kinds) if kind == 'full_attention']
  every = wide[0] if wide else n_layers + 1
  if wide != list(range(every, n_layers + 1, every)):
    raise errors.UserError(
      f'config.json has global layers {wide}, not every so manyth.'
    )
  return every


def _hub_query_scale(config: Mapping[str, Any], head_dim: int) -> float | None:
  scalar = float(config.get('query_pre_attn_scalar') or head_dim)
  return None if math.isclose(scalar, head_dim) else scalar**-0.5
