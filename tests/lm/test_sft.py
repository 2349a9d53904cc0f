"""Supervised fine-tuning: its loss, packed rows, and gradients in parts."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxlab.lm import config, model, sft, updates
from tests.lm.small_models import apply_of, params_of

CFG = config.tiny('gemma3', sliding_window=3)
APPLY = model.apply_fn(model.Decoder(CFG))
PARAMS = params_of(CFG)
LENGTH = 12
_RNG = np.random.default_rng(3)
# Prompts and completions, of which two and two fit a row together.
SIZES = [(2, 3), (3, 4), (4, 5), (1, 2)]
PROMPTS, COMPLETIONS = (
  [_RNG.integers(1, CFG.vocab_size, pair[i]).tolist() for pair in SIZES]
  for i in (0, 1)
)


def _batch(**options):
  return sft.batch(PROMPTS, COMPLETIONS, LENGTH, **options)


@jax.jit
def _both(params, batch):
  def loss(params):
    return sft.sft_loss(APPLY, params, batch)

  return jax.value_and_grad(loss, has_aux=True)(params)


def _loss(params, batch):
  return _both(params, batch)[0]


def _gradient(params, batch):
  return _both(params, batch)[1]


def test_layout():
  found = sft.batch([[5, 6], [7]], [[8], [9, 10]], 7, packed=True, pad_id=63)
  assert found.tokens.tolist() == [[5, 6, 8, 7, 9, 10, 63]]
  assert found.loss_mask.astype(int).tolist() == [[0, 0, 1, 0, 1, 1, 0]]
  assert found.segments.tolist() == [[1, 1, 1, 2, 2, 2, 0]]
  assert found.positions.tolist() == [[0, 1, 2, 0, 1, 2, 0]]
  assert _batch().tokens.shape == (4, LENGTH)
  assert _batch(packed=True).tokens.shape == (2, LENGTH)


def test_loss_is_the_mean_over_completion_tokens():
  """Example by example, without padding, by NumPy and by optax."""
  found, metrics = _loss(PARAMS, _batch())
  total, right, by_optax = [], [], []
  for prompt, completion in zip(PROMPTS, COMPLETIONS, strict=True):
    tokens = np.zeros((1, LENGTH), np.int32)
    size = len(prompt) + len(completion)
    tokens[0, :size] = [*prompt, *completion]
    logits = apply_of(CFG)(PARAMS, tokens).logits[0]
    logits = np.asarray(logits)[len(prompt) - 1 : size - 1]
    by_optax.extend(
      optax.softmax_cross_entropy_with_integer_labels(
        jnp.asarray(logits), jnp.asarray(completion)
      )
    )
    for row, token in zip(logits.astype(np.float64), completion, strict=True):
      total.append(np.log(np.sum(np.exp(row))) - row[token])
      right.append(np.argmax(row) == token)
  assert len(total) == metrics['tokens'] == 14
  np.testing.assert_allclose(found, np.mean(total), rtol=1e-5)
  np.testing.assert_allclose(found, np.mean(by_optax), rtol=1e-5)
  np.testing.assert_allclose(metrics['accuracy'], np.mean(right), rtol=1e-6)


def test_packed_rows_are_rows_of_their_own():
  rows, packed = _batch(), _batch(packed=True)
  for fn in (_loss, _gradient):
    chex.assert_trees_all_close(
      fn(PARAMS, packed), fn(PARAMS, rows), rtol=1e-4, atol=2e-5
    )


def test_prompts_and_padding_are_not_learned():
  rows = _batch()
  wanted = _loss(PARAMS, rows)[0]
  padded = _batch(pad_id=9)
  np.testing.assert_allclose(_loss(PARAMS, padded)[0], wanted, rtol=1e-6)
  # A prompt that is learned as well has other targets.
  learned = rows._replace(loss_mask=rows.segments > 0)
  found, metrics = _loss(PARAMS, learned)
  assert metrics['tokens'] == 14 + sum(given - 1 for given, _ in SIZES)
  assert abs(float(found - wanted)) > 1e-3
  nothing = rows._replace(loss_mask=np.zeros_like(rows.loss_mask))
  assert float(_loss(PARAMS, nothing)[0]) == 0


def test_parts_give_the_step_of_the_whole():
  """Parts have uneven numbers of completion tokens."""
  parts = 2
  rows, tx = _batch(), optax.sgd(1.0)
  state = updates.init_state(PARAMS, tx)
  found, metrics = jax.jit(sft.make_sft_step(APPLY, tx, accumulate=parts))(
    state, rows
  )
  counts = rows.loss_mask.reshape(-1, parts, LENGTH).sum(axis=(0, 2))
  assert len(set(counts)) > 1
  grads = _gradient(PARAMS, rows)
  wanted = jax.tree.map(lambda p, g: p - g, PARAMS, grads)
  chex.assert_trees_all_close(found.params, wanted, atol=2e-6)
  assert int(found.step) == 1
  whole, rest = _loss(PARAMS, rows)
  for name, value in {**rest, 'loss': whole}.items():
    np.testing.assert_allclose(metrics[name], value, rtol=1e-5)
  norm = np.sqrt(sum(np.sum(g**2) for g in jax.tree.leaves(grads)))
  np.testing.assert_allclose(metrics['grad_norm'], norm, rtol=1e-4)


@pytest.mark.parametrize(
  ('prompts', 'completions', 'message'),
  [
    ([[1], []], [[2], [3]], 'example 1 has 0 . 1 tokens'),
    ([[1]], [[]], 'example 0 has 1 . 0 tokens'),
    ([[1] * 8], [[2] * 5], 'a row has 12'),
    ([], [], 'there is no example'),
    ([[1]], [], 'zip'),
  ],
)
def test_bad_examples(prompts, completions, message):
  with pytest.raises(ValueError, match=message):
    sft.batch(prompts, completions, LENGTH)


def test_parts_must_divide():
  tx = optax.sgd(1.0)
  state = updates.init_state(PARAMS, tx)
  for parts in (3, 0):
    step = sft.make_sft_step(APPLY, tx, accumulate=parts)
    message = f'accumulate={parts} does not divide the batch of .4. rows'
    with pytest.raises(ValueError, match=message):
      step(state, _batch())
