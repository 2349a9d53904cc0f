"""Sizes that a damaged or a foreign file says: every one is named."""

import math

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.lm import config, metadata
from tests.lm.small_models import CONFIGS

_GGUF = metadata.to_gguf_metadata(CONFIGS['llama'])
_SHAPES = {'token_embd.weight': (64, 48)}
_HUB = metadata.to_hub_config(CONFIGS['llama'])
_GEMMA = metadata.to_hub_config(CONFIGS['gemma3'])
_LLAMA3 = {
  'rope_type': 'llama3',
  'factor': 8.0,
  'low_freq_factor': 1.0,
  'high_freq_factor': 4.0,
  'original_max_position_embeddings': 8192,
}


def _refused(call, *words):
  with pytest.raises(errors.UserError) as found:
    call()
  message = str(found.value)
  assert '\n' not in message
  assert len(message) < 200
  assert all(word in message for word in words), message


def _without(keys, name):
  return {key: value for key, value in keys.items() if key != name}


@pytest.mark.parametrize(
  ('name', 'value'),
  [
    *(('block_count', x) for x in (None, 'one', math.nan, 1.7, 0, True)),
    *(('attention.head_count', x) for x in (0, -4, '4')),
    ('embedding_length', np.arange(9.0).reshape(3, 3) * 0 + 0.5),
    ('feed_forward_length', ['x' * 999]),
    ('attention.key_length', 1 << 40),
    *(('rope.freq_base', x) for x in (0.0, -1.0, math.nan, math.inf)),
    *(('rope.scaling.factor', x) for x in (0.0, -8.0, math.nan, None)),
    *(('attention.layer_norm_rms_epsilon', x) for x in (math.nan, -1e-5)),
    ('context_length', 'long'),
  ],
)
def test_values_of_a_gguf_file(name, value):
  keys = _GGUF | {f'llama.{name}': value}
  _refused(lambda: metadata.from_gguf_metadata(keys, _SHAPES), name)


def test_windows_of_a_gguf_file():
  keys = metadata.to_gguf_metadata(CONFIGS['gemma3'])
  keys |= {'gemma3.attention.sliding_window': -1}
  _refused(lambda: metadata.from_gguf_metadata(keys, _SHAPES), 'sliding_window')


@pytest.mark.parametrize(
  ('kind', 'factors'),
  [(None, (4.0,) * 6), ('linear', (4.0,) * 6), ('none', ())],
)
def test_scaling_of_a_gguf_file(kind, factors):
  keys = _GGUF | {'llama.rope.scaling.factor': 4.0}
  if kind is not None:
    keys['llama.rope.scaling.type'] = kind
  found = metadata.from_gguf_metadata(keys, _SHAPES)
  assert found.rope_factors == factors


def test_architectures_that_are_no_text():
  keys = _GGUF | {'general.architecture': np.arange(2000)}
  words = 'general.architecture', 'the decoder knows'
  _refused(lambda: metadata.from_gguf_metadata(keys, _SHAPES), *words)


@pytest.mark.parametrize('value', [None, 'many', [1, 2], {}, math.nan, -1])
@pytest.mark.parametrize(
  'name',
  [
    *('hidden_size', 'num_hidden_layers', 'num_attention_heads'),
    *('rms_norm_eps', 'max_position_embeddings', 'intermediate_size'),
  ],
)
def test_values_of_a_hub_config(name, value):
  _refused(lambda: metadata.from_hub_config(_HUB | {name: value}), name)


@pytest.mark.parametrize('value', [None, 'false', 0, []])
def test_booleans_of_a_hub_config(value):
  keys = _HUB | {'tie_word_embeddings': value}
  words = 'tie_word_embeddings must be a boolean' if value != [] else 'tie_word'
  _refused(lambda: metadata.from_hub_config(keys), words)
  keys = _HUB | {'attention_bias': 'false'}
  _refused(lambda: metadata.from_hub_config(keys), 'attention_bias must be')


@pytest.mark.parametrize(
  ('name', 'value'),
  [
    ('sliding_window_pattern', None),
    ('sliding_window_pattern', 0),
    ('sliding_window', -1),
    ('layer_types', 5),
    ('layer_types', ['sliding_attention'] * 6),
    ('layer_types', ['chunked_attention'] * 7),
    ('query_pre_attn_scalar', 'wide'),
    ('rope_local_base_freq', -1),
    ('head_dim', 1 << 40),
  ],
)
def test_values_of_a_hub_config_of_gemma(name, value):
  keys = _without(_GEMMA, 'layer_types') | {name: value}
  _refused(lambda: metadata.from_hub_config(keys), name)


@pytest.mark.parametrize('text', [None, 'text', [1]])
def test_text_part_of_a_hub_config(text):
  keys = {'model_type': 'gemma3', 'text_config': text}
  _refused(lambda: metadata.from_hub_config(keys), 'text_config must be')


@pytest.mark.parametrize(
  ('key', 'scaling', 'words'),
  [
    *(
      ('rope_scaling', {'rope_type': kind}, f'scaling {kind!r} is not known')
      for kind in ('longrope', 'dynamic', 'yarn', 5, ['yarn'])
    ),
    ('rope_scaling', {'type': 'yarn', 'factor': 1.0}, "'yarn' is not known"),
    ('rope_scaling', {'factor': 8.0}, 'scaling None is not known'),
    ('rope_scaling', 'linear', 'rope_scaling must be a JSON object'),
    ('rope_scaling', {'rope_type': 'linear'}, 'not say rope_scaling.factor'),
    *(
      ('rope_scaling', {'rope_type': 'linear', 'factor': x}, 'g.factor must be')
      for x in (None, 0, -8, math.nan, '8')
    ),
    *(
      ('rope_scaling', _without(_LLAMA3, name), f'not say rope_scaling.{name}')
      for name in _without(_LLAMA3, 'rope_type')
    ),
    (
      'rope_scaling',
      _LLAMA3 | {'low_freq_factor': 4.0},
      'rope_scaling.high_freq_factor must exceed',
    ),
    ('rope_parameters', [1], 'rope_parameters must be a JSON object'),
    ('rope_parameters', {'full_attention': 1}, 'full_attention must be'),
    ('rope_parameters', {'rope_theta': -1.0}, 'rope_theta must be'),
    (
      'rope_parameters',
      {'sliding_attention': {'rope_type': 'linear', 'factor': 2.0}},
      'sliding_attention has rotary scaling',
    ),
  ],
)
def test_scaling_of_a_hub_config(key, scaling, words):
  _refused(lambda: metadata.from_hub_config(_HUB | {key: scaling}), words)


def test_what_a_hub_config_leaves_open():
  keys = ('rope_scaling', 'rope_parameters', 'attention_bias', 'sliding_window')
  found = metadata.from_hub_config(_HUB | dict.fromkeys(keys))
  assert found == CONFIGS['llama']
  plain = {'rope_type': 'default', 'factor': 8.0}
  found = metadata.from_hub_config(_HUB | {'rope_scaling': plain})
  assert found == CONFIGS['llama']


@pytest.mark.parametrize(
  ('name', 'value'),
  [
    *(('n_layers', x) for x in (1.5, 0, '2', True)),
    ('sliding_window', -1),
    ('global_every', -1),
    ('rope_theta', 0.0),
    ('rope_local_theta', math.nan),
    ('norm_eps', -1e-6),
    ('query_scale', math.inf),
    ('rope_factors', (1.0,) * 5 + (0.0,)),
  ],
)
def test_values_of_a_config(name, value):
  _refused(lambda: config.tiny('llama', **{name: value}), f'{name} must be')
