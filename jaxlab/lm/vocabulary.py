"""What a tokenizer knows of its ids, whatever file it came from."""

import dataclasses
import types
from collections.abc import Iterable, Sequence

from jaxlab import errors

# Special tokens that end a turn or a text, whichever a file names as `eos`.
ENDS = (
  '<|im_end|>',
  '<|endoftext|>',
  '<end_of_turn>',
  '<eos>',
  '<|eot_id|>',
  '<|eom_id|>',
  '<|end_of_text|>',
  '<|end|>',
  '</s>',
)

SPACE = '\u2581'  # SentencePiece's visible space


@dataclasses.dataclass(frozen=True)
class Vocabulary:
  """The bytes behind every id, and the ids with a meaning.

  Attributes:
    pieces: length V, what each id stands for in a text; `b''` for an id that
      no token has.
    special: ids that `decode` leaves out, such as <|im_start|>.
    bos_id: first token of a text, None where the model has none.
    eos_id: last token of a text.
    pad_id: fills a row of a batch.
    unk_id: stands for what the vocabulary cannot spell.
    stop_ids: ascending; after one of them a model has finished.
    chat_template: Jinja text of the model's own template.
    space_prefix: whether the encoder puts a space in front of a text, which
      `decode` takes away again.
  """

  pieces: Sequence[bytes]
  special: frozenset[int]
  bos_id: int | None = None
  eos_id: int | None = None
  pad_id: int | None = None
  unk_id: int | None = None
  stop_ids: tuple[int, ...] = ()
  chat_template: str | None = None
  space_prefix: bool = False


def find_stop_ids(
  eos_id: int | None, special: Iterable[tuple[str, int]]
) -> tuple[int, ...]:
  """Ids after which a model has finished, ascending.

  Args:
    eos_id: the file's own end, if it has one.
    special: text and id of every special token.
  """
  stops = {index for text, index in special if text in ENDS}
  return tuple(sorted(stops if eos_id is None else stops | {eos_id}))


def byte_alphabet() -> dict[str, int]:
  """Byte of each character in which byte-level BPE writes its tokens.

  GPT-2's table (Radford et al. 2019): printable Latin-1 stands for itself, the
  other bytes take the characters from U+0100 on.
  """
  printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
  others = [byte for byte in range(256) if byte not in set(printable)]
  table = {chr(byte): byte for byte in printable}
  return table | {chr(0x100 + i): byte for i, byte in enumerate(others)}


def byte_level_piece(token: str, alphabet: dict[str, int]) -> bytes:
  """Bytes of a token of byte-level BPE that is not an added one."""
  try:
    return bytes(alphabet[char] for char in token)
  except KeyError:
    return token.encode('utf-8', 'replace')


def fallback_byte(token: str) -> int | None:
  """Byte that a token like <0x0A> stands for, None for any other token."""
  if len(token) == 6 and token.startswith('<0x') and token.endswith('>'):
    try:
      return int(token[3:5], 16)
    except ValueError:
      return None
  return None


def sentencepiece_piece(token: str, *, is_byte: bool) -> bytes:
  """Bytes of a token of a SentencePiece vocabulary."""
  byte = fallback_byte(token) if is_byte else None
  if byte is not None:
    return bytes([byte])
  return token.replace(SPACE, ' ').encode('utf-8', 'replace')


def library() -> types.ModuleType:
  """The library `tokenizers`, loaded when the first tokenizer is built.

  Raises:
    UserError: if it is not installed.
  """
  try:
    import tokenizers  # noqa: PLC0415
  except ImportError as error:
    raise errors.UserError(
      "Tokenizers need the package tokenizers: pip install 'jaxlab[lm]'"
    ) from error
  return tokenizers
