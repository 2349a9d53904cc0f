"""Models to files and back, and the ways in which files are written."""

import dataclasses
import json

import chex
import gguf
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from jax.sharding import NamedSharding, PartitionSpec

from jaxlab import errors, parallel
from jaxlab.lm import (
  config,
  gguf_io,
  loading,
  metadata,
  safetensors_io,
  sharding,
)
from tests.lm import small_vocabularies
from tests.lm.small_models import ARCHITECTURES, CONFIGS, params_of

# Sizes whose rows are whole blocks.
BLOCKS = dataclasses.replace(CONFIGS['llama'], d_model=64, d_ff=96, head_dim=16)


def _same(found, wanted):
  chex.assert_trees_all_equal(jax.tree.map(np.asarray, found), wanted)


# -- tensors and GGUF files


@pytest.mark.parametrize('name', CONFIGS)
def test_tensors_are_inverse(name):
  cfg = CONFIGS[name]
  found, params = loading.from_tensors(*loading.to_tensors(cfg, params_of(cfg)))
  assert found.rope_factors == pytest.approx(cfg.rope_factors)
  assert dataclasses.replace(found, rope_factors=cfg.rope_factors) == cfg
  _same(params, params_of(cfg))


def test_rows_of_llama_are_in_pairs():
  """Half-split rows 0, 1, ... of a head become 0, H/2, 1, H/2 + 1, ..."""
  cfg = CONFIGS['llama']
  params = params_of(cfg)
  _, tensors = loading.to_tensors(cfg, params)
  half = cfg.head_dim // 2
  order = np.arange(cfg.head_dim).reshape(2, half).T.ravel()
  for name, count in (('q', cfg.n_heads), ('k', cfg.n_kv_heads)):
    kernel = params['layers'][name]['kernel'][1].T
    rows = kernel.reshape(count, cfg.head_dim, cfg.d_model)[:, order]
    stored = tensors[f'blk.1.attn_{name}.weight']
    np.testing.assert_array_equal(stored, rows.reshape(stored.shape))
  stored = tensors['blk.0.attn_v.weight']
  np.testing.assert_array_equal(stored, params['layers']['v']['kernel'][0].T)


@pytest.mark.parametrize('name', ARCHITECTURES)
def test_gguf_round_trip(name, tmp_path):
  cfg, path = CONFIGS[name], tmp_path / 'm.gguf'
  loading.to_gguf(path, cfg, params_of(cfg))
  file = gguf_io.read_gguf(path)
  found, params = loading.from_tensors(file.metadata, file.tensors)
  # A file holds float32.
  eps = float(np.float32(cfg.norm_eps))
  assert found == dataclasses.replace(cfg, norm_eps=eps)
  _same(params, params_of(cfg))
  peer = gguf.GGUFReader(path)
  assert peer.fields['general.architecture'].contents() == cfg.arch
  assert peer.fields[f'{cfg.arch}.block_count'].contents() == cfg.n_layers
  _, tensors = loading.to_tensors(cfg, params_of(cfg))
  assert [each.name for each in peer.tensors] == list(tensors)
  for each in peer.tensors:
    np.testing.assert_array_equal(each.data, tensors[each.name])


def test_gguf_of_blocks(tmp_path):
  cfg, path = BLOCKS, tmp_path / 'm.gguf'
  given = params_of(cfg)
  loading.to_gguf(path, cfg, given, qtype='Q8_0')
  file = gguf_io.read_gguf(path)
  _, params = loading.from_tensors(file.metadata, file.tensors)
  kinds = {name: each.qtype for name, each in file.tensors.items()}
  assert kinds['blk.0.attn_q.weight'] == kinds['token_embd.weight'] == 'Q8_0'
  assert kinds['output_norm.weight'] == 'F32'
  _same(params['final_norm'], given['final_norm'])
  for name in ('q', 'down'):
    kernel, found = (x['layers'][name]['kernel'] for x in (given, params))
    # Files have blocks of 32 inputs; a step is the largest over 127, in half
    # precision, and half a step is the error.
    blocks = kernel.swapaxes(1, 2).reshape(*kernel.shape[::2], -1, 32)
    step = np.abs(blocks).max(-1, keepdims=True) / 127
    error = np.abs(
      np.asarray(found).swapaxes(1, 2).reshape(blocks.shape) - blocks
    )
    assert np.all(error <= (0.5 + 127 * 2**-11) * step)
    assert error.max() > 0
  tensor = next(
    t for t in gguf.GGUFReader(path).tensors if t.name == 'token_embd.weight'
  )
  table = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
  np.testing.assert_array_equal(params['embedding'], table)


def test_gguf_with_its_tokenizer(tmp_path):
  keys = small_vocabularies.byte_level_metadata('smollm')
  count = len(keys['tokenizer.ggml.tokens'])
  cfg = config.tiny('llama', vocab_size=count, n_layers=1)
  path = tmp_path / 'm.gguf'
  loading.to_gguf(
    path, cfg, params_of(cfg), tokenizer_metadata={**keys, 'other.key': 1}
  )
  found, params, tokenizer = loading.from_gguf(path, jnp.bfloat16)
  assert (found.vocab_size, tokenizer.vocab_size) == (count, count)
  assert tokenizer.decode(tokenizer.encode('two words')) == 'two words'
  assert 'other.key' not in gguf_io.read_gguf(path).metadata
  wanted = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params_of(cfg))
  _same(params, wanted)


def test_where_parameters_lie():
  cfg = CONFIGS['llama']
  given = loading.to_tensors(cfg, params_of(cfg))
  mesh = parallel.mesh(devices=jax.devices()[:1])
  everywhere = NamedSharding(mesh, PartitionSpec())
  _, params = loading.from_tensors(*given, sharding=everywhere)
  assert {x.sharding for x in jax.tree.leaves(params)} == {everywhere}
  seen = {}

  def rule(path, shape):
    seen[path] = shape
    return sharding.for_path(mesh)(path, shape)

  _, params = loading.from_tensors(*given, sharding=rule)
  assert seen['layers/q/kernel'] == (2, cfg.d_model, cfg.d_model)
  assert len(seen) == len(jax.tree.leaves(params))
  spec = params['layers']['q']['kernel'].sharding.spec
  assert spec == PartitionSpec(None, 'data', None)


# -- what files lack


def _tensors(name='llama', **changes):
  cfg = CONFIGS[name]
  keys, tensors = loading.to_tensors(cfg, params_of(cfg))
  keys = {k: v for k, v in {**keys, **changes}.items() if v is not None}
  return keys, tensors


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'general.architecture': 'mamba'}, "'mamba'; the decoder knows llama, q"),
    ({'general.architecture': None}, 'general.architecture is None'),
    ({'llama.block_count': None}, 'does not say llama.block_count'),
    ({'llama.feed_forward_length': [96, 97]}, 'differs from block to block'),
    ({'llama.rope.dimension_count': 6}, 'rope.dimension_count is 6, but heads'),
    ({'llama.rope.scaling.type': 'yarn', 'llama.rope.scaling.factor': 2.0},
     "scaling 'yarn' is not known"),
    ({'llama.rope.scaling.type': 'yarn'}, "scaling 'yarn' is not known"),
    ({'llama.block_count': 4_000_000_000},
     'holds 20 tensors, too few for block_count=4000000000'),
    ({'llama.block_count': 1}, r'unexpected: blk.1.attn_q.weight, .*'),
    ({'llama.block_count': 5}, r'missing: (blk.\d.\w+.weight, ){9}blk.\d.\w+'
     r'.weight and 17 more\.'),
    ({'llama.feed_forward_length': 95},
     r'blk.0.ffn_gate.weight of shape \[96, 48\]; its model needs \[95, 48\]'),
  ],
)  # fmt: skip
def test_wrong_keys(changes, message):
  with pytest.raises(errors.UserError, match=message):
    loading.from_tensors(*_tensors(**changes))


def test_keys_of_each_block():
  """Some converters write one number a block."""
  changes = {'llama.feed_forward_length': np.array([96, 96])}
  found, _ = loading.from_tensors(*_tensors(**changes))
  assert found == CONFIGS['llama']


def test_wrong_tensors():
  keys, tensors = _tensors()
  del tensors['blk.1.attn_k.weight']
  both = 'missing: blk.1.attn_k.weight; unexpected: extra.weight'
  with pytest.raises(errors.UserError, match=both):
    loading.from_tensors(keys, {**tensors, 'extra.weight': np.zeros(2)})
  with pytest.raises(errors.UserError, match='no tensor token_embd'):
    loading.from_tensors(keys, {})


def test_damaged_tensors():
  keys, tensors = _tensors()
  scalar = {**tensors, 'token_embd.weight': np.float32(1)}
  with pytest.raises(
    errors.UserError, match=r'token_embd.weight has shape \[\]'
  ):
    loading.from_tensors(keys, scalar)
  for bad in (0, -1, np.nan):
    factors = {'rope_freqs.weight': np.array([1, 1, 1, 1, 1, bad], np.float32)}
    with pytest.raises(errors.UserError, match=r'rope_freqs.weight must be'):
      loading.from_tensors(keys, tensors | factors)


@pytest.mark.parametrize('dtype', [jnp.int8, 'int8', 'flot32'])
def test_parameters_are_floating(dtype):
  with pytest.raises(errors.UserError, match=r'dtype (int8|flot32) cannot'):
    loading.from_tensors(*_tensors(), dtype=dtype)


def test_params_of_another_model_are_not_written(tmp_path):
  cfg, path = CONFIGS['llama'], tmp_path / 'm'
  others = ({}, params_of(CONFIGS['llama_untied']), params_of(CONFIGS['qwen2']))
  for params, words in zip(
    (*others, params_of(dataclasses.replace(cfg, n_layers=1))),
    ('embedding is absent', 'layers/k/kernel is', 'layers/k/bias is', '(1, 48'),
    strict=True,
  ):
    for write in (loading.to_gguf, loading.to_safetensors):
      with pytest.raises(errors.UserError) as found:
        write(path, cfg, params)
      assert str(found.value).startswith('params do not fit the config: ')
      assert words in str(found.value)
  for qtype in (None, 'Q4_K'):
    wanted = f'qtype={qtype!r} is none of F32, F16, BF16, Q8_0, Q4_1'
    with pytest.raises(errors.UserError, match=wanted):
      loading.to_gguf(path, cfg, params_of(cfg), qtype=qtype)
  assert not list(tmp_path.iterdir())


def test_a_file_is_no_folder(tmp_path):
  cfg, path = CONFIGS['llama'], tmp_path / 'm'
  path.touch()
  with pytest.raises(errors.UserError, match='m is a file; name a folder'):
    loading.to_safetensors(path, cfg, params_of(cfg))
  with pytest.raises(errors.UserError, match=r'cannot write .*m/below/model'):
    loading.to_safetensors(path / 'below', cfg, params_of(cfg))


def test_gguf_without_its_tokenizer(tmp_path):
  cfg, path = CONFIGS['llama'], tmp_path / 'm.gguf'
  loading.to_gguf(path, cfg, params_of(cfg))
  message = r'm.gguf has no keys tokenizer.*; loading.from_tensors reads it'
  with pytest.raises(errors.UserError, match=message):
    loading.from_gguf(path)


def test_layers_of_a_damaged_checkpoint(tmp_path):
  cfg = CONFIGS['llama']
  loading.to_safetensors(tmp_path, cfg, params_of(cfg))
  keys = metadata.to_hub_config(cfg) | {'num_hidden_layers': 4_000_000_000}
  safetensors_io.write_hf_config(tmp_path, keys)
  message = 'holds 20 tensors, too few for num_hidden_layers=4000000000'
  with pytest.raises(errors.UserError, match=message):
    loading.from_safetensors(tmp_path)


def test_what_files_cannot_say():
  with pytest.raises(errors.UserError, match='cannot say global_every=2'):
    loading.to_tensors(config.tiny('gemma3'), params_of(config.tiny('gemma3')))
  with pytest.raises(errors.UserError, match='factors that differ'):
    metadata.to_hub_config(CONFIGS['llama_factors'])


# -- checkpoints of the hub


@pytest.mark.parametrize(
  'name', ['llama_untied', 'qwen2', 'qwen3_untied', 'gemma3_factors']
)
def test_safetensors_round_trip(name, tmp_path):
  cfg = CONFIGS[name]
  loading.to_safetensors(tmp_path, cfg, params_of(cfg))
  found, params, tokenizer = loading.from_safetensors(tmp_path)
  assert (found, tokenizer) == (cfg, None)
  chex.assert_trees_all_close(
    jax.tree.map(np.asarray, params), params_of(cfg), atol=1e-6
  )
  stored = safetensors.numpy.load_file(tmp_path / 'model.safetensors')
  norm = params_of(cfg)['layers']['attn_norm']['scale'][0]
  ours = stored['model.layers.0.input_layernorm.weight']
  np.testing.assert_allclose(ours, norm - cfg.post_norms, atol=1e-6)
  # The same in several files, under the names of a model that also sees.
  shards, tensors = (
    tmp_path / 'shards',
    loading.to_hub_tensors(cfg, params_of(cfg)),
  )
  safetensors_io.write_safetensors(shards, tensors, max_shard_bytes=40_000)
  assert len(list(shards.glob('*.safetensors'))) > 2
  _same(loading.load_safetensors(shards, cfg), jax.tree.map(np.asarray, params))


@pytest.mark.parametrize(
  'prefix', ['language_model.model.', 'model.language_model.']
)
def test_language_part_of_a_larger_model(prefix, tmp_path):
  cfg = CONFIGS['gemma3']
  tensors = {
    name.replace('model.', prefix, 1): array
    for name, array in loading.to_hub_tensors(cfg, params_of(cfg)).items()
  }
  outer = 'model.' if prefix.startswith('model.') else ''
  for name in ('vision_tower.a.weight', 'multi_modal_projector.b.weight'):
    tensors[outer + name] = np.zeros(3, np.float32)
  safetensors_io.write_safetensors(tmp_path / 'model.safetensors', tensors)
  text = metadata.to_hub_config(cfg)
  outside = {'model_type': 'gemma3', 'text_config': text}
  (tmp_path / 'config.json').write_text(json.dumps(outside))
  found, params, _ = loading.from_safetensors(tmp_path)
  assert found == cfg
  chex.assert_trees_all_close(
    jax.tree.map(np.asarray, params), params_of(cfg), atol=1e-6
  )


def test_tied_head_is_told_from_the_tensors(tmp_path):
  cfg = CONFIGS['llama']
  tensors = loading.to_hub_tensors(cfg, params_of(cfg))
  keys = {**metadata.to_hub_config(cfg), 'tie_word_embeddings': False}
  safetensors_io.write_hf_config(tmp_path, keys)
  file = tmp_path / 'model.safetensors'
  safetensors_io.write_safetensors(file, tensors)
  assert loading.from_safetensors(tmp_path)[0] == cfg
  # A checkpoint that stores the tied head as well.
  safetensors_io.write_hf_config(
    tmp_path, {**keys, 'tie_word_embeddings': True}
  )
  tensors['lm_head.weight'] = tensors['model.embed_tokens.weight']
  safetensors_io.write_safetensors(file, tensors)
  found, params, _ = loading.from_safetensors(tmp_path)
  assert found == cfg
  _same(params, params_of(cfg))
  del tensors['model.norm.weight']
  file.unlink()
  safetensors_io.write_safetensors(file, tensors)
  message = 'the checkpoint .* missing: model.norm.weight'
  with pytest.raises(errors.UserError, match=message):
    loading.from_safetensors(tmp_path)
