"""A model's sizes, as GGUF files and the Hugging Face hub write them."""

import math
from collections.abc import Mapping
from typing import Any

from jaxlab import errors
from jaxlab.lm import rope
from jaxlab.lm.config import ARCHITECTURES, Keys, ModelConfig, shown

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
# The hub writes null for what these keys leave to the model.
_NULLABLE = (
  *('head_dim', 'num_key_value_heads', 'sliding_window', 'attention_bias'),
  *('query_pre_attn_scalar', 'layer_types', 'rope_scaling', 'rope_parameters'),
  *('rope_theta', 'rope_local_base_freq', 'rope_type', 'type'),
)
_KINDS = ('sliding_attention', 'full_attention')
# There is a rotary factor for every pair: a damaged width would fill memory.
_MAX_HEAD_DIM = 1 << 16


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
  if not isinstance(arch, str) or arch not in ARCHITECTURES:
    raise errors.UserError(
      f'general.architecture is {shown(arch)}; the decoder knows'
      f' {", ".join(ARCHITECTURES)}.'
    )
  keys = Keys(metadata, arch)
  if 'token_embd.weight' not in shapes:
    raise errors.UserError('the file has no tensor token_embd.weight.')
  if len(shapes['token_embd.weight']) != 2:
    raise errors.UserError(
      f'token_embd.weight has shape {list(shapes["token_embd.weight"])}; a'
      ' model has a matrix there.'
    )
  d_model = keys.whole('embedding_length')
  n_heads = keys.whole('attention.head_count')
  head_dim = _head_dim(keys, 'attention.key_length', d_model // n_heads)
  _check_heads(keys, head_dim)
  gemma = arch == 'gemma3'
  n_layers = keys.whole('block_count')
  window = keys.whole('attention.sliding_window', 0, least=0) if gemma else 0
  old = gemma and n_layers == _GEMMA_27B_LAYERS
  return ModelConfig(
    arch=arch,
    n_layers=n_layers,
    d_model=d_model,
    n_heads=n_heads,
    n_kv_heads=keys.whole('attention.head_count_kv', n_heads),
    head_dim=head_dim,
    d_ff=keys.whole('feed_forward_length'),
    vocab_size=shapes['token_embd.weight'][0],
    rope_theta=keys.number('rope.freq_base', 10_000.0),
    rope_factors=_linear(
      keys.get('rope.scaling.type', 'linear'),
      keys.number('rope.scaling.factor', 1.0),
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
    norm_eps=keys.number('attention.layer_norm_rms_epsilon', zero=True),
    query_scale=(d_model / n_heads) ** -0.5 if old else None,
    max_len=keys.whole('context_length', 2048),
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
    text = _mapping(config, 'text_config')
    return from_hub_config({**text, 'model_type': 'gemma3_text'})
  arch = kind.removesuffix('_text')
  if arch not in ARCHITECTURES:
    raise errors.UserError(
      f'config.json has model_type {kind!r}; the decoder knows'
      f' {", ".join(ARCHITECTURES)}.'
    )
  gemma = arch == 'gemma3'
  config = _said({**_GEMMA_HUB, **config} if gemma else config)
  keys = Keys(config)
  _check_hub(config, kind, gemma)
  d_model = keys.whole('hidden_size')
  n_heads = keys.whole('num_attention_heads')
  n_layers = keys.whole('num_hidden_layers')
  head_dim = _head_dim(keys, 'head_dim', d_model // n_heads)
  window = keys.whole('sliding_window', 0, least=0) if gemma else 0
  theta, local, factors = _hub_rope(config, head_dim, gemma)
  return ModelConfig(
    arch=arch,
    n_layers=n_layers,
    d_model=d_model,
    n_heads=n_heads,
    n_kv_heads=keys.whole('num_key_value_heads', n_heads),
    head_dim=head_dim,
    d_ff=keys.whole('intermediate_size'),
    vocab_size=keys.whole('vocab_size'),
    rope_theta=theta,
    rope_factors=factors,
    rope_local_theta=local,
    sliding_window=window,
    global_every=_hub_pattern(config, n_layers) if window else 0,
    qk_norm=arch in ('qwen3', 'gemma3'),
    attn_bias=keys.flag('attention_bias', False) or arch == 'qwen2',
    act='gelu_tanh' if gemma else 'silu',
    post_norms=gemma,
    embed_scale=gemma,
    tie_embeddings=keys.flag('tie_word_embeddings', gemma),
    norm_eps=keys.number('rms_norm_eps', 1e-6, zero=True),
    query_scale=_hub_query_scale(keys, head_dim) if gemma else None,
    max_len=keys.whole('max_position_embeddings', 2048),
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
    scalar = round(cfg.score_scale**-2, 6)
    found |= {
      'rope_local_base_freq': cfg.rope_local_theta,
      'sliding_window': cfg.sliding_window,
      'layer_types': [_KINDS[each] for each in cfg.is_global],
      # transformers refuses a float.
      'query_pre_attn_scalar': int(scalar) if scalar.is_integer() else scalar,
    }
  return found


def _said(config: Mapping[str, Any]) -> dict[str, Any]:
  """Returns what a `config.json` says, without what it leaves open."""
  return {
    key: value
    for key, value in config.items()
    if value is not None or key not in _NULLABLE
  }


def _mapping(config: Mapping[str, Any], key: str) -> dict[str, Any]:
  """Returns a part of a `config.json`, empty where it is absent."""
  part = config.get(key, {})
  if not isinstance(part, Mapping):
    raise errors.UserError(f'{key} must be a JSON object, got {shown(part)}.')
  return _said(part)


def _head_dim(keys: Keys, key: str, default: int) -> int:
  head_dim = keys.whole(key, default)
  if head_dim > _MAX_HEAD_DIM:
    raise errors.UserError(
      f'heads are {head_dim} wide ({key}); at most {_MAX_HEAD_DIM} are allowed.'
    )
  return head_dim


def _check_heads(keys: Keys, head_dim: int) -> None:
  for key in ('rope.dimension_count', 'attention.value_length'):
    width = keys.whole(key, head_dim)
    if width != head_dim:
      raise errors.UserError(
        f'{key} is {width}, but heads are {head_dim} wide; the decoder'
        ' turns whole heads, and values are as wide as keys.'
      )


def _linear(kind: Any, factor: float, head_dim: int) -> tuple[float, ...]:
  if kind not in ('none', 'linear'):
    raise errors.UserError(
      f'rotary scaling {shown(kind)} is not known; the decoder has linear and'
      ' llama3.'
    )
  if kind == 'none' or factor == 1:
    return ()
  return (factor,) * (head_dim // 2)


def _hub_rope(
  config: Mapping[str, Any], head_dim: int, gemma: bool
) -> tuple[float, float, tuple[float, ...]]:
  """Returns the two bases and the factors, old way of writing or new."""
  name, parameters = 'rope_parameters', _mapping(config, 'rope_parameters')
  everywhere, nearby = parameters, _mapping(parameters, 'sliding_attention')
  if 'full_attention' in parameters:
    everywhere = _mapping(parameters, 'full_attention')
  scaling = everywhere
  if config.get('rope_scaling'):
    name, scaling = 'rope_scaling', _mapping(config, 'rope_scaling')
  theta = Keys({**config, **everywhere}).number(
    'rope_theta', 1_000_000.0 if gemma else 10_000.0
  )
  local = Keys(config).number('rope_local_base_freq', _GEMMA_LOCAL_THETA)
  local = Keys(nearby).number('rope_theta', local)
  if _rope_kind(nearby) != 'default':
    raise errors.UserError(
      f'sliding_attention has rotary scaling {shown(_rope_kind(nearby))}; the'
      ' decoder scales global layers alone.'
    )
  factors = _hub_factors(name, scaling, head_dim, theta)
  return theta, local, factors


def _rope_kind(scaling: Mapping[str, Any]) -> Any:
  # A factor of no kind would be ignored.
  default = None if 'factor' in scaling else 'default'
  return scaling.get('rope_type', scaling.get('type', default))


def _hub_factors(
  name: str, scaling: Mapping[str, Any], head_dim: int, theta: float
) -> tuple[float, ...]:
  """Returns the factors of a part `name` of a `config.json`."""
  keys = Keys({f'{name}.{key}': each for key, each in scaling.items()}, name)
  kind = _rope_kind(scaling)
  if kind == 'default':
    return ()
  if kind == 'linear':
    return _linear(kind, keys.number('factor'), head_dim)
  if kind != 'llama3':
    return _linear(kind, 1.0, head_dim)
  low, high = keys.number('low_freq_factor'), keys.number('high_freq_factor')
  if low >= high:
    raise errors.UserError(
      f'{name}.high_freq_factor must exceed low_freq_factor {low}, got {high}.'
    )
  return rope.llama3_factors(
    head_dim,
    theta,
    factor=keys.number('factor'),
    low_freq_factor=low,
    high_freq_factor=high,
    original_len=keys.whole('original_max_position_embeddings'),
  )


def _check_hub(config: Mapping[str, Any], kind: str, gemma: bool) -> None:
  """Refuses what would be another model without it."""
  foreign = ['attn_logit_softcapping', 'final_logit_softcapping']
  foreign += ['use_bidirectional_attention']
  foreign += [] if gemma else ['use_sliding_window']
  if config.get('partial_rotary_factor') not in (None, 1, 1.0):
    foreign.append('partial_rotary_factor')
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
  kinds = config.get('layer_types', [])
  if kinds == []:
    return Keys(config).whole('sliding_window_pattern', _GEMMA_EVERY)
  if not isinstance(kinds, list) or any(kind not in _KINDS for kind in kinds):
    raise errors.UserError(
      f'layer_types must be a list of {" and ".join(_KINDS)}.'
    )
  if len(kinds) != n_layers:
    raise errors.UserError(
      f'layer_types has {len(kinds)} entries, but num_hidden_layers is'
      f' {n_layers}.'
    )
  wide = [i + 1 for i, kind in enumerate(kinds) if kind == 'full_attention']
  every = wide[0] if wide else n_layers + 1
  if wide != list(range(every, n_layers + 1, every)):
    raise errors.UserError(
      f'config.json has global layers {wide}, not every so manyth.'
    )
  return every


def _hub_query_scale(keys: Keys, head_dim: int) -> float | None:
  scalar = keys.number('query_pre_attn_scalar', head_dim)
  return None if math.isclose(scalar, head_dim) else scalar**-0.5
