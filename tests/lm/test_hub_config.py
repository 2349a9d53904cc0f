"""What `config.json` of the hub says, and what it leaves out."""

import dataclasses

import pytest

from jaxlab import errors
from jaxlab.lm import metadata, rope
from tests.lm.small_models import CONFIGS

_HUB = metadata.to_hub_config(CONFIGS['qwen2']) | {'model_type': 'llama'}
_HUB_GEMMA = metadata.to_hub_config(CONFIGS['gemma3'])


@pytest.mark.parametrize('nested', [False, True])
def test_scaling_of_llama3(nested):
  scaling = {
    'rope_type': 'llama3',
    'factor': 8.0,
    'low_freq_factor': 1.0,
    'high_freq_factor': 4.0,
    'original_max_position_embeddings': 8192,
  }
  keys = {k: v for k, v in _HUB.items() if k != 'rope_theta'}
  if nested:
    keys['rope_parameters'] = {**scaling, 'rope_theta': 5e5}
  else:
    keys |= {'rope_scaling': scaling, 'rope_theta': 5e5}
  found = metadata.from_hub_config(keys)
  assert found.rope_theta == 5e5
  assert found.rope_factors == rope.llama3_factors(
    *(12, 5e5),
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_len=8192,
  )
  assert (min(found.rope_factors), max(found.rope_factors)) == (1, 8)


def test_ways_of_writing_the_rotation_of_gemma():
  plain = ('rope_theta', 'rope_local_base_freq')
  keys = {k: v for k, v in _HUB_GEMMA.items() if k not in plain}
  nested = {
    'full_attention': {'rope_type': 'linear', 'factor': 8.0, 'rope_theta': 2e6},
    'sliding_attention': {'rope_type': 'default', 'rope_theta': 3e4},
  }
  for more in (
    {'rope_parameters': nested},
    {
      'rope_theta': 2e6,
      'rope_local_base_freq': 3e4,
      'rope_scaling': {'type': 'linear', 'factor': 8.0},
    },
  ):
    found = metadata.from_hub_config(keys | more)
    assert (found.rope_theta, found.rope_local_theta) == (2e6, 3e4)
    assert found.rope_factors == (8.0,) * 6
  found = metadata.from_hub_config(keys)
  assert (found.rope_theta, found.rope_local_theta) == (1e6, 1e4)


def test_which_layers_of_gemma_are_global():
  keys = {k: v for k, v in _HUB_GEMMA.items() if k != 'layer_types'}
  assert metadata.from_hub_config(keys).is_global == (*[False] * 5, True, False)
  every = metadata.from_hub_config(keys | {'sliding_window_pattern': 3})
  assert every.is_global == (False, False, True) * 2 + (False,)
  kinds = ['sliding_attention'] * 7
  none = metadata.from_hub_config(keys | {'layer_types': kinds})
  assert none.is_global == (False,) * 7
  with pytest.raises(errors.UserError, match=r'global layers \[2\], not every'):
    changed = ['full_attention' if i == 1 else k for i, k in enumerate(kinds)]
    metadata.from_hub_config(keys | {'layer_types': changed})


def test_sizes_that_a_gemma_does_not_say():
  """The text part of the 4B model says no more than this."""
  text = {
    'hidden_size': 2560,
    'intermediate_size': 10240,
    'model_type': 'gemma3_text',
    'num_hidden_layers': 34,
    'rope_scaling': {'factor': 8.0, 'rope_type': 'linear'},
    'sliding_window': 1024,
  }
  found = metadata.from_hub_config(
    {'model_type': 'gemma3', 'text_config': text}
  )
  sizes = found.n_heads, found.n_kv_heads, found.head_dim, found.vocab_size
  assert sizes == (8, 4, 256, 262_208)
  assert (found.rope_factors, found.score_scale) == ((8.0,) * 128, 1 / 16)
  assert (found.sliding_window, found.global_every) == (1024, 6)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'model_type': 'gpt2'}, "model_type 'gpt2'; the decoder knows"),
    ({'hidden_size': None}, 'does not say hidden_size'),
    ({'vocab_size': None}, 'does not say vocab_size'),
    ({'use_sliding_window': True}, 'has use_sliding_window True, which'),
    ({'final_logit_softcapping': 30.0}, 'final_logit_softcapping 30.0, which'),
    ({'hidden_act': 'relu'}, "hidden_act 'relu'; the decoder knows silu"),
    (
      {'rope_scaling': {'rope_type': 'yarn', 'factor': 2.0}},
      "'yarn' is not kn",
    ),
  ],
)
def test_wrong_hub_config(changes, message):
  keys = {k: v for k, v in {**_HUB, **changes}.items() if v is not None}
  with pytest.raises(errors.UserError, match=message):
    metadata.from_hub_config(keys)


def test_heads_of_the_largest_gemma_have_a_scale_of_their_own():
  keys = _HUB_GEMMA | {'query_pre_attn_scalar': 168}
  assert metadata.from_hub_config(keys).score_scale == pytest.approx(168**-0.5)
  cfg = dataclasses.replace(CONFIGS['gemma3'], query_scale=168**-0.5)
  scalar = metadata.to_hub_config(cfg)['query_pre_attn_scalar']
  assert (scalar, type(scalar)) == (168, int)
