"""Small random models of every architecture, with parameters from NumPy."""

import functools

import jax
import numpy as np

from jaxlab.lm import config, loading, model, reference

# A window shorter than the sequences, and a global layer as GGUF files say.
_GEMMA = {'n_layers': 7, 'global_every': 6, 'sliding_window': 5}
_WIDE = {'n_kv_heads': 4}
CONFIGS = {
  'llama': config.tiny('llama'),
  'llama_one_key_head': config.tiny('llama', n_kv_heads=1),
  'llama_untied': config.tiny('llama', tie_embeddings=False, **_WIDE),
  'llama_factors': config.tiny(
    'llama', rope_factors=(1.0, 1.0, 1.7, 3.0, 8.0, 8.0)
  ),
  'qwen2': config.tiny('qwen2'),
  'qwen3_untied': config.tiny('qwen3', tie_embeddings=False, **_WIDE),
  'gemma3': config.tiny('gemma3', **_GEMMA),
  'gemma3_factors': config.tiny(
    'gemma3', n_kv_heads=1, rope_factors=(8.0,) * 6, **_GEMMA
  ),
}
ARCHITECTURES = ('llama', 'qwen2', 'qwen3_untied', 'gemma3')


@functools.cache
def params_of(cfg, seed=0):
  """Parameters of which none is at its initial value: NumPy, float32."""
  rng = np.random.default_rng(seed)
  shapes = jax.eval_shape(
    model.Decoder(cfg).init, jax.random.key(0), np.zeros((1, 1), np.int32)
  )['params']

  def draw(path, leaf):
    x = rng.standard_normal(leaf.shape)
    name = path[-1].key
    if name in ('kernel', 'head'):
      x *= 1.5 / np.sqrt(leaf.shape[-2])
    elif name == 'embedding':
      x *= 0.3
    else:
      x = 0.3 * x + (name == 'scale')
    return x.astype(np.float32)

  return jax.tree_util.tree_map_with_path(draw, shapes)


@functools.cache
def apply_of(cfg, **options):
  """The compiled function of (params, tokens)."""
  return jax.jit(
    model.apply_fn(model.Decoder(cfg, **options)),
    static_argnames=('return_hidden', 'last_only'),
  )


def tokens_of(cfg, *shape, seed=1):
  rng = np.random.default_rng(seed)
  return rng.integers(0, cfg.vocab_size, shape).astype(np.int32)


def reference_logits(cfg, params, tokens):
  """The forward pass of `reference` in float64."""
  keys, tensors = loading.to_tensors(cfg, params)
  return reference.logits(keys, tensors.get, tokens)
