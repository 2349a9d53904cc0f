"""Filters against NumPy, and texts against plain forward passes."""

import dataclasses
import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxlab.lm import config, model, sampling
from jaxlab.lm.sampling import LENGTH, STOP, SamplingParams
from tests.lm.small_models import CONFIGS, apply_of, params_of, tokens_of

CFG = CONFIGS['llama']
APPLY = model.apply_fn(model.Decoder(CFG))
PARAMS = params_of(CFG)
KEY = jax.random.key(7)


# -- filters


def kept_by_hand(logits, temperature, top_k, top_p, min_p):
  """The distribution after all filters, one token at a time, in float64."""
  size = len(logits)
  order = sorted(range(size), key=lambda i: (-logits[i], i))
  if temperature == 0:
    return np.eye(size)[order[0]]
  weights = {
    i: float(np.exp((logits[i] - logits[order[0]]) / temperature))
    for i in order
  }
  stay = order[: top_k or size]
  total = sum(weights[i] for i in stay)
  kept, before = [], 0.0
  for i in stay:
    if top_p >= 1 or before < top_p:
      kept.append(i)
    before += weights[i] / total
  kept = [i for i in kept if weights[i] >= min_p * weights[kept[0]]]
  probs = np.zeros(size)
  probs[kept] = [weights[i] for i in kept]
  return probs / probs.sum()


def _drawn(count, size, seed=0):
  """Rows of logits with ties, and settings of each."""
  rng = np.random.default_rng(seed)
  logits = rng.normal(0, 2, (count, size)).astype(np.float32)
  logits[::3] = np.round(logits[::3])
  return logits, {
    'temperature': rng.choice([0, 0.3, 1, 2.5], count).astype(np.float32),
    'top_k': rng.choice([0, 1, 2, 5, size, size + 3], count),
    'top_p': rng.choice([0.05, 0.41, 0.9, 1], count).astype(np.float32),
    'min_p': rng.choice([0, 0.013, 0.31, 1], count).astype(np.float32),
  }


class FilterTest(chex.TestCase):
  @chex.variants(with_jit=True, without_jit=True)
  def test_each_row_has_its_own_settings(self):
    logits, settings = _drawn(300, 11)

    def filtered(logits, settings):
      return sampling.filter_logits(logits, SamplingParams(**settings))

    found = self.variant(filtered)(logits, settings)
    assert found.dtype == np.float32
    probs = np.asarray(jax.nn.softmax(found))
    for row in range(len(logits)):
      chosen = {name: values[row] for name, values in settings.items()}
      wanted = kept_by_hand(logits[row].astype(np.float64), **chosen)
      np.testing.assert_allclose(probs[row], wanted, atol=2e-6)
      np.testing.assert_array_equal(np.isfinite(found[row]), wanted > 0)
    # What stays is scaled, and nothing else.
    hot = settings['temperature'] > 0
    scaled = logits[hot] / settings['temperature'][hot, None]
    same = np.where(np.isfinite(found[hot]), scaled, -np.inf)
    np.testing.assert_allclose(found[hot], same, rtol=1e-6)


def test_a_temperature_that_divides_by_next_to_nothing_is_greedy():
  logits = jnp.array([[3e4, 2e4, -3e4], [1.0, 1.0, 0.0]])
  for temperature in (1e-25, 1e-38, 1e-44):
    sp = SamplingParams(temperature=temperature)
    found = jax.nn.softmax(sampling.filter_logits(logits, sp))
    assert found[0].tolist() == [1, 0, 0]
    assert np.isfinite(found).all()


def test_filters_under_vmap_and_as_numbers():
  logits, settings = _drawn(4, 9, seed=1)
  rows = jax.vmap(sampling.filter_logits)(logits, SamplingParams(**settings))
  for row in range(4):
    chosen = {name: values[row].item() for name, values in settings.items()}
    alone = sampling.filter_logits(logits[row], SamplingParams(**chosen))
    np.testing.assert_allclose(rows[row], alone, rtol=1e-6)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'temperature': -1.0}, 'temperature must be a positive number, or 0'),
    ({'temperature': np.nan}, 'temperature must be'),
    ({'temperature': np.array([1.0, -1.0])}, 'temperature must be'),
    ({'top_k': -1}, 'top_k must be a whole number from 0, got -1'),
    ({'top_k': 2.5}, 'top_k must be a whole number from 0, got 2.5'),
    ({'top_p': 0.0}, r'top_p must be in \(0, 1\], got 0.0'),
    ({'top_p': 1.5}, r'top_p must be in \(0, 1\], got 1.5'),
    ({'min_p': 1.1}, r'min_p must be in \[0, 1\]'),
    ({'max_new': 0}, 'max_new must be a positive'),
  ],
)
def test_bad_settings(changes, message):
  sp = SamplingParams(**changes)
  with pytest.raises(ValueError, match=message):
    sampling.filter_logits(jnp.zeros((2, 3)), sp)
  with pytest.raises(ValueError, match=message):
    sampling.generate(APPLY, PARAMS, *_prompts(), KEY, sp)


# -- texts


def _prompts(lengths=(5, 9, 3), seed=2):
  """Prompts padded on the right."""
  mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
  return np.where(mask, tokens_of(CFG, *mask.shape, seed=seed), 0), mask


def _generate(sp, prompts=None, cfg=CFG, **options):
  tokens, mask = _prompts() if prompts is None else prompts
  apply = model.apply_fn(model.Decoder(cfg))
  out = sampling.generate(
    apply, params_of(cfg), tokens, mask, KEY, sp, **options
  )
  return jax.tree.map(np.asarray, out)


def _whole(cfg, tokens, mask, out):
  """Logits before each drawn token by one pass over prompt and answer."""
  joined = np.concatenate([tokens, out.tokens], axis=1)
  kept = np.concatenate([mask, out.mask], axis=1)
  logits = apply_of(cfg)(params_of(cfg), joined, mask=kept).logits
  count, width = out.tokens.shape
  last = tokens.shape[1] - 1
  found = np.array(logits[:, last : last + width])
  for row in range(count):  # padding lies between prompt and first token
    found[row, 0] = logits[row, np.flatnonzero(mask[row])[-1]]
  return found, joined, kept


@pytest.mark.parametrize('arch', ['llama', 'gemma3'])
def test_greedy_text_is_that_of_whole_passes(arch):
  cfg = config.tiny(arch, tie_embeddings=arch == 'llama')
  tokens, mask = _prompts()
  out = _generate(SamplingParams(temperature=0, max_new=12), cfg=cfg)
  logits, *_ = _whole(cfg, tokens, mask, out)
  np.testing.assert_array_equal(out.tokens, logits.argmax(axis=-1))
  assert out.mask.all()
  assert (int(out.steps), out.stop_reason.tolist()) == (12, [LENGTH] * 3)
  np.testing.assert_array_equal(out.logprobs, np.zeros((3, 12)))
  assert len(np.unique(out.tokens)) > 5


SP = SamplingParams(temperature=0.8, top_k=20, top_p=0.9, max_new=12)


@pytest.fixture(scope='module')
def sampled():
  return _generate(SP)


def test_probabilities_are_those_of_whole_passes(sampled):
  tokens, mask = _prompts()
  logits, joined, kept = _whole(CFG, tokens, mask, sampled)
  filtered = sampling.filter_logits(jnp.asarray(logits), SP)
  wanted = sampling.token_logprob(filtered, jnp.asarray(sampled.tokens))
  np.testing.assert_allclose(sampled.logprobs, wanted, atol=2e-5)
  apart = sampled.logprobs - sampled.model_logprobs
  assert np.abs(apart).max() > 0.1
  of_tokens = jax.jit(sampling.sequence_logprob, static_argnums=0)
  found = of_tokens(APPLY, PARAMS, joined, kept)
  found = np.asarray(found)[:, tokens.shape[1] - 1 :]
  # The first token follows padding where the prompt is shorter than others.
  np.testing.assert_allclose(
    found[:, 1:], sampled.model_logprobs[:, 1:], atol=2e-5
  )
  np.testing.assert_allclose(
    found[1, 0], sampled.model_logprobs[1, 0], atol=2e-5
  )


def test_text_depends_on_its_own_row_alone(sampled):
  tokens, mask = _prompts()
  others = tokens_of(CFG, *tokens.shape, seed=9)
  changed = np.where(np.arange(3)[:, None] == 1, tokens, others)
  full = np.where(np.arange(3)[:, None] == 1, mask, True)
  # Padded on both sides, beside others.
  left = np.pad(tokens, ((0, 0), (4, 2)))[[1, 0, 2]]
  padded = np.pad(mask, ((0, 0), (4, 2)))[[1, 0, 2]]
  order = [2, 1, 0]
  for prompts, row, options in (
    ((changed, full), 1, {}),
    ((left, padded), 0, {'row_ids': np.array([1, 8, 9])}),
    ((tokens[order], mask[order]), 1, {'row_ids': np.array(order)}),
  ):
    out = _generate(SP, prompts, **options)
    np.testing.assert_array_equal(out.tokens[row], sampled.tokens[1])
    np.testing.assert_allclose(
      out.logprobs[row], sampled.logprobs[1], atol=1e-5
    )
  other_key = sampling.generate(
    APPLY, PARAMS, tokens, mask, jax.random.key(8), SP
  )
  assert (np.asarray(other_key.tokens) != sampled.tokens).any(axis=1).all()
  # Equal prompts have texts of their own.
  twice = _generate(SP, (tokens[[1, 1, 1]], mask[[1, 1, 1]]))
  assert len({tuple(row) for row in twice.tokens.tolist()}) == 3


def test_stop_tokens_end_a_row_and_all_rows_the_loop(sampled):
  """Each row's own fifth, third and first token stops it."""
  first = [row.tolist() for row in sampled.tokens]
  stops = {first[0][4], first[1][2], first[2][0]}
  ends = [
    next(i for i, token in enumerate(row) if token in stops) for row in first
  ]
  sp = dataclasses.replace(SP, stop_ids=tuple(sorted(stops)), pad_id=63)
  out = _generate(sp)
  for row, end in enumerate(ends):
    np.testing.assert_array_equal(out.mask[row], np.arange(12) <= end)
    np.testing.assert_array_equal(
      out.tokens[row, : end + 1], sampled.tokens[row, : end + 1]
    )
    assert (out.tokens[row, end + 1 :] == 63).all()
    assert not out.logprobs[row, end + 1 :].any()
    assert not out.model_logprobs[row, end + 1 :].any()
  assert out.stop_reason.tolist() == [STOP] * 3
  assert int(out.steps) == max(ends) + 1 < 12


def test_frequencies_are_the_probabilities():
  """The first token after the same prompt in thousands of rows."""
  count = 4096
  cfg = config.tiny('llama', n_layers=1, d_model=16, n_heads=2, d_ff=16)
  tokens = np.tile(tokens_of(cfg, 1, 4), (count, 1))
  mask = np.ones(tokens.shape, bool)
  sp = SamplingParams(temperature=1.5, top_p=0.95, max_new=1)
  out = _generate(sp, (tokens, mask), cfg=cfg)
  logits = apply_of(cfg)(params_of(cfg), tokens[:1]).logits[0, -1]
  probs = kept_by_hand(np.float64(logits), 1.5, 0, 0.95, 0)
  seen = np.bincount(out.tokens[:, 0], minlength=cfg.vocab_size)
  assert not seen[probs == 0].any()
  often = probs * count >= 5
  found = [*seen[often], seen[~often].sum()]
  wanted = [*probs[often] * count, probs[~often].sum() * count]
  keep = np.array(wanted) > 0
  assert keep.sum() > 5
  p = stats.chisquare(np.array(found)[keep], np.array(wanted)[keep]).pvalue
  assert p > 1e-3


def test_stream_gives_the_text_of_generate():
  tokens, mask = _prompts((6, 5, 4), seed=4)
  same = np.zeros(3, int)  # all draw as the only row of a stream does
  texts = _generate(SP, (tokens, mask), row_ids=same).tokens.tolist()
  stop = next(t for t in texts[0][6:11] if t not in texts[1])
  sp = dataclasses.replace(SP, stop_ids=(stop,))
  for row in (0, 1):
    text = texts[row]
    wanted = text[: text.index(stop) + 1] if stop in text else text
    prompt = tokens[row][mask[row]].tolist()
    found = sampling.stream(APPLY, PARAMS, prompt, KEY, sp, every=5)
    assert [next(found), next(found)] == wanted[:2]
    assert list(found) == wanted[2:]
  assert len(wanted) == SP.max_new


def test_inside_jit_and_with_double_precision():
  tokens, mask = _prompts()
  wanted = _generate(SP).tokens
  run = jax.jit(functools.partial(sampling.generate, APPLY, sp=SP))
  found = run(PARAMS, *map(jnp.asarray, (tokens, mask)), KEY)
  np.testing.assert_array_equal(found.tokens, wanted)
  with jax.enable_x64(True):
    double = model.apply_fn(model.Decoder(CFG, param_dtype=jnp.float64))
    params = jax.tree.map(np.float64, PARAMS)
    sp = dataclasses.replace(SP, temperature=0, max_new=3)
    out = sampling.generate(double, params, tokens, mask, KEY, sp)
    assert (out.tokens.dtype, out.stop_reason.dtype) == (np.int32, np.int32)
    assert out.model_logprobs.dtype == np.float64
  single = _generate(dataclasses.replace(SP, temperature=0))
  np.testing.assert_array_equal(out.tokens, single.tokens[:, :3])


def test_one_program_for_a_bucket_and_a_batch():
  """The number of settings and of lengths does not matter."""
  before = sampling._generate._cache_size()
  for length, temperature, top_k in ((3, 1.0, 0), (9, 0.0, 4), (16, 0.3, 0)):
    sp = SamplingParams(temperature=temperature, top_k=top_k, max_new=4)
    _generate(sp, _prompts((length, 2)))
  assert sampling._generate._cache_size() == before + 1
  _generate(sp, _prompts((17, 2)))
  assert sampling._generate._cache_size() == before + 2
  assert [sampling.bucket(n) for n in (1, 16, 17, 64, 65)] == [
    *(16, 16, 32, 64, 128)
  ]


def _with(row, place, value):
  tokens, mask = _prompts()
  tokens[row, place] = value
  return tokens, mask


def _zeros(tokens, mask):
  return np.zeros(tokens, np.int32), np.zeros(mask, bool)


@pytest.mark.parametrize(
  ('prompts', 'options', 'message'),
  [
    (_with(1, 2, 64), {}, r'prompt 1 has token id 64, outside \[0, 64\)'),
    (_with(0, 0, -1), {}, r'prompt 0 has token id -1'),
    (_zeros((0, 4), (0, 4)), {}, r'must be \[batch, length\]'),
    (_zeros((2, 4), (2, 4)), {}, 'prompt 0 is empty'),
    (_zeros((2, 4), (2, 3)), {}, 'prompt_mask has shape'),
    (_prompts(), {'max_len': 20}, r'a prompt has 9 tokens.* 20 - 12 = 8'),
  ],
)  # fmt: skip
def test_bad_prompts(prompts, options, message):
  with pytest.raises(ValueError, match=message):
    _generate(SP, prompts, **options)


def test_padding_may_hold_any_token():
  tokens, mask = _prompts()
  found = _generate(SP, (np.where(mask, tokens, -1), mask)).tokens
  np.testing.assert_array_equal(found, _generate(SP).tokens)
  limit = SP.max_new + 9
  just = _generate(SP, max_len=limit).tokens
  np.testing.assert_array_equal(just, found)
