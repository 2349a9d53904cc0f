"""Texts that take tokenizers apart: many scripts, odd spaces, code, specials.

Only `random.Random.random` is used, whose sequence Python promises to keep.
"""

import hashlib
import random
from collections.abc import Callable, Sequence

TRICKY = '  a\t12345 é 你好 <|im_start|>'
LINES = 2_000
BLOCK = 100

# First and last code point of what is drawn from.
SCRIPTS = {
  'ascii': (0x21, 0x7E),
  'latin': (0xC0, 0x24F),
  'greek': (0x391, 0x3C9),
  'cyrillic': (0x410, 0x44F),
  'hebrew': (0x5D0, 0x5EA),
  'arabic': (0x621, 0x64A),
  'devanagari': (0x905, 0x939),
  'thai': (0xE01, 0xE2E),
  'georgian': (0x10D0, 0x10F0),
  'hangul': (0xAC00, 0xD7A3),
  'kana': (0x3041, 0x30FE),
  'han': (0x4E00, 0x9FA5),
  'ethiopic': (0x1200, 0x1248),
  'mathematics': (0x2200, 0x22FF),
  'boxes': (0x2500, 0x259F),
  'gothic': (0x10330, 0x1034A),
  'emoji': (0x1F300, 0x1F64F),
  'private': (0xE000, 0xE0FF),
}
SPACES = (' ', '  ', '\t', '\n', '\r\n', '\u00a0', '\u3000', '\u200b', '\v')
COMBINING = ('\u0301', '\u0308', '\u0327', '\u20d7', '\u0e34', '\u093f')
CONTROLS = tuple(chr(code) for code in (*range(1, 32), 0x7F, 0x85, 0xFEFF))
JOINED = (
  '👩‍👩‍👧‍👦',
  '🏳️‍🌈',
  '👍🏽',
  '🇫🇷',
  '1️⃣',
  'é',
  'e\u0301',
  'Å',
  '\u212b',
  'ﬁ',
  '①',
  '½',
  '٣',
)
WORDS = (
  "don't",
  "we'll",
  "I'VE",
  "they're",
  "it's",
  'the',
  'of',
  'and',
  'Hello',
  'world',
  'tokenization',
  'internationalization',
  'naïve',
  'Straße',
  '東京',
  'Москва',
  '서울',
  'i̇stanbul',
  'supercalifragilistic',
)
SPECIALS = (
  '<|im_start|>',
  '<|im_end|>',
  '<|endoftext|>',
  '<start_of_turn>',
  '<bos>',
  '<end_of_turn>',
  '<eos>',
  '<unk>',
  '<0x0A>',
  '<table>',
  '</table>',
  '▁',
  '▁▁',
  '<|eot_id|>',
  '<s>',
  '</s>',
  '[INST]',
  '<unused7>',
  '<|im_star',
  '<h1>',
)
CODE = (
  'def f(x):\n    return x**2 + 1\n',
  'for (int i = 0; i < n; ++i) {\n\t\ta[i] += b[i];\n\t}\n',
  '{"key": [1, 2.50, -3e-7], "b": null}',
  "SELECT * FROM t WHERE a >= 10 AND b != 'x';",
  '#include <vector>\r\n\r\nint main() { return 0x1F; }',
  '<p class="a">&nbsp;text</p>',
  r'\frac{1}{2}\sum_{i=1}^{n} x_i^2 = \boxed{42}',
  'https://example.org/a_b-c?d=1&e=%20#f',
)


def _pick(rng: random.Random, options: Sequence[str]) -> str:
  return options[int(rng.random() * len(options))]


def _count(rng: random.Random, low: int, high: int) -> int:
  return low + int(rng.random() * (high - low + 1))


def _letters(rng: random.Random) -> str:
  low, high = SCRIPTS[_pick(rng, tuple(SCRIPTS))]
  return ''.join(chr(_count(rng, low, high)) for _ in range(_count(rng, 1, 12)))


def _blank(rng: random.Random) -> str:
  return _pick(rng, SPACES) * _count(rng, 1, _pick(rng, (1, 1, 2, 8, 40)))


def _number(rng: random.Random) -> str:
  digits = ''.join(_pick(rng, '0123456789') for _ in range(_count(rng, 1, 9)))
  return _pick(rng, ('', '-', '$', '0.')) + digits + _pick(rng, ('', '%', ',0'))


def _accented(rng: random.Random) -> str:
  return ''.join(char + _pick(rng, COMBINING) for char in _letters(rng)[:4])


def _any_character(rng: random.Random) -> str:
  code = int(rng.random() * (0x110000 - 0x800))
  return chr(code if code < 0xD800 else code + 0x800)


PARTS: tuple[Callable[[random.Random], str], ...] = (
  _letters,
  _letters,
  _blank,
  _blank,
  _number,
  _accented,
  _any_character,
  lambda rng: _pick(rng, CONTROLS),
  lambda rng: _pick(rng, JOINED),
  lambda rng: _pick(rng, WORDS),
  lambda rng: _pick(rng, WORDS) + ' ' + _pick(rng, WORDS) + ', ',
  lambda rng: _pick(rng, SPECIALS),
  lambda rng: _pick(rng, CODE),
)


def lines(seed: int = 0, count: int = LINES) -> list[str]:
  """Texts of mixed parts; the first ones are TRICKY, '' and single blanks."""
  rng = random.Random(seed)
  texts = [TRICKY, '', ' ', '\n', '\t', '▁', *(' ' * n for n in range(2, 70))]
  while len(texts) < count:
    texts.append(
      ''.join(
        PARTS[int(rng.random() * len(PARTS))](rng)
        for _ in range(_count(rng, 1, 12))
      )
    )
  return texts[:count]


def digests(rows: Sequence[Sequence[int]]) -> list[str]:
  """First 12 hex digits of the SHA-256 of the ids of each block of lines."""
  found = []
  for start in range(0, len(rows), BLOCK):
    text = '\n'.join(
      ' '.join(map(str, row)) for row in rows[start : start + BLOCK]
    )
    found.append(hashlib.sha256(text.encode()).hexdigest()[:12])
  return found
