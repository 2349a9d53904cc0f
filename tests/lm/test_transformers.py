"""Beside the models of transformers, which run with the peers' interpreter."""

import json
import pathlib
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import peers
from jaxlab.lm import loading, model, packages, sampling
from tests.lm.small_models import CONFIGS, apply_of, params_of, tokens_of

PYTHON = peers.VENV / 'bin' / 'python'
PROGRAM = pathlib.Path(__file__).with_name('transformers_program.py')
KINDS = (
  *('llama', 'llama_one_key_head', 'qwen2', 'qwen2_untied', 'qwen3'),
  *('qwen3_untied', 'gemma3', 'gemma3_one_key_head'),
)
WRITTEN = ('llama_untied', 'qwen2', 'qwen3_untied', 'gemma3_factors')
MAX_NEW = 200
PROMPTS = (
  'The capital of France is',
  'Question: 12 + 35 = ?\nAnswer:',
  'Once upon a time there was a miller who',
  'def add(a: int, b: int) -> int:\n',
  'Größe, naïve café: 東京の天気は',
  'Water boils at',
  '1, 1, 2, 3, 5, 8,',
  '- apples\n- pears\n-',
  'The three laws of motion say that',
  'a' + ' ' * 20 + 'b\n\n\tc',
)
SENTENCE = 'The river bends twice before it meets the sea, and has a mill. '


def _run(*arguments):
  if not PYTHON.exists():
    pytest.skip(f'the peers are not installed: {peers.CURE}')
  found = subprocess.run(
    [PYTHON, '-c', 'import transformers'], check=False, capture_output=True
  )
  if found.returncode:
    pytest.skip(f'transformers is not among the peers: {peers.CURE}')
  done = subprocess.run(
    [PYTHON, PROGRAM, *map(str, arguments)],
    check=False,
    capture_output=True,
    text=True,
  )
  assert done.returncode == 0, done.stderr


@pytest.fixture(scope='module')
def built(tmp_path_factory):
  """Small random models, with tokens and logits beside them."""
  folder = tmp_path_factory.mktemp('built')
  for name in WRITTEN:
    cfg, path = CONFIGS[name], folder / 'written' / name
    loading.to_safetensors(path, cfg, params_of(cfg))
    np.save(path / 'tokens.npy', tokens_of(cfg, 2, 16))
  _run('build', folder)
  found = sorted(path.name for path in folder.iterdir())
  assert found == sorted((*KINDS, 'written'))
  return folder


@pytest.mark.parametrize('name', KINDS)
def test_logits_of_small_models(name, built):
  folder = built / name
  cfg, params, _ = loading.from_safetensors(folder)
  tokens, wanted = (
    np.load(folder / f'{each}.npy') for each in ('tokens', 'logits')
  )
  found = apply_of(cfg)(params, tokens).logits
  assert np.abs(wanted).max() > 1
  assert cfg.sliding_window < tokens.shape[1]
  np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize('name', WRITTEN)
def test_transformers_reads_what_is_written(name, built):
  cfg, folder = CONFIGS[name], built / 'written' / name
  wanted = np.load(folder / 'logits.npy')
  found = apply_of(cfg)(params_of(cfg), np.load(folder / 'tokens.npy')).logits
  assert np.abs(wanted).max() > 1
  np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4)


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
  ('name', 'title'),
  [('smollm2-135m', 'SmolLM2'), ('gemma3-270m', 'Gemma 3 270M')],
)
def test_texts_and_logits_of_real_models(name, title, tmp_path):
  if packages.find(name) is None:
    pytest.skip(f'{title} is not installed: jaxlab data prepare {name}')
  cfg, params, tokenizer = loading.from_pretrained_package(name)
  loading.to_safetensors(tmp_path / 'model', cfg, params)
  ids = [tokenizer.encode(text) for text in PROMPTS]
  long = tokenizer.encode(SENTENCE * 36)
  assert len(long) > 512
  asked = [(one, list(range(len(one)))) for one in ids[:4]]
  asked.append((long, [*range(0, len(long), 20), len(long) - 1]))
  apply = model.apply_fn(model.Decoder(cfg))
  tokens, mask = tokenizer.encode_batch(PROMPTS, 'left')
  sp = sampling.SamplingParams(temperature=0, max_new=MAX_NEW)
  out = sampling.generate(apply, params, tokens, mask, jax.random.key(0), sp)
  ours = np.asarray(out.tokens)
  texts = [[*one, *text.tolist()] for one, text in zip(ids, ours, strict=True)]
  job = {'texts': texts, 'logits': asked, 'max_new': MAX_NEW}
  (tmp_path / 'job.json').write_text(json.dumps(job))
  _run('read', tmp_path / 'model', tmp_path)

  compiled = jax.jit(apply)
  largest, divergence = [], []
  for number, (one, positions) in enumerate(asked):
    wanted = np.load(tmp_path / f'logits_{number}.npy').astype(np.float64)
    logits = compiled(params, jnp.asarray([one])).logits[0]
    found = np.asarray(logits)[positions].astype(np.float64)
    largest.append(np.abs(found - wanted).max())
    p, q = (
      x
      - np.log(np.sum(np.exp(x - x.max(1, keepdims=True)), 1, keepdims=True))
      - x.max(1, keepdims=True)
      for x in (wanted, found)
    )
    divergence.append(np.max(np.sum(np.exp(p) * (p - q), axis=1)))
  print(
    f'{title}: largest difference {max(largest):.2e}, divergence'
    f' {max(divergence):.2e}'
  )
  assert max(largest) <= 2e-3
  assert max(divergence) <= 1e-6

  peer = np.load(tmp_path / 'texts.npz')
  # A greedy text is one whose tokens are the likeliest after those before.
  differ = ours != peer['texts']
  print(f'{title}: {int((~differ.any(1)).sum())} of {len(differ)} texts equal')
  for row in np.flatnonzero(differ.any(axis=1)):
    step = int(differ[row].argmax())
    lead = peer['leads'][row, step]
    print(
      f'{title}: text {row} differs at {step}, where the lead is {lead:.1e}'
    )
    # Only where two tokens are equally likely within rounding.
    assert lead < 2 * max(largest)
  if not differ[0].any():
    np.testing.assert_array_equal(ours[0], peer['generated'])
