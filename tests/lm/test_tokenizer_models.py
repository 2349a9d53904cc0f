"""Ids of real vocabularies against those of their authors' tokenizers."""

import functools
import time

import pytest

from jaxlab.lm import gguf_io, packages
from jaxlab.lm.tokenizer import Tokenizer
from tests.lm import corpus

# Of the ids of the 2,000 lines without begin and end of text, by transformers
# 5.24.0 with tokenizers 0.23.3: SmolLM2's published pipeline (digits alone,
# then byte level) on the tokens and merges of its GGUF; Gemma 3's published
# tokenizer.json. llama.cpp gives the same but for 3 lines of SmolLM2 (it cuts
# where a control character without a token is left out) and 54 of Gemma 3
# (literal U+2581); SentencePiece the same but for 5 such lines of Gemma 3.
DIGESTS = {
  'smollm2-135m': """
    dba6208a5aef 531998b030d7 8545c3e4dd7b 5736e67879fb d2b5470c55e9
    8e1a5bea7749 2a9498784f7d b526193612f9 eafd06f3574e cc128b4459ab
    4846b0842571 6973bd72ea8f 4cb3af52c592 b15369ca18a5 7421e06da36d
    76bc76810944 ddc796e17729 04834550faa3 b09acb969ad1 f0b9e1ee1d10
  """,
  'gemma3-270m': """
    fbc1ee9aaf1b 9a49270f7312 726443eb0fda 7e3926f14e35 2a000dbb0cd0
    d8a0e6c1fc36 c0888ee64eb6 3b3c411868b1 4b33b3a9a441 85e2c7fc49f1
    01533468369c c252f8a520c5 48ef04ddcd3c 6a7fcac9df39 f7be42708347
    9b61114818ee 67b00f52422a 4a036313ba52 ce73839351b7 a70f6d9645b2
  """,
}
TITLES = {'smollm2-135m': 'SmolLM2', 'gemma3-270m': 'Gemma 3 270M'}
# Bytes that SmolLM2's authors left without a token: see Tokenizer.
SPELLED_BY_NONE = (0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2)


@functools.cache
def _model(name):
  path = packages.find(name)
  if path is None:
    pytest.skip(f'{TITLES[name]} is not installed: jaxlab data prepare {name}')
  metadata = gguf_io.read_gguf(path).metadata
  start = time.perf_counter()
  found = Tokenizer.from_gguf(metadata)
  assert time.perf_counter() - start < 10
  return found


@pytest.mark.models
@pytest.mark.parametrize('name', list(DIGESTS))
def test_ids_of_2000_lines_equal_the_authors(name):
  found = _model(name)
  rows = [found.encode(line, add_special=False) for line in corpus.lines()]
  assert corpus.digests(rows) == DIGESTS[name].split()


@pytest.mark.models
def test_smollm2():
  found = _model('smollm2-135m')
  assert found.encode(corpus.TRICKY) == [
    216, 253, 197, 33, 34, 35, 36, 37, 26411, 216, 18645, 250, 48392, 138,
    216, 1,
  ]  # fmt: skip
  assert found.encode('The capital of France is') == [504, 3575, 282, 4649, 314]
  ids = (found.bos_id, found.eos_id, found.pad_id, found.unk_id)
  assert ids == (1, 2, 2, 0)
  assert found.stop_ids == (0, 2)
  assert found.vocab_size == 49_152
  assert 'named SmolLM' in found.chat_template
  for line in corpus.lines():
    spelled = bytes(b for b in line.encode() if b not in SPELLED_BY_NONE)
    ids = found.encode(line)
    assert b''.join(map(found.token_bytes, ids)) == spelled
    assert found.decode(ids, skip_special=False) == spelled.decode(
      'utf-8', 'replace'
    )


@pytest.mark.models
def test_gemma3():
  found = _model('gemma3-270m')
  assert found.encode(corpus.TRICKY) == [
    2, 138, 236746, 255968, 236770, 236778, 236800, 236812, 236810, 1559,
    43758, 237389, 655, 236909, 548, 236779, 3041, 111038,
  ]  # fmt: skip
  ids = (found.bos_id, found.eos_id, found.pad_id, found.unk_id)
  assert ids == (2, 1, 0, 3)
  assert found.stop_ids == (1, 106)
  assert found.vocab_size == 262_144
  assert found.chat_template is None
  for line in corpus.lines():
    ids = found.encode(line, add_special=False)
    text = line.replace('▁', ' ')
    assert found.decode(ids, skip_special=False) == text
