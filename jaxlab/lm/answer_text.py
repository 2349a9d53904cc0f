"""LaTeX of mathematical answers: spellings made one, and tokens.

Whatever is not known here is an error: an answer is read as a whole or not at
all, so that no number is ever fished out of a formula.
"""

import re
from fractions import Fraction
from typing import NamedTuple

# Longer answers are no answers, and would only cost time.
_LONGEST = 4000

_UNICODE = {
  '\u2212': '-',
  '\u2013': '-',
  '\u00d7': r'\times ',
  '\u00f7': r'\div ',
  '\u00b7': r'\cdot ',
  '\u22c5': r'\cdot ',
  '\u00b1': r'\pm ',
  '\u2213': r'\mp ',
  '\u03c0': r'\pi ',
  '\u221e': r'\infty ',
  '\u2264': r'\le ',
  '\u2265': r'\ge ',
  '\u2260': r'\ne ',
  '\u00b0': r'^\circ ',
  '\u222a': r'\cup ',
  '\u2208': r'\in ',
  '\u2205': r'\emptyset ',
  '\u211d': r'\mathbb{R}',
  '\u00a0': ' ',
}
_SPELLINGS = (
  (r'\\\$|\$|\\displaystyle(?![a-zA-Z])|\\[()\[\]]', ''),
  (r'\\(?:left|right|[bB]igg?[lr]?)(?=[^a-zA-Z]|\\)', ''),
  (r'\\boxed(?=\s*\{)', ''),
  (r'\\[dtc]frac(?![a-zA-Z])', r'\\frac'),
  (r'\\[dt]binom(?![a-zA-Z])', r'\\binom'),
  (r'\\le(?:q|qslant)?(?![a-zA-Z])', '≤'),
  (r'\\ge(?:q|qslant)?(?![a-zA-Z])', '≥'),
  (r'\\(?:ne|neq)(?![a-zA-Z])', '≠'),
  (r'\\lt(?![a-zA-Z])', '<'),
  (r'\\gt(?![a-zA-Z])', '>'),
  (r'<=', '≤'),
  (r'>=', '≥'),
  (r'!=', '≠'),
  (r'\\lbrace(?![a-zA-Z])', r'\\{'),
  (r'\\rbrace(?![a-zA-Z])', r'\\}'),
  (r'\\[lr]?vert(?![a-zA-Z])', '|'),
  (r'\\(?:varnothing|emptyset)(?![a-zA-Z])', r'\\{\\}'),
  (r'\\mathbb\s*\{?R\}?', r'(-\\infty,\\infty)'),
  (r'(?<=\d)(?:\{,\}|,?\\[,!:;])(?=\d{3}(?!\d))', ''),
  (r'\\(?:text|mathrm|mbox)\s*\{\s*([a-zA-Z])\s*\}', r'{\1}'),
  (r'\\(?:text|mathrm|mbox)\s*\{\s*(?:or|and)\s*\}', ','),
  (r'(?<![a-zA-Z\\])(?:or|and)(?![a-zA-Z])', ','),
  (r'√\s*(\d+|[a-zA-Z])', r'\\sqrt{\1}'),
  (r'√', r'\\sqrt '),
  (r'\\%', '%'),
  (r'\^\s*(?:\\circ(?![a-zA-Z])|\{\s*\\circ\s*\})', '°'),
  (r'\\[,;:! ]|\\q?quad(?![a-zA-Z])|~', ' '),
)
_SPELLING = tuple((re.compile(old), new) for old, new in _SPELLINGS)
_REPEATING = re.compile(
  r'([0-9]{0,99})\.([0-9]{0,99})\\overline\s*\{([0-9]{1,99})\}'
)
_TOKEN = re.compile(
  r'(?P<space>\s+)|(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)'
  r'|(?P<words>\\(?:text|mathrm|mbox)\s*\{[^{}\\]*\})'
  r'|(?P<command>\\[a-zA-Z]+|\\[{}\\])|(?P<letters>[a-zA-Z]+)'
  r'|(?P<sign>[-+*/^_=<>≤≥≠(){}\[\],;:!|%°&])'
)
_OPEN = ('(', '[', '{', '\\{')
_CLOSE = (')', ']', '}', '\\}')


class AnswerError(ValueError):
  """A text is not one complete answer in the notation that is read here."""


class Token(NamedTuple):
  """One sign of an answer.

  Attributes:
    kind: number, words, command, letters or sign.
    text: as it is written; of words what the braces hold.
    spaced: there is white space before it.
  """

  kind: str
  text: str
  spaced: bool


def tokens(text: str) -> list[Token]:
  """Splits an answer into tokens, with one spelling for each thing.

  Raises:
    AnswerError: if a sign is unknown or the answer is too long.
  """
  if len(text) > _LONGEST:
    raise AnswerError(f'an answer of {len(text)} signs')
  for old, new in _UNICODE.items():
    text = text.replace(old, new)
  text = _REPEATING.sub(_repeating, text)
  for pattern, spelling in _SPELLING:
    text = pattern.sub(spelling, text)
  # A full stop after the answer is the sentence's.
  text = text.strip().removesuffix('.').rstrip()
  found, place, spaced = [], 0, False
  while place < len(text):
    match = _TOKEN.match(text, place)
    if match is None:
      raise AnswerError(f'{text[place]!r} is unknown')
    kind, place = str(match.lastgroup), match.end()
    if kind != 'space':
      found.append(Token(kind, _content(kind, match[0]), spaced))
    spaced = kind == 'space'
  _check_brackets(found)
  return found


def closing(all_tokens: list[Token], start: int) -> int:
  """Returns the place of the bracket that closes the one at `start`."""
  depth = 0
  for place in range(start, len(all_tokens)):
    depth += nesting(all_tokens[place])
    if depth == 0:
      return place
  raise AnswerError('a bracket is left open')


def nesting(token: Token) -> int:
  """Returns 1 for an opening bracket, -1 for a closing one, else 0."""
  return (token.text in _OPEN and token.kind != 'words') - (
    token.text in _CLOSE and token.kind != 'words'
  )


def split(all_tokens: list[Token], *separators: str) -> list[list[Token]]:
  """Splits tokens at separators that are outside all brackets."""
  parts: list[list[Token]] = [[]]
  depth = 0
  for token in all_tokens:
    depth += nesting(token)
    if depth == 0 and token.kind != 'words' and token.text in separators:
      parts.append([])
    else:
      parts[-1].append(token)
  return parts


def _repeating(match: re.Match[str]) -> str:
  """A decimal whose last digits repeat for ever, as a fraction."""
  whole, once, again = match.groups()
  shift = 10 ** len(once)
  value = Fraction(int(f'{whole or 0}{once}'), shift)
  value += Fraction(int(again), shift * (10 ** len(again) - 1))
  return rf'(\frac{{{value.numerator}}}{{{value.denominator}}})'


def _content(kind: str, text: str) -> str:
  if kind != 'words':
    return text
  return ' '.join(text[text.index('{') + 1 : -1].split())


def _check_brackets(found: list[Token]) -> None:
  """Brackets pair up; `[` and `(` may, as in half-open intervals."""
  opened: list[str] = []
  for token in found:
    step = nesting(token)
    if step > 0:
      opened.append(token.text)
    elif step < 0:
      first = opened.pop() if opened else ''
      round_ones = first in ('(', '[') and token.text in (')', ']')
      if not round_ones and (first, token.text) not in (
        ('{', '}'),
        ('\\{', '\\}'),
      ):
        raise AnswerError('brackets do not pair up')
  if opened:
    raise AnswerError('a bracket is left open')
