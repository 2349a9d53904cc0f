"""Ids against the library's own pipelines and SentencePiece's rule."""

import functools
import itertools
import json
import sys

import jax.numpy as jnp
import numpy as np
import pytest
import tokenizers

from jaxlab import errors
from jaxlab.lm import tokenizer_gguf
from jaxlab.lm.tokenizer import Tokenizer
from tests.lm import corpus
from tests.lm.small_vocabularies import (
  NORMAL,
  PREFIX,
  byte_level_metadata,
  sentencepiece_metadata,
  trained_json,
)

LINES = corpus.lines(count=400)


@functools.cache
def _small():
  return Tokenizer.from_gguf(byte_level_metadata('smollm'))


def _sentencepiece_ids(text, metadata):
  """SentencePiece's rule, literally: join the best-scoring neighbours.

  For text without tokens to match beforehand (Kudo and Richardson 2018).
  """
  tokens = metadata[PREFIX + 'tokens']
  kinds = metadata[PREFIX + 'token_type']
  scores = metadata[PREFIX + 'scores']
  ids = {t: i for i, t in enumerate(tokens)}
  score = {
    t: s for t, s, k in zip(tokens, scores, kinds, strict=True) if k == NORMAL
  }
  symbols = list(text.replace(' ', '▁'))
  while True:
    joined = [a + b for a, b in itertools.pairwise(symbols)]
    known = [(score[t], -i) for i, t in enumerate(joined) if t in score]
    if not known:
      break
    i = -max(known)[1]
    symbols[i : i + 2] = [joined[i]]
  found = []
  for symbol in symbols:
    spelled = [f'<0x{byte:02X}>' for byte in symbol.encode()]
    found += [ids[symbol]] if symbol in score else [ids[b] for b in spelled]
  return found


@pytest.mark.parametrize('pre', ['gpt-2', 'smollm', 'qwen2', 'llama-bpe'])
def test_byte_level_equals_published_pipeline(pre):
  content = trained_json(pre)
  own = tokenizers.Tokenizer.from_str(json.dumps(content))
  found = Tokenizer.from_gguf(byte_level_metadata(pre))
  assert found.vocab_size == len(content['model']['vocab'])
  for line in LINES:
    ids = found.encode(line, add_special=False)
    assert ids == own.encode(line, add_special_tokens=False).ids
    assert found.decode(ids, skip_special=False) == own.decode(
      ids, skip_special_tokens=False
    )
    if pre != 'qwen2':  # NFC
      assert found.decode(ids, skip_special=False) == line


def test_pre_tokenizers_differ():
  ids = {
    pre: Tokenizer.from_gguf(byte_level_metadata('gpt-2', pre=pre)).encode(
      "  12345 I'VE\n\nx"
    )
    for pre in ('gpt-2', 'smollm', 'qwen2', 'llama-bpe')
  }
  assert len({tuple(row) for row in ids.values()}) >= 3


@pytest.mark.parametrize('prefix', [False, True])
def test_scores_give_sentencepiece_ids(prefix):
  metadata = sentencepiece_metadata(prefix)
  found = Tokenizer.from_gguf(metadata)
  matched = [*corpus.SPECIALS, '<tag>', '\n', '  ']
  plain = [
    line
    for line in LINES
    if line and not any(part in ' ' * prefix + line for part in matched)
  ]
  assert len(plain) > 100
  for line in plain:
    ids = found.encode(line, add_special=False)
    assert ids == _sentencepiece_ids(' ' * prefix + line, metadata)
    assert found.decode(ids) == line


def test_user_defined_tokens_match_first_and_longest():
  found = Tokenizer.from_gguf(sentencepiece_metadata(False))
  tokens = found.encode('\n\n\na   <tag>', add_special=False)
  assert tokens[:2] == [4, 3]
  assert tokens[-2:] == [6, 7]
  assert found.decode(tokens) == '\n\n\na   <tag>'
  assert found.encode('<tag>', False, parse_special=False) == [7]
  assert found.encode('<s>', False) == [1]
  assert 1 not in found.encode('<s>', False, parse_special=False)


def test_space_prefix_is_added_and_taken_away():
  with_prefix = Tokenizer.from_gguf(sentencepiece_metadata(True))
  without = Tokenizer.from_gguf(sentencepiece_metadata(False))
  for text in ('the', ' the', '', '\t'):
    assert with_prefix.decode(with_prefix.encode(text)) == text
    assert without.decode(without.encode(text)) == text
  assert with_prefix.encode('the') == without.encode(' the')


def test_begin_and_end_of_text():
  metadata = sentencepiece_metadata(False)
  assert Tokenizer.from_gguf(metadata).encode('a')[0] == 1
  metadata |= {PREFIX + 'add_bos_token': False, PREFIX + 'add_eos_token': True}
  found = Tokenizer.from_gguf(metadata)
  body = found.encode('a', add_special=False)
  assert found.encode('a') == [*body, 2]
  assert (found.bos_id, found.eos_id, found.pad_id, found.unk_id) == (
    1,
    2,
    None,
    0,
  )


def test_special_tokens_in_the_text():
  found = _small()
  text = 'a<|im_start|>b'
  ids = found.encode(text)
  assert ids == [*found.encode('a'), 1, *found.encode('b')]
  assert found.decode(ids) == 'ab'
  assert found.decode(ids, skip_special=False) == text
  plain = found.encode(text, parse_special=False)
  assert 1 not in plain
  assert found.decode(plain) == text
  assert found.encode(text) == ids  # the option leaves nothing behind


def test_stop_ids():
  assert _small().stop_ids == (0, 2)
  assert Tokenizer.from_gguf(sentencepiece_metadata(True)).stop_ids == (2,)


@pytest.mark.parametrize('kind', ['smollm', 'llama'])
def test_stream_never_cuts_a_character(kind):
  found = (
    _small()
    if kind == 'smollm'
    else Tokenizer.from_gguf(sentencepiece_metadata(True))
  )
  text = 'a🧿👩‍👩‍👧‍👦é你好 \U0001034a'
  ids = found.encode(text, add_special=False)
  parts = list(found.stream(iter(ids)))
  assert ''.join(parts) == text == found.decode(ids)
  assert '\ufffd' not in ''.join(parts)
  assert all(parts)
  cut = found.encode('a🧿', add_special=False)
  spelled = [found.token_bytes(i) for i in cut]
  assert len(spelled[-1]) < len('🧿'.encode())
  assert ''.join(found.stream(cut[:-1])) == 'a\ufffd'
  assert list(found.stream(cut)) == ['a', '🧿']


def test_token_bytes_spell_the_text():
  found = _small()
  for line in LINES[:80]:
    spelled = b''.join(map(found.token_bytes, found.encode(line)))
    assert spelled == line.encode()


def test_decode_takes_arrays_and_checks_ids():
  found = _small()
  ids = found.encode('Hello')
  assert found.decode(np.array(ids)) == found.decode(jnp.array(ids)) == 'Hello'
  assert found.decode([]) == ''
  for wrong in (-1, found.vocab_size):
    with pytest.raises(ValueError, match=rf'id {wrong} is outside \[0, '):
      found.decode([5, wrong])


def test_batches():
  found = _small()
  texts = ['Hello world', '', 'a']
  rows = [found.encode(text) for text in texts]
  width = len(rows[0])
  for side in ('left', 'right'):
    ids, mask = found.encode_batch(texts, side)
    assert ids.shape == mask.shape == (3, width)
    assert ids.dtype == np.int32
    assert mask.dtype == bool
    assert [row[m].tolist() for row, m in zip(ids, mask, strict=True)] == rows
    assert (ids[~mask] == found.pad_id).all()
    assert mask[2, -1 if side == 'left' else 0]
  assert found.encode_batch(texts, max_len=width)[0].shape == (3, width)
  with pytest.raises(
    ValueError, match=rf'Text 0 has {width} tokens, max_len is {width - 1}\.'
  ):
    found.encode_batch(texts, max_len=width - 1)
  with pytest.raises(ValueError, match='at least one text'):
    found.encode_batch([])
  with pytest.raises(ValueError, match='list of at least'):
    found.encode_batch('a text')
  with pytest.raises(ValueError, match="got 'top'"):
    found.encode_batch(texts, 'top')


def test_half_a_surrogate_pair_is_an_error():
  for found in (_small(), Tokenizer.from_characters('ab')):
    with pytest.raises(ValueError, match=r"'\\ud83d'\) at position 1; replace"):
      found.encode('a\ud83d')
    with pytest.raises(TypeError, match='takes a str, got None'):
      found.encode(None)


@pytest.mark.parametrize(
  ('ids', 'kind', 'match'),
  [
    (3, TypeError, 'one row of ids, got 3'),
    (None, TypeError, 'one row of ids, got None'),
    ('12', TypeError, "one row of ids, got '12'"),
    ([[1, 2]], TypeError, r'whole number, got \[1, 2\]'),
    ([1.0], TypeError, r'whole number, got 1\.0'),
    (np.ones((1, 2), int), ValueError, r'int64 of shape \(1, 2\)'),
    (np.ones(2), ValueError, 'got float64'),
    (np.int64(1), ValueError, r'of shape \(\)'),
  ],
)
def test_decode_of_what_is_no_row_of_ids(ids, kind, match):
  with pytest.raises(kind, match=match) as caught:
    _small().decode(ids)
  assert '\n' not in str(caught.value)
  assert _small().decode(np.array([])) == ''


def test_characters():
  found = Tokenizer.from_characters('0123456789+=')
  assert found.encode('12+30=42\n_') == [3, 4, 12, 5, 2, 13, 6, 4, 1, 0]
  assert found.decode(found.encode('12+30=42\n__')) == '12+30=42'
  assert found.decode([3, 1, 0], skip_special=False) == '1\n_'
  assert (found.vocab_size, found.pad_id, found.eos_id) == (14, 0, 1)
  assert found.stop_ids == (1,)
  ids, mask = found.encode_batch(['1+2=', '10+20='])
  assert ids[0].tolist() == [0, 0, *found.encode('1+2=')]
  assert mask.sum() == 10
  with pytest.raises(ValueError, match="'x' is not in the alphabet"):
    found.encode('1x')
  with pytest.raises(ValueError, match='occurs twice'):
    Tokenizer.from_characters('00')
  with pytest.raises(ValueError, match='one character'):
    Tokenizer.from_characters('01', pad='')


WRONG = {
  'model': ('wordpiece', "model 'wordpiece' is unknown; known: gpt2, llama"),
  'pre': ('tekken', "'tekken' is unknown; known: default, gpt-2, llama-bpe"),
  'tokens': (['a', 'a'], '2 tokens but'),
  'unknown_token_id': ('x', "unknown_token_id is a whole number, got 'x'"),
  'token_type': ([1], 'tokens but 1 token types'),
  'merges': (['a b c'], 'merge 0 is not two tokens'),
  'eos_token_id': (10**6, r'eos_token_id 1000000 is outside \[0, '),
  'add_bos_token': (True, 'add_bos_token is true without bos_token_id'),
  'add_space_prefix': (True, 'not supported for byte-level'),
}


@pytest.mark.parametrize('key', WRONG)
def test_wrong_metadata_is_one_line(key):
  value, match = WRONG[key]
  with pytest.raises(errors.UserError, match=match) as caught:
    Tokenizer.from_gguf(byte_level_metadata('smollm', **{key: value}))
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
  ('key', 'value', 'match'),
  [
    ('pre', ['gpt-2'], 'a string'),
    ('tokens', 5, 'a list of strings, got 5'),
    ('tokens', 'abc', 'a list of strings'),
    ('tokens', [1], 'a list of strings, got 1'),
    ('token_type', 3, 'a list of numbers, got 3'),
    ('token_type', ['a'], 'a list of numbers'),
    ('token_type', [[1], [1, 2]], 'a list of numbers'),
    ('merges', [1], 'a list of strings, got 1'),
    ('merges', None, 'a list of strings, got None'),
  ],
)
def test_metadata_of_wrong_types_names_the_key(key, value, match):
  metadata = byte_level_metadata('smollm', **{key: value})
  with pytest.raises(errors.UserError, match=rf'ggml\.{key} is {match}'):
    Tokenizer.from_gguf(metadata)


def test_wrong_scores_and_template():
  metadata = sentencepiece_metadata(True)
  metadata[PREFIX + 'scores'][300] = np.nan
  with pytest.raises(errors.UserError, match=r'scores .*NaN.* at token 300'):
    Tokenizer.from_gguf(metadata)
  metadata[PREFIX + 'scores'] = ['x'] * len(metadata[PREFIX + 'tokens'])
  with pytest.raises(errors.UserError, match='scores is a list of numbers'):
    Tokenizer.from_gguf(metadata)
  metadata = byte_level_metadata('smollm') | {'tokenizer.chat_template': 5}
  with pytest.raises(errors.UserError, match='chat_template is a string'):
    Tokenizer.from_gguf(metadata)


@pytest.mark.parametrize('key', ['model', 'tokens', 'token_type', 'merges'])
def test_missing_metadata_is_named(key):
  metadata = byte_level_metadata('smollm')
  del metadata[PREFIX + key]
  with pytest.raises(errors.UserError, match=f'has no tokenizer.ggml.{key}'):
    Tokenizer.from_gguf(metadata)


def test_inconsistent_tokens():
  metadata = byte_level_metadata('smollm')
  metadata[PREFIX + 'tokens'][5] = metadata[PREFIX + 'tokens'][4]
  with pytest.raises(errors.UserError, match='twice'):
    Tokenizer.from_gguf(metadata)
  metadata = byte_level_metadata('smollm', merges=['a nowhere'])
  with pytest.raises(errors.UserError, match='do not fit together'):
    Tokenizer.from_gguf(metadata)
  metadata = sentencepiece_metadata(True)
  metadata[PREFIX + 'scores'] = metadata[PREFIX + 'scores'][:-1]
  with pytest.raises(errors.UserError, match='scores'):
    Tokenizer.from_gguf(metadata)


def test_without_the_library(monkeypatch):
  monkeypatch.setitem(sys.modules, 'tokenizers', None)
  with pytest.raises(errors.UserError, match=r"pip install 'jaxlab\[lm\]'"):
    Tokenizer.from_gguf(byte_level_metadata('smollm'))
  assert Tokenizer.from_characters('01').encode('1') == [3]


def test_from_json(tmp_path):
  content = trained_json('qwen2')
  (tmp_path / 'tokenizer.json').write_text(json.dumps(content))
  bare = Tokenizer.from_json(tmp_path / 'tokenizer.json')
  assert (bare.eos_id, bare.chat_template, bare.stop_ids) == (
    None,
    None,
    (0, 2),
  )
  config = {
    'eos_token': {'content': '<|im_end|>'},
    'pad_token': '<|endoftext|>',
    'chat_template': [{'name': 'default', 'template': 'from the config'}],
  }
  (tmp_path / 'tokenizer_config.json').write_text(json.dumps(config))
  found = Tokenizer.from_json(tmp_path)
  assert (found.eos_id, found.pad_id, found.bos_id) == (2, 0, None)
  assert found.chat_template == 'from the config'
  (tmp_path / 'chat_template.jinja').write_text('from a file')
  assert Tokenizer.from_json(tmp_path).chat_template == 'from a file'
  gguf = Tokenizer.from_gguf(byte_level_metadata('qwen2'))
  assert found.vocabulary.pieces == gguf.vocabulary.pieces
  for line in LINES[:150]:
    assert found.encode(line) == gguf.encode(line)
    assert found.decode(found.encode(line)) == gguf.decode(gguf.encode(line))


def test_from_json_of_a_sentencepiece_vocabulary(tmp_path):
  metadata = sentencepiece_metadata(True)
  backend, known = tokenizer_gguf.build(metadata)
  content = json.loads(backend.to_str())
  replace = {'type': 'Replace', 'pattern': {'String': '▁'}, 'content': ' '}
  strip = {'type': 'Strip', 'content': ' ', 'start': 1, 'stop': 0}
  steps = [replace, {'type': 'ByteFallback'}, {'type': 'Fuse'}, strip]
  content['decoder'] = {'type': 'Sequence', 'decoders': steps}
  (tmp_path / 'tokenizer.json').write_text(json.dumps(content))
  found = Tokenizer.from_json(tmp_path)
  own = tokenizers.Tokenizer.from_file(str(tmp_path / 'tokenizer.json'))
  assert found.vocabulary.pieces == known.pieces
  for line in LINES[:150]:
    ids = own.encode(line).ids
    assert found.encode(line) == ids
    assert found.decode(ids) == own.decode(ids)


def test_wrong_json_is_one_line(tmp_path):
  path = tmp_path / 'tokenizer.json'
  with pytest.raises(errors.UserError, match='Cannot read'):
    Tokenizer.from_json(tmp_path)
  for text, match in (
    ('{', 'is not JSON'),
    ('[]', 'no JSON object'),
    ('{}', 'is no tokenizer'),
  ):
    path.write_text(text)
    with pytest.raises(errors.UserError, match=match) as caught:
      Tokenizer.from_json(path)
    assert '\n' not in str(caught.value)
  path.write_text(json.dumps(trained_json('qwen2') | {'decoder': None}))
  with pytest.raises(errors.UserError, match='decodes by nothing'):
    Tokenizer.from_json(path)
  path.write_text(json.dumps(trained_json('qwen2')))
  (tmp_path / 'tokenizer_config.json').write_text('{"eos_token": "<none>"}')
  with pytest.raises(errors.UserError, match="no token '<none>', the eos"):
    Tokenizer.from_json(path)


def test_json_with_an_id_far_from_the_others(tmp_path):
  content = trained_json('qwen2')
  vocab = content['model']['vocab']
  far = {'type': 'BPE', 'vocab': vocab | {'far': 10**8}}
  path = tmp_path / 'tokenizer.json'
  path.write_text(json.dumps(content | {'model': content['model'] | far}))
  with pytest.raises(errors.UserError, match='one has the id 100000000'):
    Tokenizer.from_json(path)
  far['vocab'] = vocab | {'far': len(vocab) + 500}  # gaps are common
  path.write_text(json.dumps(content | {'model': content['model'] | far}))
  assert Tokenizer.from_json(path).vocab_size == len(vocab) + 501


@pytest.mark.parametrize(
  ('config', 'match'),
  [
    ({'eos_token': ['a']}, r"eos_token of the files beside .* \['a'\]"),
    ({'eos_token': 5}, 'eos_token of the files beside .* 5'),
    ({'eos_token': {'content': 5}}, 'eos_token of the files beside .* 5'),
    ({'chat_template': ['x']}, 'not of objects with name and template'),
    ({'chat_template': [{'name': 'x'}]}, 'not of objects with name'),
    ({'chat_template': [{'name': [], 'template': ''}]}, 'not of objects'),
    ({'chat_template': 5}, 'is no text: 5'),
    (
      {'chat_template': [{'name': 'default', 'template': 5}]},
      'is no text: 5',
    ),
  ],
)
def test_files_beside_with_wrong_types(tmp_path, config, match):
  (tmp_path / 'tokenizer.json').write_text(json.dumps(trained_json('qwen2')))
  (tmp_path / 'tokenizer_config.json').write_text(json.dumps(config))
  with pytest.raises(errors.UserError, match=match):
    Tokenizer.from_json(tmp_path)
