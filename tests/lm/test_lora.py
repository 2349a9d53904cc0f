"""Adapters beside frozen kernels."""

import dataclasses
import re

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlab.lm import lora, model, sampling, sft, updates
from jaxlab.lm.lora import LoRAConfig
from tests.lm.small_models import (
  ARCHITECTURES,
  CONFIGS,
  apply_of,
  params_of,
  tokens_of,
)

CFG = CONFIGS['llama']
DECODER = model.Decoder(CFG)
PARAMS = params_of(CFG)
LORA = LoRAConfig(r=3, alpha=6.0)
KEY = jax.random.key(2)


def _drawn(key, kernel, cfg):
  """A start at which B is not zero; the base is what it leaves."""
  _, a, b = lora.kaiming(key, kernel, cfg)
  b = 0.2 * jax.random.normal(key, b.shape)
  return kernel - cfg.scale * a @ b, a, b


def _adapted(params=PARAMS, cfg=LORA, key=KEY, initializer=_drawn):
  return lora.init(key, params, cfg, initializer)


def test_start_of_plain_lora_changes_nothing():
  base, adapter = _adapted(initializer=lora.kaiming)
  chex.assert_trees_all_equal(base, PARAMS)
  assert not any(np.any(leaf) for leaf in jax.tree.leaves(adapter.b))
  a = adapter.a['layers']['down']['kernel']
  assert a.shape == (2, CFG.d_ff, 3)
  bound = 1 / np.sqrt(CFG.d_ff)
  assert np.abs(a).max() <= bound
  np.testing.assert_allclose(np.std(a), bound / np.sqrt(3), rtol=0.1)
  assert not np.array_equal(a[0], a[1])
  merged = lora.apply(base, adapter, LORA)
  chex.assert_trees_all_equal(jax.tree.map(np.asarray, merged), PARAMS)


def test_a_kernel_has_the_same_start_whatever_the_others():
  _, every = _adapted(initializer=lora.kaiming)
  one = dataclasses.replace(LORA, targets=('layers/v/kernel',))
  _, alone = _adapted(cfg=one, initializer=lora.kaiming)
  assert list(alone.a['layers']) == ['v']
  chex.assert_trees_all_equal(alone.a['layers']['v'], every.a['layers']['v'])
  kernels = [every.a['layers'][name]['kernel'] for name in ('q', 'gate')]
  assert not np.array_equal(kernels[0][:, :48], kernels[1][:, :48])


@pytest.mark.parametrize(
  ('cfg', 'scale'),
  [
    (LoRAConfig(r=4), 1),
    (LoRAConfig(r=4, alpha=2.0), 0.5),
    (LoRAConfig(r=4, alpha=2.0, rslora=True), 1),
  ],
)
def test_scale(cfg, scale):
  assert cfg.scale == scale
  base, adapter = _adapted(cfg=cfg, initializer=lora.kaiming)
  ones = jax.tree.map(jnp.ones_like, adapter)
  merged = lora.apply(base, ones, cfg)
  apart = merged['layers']['o']['kernel'] - base['layers']['o']['kernel']
  np.testing.assert_allclose(apart, np.full(apart.shape, 4 * scale), rtol=1e-5)


def test_merged_and_back():
  base, adapter = _adapted()
  merged = lora.merge(base, adapter, LORA)
  chex.assert_trees_all_close(merged, PARAMS, atol=1e-5)
  frozen = lora.unmerge(merged, adapter, LORA)
  chex.assert_trees_all_close(frozen, base, atol=1e-5)
  kernels = [x['layers']['q']['kernel'][1] for x in (merged, base)]
  a, b = (np.asarray(x['layers']['q']['kernel'][1]) for x in adapter)
  np.testing.assert_allclose(kernels[0] - kernels[1], 2 * a @ b, atol=1e-5)


@pytest.mark.parametrize('name', ARCHITECTURES)
def test_forward_beside_the_kernel_is_that_of_merged_ones(name):
  cfg = CONFIGS[name]
  params, tokens = params_of(cfg), tokens_of(cfg, 2, 6)
  some = ('layers/[qod]*/kernel',) if name == 'gemma3' else LORA.targets
  chosen = dataclasses.replace(LORA, targets=some)
  base, adapter = _adapted(params, chosen)
  apply = lora.lora_apply_fn(model.Decoder(cfg), chosen)
  found = jax.jit(apply)({'base': base, 'lora': adapter}, tokens).logits
  merged = lora.apply(base, adapter, chosen)
  wanted = apply_of(cfg)(merged, tokens).logits
  scale = np.ptp(wanted)
  np.testing.assert_allclose(found, wanted, atol=1e-5 * scale)
  apart = apply_of(cfg)(base, tokens).logits - wanted
  assert np.abs(apart).max() > 0.05 * scale


def _sft_rows():
  rng = np.random.default_rng(0)
  tokens = rng.integers(1, CFG.vocab_size, (4, 8)).tolist()
  return sft.batch([t[:3] for t in tokens], [t[3:] for t in tokens], 8)


def test_gradient_of_adapters_alone():
  base, adapter = _adapted()
  apply = lora.lora_apply_fn(DECODER, LORA)
  rows = _sft_rows()

  def of_adapters(adapter):
    return sft.sft_loss(lora.bind(apply, base), adapter, rows)[0]

  alone = jax.jit(jax.grad(of_adapters))(adapter)
  # By the chain rule from the gradient of the merged kernels.
  plain = model.apply_fn(DECODER)
  full = jax.jit(jax.grad(lambda p: sft.sft_loss(plain, p, rows)[0]))(
    lora.apply(base, adapter, LORA)
  )
  for name in ('q', 'down'):
    g = np.asarray(full['layers'][name]['kernel'])
    a, b = (np.asarray(x['layers'][name]['kernel']) for x in adapter)
    by_a, by_b = (x['layers'][name]['kernel'] for x in alone)
    np.testing.assert_allclose(by_a, 2 * g @ b.swapaxes(1, 2), atol=1e-5)
    np.testing.assert_allclose(by_b, 2 * a.swapaxes(1, 2) @ g, atol=1e-5)


def test_no_product_has_the_shape_of_a_kernel():
  """Neither the pass nor the gradient forms `A B` or a kernel's gradient."""
  base, adapter = _adapted()
  apply = lora.bind(lora.lora_apply_fn(DECODER, LORA), base)
  rows = _sft_rows()

  def loss(adapter):
    return sft.sft_loss(apply, adapter, rows)[0]

  text = jax.jit(jax.value_and_grad(loss)).lower(adapter).as_text()
  products = re.findall(r'dot_general.*-> tensor<([\dx]*)xf32>', text)
  d, ff, keys = CFG.d_model, CFG.d_ff, CFG.n_kv_heads * CFG.head_dim
  kernels = {(d, d), (d, keys), (d, ff), (ff, d)}
  shapes = {tuple(map(int, each.split('x'))) for each in products}
  assert len(shapes) > 10
  assert not any(shape[-2:] in kernels and len(shape) < 3 for shape in shapes)
  merging = jax.jit(lambda adapter: lora.apply(base, adapter, LORA))
  assert f'tensor<2x{d}x{ff}xf32>' in merging.lower(adapter).as_text()


def test_training_leaves_the_base():
  base, adapter = _adapted()
  apply = lora.lora_apply_fn(DECODER, LORA)
  params = {'base': base, 'lora': adapter}
  mask = lora.trainable_mask(params)
  frozen = jax.tree.map(lambda learns: not learns, mask)
  tx = optax.chain(
    optax.masked(optax.sgd(0.5), mask),
    optax.masked(optax.set_to_zero(), frozen),
  )
  step = jax.jit(sft.make_sft_step(apply, tx))
  state = updates.init_state(params, tx)
  losses = []
  for _ in range(4):
    state, metrics = step(state, _sft_rows())
    losses.append(float(metrics['loss']))
  chex.assert_trees_all_equal(state.params['base'], base)
  assert losses[-1] < losses[0] - 0.1
  sp = sampling.SamplingParams(temperature=0, max_new=4)
  tokens, given = tokens_of(CFG, 1, 5), np.ones((1, 5), bool)
  merged = lora.apply(base, state.params['lora'], LORA)
  out = sampling.generate(apply, state.params, tokens, given, KEY, sp)
  joined = np.concatenate([tokens, out.tokens], axis=1)
  likeliest = apply_of(CFG)(merged, joined).logits.argmax(axis=-1)
  np.testing.assert_array_equal(out.tokens, likeliest[:, 4:-1])


def test_dot_and_seeds_under_vmap():
  rng = np.random.default_rng(0)
  x, w, a, b = (
    jnp.float32(rng.standard_normal(s))
    for s in ((5, 6), (6, 7), (6, 2), (2, 7))
  )
  found = jax.jit(lora.lora_dot, static_argnums=4)(x, w, a, b, 0.5)
  np.testing.assert_allclose(found, x @ (w + 0.5 * a @ b), atol=1e-5)
  keys = jax.random.split(KEY, 3)
  _, many = jax.vmap(lambda key: _adapted(key=key, initializer=lora.kaiming))(
    keys
  )
  _, one = _adapted(key=keys[1], initializer=lora.kaiming)
  chex.assert_trees_all_equal(jax.tree.map(lambda x: x[1], many), one)


def test_number_of_parameters():
  _, adapter = _adapted()
  d, ff, keys = CFG.d_model, CFG.d_ff, CFG.n_kv_heads * CFG.head_dim
  sides = 2 * (d + d) + 2 * (d + keys) + 3 * (d + ff)
  assert lora.num_params(adapter) == 2 * 3 * sides


def test_adapters_of_half_precision():
  half = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), PARAMS)
  base, adapter = _adapted(half, initializer=lora.kaiming)
  assert {x.dtype for x in jax.tree.leaves(adapter)} == {np.dtype(np.float32)}
  merged = lora.apply(base, adapter, LORA)
  chex.assert_trees_all_equal_dtypes(merged, half)


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda: LoRAConfig(r=0), 'r must be positive, got 0'),
    (lambda: LoRAConfig(alpha=0.0), 'alpha must be positive'),
    (lambda: _adapted(cfg=LoRAConfig(r=25)), 'r=25 is larger than 24, a side'),
    (lambda: _adapted(cfg=LoRAConfig(targets=('layers/w/kernel',))),
     "no parameter fits target 'layers/w/kernel'; there are embedding"),
    (lambda: _adapted(cfg=LoRAConfig(r=1, targets=('final_norm/scale',))),
     r'final_norm/scale is float32\[48\]; adapters need a matrix'),
    (lambda: _adapted(
      {'w': jnp.ones((4, 4), jnp.int8)}, LoRAConfig(1, targets=('w',))),
     r'w is int8\[4, 4\]'),
    (lambda: lora.apply(params_of(CONFIGS['qwen2'], 1), lora.LoRAParams(
      {'w': jnp.ones((4, 1))}, {'w': jnp.ones((1, 4))}), LORA),
     'the adapter of w has shapes'),
  ],
)  # fmt: skip
def test_bad_input(call, message):
  with pytest.raises(ValueError, match=message):
    call()


def test_what_the_decoder_does_not_adapt():
  """Merged, an adapter of the embedding counts; beside it none is read."""
  cfg = LoRAConfig(r=2, targets=('embedding',))
  base, adapter = _adapted(cfg=cfg)
  apply = lora.lora_apply_fn(DECODER, cfg)
  message = "no adapter of 'embedding'; merge it with apply"
  with pytest.raises(ValueError, match=message):
    apply({'base': base, 'lora': adapter}, tokens_of(CFG, 1, 3))
