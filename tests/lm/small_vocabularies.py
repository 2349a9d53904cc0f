"""Vocabularies of some hundred tokens, trained here, as GGUF metadata."""

import functools
import json

import numpy as np
import tokenizers

from tests.lm import corpus

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
PREFIX = 'tokenizer.ggml.'
SPECIAL = ['<|endoftext|>', '<|im_start|>', '<|im_end|>']
SAMPLE = corpus.lines(seed=1, count=400)

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
_BYTES_ONLY = {
  'type': 'ByteLevel',
  'add_prefix_space': False,
  'trim_offsets': True,
}
_SPLITS = {
  'qwen2': r'[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*'
  r'|\s*[\r\n]+|\s+(?!\S)|\s+',
  'llama-bpe': r'[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*'
  r'|\s*[\r\n]+|\s+(?!\S)|\s+',
}


def _published(pre):
  """`pre_tokenizer` of the tokenizer.json that the model's authors publish."""
  if pre == 'gpt-2':
    return _BYTES_ONLY | {'use_regex': True}
  if pre == 'smollm':
    steps = [
      {'type': 'Digits', 'individual_digits': True},
      _BYTES_ONLY | {'use_regex': True},
    ]
  else:
    pattern = {'Regex': _CONTRACTIONS + _SPLITS[pre]}
    split = {'behavior': 'Isolated', 'invert': False}
    steps = [
      {'type': 'Split', 'pattern': pattern} | split,
      _BYTES_ONLY | {'use_regex': False},
    ]
  return {'type': 'Sequence', 'pretokenizers': steps}


@functools.cache
def trained_json(pre):
  """A small byte-level tokenizer.json with a model's published pipeline."""
  lib = tokenizers.Tokenizer(tokenizers.models.BPE())
  content = json.loads(lib.to_str())
  content['pre_tokenizer'] = _published(pre)
  content['decoder'] = _BYTES_ONLY | {'use_regex': True}
  content['normalizer'] = {'type': 'NFC'} if pre == 'qwen2' else None
  lib = tokenizers.Tokenizer.from_str(json.dumps(content))
  trainer = tokenizers.trainers.BpeTrainer(
    vocab_size=900,
    show_progress=False,
    special_tokens=SPECIAL,
    initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
  )
  lib.train_from_iterator(SAMPLE, trainer)
  content = json.loads(lib.to_str())
  content['model']['ignore_merges'] = pre == 'llama-bpe'
  return content


def byte_level_metadata(kind, **keys):
  content = trained_json(kind)
  vocab = content['model']['vocab']
  return {
    PREFIX + 'model': 'gpt2',
    PREFIX + 'pre': kind,
    PREFIX + 'tokens': sorted(vocab, key=vocab.get),
    PREFIX + 'merges': [' '.join(m) for m in content['model']['merges']],
    PREFIX + 'token_type': np.array(
      [CONTROL] * 3 + [NORMAL] * (len(vocab) - 3), np.int32
    ),
    PREFIX + 'eos_token_id': 2,
    PREFIX + 'padding_token_id': 0,
  } | {PREFIX + key: value for key, value in keys.items()}


def sentencepiece_metadata(prefix):
  """A vocabulary with scores, runs of spaces and newlines user-defined."""
  trained = tokenizers.Tokenizer(tokenizers.models.BPE())
  trainer = tokenizers.trainers.BpeTrainer(vocab_size=800, show_progress=False)
  spaced = [line.replace(' ', '▁') for line in SAMPLE]
  trained.train_from_iterator(spaced, trainer)
  vocab = trained.get_vocab()
  found = sorted(vocab, key=vocab.get)
  start = ['<unk>', '<s>', '</s>', '\n', '\n\n', '  ', '   ', '<tag>']
  kinds = [UNKNOWN, CONTROL, CONTROL] + [USER_DEFINED] * 5
  tokens = start + [f'<0x{byte:02X}>' for byte in range(256)]
  kinds += [BYTE] * 256
  rest = [t for t in found if t not in start and t not in ('▁▁', '▁▁▁')]
  merged = [t for t in rest if len(t) > 1]
  tokens += merged + [t for t in rest if len(t) == 1]
  size = len(tokens) - len(kinds)
  return {
    PREFIX + 'model': 'llama',
    PREFIX + 'tokens': tokens,
    PREFIX + 'token_type': np.array(kinds + [NORMAL] * size, np.int32),
    PREFIX + 'scores': np.array(
      [-1000.0] * 8 + [0.0] * 256 + [-float(i) for i in range(size)]
    ),
    PREFIX + 'bos_token_id': 1,
    PREFIX + 'eos_token_id': 2,
    PREFIX + 'unknown_token_id': 0,
    PREFIX + 'add_space_prefix': prefix,
  }
