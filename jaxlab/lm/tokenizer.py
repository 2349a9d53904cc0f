"""Text to token ids and back, exactly as a model's authors do it."""

import codecs
import operator
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from jaxlab.lm import tokenizer_gguf, tokenizer_json, vocabulary


class Segmenter(Protocol):
  """What cuts a text into ids."""

  def __call__(
    self, text: str, *, add_special: bool, parse_special: bool
  ) -> list[int]: ...


class Tokenizer:
  """Text to token ids and back.

  Byte-level vocabularies give back any text unchanged, with two exceptions
  that are their authors': Qwen2 composes characters first (NFC), and SmolLM2
  has no token for six control characters (U+0004, U+0006, U+0013, U+0014,
  U+0016, U+001D), which it leaves out, and for the first byte of a character
  from U+40000 to U+BFFFF, where Unicode has none. SentencePiece vocabularies
  read a literal U+2581 as a space.

  Attributes:
    vocabulary: bytes of each id and the ids with a meaning.
  """

  def __init__(self, segment: Segmenter, known: vocabulary.Vocabulary) -> None:
    self._segment = segment
    self.vocabulary = known

  @classmethod
  def from_gguf(cls, metadata: Mapping[str, Any]) -> 'Tokenizer':
    """Tokenizer of a GGUF file.

    Args:
      metadata: keys `tokenizer.ggml.*` and `tokenizer.chat_template`; string
        arrays are lists of str, numeric ones NumPy arrays or lists.

    Raises:
      UserError: if a key is missing, keys contradict each other, or the kind
        of tokenizer is unknown.
    """
    backend, known = tokenizer_gguf.build(metadata)
    return cls(_LibrarySegmenter(backend), known)

  @classmethod
  def from_json(cls, path: str | pathlib.Path) -> 'Tokenizer':
    """Tokenizer of a Hugging Face tokenizer.json or of the folder it is in.

    Raises:
      UserError: if a file is missing or is not what its name says.
    """
    backend, known = tokenizer_json.build(pathlib.Path(path))
    return cls(_LibrarySegmenter(backend), known)

  @classmethod
  def from_characters(
    cls, alphabet: str, *, pad: str = '_', eos: str = '\n'
  ) -> 'Tokenizer':
    """One token a character, for models trained from scratch.

    Ids: 0 is `pad`, 1 is `eos`, then the alphabet in its order. Nothing is
    added to a text; one that shall end with `eos` is written with it.

    Raises:
      ValueError: if a character occurs twice.
    """
    characters = pad + eos + alphabet
    if len(pad) != 1 or len(eos) != 1:
      raise ValueError(f'pad and eos are one character, got {pad!r}, {eos!r}.')
    if len(set(characters)) != len(characters):
      raise ValueError(f'A character occurs twice in {characters!r}.')
    known = vocabulary.Vocabulary(
      pieces=tuple(char.encode() for char in characters),
      special=frozenset((0, 1)),
      eos_id=1,
      pad_id=0,
      stop_ids=(1,),
    )
    return cls(_CharacterSegmenter(characters), known)

  @property
  def vocab_size(self) -> int:
    """V; ids are in [0, V)."""
    return len(self.vocabulary.pieces)

  @property
  def bos_id(self) -> int | None:
    """First token of a text, None where the model has none."""
    return self.vocabulary.bos_id

  @property
  def eos_id(self) -> int | None:
    """Last token of a text."""
    return self.vocabulary.eos_id

  @property
  def pad_id(self) -> int | None:
    """Token that fills a row of a batch."""
    return self.vocabulary.pad_id

  @property
  def unk_id(self) -> int | None:
    """Token for what the vocabulary cannot spell."""
    return self.vocabulary.unk_id

  @property
  def stop_ids(self) -> tuple[int, ...]:
    """Ascending ids after which a model has finished: eos, end of turn."""
    return self.vocabulary.stop_ids

  @property
  def chat_template(self) -> str | None:
    """Jinja text of the model's own template; None for a base model."""
    return self.vocabulary.chat_template

  def encode(
    self, text: str, add_special: bool = True, *, parse_special: bool = True
  ) -> list[int]:
    """Ids of a text.

    Args:
      text: any text.
      add_special: adds begin and end of text where the model has them.
      parse_special: a special token that is spelled out in the text, such as
        <|im_start|>, becomes its id; False reads it as plain text.

    Raises:
      TypeError: if the text is no str.
      ValueError: if it holds half a character; names its place.
    """
    if not isinstance(text, str):
      raise TypeError(f'encode takes a str, got {text!r:.80}.')
    try:
      text.encode('utf-8')
    except UnicodeEncodeError as error:
      raise ValueError(
        f'The text holds half a character (surrogate '
        f'{text[error.start]!r}) at position {error.start}; replace it, as by '
        "text.encode('utf-8', 'replace').decode()."
      ) from None
    return self._segment(
      text, add_special=add_special, parse_special=parse_special
    )

  def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
    """Text of ids; bytes that are no UTF-8 become U+FFFD.

    Args:
      ids: ids in [0, V).
      skip_special: leaves special tokens out.

    Raises:
      TypeError: if the ids are no row of whole numbers.
      ValueError: if an id is outside [0, V); names it. If an array has not one
        axis or holds no whole numbers.
    """
    if hasattr(ids, '__array__'):  # one transfer instead of one an id
      array = np.asarray(ids)
      if array.ndim != 1 or (array.size and array.dtype.kind not in 'iu'):
        raise ValueError(
          f'decode takes one row of whole numbers, got {array.dtype} of shape '
          f'{array.shape}.'
        )
      ids = array.tolist()
    if isinstance(ids, str) or not isinstance(ids, Iterable):
      raise TypeError(f'decode takes one row of ids, got {ids!r:.80}.')
    return ''.join(self.stream(ids, skip_special))

  def stream(
    self, ids: Iterable[int], skip_special: bool = True
  ) -> Iterator[str]:
    """Text of ids as they come, never with half a character.

    Yields:
      The characters that became complete, where there are any; together what
      `decode` gives.

    Raises:
      ValueError: at an id outside [0, V); names it.
    """
    decoder = codecs.getincrementaldecoder('utf-8')('replace')
    strip = self.vocabulary.space_prefix
    for index in map(_whole, ids):
      if skip_special and index in self.vocabulary.special:
        continue
      piece = self.token_bytes(index)
      if strip and piece:
        strip, piece = False, piece.removeprefix(b' ')
      text = decoder.decode(piece)
      if text:
        yield text
    rest = decoder.decode(b'', final=True)
    if rest:
      yield rest

  def token_bytes(self, index: int) -> bytes:
    """Bytes that an id stands for; possibly a part of a character.

    Raises:
      ValueError: if the id is outside [0, V).
    """
    if not 0 <= index < self.vocab_size:
      raise ValueError(f'Token id {index} is outside [0, {self.vocab_size}).')
    return self.vocabulary.pieces[index]

  def encode_batch(
    self,
    texts: Sequence[str],
    pad_side: Literal['left', 'right'] = 'left',
    max_len: int | None = None,
    *,
    add_special: bool = True,
  ) -> tuple[np.ndarray, np.ndarray]:
    """Ids of several texts as one array, as wide as the longest text.

    Args:
      texts: B texts.
      pad_side: where shorter rows are filled; `left` for sampling.
      max_len: the most tokens a text may have.
      add_special: as in `encode`.

    Returns:
      ids: `[B, T]` int32, filled with `pad_id` (without one: eos, else 0).
      mask: `[B, T]` bool, False where filled.

    Raises:
      ValueError: if there is no text, a text is longer than `max_len`, or
        `pad_side` is neither left nor right.
    """
    if isinstance(texts, str) or not len(texts):
      raise ValueError('encode_batch needs a list of at least one text.')
    if pad_side not in ('left', 'right'):
      raise ValueError(f"pad_side is 'left' or 'right', got {pad_side!r}.")
    rows = [self.encode(text, add_special) for text in texts]
    width = max(len(row) for row in rows)
    if max_len is not None and width > max_len:
      row = next(i for i, row in enumerate(rows) if len(row) > max_len)
      raise ValueError(
        f'Text {row} has {len(rows[row])} tokens, max_len is {max_len}.'
      )
    fill = next((i for i in (self.pad_id, self.eos_id) if i is not None), 0)
    ids = np.full((len(rows), width), fill, np.int32)
    mask = np.zeros((len(rows), width), bool)
    for row, tokens in enumerate(rows):
      start = width - len(tokens) if pad_side == 'left' else 0
      ids[row, start : start + len(tokens)] = tokens
      mask[row, start : start + len(tokens)] = True
    return ids, mask


def _whole(index: Any) -> int:
  try:
    return operator.index(index)
  except TypeError:
    raise TypeError(
      f'A token id is a whole number, got {index!r:.80}.'
    ) from None


class _LibrarySegmenter:
  """Cuts a text with the library `tokenizers`."""

  def __init__(self, backend) -> None:
    self._backend = backend

  def __call__(
    self, text: str, *, add_special: bool, parse_special: bool
  ) -> list[int]:
    self._backend.encode_special_tokens = not parse_special
    return self._backend.encode(text, add_special_tokens=add_special).ids


class _CharacterSegmenter:
  """Looks characters up."""

  def __init__(self, characters: str) -> None:
    self._ids = {char: i for i, char in enumerate(characters)}

  def __call__(
    self, text: str, *, add_special: bool, parse_special: bool
  ) -> list[int]:
    del add_special, parse_special  # pad and eos have no other spelling
    try:
      return [self._ids[char] for char in text]
    except KeyError as error:
      raise ValueError(
        f'Character {error} is not in the alphabet {"".join(self._ids)!r}.'
      ) from None
