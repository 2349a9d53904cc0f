"""Do the logits equal those of an oracle?"""

import functools
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab import errors
from jaxlab.harness import evidence, progress, settings
from jaxlab.lm import (
  experiment_oracles,
  gguf_io,
  loading,
  model,
  packages,
  plots,
)
from jaxlab.lm.tokenizer import Tokenizer

_SENTENCE = (
  'The river bends twice before it meets the sea, and each bend has a mill. '
)
PROMPTS = {
  'one word': 'Hello',
  'capital': 'The capital of France is',
  'question': 'Question: 12 + 35 = ?\nAnswer:',
  'unicode': 'Größe, naïve café: 東京の天気は晴れ, Привет мир, שלום 🙂👩‍🔬',
  'long white space': 'a' + ' ' * 40 + 'b\n\n\n\n\t\t\tc' + '\n' * 20 + 'd',
  'code': 'def add(a: int, b: int) -> int:\n  """Sum."""\n  return a + b\n\n#',
  'numbers': '3.14159 26535 1,000,000 0x1F 2^10 -7 1e-9 12/25/2026',
  'list': '- apples\n- pears\n  1. green\n  2. yellow\n- plums\n',
  'markup': '<html><body class="x">&amp; <b>bold</b></body></html>',
  'repetition': 'la ' * 60,
  'paragraph': _SENTENCE * 8,
  'more than 512 tokens': _SENTENCE * 36,
}
_SOURCE = 'spec of the stack: float32 logits beside an oracle'
_CLEAR = 1e-3


def run(config, workdir) -> None:
  """Compares all prompts and writes the table, the figure and the claims."""
  settings.check(
    config,
    'oracle',
    config.oracle in experiment_oracles.ORACLES,
    f'one of {", ".join(experiment_oracles.ORACLES)}',
  )
  settings.check(
    config,
    'prompts',
    2 <= config.prompts <= len(PROMPTS),
    f'from 2 to {len(PROMPTS)}',
  )
  if config.model not in packages.PACKAGES:
    raise errors.UserError(
      f'config.model is {config.model!r}; choose one of'
      f' {", ".join(packages.PACKAGES)}.'
    )
  packages.require(config.model)
  experiment_oracles.check(config.oracle)
  names = _chosen(config.prompts)
  compare = _Comparison(config)
  rows = []
  for name in progress.track(names, 'prompts'):
    unit = f'prompt_{list(PROMPTS).index(name)}'
    found = workdir.cached(unit, functools.partial(compare.prompt, name))
    rows.append({'prompt': name, **{k: v.item() for k, v in found.items()}})
  workdir.save_table(
    'parity',
    rows,
    f'{config.model} beside {config.oracle}: largest difference of a logit,'
    ' positions with the same likeliest token, divergence in nats.',
  )
  figure = plots.differences(
    [row['prompt'] for row in rows], [row['max_difference'] for row in rows]
  )
  workdir.save_figure('differences', figure, 'Largest difference of a logit.')
  _claims(rows, workdir)
  control = workdir.cached('control', compare.control)
  if control['max_difference'].size:
    workdir.headline(
      'control: largest difference with the wrong order of rotation',
      float(control['max_difference']),
    )
    workdir.headline(
      'control: share of likeliest tokens that are the same all the same',
      float(control['agreement']),
    )


def _chosen(count: int) -> list[str]:
  """Returns the longest prompt and the first others."""
  names = list(PROMPTS)
  return [*names[: count - 1], names[-1]]


def _claims(rows, workdir) -> None:
  largest = np.array([row['max_difference'] for row in rows])
  divergence = np.array([row['divergence'] for row in rows])
  clear = sum(row['clear_positions'] for row in rows)
  same = sum(row['clear_same'] for row in rows)
  workdir.headline('largest difference of a logit', float(largest.max()))
  workdir.headline('clear positions', clear)
  workdir.headline('of them with the same likeliest token', same)
  note = f'{len(rows)} prompts stand for seeds'
  workdir.add_claim(
    evidence.mean_claim(
      'the largest difference of a logit in a prompt is below 2e-3',
      *(largest,),
      threshold=2e-3,
      sense='<',
      source=_SOURCE,
      note=note,
    )
  )
  workdir.add_claim(
    evidence.mean_claim(
      'the divergence from the oracle is below 1e-6 nats',
      *(divergence,),
      threshold=1e-6,
      sense='<',
      unit='nats',
      source=_SOURCE,
      note=note,
    )
  )
  workdir.add_claim(
    evidence.share_claim(
      'the likeliest token is the same wherever the oracle is clear',
      np.arange(clear) < same,
      threshold=0.99,
      sense='>',
      source=_SOURCE,
      note=f'clear: the two highest logits differ by more than {_CLEAR}',
    )
  )


class _Comparison:
  """Both sides, read when the first prompt that is not stored needs them."""

  def __init__(self, config):
    self._config = config

  @functools.cached_property
  def _file(self) -> gguf_io.GGUFFile:
    progress.note(f'loading {self._config.model}')
    return gguf_io.read_gguf(packages.require(self._config.model))

  @functools.cached_property
  def _tensors(self) -> dict[str, np.ndarray]:
    return {name: each.array() for name, each in self._file.tensors.items()}

  @functools.cached_property
  def _tokenizer(self) -> Tokenizer:
    return Tokenizer.from_gguf(self._file.metadata)

  @functools.cached_property
  def _ours(self):
    return _logits_of(self._file.metadata, self._tensors)

  @functools.cached_property
  def _oracle(self):
    return experiment_oracles.make(
      self._config.oracle, self._file.metadata, self._tensors
    )

  def prompt(self, name: str) -> dict[str, Any]:
    ids = self._tokenizer.encode(PROMPTS[name])
    return _difference(self._oracle(ids), self._ours(ids))

  def control(self) -> dict[str, Any]:
    """What a loader gives that forgets the order of rotation of Llama."""
    arch = 'llama'
    if self._file.metadata['general.architecture'] != arch:
      return {'max_difference': np.zeros(0), 'agreement': np.zeros(0)}
    wrong = {
      key.replace('llama.', 'qwen2.', 1): value
      for key, value in self._file.metadata.items()
    }
    wrong['general.architecture'] = 'qwen2'
    ids = self._tokenizer.encode(PROMPTS['capital'])
    right, forgot = self._ours(ids), _logits_of(wrong, self._tensors)(ids)
    found = _difference(right, forgot)
    share = found['clear_same'] / max(found['clear_positions'], 1)
    return {'max_difference': found['max_difference'], 'agreement': share}


def _logits_of(metadata: Mapping[str, Any], tensors: Mapping[str, Any]):
  """Returns the function from tokens to logits of our decoder."""
  cfg, params = loading.from_tensors(metadata, tensors)
  apply = jax.jit(model.apply_fn(model.Decoder(cfg)))

  def logits(ids: list[int]) -> np.ndarray:
    # Padded on the right, so that few programs are compiled.
    width = 1 << max(4, (len(ids) - 1).bit_length())
    tokens = np.zeros((1, width), np.int32)
    tokens[0, : len(ids)] = ids
    mask = jnp.arange(width)[None] < len(ids)
    found = apply(params, jnp.asarray(tokens), mask=mask).logits
    return np.asarray(found[0, : len(ids)])

  return logits


def _difference(oracle: np.ndarray, ours: np.ndarray) -> dict[str, Any]:
  """Compares logits `[T, V]`, some rows at a time."""
  largest, divergence, clear, same = 0.0, 0.0, 0, 0
  for start in range(0, len(oracle), 64):
    a = oracle[start : start + 64].astype(np.float64)
    b = ours[start : start + 64].astype(np.float64)
    largest = max(largest, float(np.abs(a - b).max()))
    p, q = _log_softmax(a), _log_softmax(b)
    divergence += float(np.sum(np.exp(p) * (p - q)))
    top = np.partition(a, -2, axis=1)[:, -2:]
    is_clear = top[:, 1] - top[:, 0] > _CLEAR
    clear += int(is_clear.sum())
    same += int((is_clear & (a.argmax(1) == b.argmax(1))).sum())
  return {
    'tokens': len(oracle),
    'max_difference': largest,
    'divergence': max(divergence / len(oracle), 0.0),
    'clear_positions': clear,
    'clear_same': same,
    'logit_scale': float(np.abs(oracle[-1]).max()),
  }


def _log_softmax(x: np.ndarray) -> np.ndarray:
  x = x - x.max(axis=1, keepdims=True)
  return x - np.log(np.exp(x).sum(axis=1, keepdims=True))
