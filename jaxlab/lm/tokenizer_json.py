"""Tokenizers from Hugging Face's tokenizer.json and the files beside it."""

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from jaxlab import errors
from jaxlab.lm import vocabulary

# Ids without a token, beyond one a token; a wrong id would fill the memory.
_MOST_GAPS = 1000


def build(path: pathlib.Path) -> tuple[Any, vocabulary.Vocabulary]:
  """The library's tokenizer, and what is known of its ids.

  Args:
    path: a tokenizer.json, or the folder it is in. A tokenizer_config.json or
      special_tokens_map.json beside it says which tokens begin, end and fill a
      text; it or a chat_template.jinja gives the template.

  Raises:
    UserError: if a file is missing or is not what its name says.
  """
  lib = vocabulary.library()
  path = path / 'tokenizer.json' if path.is_dir() else path
  content = _read_json(path)
  try:
    backend = lib.Tokenizer.from_file(str(path))
  except Exception as error:  # the library has no narrower class
    raise errors.UserError(f'{path} is no tokenizer: {error}') from error
  backend.no_padding()
  backend.no_truncation()
  config = _read_beside(path)
  ids = {
    name: _token_id(backend, config, f'{name}_token', path)
    for name in ('bos', 'eos', 'pad', 'unk')
  }
  added = {token['id']: token for token in content.get('added_tokens', [])}
  special = {
    i: token['content'] for i, token in added.items() if token['special']
  }
  return backend, vocabulary.Vocabulary(
    pieces=_pieces(backend, content, added, path),
    special=frozenset(special),
    bos_id=ids['bos'],
    eos_id=ids['eos'],
    pad_id=ids['pad'],
    unk_id=ids['unk'],
    stop_ids=vocabulary.find_stop_ids(
      ids['eos'], ((text, i) for i, text in special.items())
    ),
    chat_template=_chat_template(path, config),
    space_prefix=_strips_prefix(content),
  )


def _read_json(path: pathlib.Path) -> dict[str, Any]:
  try:
    content = json.loads(path.read_text(encoding='utf-8'))
  except OSError as error:
    raise errors.UserError(
      f'Cannot read {path}: {error.strerror}; give the tokenizer.json of the '
      'model or its folder.'
    ) from error
  except ValueError as error:
    raise errors.UserError(f'{path} is not JSON: {error}') from error
  if not isinstance(content, dict):
    raise errors.UserError(f'{path} is no JSON object.')
  return content


def _read_beside(path: pathlib.Path) -> dict[str, Any]:
  config: dict[str, Any] = {}
  for name in ('special_tokens_map.json', 'tokenizer_config.json'):
    beside = path.with_name(name)
    if beside.exists():
      config |= _read_json(beside)
  return config


def _token_id(
  backend, config: Mapping[str, Any], name: str, path: pathlib.Path
) -> int | None:
  token = config.get(name)
  if isinstance(token, Mapping):
    token = token.get('content')
  if token is None:
    return None
  if not isinstance(token, str):
    raise errors.UserError(
      f'The {name} of the files beside {path} is no text: {token!r:.80}.'
    )
  index = backend.token_to_id(token)
  if index is None:
    raise errors.UserError(
      f'{path} has no token {token!r}, the {name} of the files beside it.'
    )
  return index


def _chat_template(path: pathlib.Path, config: Mapping[str, Any]) -> str | None:
  beside = path.with_name('chat_template.jinja')
  if beside.exists():
    return beside.read_text(encoding='utf-8')
  template = config.get('chat_template')
  if isinstance(template, list):  # several, of which each has a name
    try:
      named = {entry['name']: entry['template'] for entry in template}
    except (TypeError, KeyError):
      raise errors.UserError(
        f'The chat_template beside {path} is a list, but not of objects with '
        'name and template.'
      ) from None
    template = named.get('default')
  if template is not None and not isinstance(template, str):
    raise errors.UserError(
      f'The chat_template beside {path} is no text: {template!r:.80}.'
    )
  return template


def _steps(part: Mapping[str, Any] | None, key: str) -> Iterator[Mapping]:
  """Steps of a normalizer or decoder, sequences taken apart."""
  if part is None:
    return
  if part.get('type') == 'Sequence':
    for step in part[key]:
      yield from _steps(step, key)
  else:
    yield part


def _strips_prefix(content: Mapping[str, Any]) -> bool:
  for step in _steps(content.get('decoder'), 'decoders'):
    if step['type'] == 'Strip' and step.get('start', 0) > 0:
      return True
    if step['type'] == 'Metaspace':
      return step.get('prepend_scheme', 'always') != 'never'
  return False


def _pieces(
  backend,
  content: Mapping[str, Any],
  added: Mapping[int, Mapping[str, Any]],
  path: pathlib.Path,
) -> tuple[bytes, ...]:
  kinds = [s['type'] for s in _steps(content.get('decoder'), 'decoders')]
  tokens = {i: token for token, i in backend.get_vocab().items()}
  last = max(tokens, default=-1)
  if last >= 2 * len(tokens) + _MOST_GAPS:
    raise errors.UserError(
      f'{path} has {len(tokens)} tokens, but one has the id {last}.'
    )
  table = [tokens.get(i, '') for i in range(last + 1)]
  if 'ByteLevel' in kinds:
    alphabet = vocabulary.byte_alphabet()
    return tuple(
      token.encode('utf-8', 'replace')
      if i in added
      else vocabulary.byte_level_piece(token, alphabet)
      for i, token in enumerate(table)
    )
  if 'ByteFallback' in kinds or 'Metaspace' in kinds:
    return tuple(
      vocabulary.sentencepiece_piece(token, is_byte='ByteFallback' in kinds)
      for token in table
    )
  raise errors.UserError(
    f'{path} decodes by {", ".join(kinds) or "nothing"}; known are byte-level '
    'BPE and SentencePiece-like tokenizers.'
  )
