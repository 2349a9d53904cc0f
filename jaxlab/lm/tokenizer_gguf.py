"""Tokenizers from the metadata of a GGUF file."""

import collections
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from jaxlab import errors
from jaxlab.lm import vocabulary

# Types of a token, as llama.cpp numbers them.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_QWEN2 = (
  _CONTRACTIONS + r'|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*'
  r'|\s*[\r\n]+|\s+(?!\S)|\s+'
)
_LLAMA3 = _QWEN2.replace(r'|\p{N}|', r'|\p{N}{1,3}|')


def _gpt2(lib):
  return lib.pre_tokenizers.ByteLevel(add_prefix_space=False)


def _digits_alone(lib):
  return lib.pre_tokenizers.Sequence(
    [lib.pre_tokenizers.Digits(individual_digits=True), _gpt2(lib)]
  )


def _split_by(pattern: str) -> Callable:
  def pre_tokenizer(lib):
    parts = lib.pre_tokenizers
    return parts.Sequence(
      [
        parts.Split(lib.Regex(pattern), behavior='isolated'),
        parts.ByteLevel(add_prefix_space=False, use_regex=False),
      ]
    )

  return pre_tokenizer


# How the models' own tokenizers cut a text before they merge. `default` stands
# in files from before the key was filled in; those are GPT-2's descendants.
PRE_TOKENIZERS: dict[str, Callable] = {
  'default': _gpt2,
  'gpt-2': _gpt2,
  'llama-bpe': _split_by(_LLAMA3),
  'llama-v3': _split_by(_LLAMA3),
  'llama3': _split_by(_LLAMA3),
  'qwen2': _split_by(_QWEN2),
  'smollm': _digits_alone,
  'starcoder': _digits_alone,
}
_LLAMA3_NAMES = ('llama-bpe', 'llama-v3', 'llama3')


def build(metadata: Mapping[str, Any]) -> tuple[Any, vocabulary.Vocabulary]:
  """The library's tokenizer, and what is known of its ids.

  Args:
    metadata: GGUF keys and values; string arrays are lists of str.

  Raises:
    UserError: if a key is missing or of the wrong type, keys contradict each
      other, or the kind of tokenizer is unknown.
  """
  model = _require(metadata, 'model')
  if model not in ('gpt2', 'llama'):
    raise errors.UserError(
      f"GGUF tokenizer model '{model}' is unknown; known: gpt2, llama."
    )
  tokens = _strings(metadata, 'tokens')
  kinds = _numbers(metadata, 'token_type', 'iu')
  _check_tokens(tokens, kinds)
  names = ('bos', 'eos', 'padding', 'unknown')
  ids = {name: _special_id(metadata, name, len(tokens)) for name in names}
  if model == 'gpt2':
    pre = metadata.get('tokenizer.ggml.pre', 'default')
    if not isinstance(pre, str):
      raise _wrong_type('pre', 'a string', pre)
    backend = _byte_level(metadata, tokens, pre)
    adds_bos, prefix = pre in _LLAMA3_NAMES, False
  else:
    prefix = bool(metadata.get('tokenizer.ggml.add_space_prefix', True))
    tokens = _visible_spaces(tokens, kinds)
    backend = _sentencepiece(metadata, tokens, kinds, ids['unknown'], prefix)
    adds_bos = True
  _add_tokens(backend, tokens, kinds)
  _add_ends(backend, metadata, ids, adds_bos)
  special = np.flatnonzero((kinds == CONTROL) | (kinds == UNKNOWN)).tolist()
  template = metadata.get('tokenizer.chat_template')
  if template is not None and not isinstance(template, str):
    raise errors.UserError(
      'GGUF metadata: tokenizer.chat_template is a string, got '
      f'{template!r:.80}.'
    )
  return backend, vocabulary.Vocabulary(
    pieces=_pieces(model, tokens, kinds),
    special=frozenset(special),
    bos_id=ids['bos'],
    eos_id=ids['eos'],
    pad_id=ids['padding'],
    unk_id=ids['unknown'],
    stop_ids=vocabulary.find_stop_ids(
      ids['eos'], ((tokens[i], i) for i in special)
    ),
    chat_template=template,
    space_prefix=prefix,
  )


def _require(metadata: Mapping[str, Any], name: str) -> Any:
  key = f'tokenizer.ggml.{name}'
  if key not in metadata:
    raise errors.UserError(
      f'GGUF metadata has no {key}: the file holds no tokenizer; take a file '
      'converted together with its tokenizer, or Tokenizer.from_json.'
    )
  return metadata[key]


def _strings(metadata: Mapping[str, Any], name: str) -> list[str]:
  values = _require(metadata, name)
  if isinstance(values, str | bytes) or not isinstance(values, Iterable):
    raise _wrong_type(name, 'a list of strings', values)
  strings = list(values)
  for value in strings:
    if not isinstance(value, str):
      raise _wrong_type(name, 'a list of strings', value)
  return strings


def _numbers(metadata: Mapping[str, Any], name: str, kinds: str) -> np.ndarray:
  """One number a token; `kinds` as in `np.dtype.kind`."""
  values = _require(metadata, name)
  try:
    array = np.asarray(values)
  except ValueError:  # rows of several lengths
    raise _wrong_type(name, 'a list of numbers', values) from None
  if array.ndim != 1 or array.dtype.kind not in kinds:
    raise _wrong_type(name, 'a list of numbers', values)
  return array


def _wrong_type(name: str, wanted: str, value: Any) -> errors.UserError:
  shown = ' '.join(repr(value).split())
  return errors.UserError(
    f'GGUF metadata: tokenizer.ggml.{name} is {wanted}, got {shown:.80}.'
  )


def _check_tokens(tokens: Sequence[str], kinds: np.ndarray) -> None:
  if len(kinds) != len(tokens):
    raise errors.UserError(
      f'GGUF metadata has {len(tokens)} tokens but {len(kinds)} token types.'
    )
  if len(set(tokens)) != len(tokens):
    twice = collections.Counter(tokens).most_common(1)[0][0]
    raise errors.UserError(f'GGUF metadata lists the token {twice!r} twice.')


def _special_id(
  metadata: Mapping[str, Any], name: str, size: int
) -> int | None:
  value = metadata.get(f'tokenizer.ggml.{name}_token_id')
  if value is None:
    return None
  try:
    value = operator.index(value)
  except TypeError:
    raise _wrong_type(f'{name}_token_id', 'a whole number', value) from None
  if not 0 <= value < size:
    raise errors.UserError(
      f'GGUF metadata: {name}_token_id {value} is outside [0, {size}).'
    )
  return value


def _byte_level(metadata: Mapping[str, Any], tokens: Sequence[str], pre: str):
  lib = vocabulary.library()
  if pre not in PRE_TOKENIZERS:
    raise errors.UserError(
      f"GGUF pre-tokenizer '{pre}' is unknown; known: "
      f'{", ".join(sorted(PRE_TOKENIZERS))}. Take the tokenizer.json of the '
      'model and Tokenizer.from_json.'
    )
  if metadata.get('tokenizer.ggml.add_space_prefix', False):
    raise errors.UserError(
      'GGUF metadata: add_space_prefix is not supported for byte-level BPE.'
    )
  merges = [tuple(m.split(' ')) for m in _strings(metadata, 'merges')]
  wrong = next((i for i, pair in enumerate(merges) if len(pair) != 2), None)
  if wrong is not None:
    raise errors.UserError(
      f'GGUF metadata: merge {wrong} is not two tokens with a space between.'
    )
  ids = {token: i for i, token in enumerate(tokens)}
  backend = lib.Tokenizer(
    _bpe(lib, ids, merges, ignore_merges=pre in _LLAMA3_NAMES)
  )
  backend.pre_tokenizer = PRE_TOKENIZERS[pre](lib)
  backend.decoder = lib.decoders.ByteLevel()
  if pre == 'qwen2':
    backend.normalizer = lib.normalizers.NFC()
  return backend


def _bpe(lib, ids: Mapping[str, int], merges, **settings):
  try:
    return lib.models.BPE(vocab=ids, merges=merges, **settings)
  except Exception as error:  # the library has no narrower class
    raise errors.UserError(
      f'GGUF metadata: tokens and merges do not fit together: {error}'
    ) from error


def _visible_spaces(tokens: Sequence[str], kinds: np.ndarray) -> list[str]:
  """Runs of spaces, which converters write literally, as SentencePiece does."""
  return [
    token.replace(' ', vocabulary.SPACE) if kind == USER_DEFINED else token
    for token, kind in zip(tokens, kinds.tolist(), strict=True)
  ]


def _sentencepiece(
  metadata: Mapping[str, Any],
  tokens: Sequence[str],
  kinds: np.ndarray,
  unk_id: int | None,
  prefix: bool,
):
  lib = vocabulary.library()
  scores = _numbers(metadata, 'scores', 'iuf').astype(np.float64)
  if len(scores) != len(tokens):
    raise errors.UserError(
      f'GGUF metadata has {len(tokens)} tokens but {len(scores)} scores.'
    )
  if np.isnan(scores).any():
    raise errors.UserError(
      'GGUF metadata: tokenizer.ggml.scores has no number (NaN) at token '
      f'{int(np.isnan(scores).argmax())}.'
    )
  backend = lib.Tokenizer(
    _bpe(
      lib,
      {token: i for i, token in enumerate(tokens)},
      derive_merges(tokens, scores, kinds),
      unk_token=None if unk_id is None else tokens[unk_id],
      fuse_unk=True,
      byte_fallback=True,
    )
  )
  to_visible = lib.normalizers.Replace(' ', vocabulary.SPACE)
  backend.normalizer = (
    lib.normalizers.Sequence(
      [lib.normalizers.Prepend(vocabulary.SPACE), to_visible]
    )
    if prefix
    else to_visible
  )
  return backend


def derive_merges(
  tokens: Sequence[str], scores: np.ndarray, kinds: np.ndarray
) -> list[tuple[str, str]]:
  """Ranked merges with which BPE gives the tokens of SentencePiece.

  SentencePiece joins the neighbours whose union has the highest score, so
  every split of a token into two tokens is a merge of that token's score.
  User-defined tokens have the score of the best other one. Splits of one
  token, and tokens of one score, go by longer left half first: the list in
  Gemma 3's tokenizer.json.

  Args:
    tokens: length V.
    scores: `[V]`, higher is merged earlier.
    kinds: `[V]` types of the tokens; control and byte tokens are not merged.
  """
  whole = (kinds == NORMAL) | (kinds == USER_DEFINED) | (kinds == UNUSED)
  best = np.max(scores, where=kinds == NORMAL, initial=-np.inf)
  first = np.where(kinds == USER_DEFINED, best, scores).tolist()
  known = set(itertools.compress(tokens, whole.tolist()))
  merges = []
  for token, score, usable in zip(tokens, first, whole.tolist(), strict=True):
    if usable:
      for cut in range(1, len(token)):
        left, right = token[:cut], token[cut:]
        if left in known and right in known:
          merges.append((score, cut, len(right), left, right))
  merges.sort(key=lambda merge: merge[:3], reverse=True)
  return [(left, right) for *_, left, right in merges]


def _add_tokens(backend, tokens: Sequence[str], kinds: np.ndarray) -> None:
  """Tokens that are found in a text before anything else is."""
  lib = vocabulary.library()
  for kind in (CONTROL, UNKNOWN, USER_DEFINED):
    special = kind != USER_DEFINED
    found = [
      lib.AddedToken(tokens[i], normalized=False, special=special)
      for i in np.flatnonzero(kinds == kind).tolist()
    ]
    if found:
      backend.add_tokens(found)


def _add_ends(
  backend,
  metadata: Mapping[str, Any],
  ids: Mapping[str, int | None],
  adds_bos: bool,
) -> None:
  """Begin and end of a text, where the model was trained with them."""
  lib = vocabulary.library()
  default = {'bos': adds_bos and ids['bos'] is not None, 'eos': False}
  template, special = ['$A'], []
  for name in ('bos', 'eos'):
    if not metadata.get(f'tokenizer.ggml.add_{name}_token', default[name]):
      continue
    if ids[name] is None:
      raise errors.UserError(
        f'GGUF metadata: add_{name}_token is true without {name}_token_id.'
      )
    template.insert(0 if name == 'bos' else len(template), name)
    special.append((name, ids[name]))
  if special:
    backend.post_processor = lib.processors.TemplateProcessing(
      single=template, special_tokens=special
    )


def _pieces(
  model: str, tokens: Sequence[str], kinds: np.ndarray
) -> tuple[bytes, ...]:
  if model == 'gpt2':
    alphabet = vocabulary.byte_alphabet()
    plain = (kinds == NORMAL).tolist()
    return tuple(
      vocabulary.byte_level_piece(token, alphabet)
      if is_plain
      else token.encode('utf-8', 'replace')
      for token, is_plain in zip(tokens, plain, strict=True)
    )
  return tuple(
    vocabulary.sentencepiece_piece(token, is_byte=is_byte)
    for token, is_byte in zip(tokens, (kinds == BYTE).tolist(), strict=True)
  )
