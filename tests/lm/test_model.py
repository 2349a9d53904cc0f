"""The decoder: against NumPy in float64, with caches, padding and dtypes."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxlab import errors
from jaxlab.lm import attention, config, loading, model, rope
from tests.lm.small_models import (
  ARCHITECTURES,
  CONFIGS,
  apply_of,
  params_of,
  reference_logits,
  tokens_of,
)

LENGTH = 12


# -- against the reference


@pytest.mark.parametrize('name', CONFIGS)
def test_equals_numpy_in_float64(name):
  cfg = CONFIGS[name]
  params, tokens = params_of(cfg), tokens_of(cfg, 1, LENGTH)
  found = apply_of(cfg)(params, tokens).logits
  assert found.dtype == np.float32
  wanted = reference_logits(cfg, params, tokens[0])
  assert np.abs(wanted).max() > 3
  np.testing.assert_allclose(found[0], wanted, atol=1e-5 * np.ptp(wanted))


def test_the_window_counts():
  """As many positions as it says: one more or less is another model."""
  cfg = CONFIGS['gemma3']
  params, tokens = params_of(cfg), tokens_of(cfg, 1, LENGTH)
  wanted = apply_of(cfg)(params, tokens).logits
  for window in (4, 6):
    other = dataclasses.replace(cfg, sliding_window=window)
    apart = np.abs(apply_of(other)(params, tokens).logits - wanted)[0].max(-1)
    # Positions from `min(window)` on; those before see all in either model.
    first = min(window, 5)
    assert apart[:first].max() < 1e-4
    assert apart[first:].min() > 1e-2


def test_wrong_order_of_rotation_is_another_model():
  cfg = CONFIGS['llama']
  params, tokens = params_of(cfg), tokens_of(cfg, 1, LENGTH)
  keys, tensors = loading.to_tensors(cfg, params)
  wrong = {k.replace('llama.', 'qwen2.', 1): v for k, v in keys.items()}
  wrong['general.architecture'] = 'qwen2'
  other, swapped = loading.from_tensors(wrong, tensors)
  wanted = reference_logits(cfg, params, tokens[0])
  found = apply_of(other)(swapped, tokens).logits[0]
  assert np.abs(found - wanted).max() > 0.1 * np.ptp(wanted)


def test_rotation_keeps_products_of_equal_distance():
  rng = np.random.default_rng(0)
  q, k = rng.standard_normal((2, 1, 1, 1, 8))
  products = []
  for places in ((3, 1), (103, 101)):
    turned = [
      rope.rotate(jnp.float32(x), rope.angles(jnp.array([[place]]), 8, 100.0))
      for x, place in zip((q, k), places, strict=True)
    ]
    products.append(float(jnp.sum(turned[0] * turned[1])))
  np.testing.assert_allclose(products[0], products[1], atol=1e-4)


def test_factors_of_long_contexts():
  """Short waves stay, long ones are slowed, those between in between."""
  found = rope.llama3_factors(
    64,
    500_000.0,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_len=8192,
  )
  lengths = 2 * np.pi * 500_000.0 ** (np.arange(0, 64, 2) / 64)
  np.testing.assert_allclose(np.array(found)[lengths < 8192 / 4], 1)
  np.testing.assert_allclose(np.array(found)[lengths > 8192], 8)
  between = (lengths > 8192 / 4) & (lengths < 8192)
  smooth = (8192 / lengths[between] - 1) / 3
  speeds = (1 - smooth) / 8 + smooth
  assert between.sum() == 3
  np.testing.assert_allclose(1 / np.array(found)[between], speeds)


@pytest.mark.parametrize('groups', [1, 2, 4])
def test_attention_equals_that_of_jax(groups):
  rng = np.random.default_rng(0)
  q = jnp.float32(rng.standard_normal((2, 5, 4, 6)))
  k, v = jnp.float32(rng.standard_normal((2, 2, 7, groups, 6)))
  mask = jnp.asarray(rng.random((2, 5, 7)) < 0.5).at[:, :, 0].set(True)
  for scale in (0.1, 1.0):
    found = attention.attend(q, k, v, mask, scale)
    wanted = attention.attend(q, k, v, mask, scale, 'xla')
    np.testing.assert_allclose(found, wanted, atol=1e-5)
  with pytest.raises(errors.UserError, match="attention='flash' is none of"):
    attention.attend(q, k, v, mask, 1.0, 'flash')


# -- caches and padding


def _read(cfg, params, tokens, starts, sizes):
  """Reads rows in chunks; returns all logits and the cache at the end."""
  empty = model.apply_fn(model.Decoder(cfg)).init_cache(len(tokens), LENGTH + 3)
  cache, found, done = empty._replace(start=jnp.array(starts)), [], 0
  for size in sizes:
    out = apply_of(cfg)(params, tokens[:, done : done + size], cache=cache)
    found.append(out.logits)
    cache, done = out.cache, done + size
  assert int(cache.index) == LENGTH
  return np.concatenate(found, axis=1), cache


@pytest.mark.parametrize('arch', config.ARCHITECTURES)
def test_cache_gives_the_whole_forward(arch):
  cfg = config.tiny(arch)
  params, tokens = params_of(cfg), tokens_of(cfg, 2, LENGTH)
  starts = [0, 3]
  real = np.arange(LENGTH) >= np.array(starts)[:, None]
  whole = apply_of(cfg)(params, tokens, mask=real).logits
  _, at_once = _read(cfg, params, tokens, starts, [LENGTH])
  chunks = [[4, 4, 4]] if arch in ('llama', 'gemma3') else []
  for sizes in (*chunks, [1] * LENGTH):
    found, cache = _read(cfg, params, tokens, starts, sizes)
    scale = np.ptp(np.asarray(whole)[real])
    np.testing.assert_allclose(
      found[real], np.asarray(whole)[real], atol=1e-5 * scale
    )
    for name in ('k', 'v'):
      stored, wanted = (
        np.asarray(getattr(each, name)) for each in (cache, at_once)
      )
      np.testing.assert_allclose(
        stored[:, :, :LENGTH][:, real],
        wanted[:, :, :LENGTH][:, real],
        atol=1e-5 * np.ptp(wanted),
      )
      assert not stored[:, :, LENGTH:].any()


@pytest.mark.parametrize(
  ('own', 'stored', 'wanted'),
  [
    (None, 'bfloat16', 'bfloat16'),
    (None, 'float32', 'float32'),
    ('bfloat16', 'float32', 'bfloat16'),
    ('float32', 'bfloat16', 'float32'),
  ],
)
def test_a_model_computes_in_its_dtype_or_that_of_its_parameters(
  own, stored, wanted
):
  cfg = config.tiny('llama')
  params = jax.tree.map(lambda x: jnp.asarray(x, stored), params_of(cfg))
  apply = model.apply_fn(model.Decoder(cfg, dtype=own))
  assert apply.compute_dtype(params) == jnp.dtype(wanted)


def test_cache_of_half_precision():
  cfg = config.tiny('llama')
  params, tokens = params_of(cfg), tokens_of(cfg, 1, LENGTH)
  whole = apply_of(cfg)(params, tokens).logits
  cache = model.init_cache(cfg, 1, LENGTH, jnp.bfloat16)
  out = apply_of(cfg)(params, tokens, cache=cache, last_only=True)
  assert out.cache.k.dtype == jnp.bfloat16
  assert out.logits.shape == (1, 1, cfg.vocab_size)
  scale = np.ptp(whole)
  apart = np.abs(out.logits[:, -1] - whole[:, -1]).max()
  assert 0 < apart < 0.05 * scale


@pytest.mark.parametrize('name', ARCHITECTURES)
def test_padding_does_not_leak(name):
  cfg = CONFIGS[name]
  params, row = params_of(cfg), tokens_of(cfg, LENGTH - 4)
  wanted = apply_of(cfg)(params, row[None]).logits[0]
  atol = 1e-5 * np.ptp(wanted)
  for seed, before in enumerate((0, 1, 4)):
    tokens = tokens_of(cfg, 2, LENGTH, seed=seed)
    mask = np.zeros((2, LENGTH), bool)
    where = slice(before, before + len(row))
    tokens[0, where], mask[0, where], mask[1, seed:] = row, True, True
    found = apply_of(cfg)(params, tokens, mask=mask).logits
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0, where], wanted, atol=atol)


def test_positions_and_masks_of_pairs():
  """Two sequences in one row, told apart by mask and positions."""
  cfg = CONFIGS['gemma3']
  params, row = params_of(cfg), tokens_of(cfg, 1, LENGTH)
  own = np.arange(LENGTH) >= 5
  mask = (own[:, None] == own[None, :])[None]
  positions = np.where(own, np.arange(LENGTH) - 5, np.arange(LENGTH))[None]
  found = apply_of(cfg)(params, row, positions=positions, mask=mask).logits[0]
  parts = [
    apply_of(cfg)(params, part).logits[0] for part in (row[:, :5], row[:, 5:])
  ]
  wanted = np.concatenate(parts)
  np.testing.assert_allclose(found, wanted, atol=1e-5 * np.ptp(wanted))


# -- hidden states


def test_hidden_states_are_those_of_a_shorter_model():
  cfg = CONFIGS['qwen3_untied']
  params, tokens = params_of(cfg), tokens_of(cfg, 1, LENGTH)
  out = apply_of(cfg)(params, tokens, return_hidden=(1, 0))
  assert out.hidden.shape == (2, 1, LENGTH, cfg.d_model)
  for found, count in zip(np.asarray(out.hidden), (2, 1), strict=True):
    short = dataclasses.replace(cfg, n_layers=count)
    kept = jax.tree.map(lambda x, n=count: x[:n], params['layers'])
    wanted = apply_of(short)({**params, 'layers': kept}, tokens).logits
    mean = np.mean(found**2, axis=-1, keepdims=True)
    normed = found / np.sqrt(mean + cfg.norm_eps)
    logits = normed * params['final_norm']['scale'] @ params['head']
    np.testing.assert_allclose(logits, wanted, atol=1e-5 * np.ptp(wanted))
  same = apply_of(cfg)(params, tokens, return_hidden=(0,)).hidden
  np.testing.assert_allclose(same[0], out.hidden[1], atol=1e-5)


def test_hidden_states_cost_no_second_pass():
  cfg = CONFIGS['llama']
  params, tokens = params_of(cfg), tokens_of(cfg, 2, LENGTH)
  apply = model.apply_fn(model.Decoder(cfg))

  def counted(*hidden):
    run = lambda params: apply(params, tokens, return_hidden=hidden)  # noqa: E731
    lowered = jax.jit(run).lower(params)
    products = lowered.as_text().count('stablehlo.dot_general')
    return products, lowered.compile().cost_analysis()['flops']

  (products, flops), (with_all, more) = counted(), counted(0, 1)
  assert with_all == products > 8
  assert more < 1.05 * flops


# -- compilation, gradients and dtypes


def test_program_does_not_grow_with_depth():
  sizes = []
  for layers in (12, 24):
    cfg = dataclasses.replace(CONFIGS['gemma3'], n_layers=layers)
    shapes = jax.eval_shape(
      model.Decoder(cfg).init, jax.random.key(0), jnp.zeros((1, 4), jnp.int32)
    )['params']

    def loss(params, cfg=cfg):
      tokens = jnp.zeros((1, 4), jnp.int32)
      return jnp.sum(model.apply_fn(model.Decoder(cfg))(params, tokens).logits)

    sizes.append(len(jax.jit(jax.grad(loss)).lower(shapes).as_text()))
  assert sizes[1] < 1.1 * sizes[0]


def test_remat_gives_the_same_gradient():
  cfg = CONFIGS['qwen3_untied']
  params, tokens = params_of(cfg), tokens_of(cfg, 1, LENGTH)

  def gradient(remat):
    apply = apply_of(cfg, remat=remat)
    loss = lambda params: jnp.mean(apply(params, tokens).logits ** 2)  # noqa: E731
    return jax.jit(jax.grad(loss))(params)

  plain, again = gradient(False), gradient(True)
  chex.assert_trees_all_close(plain, again, rtol=1e-4, atol=1e-5)
  assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(plain))
  text = str(
    jax.make_jaxpr(
      lambda params: model.Decoder(cfg, remat=True).apply(
        {'params': params}, tokens
      )
    )(params)
  )
  assert 'remat' in text or 'checkpoint' in text


def test_half_precision_computes_close():
  cfg = CONFIGS['gemma3']
  params, tokens = params_of(cfg), tokens_of(cfg, 1, LENGTH)
  wanted = apply_of(cfg)(params, tokens).logits
  half = apply_of(cfg, dtype=jnp.bfloat16)

  def loss(params):
    logits = half(params, tokens).logits
    return jnp.mean(logits**2), logits

  found = half(params, tokens).logits
  grads, _ = jax.eval_shape(jax.grad(loss, has_aux=True), params)
  assert found.dtype == np.float32
  apart = np.sqrt(np.mean((found - wanted) ** 2) / np.mean(wanted**2))
  assert 1e-4 < apart < 0.1
  assert {x.dtype for x in jax.tree.leaves(grads)} == {np.dtype(np.float32)}


def test_double_precision_is_kept():
  cfg = CONFIGS['llama']
  with jax.enable_x64(True):
    params = jax.tree.map(np.float64, params_of(cfg))
    tokens = tokens_of(cfg, 1, LENGTH)
    decoder = model.Decoder(cfg, param_dtype=jnp.float64)
    cache = model.apply_fn(decoder).init_cache(1, LENGTH)
    apply = jax.jit(model.apply_fn(decoder))
    found = apply(params, tokens).logits
    cached = apply(params, tokens, cache=cache)
    assert found.dtype == cached.logits.dtype == np.float64
    assert cached.cache.k.dtype == np.float64
    np.testing.assert_allclose(found, cached.logits, atol=1e-12)
  wanted = reference_logits(cfg, params, tokens[0])
  # Angles are in float32 whatever the parameters are.
  np.testing.assert_allclose(found[0], wanted, atol=1e-6 * np.ptp(wanted))


class VariantsTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True, with_pmap=True)
  def test_function_of_parameters_and_tokens(self):
    cfg = CONFIGS['llama']
    params, tokens = params_of(cfg), tokens_of(cfg, 1, LENGTH)
    apply = model.apply_fn(model.Decoder(cfg))
    found = self.variant(lambda params, tokens: apply(params, tokens).logits)(
      params, tokens
    )
    wanted = reference_logits(cfg, params, tokens[0])
    np.testing.assert_allclose(found[0], wanted, atol=1e-5 * np.ptp(wanted))


def test_vmap_over_parameters():
  cfg = CONFIGS['llama']
  tokens = tokens_of(cfg, 1, LENGTH)
  seeds = [params_of(cfg, seed) for seed in (0, 1)]
  both = jax.tree.map(lambda *x: np.stack(x), *seeds)
  found = jax.jit(jax.vmap(apply_of(cfg), (0, None)))(both, tokens).logits
  for one, params in zip(found, seeds, strict=True):
    wanted = apply_of(cfg)(params, tokens).logits
    np.testing.assert_allclose(one, wanted, atol=1e-5 * np.ptp(wanted))


# -- what is refused


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'tokens': np.zeros(3, np.int32)}, r'with rows, got \(3'),
    ({'mask': np.ones((2, 3), bool)}, r'mask has shape \(2, 3\), but tokens'),
    ({'positions': np.arange(4)}, r'positions has shape \(4,\), but tokens'),
    ({'return_hidden': (2,)}, 'block 2; the model has blocks 0 to 1'),
    ({'return_hidden': (-1,)}, 'block -1'),
    ({'return_hidden': (1, 1)}, 'block 1 twice'),
    ({'cache': 3}, '4 tokens do not fit a cache of 3 places'),
    ({'cache': 4, 'mask': np.ones((2, 4), bool)}, 'leave out mask'),
  ],
)  # fmt: skip
def test_bad_input(options, message):
  cfg = CONFIGS['llama']
  options = {'tokens': np.zeros((2, 4), np.int32), **options}
  apply = model.apply_fn(model.Decoder(cfg))
  if 'cache' in options:
    options['cache'] = apply.init_cache(2, options['cache'])
  with pytest.raises(ValueError, match=message):
    apply(params_of(cfg), options.pop('tokens'), **options)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'n_layers': 0}, 'n_layers must be positive, got 0'),
    ({'arch': 'mamba'}, "arch='mamba' is none of llama, qwen2"),
    ({'act': 'relu'}, "act='relu' is none of silu"),
    ({'n_kv_heads': 3}, '3 key heads do not divide 4 query heads'),
    ({'head_dim': 7}, 'head_dim must be even'),
    ({'rope_factors': (1.0,)}, 'has 1 numbers, needs one for each of the 6'),
  ],
)
def test_bad_sizes(changes, message):
  with pytest.raises(errors.UserError, match=message):
    dataclasses.replace(CONFIGS['llama'], **changes)


@pytest.mark.parametrize('name', CONFIGS)
def test_number_of_parameters(name):
  cfg = CONFIGS[name]
  count = sum(leaf.size for leaf in jax.tree.leaves(params_of(cfg)))
  assert cfg.num_params == count


def test_a_cache_that_is_full_or_of_another_model():
  cfg = config.tiny('llama', max_len=16)
  fn = model.apply_fn(model.Decoder(cfg))
  tokens = jnp.arange(8).reshape(2, 4)
  params = fn.model.init(jax.random.key(0), tokens)['params']
  read = fn(params, tokens, cache=fn.init_cache(2, 6)).cache
  with pytest.raises(ValueError, match='6 places, of which 4'):
    fn(params, tokens, cache=read)
  with pytest.raises(ValueError, match='the cache holds'):
    fn(params, tokens, cache=fn.init_cache(3, 6))


@pytest.mark.parametrize('token', [-1, 64])
def test_tokens_outside_the_vocabulary(token):
  cfg = config.tiny('llama')
  fn = model.apply_fn(model.Decoder(cfg))
  good = jnp.zeros((1, 4), jnp.int32)
  params = fn.model.init(jax.random.key(0), good)['params']
  with pytest.raises(ValueError, match=r'outside \[0, 64\)'):
    fn(params, good.at[0, 2].set(token))
