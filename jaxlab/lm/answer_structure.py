"""The structure of an answer: lists, sets, intervals, relations, formulas."""

import re
from typing import NamedTuple

from jaxlab.lm import answer_formula, answer_text
from jaxlab.lm.answer_text import AnswerError, Token, split

_RELATIONS = ('=', '<', '>', '≤', '≥', '≠')
_MATRIX = re.compile(
  r'\s*\$*\s*\\begin\{([pbB]?)matrix\}(.*)\\end\{\1matrix\}\s*\$*\s*\.?\s*',
  re.DOTALL,
)


class Formula(NamedTuple):
  """A formula without relation or list.

  Attributes:
    latex: with every product and group explicit; see `answer_formula`.
    decimals: digits after the point where it is one decimal number, else None.
    exact: no number in it has a decimal point.
    unit: what is written after the value: words, a percent or degree sign.
    variable: it is one letter.
    letters: the whole formula if it is one run of letters, which may be a word.
  """

  latex: str
  decimals: int | None
  exact: bool
  unit: str
  variable: bool
  letters: str


class Words(NamedTuple):
  """An answer in words."""

  text: str


class Group(NamedTuple):
  r"""Several answers.

  Attributes:
    kind: `tuple`, in order; `set`, between `\{` and `\}`; `union` of sets;
      `interval [)` and the like, where a bracket is square; `matrix` of rows.
    items: the answers.
  """

  kind: str
  items: tuple['Answer', ...]


class Relation(NamedTuple):
  r"""A chain of relations.

  Attributes:
    signs: `=`, `<`, ... or `\in` between neighbours.
    sides: one more than there are signs.
  """

  signs: tuple[str, ...]
  sides: tuple['Answer', ...]


Answer = Formula | Words | Group | Relation


def readings(text: str) -> list[Answer]:
  """Returns what an answer may mean; two where commas may group digits.

  The first takes `1,234` for a number, the second for a pair.

  Raises:
    AnswerError: if the text is not one complete answer.
  """
  if matrix := _MATRIX.fullmatch(text):
    rows = [
      Group(
        'tuple', tuple(_read(answer_text.tokens(c)) for c in row.split('&'))
      )
      for row in re.split(r'\\\\', matrix[2].strip().removesuffix('\\\\'))
    ]
    return [Group('matrix', tuple(rows))]
  found = answer_text.tokens(text)
  joined = _join_thousands(found)
  return [_read(joined)] if joined == found else [_read(joined), _read(found)]


def _read(tokens: list[Token]) -> Answer:
  if not tokens:
    raise AnswerError('an empty answer')
  if tokens[0].text == '{' and (
    answer_text.closing(tokens, 0) == len(tokens) - 1
  ):
    return _read(tokens[1:-1])
  parts = split(tokens, ',', ';')
  if len(parts) > 1:
    return _list([_read(part) for part in parts])
  for signs in (_RELATIONS, (r'\in',)):
    parts = split(tokens, *signs)
    if len(parts) > 1:
      return _relation(tokens, parts)
  parts = split(tokens, r'\cup')
  if len(parts) > 1:
    return Group('union', tuple(_read(part) for part in parts))
  return _enclosed(tokens) or _words(tokens) or _formula(tokens)


def _list(items: list[Answer]) -> Answer:
  """`n = 1, 2` and `n = 1, n = 2` say the same: n is one of a list."""
  first = items[0]
  if isinstance(first, Relation) and is_assignment(first):
    name, values = first.sides[0], [first.sides[1]]
    for item in items[1:]:
      if isinstance(item, Relation):
        if not is_assignment(item) or item.sides[0] != name:
          break
        values.append(item.sides[1])
      else:
        values.append(item)
    else:
      mixed = {isinstance(item, Relation) for item in items[1:]}
      if len(mixed) == 1:
        return Relation(('=',), (name, Group('tuple', tuple(values))))
  return Group('tuple', tuple(items))


def is_assignment(relation: Relation) -> bool:
  """Whether a relation gives the value of one letter."""
  left = relation.sides[0]
  return (
    relation.signs in (('=',), (r'\in',))
    and isinstance(left, Formula)
    and left.variable
  )


def _relation(tokens: list[Token], parts: list[list[Token]]) -> Relation:
  depth, signs = 0, []
  for token in tokens:
    depth += answer_text.nesting(token)
    if depth == 0 and token.text in (*_RELATIONS, r'\in'):
      signs.append(token.text)
  sides = [_read(part) for part in parts]
  last = sides[-1]
  if signs == ['='] and isinstance(last, Formula) and last.variable:
    first = sides[0]
    if not (isinstance(first, Formula) and first.variable):
      sides.reverse()  # 5 = x
  return Relation(tuple(signs), tuple(sides))


def _enclosed(tokens: list[Token]) -> Answer | None:
  """A set, tuple or interval; None for anything else."""
  first = tokens[0].text
  if first not in ('(', '[', r'\{') or (
    answer_text.closing(tokens, 0) != len(tokens) - 1
  ):
    return None
  last, inner = tokens[-1].text, tokens[1:-1]
  parts = split(inner, ',', ';') if inner else []
  items = tuple(_read(part) for part in parts)
  if first == r'\{':
    return Group('set', items)
  if len(items) < 2:
    return None  # the brackets of a formula
  if first == '(' and last == ')':
    return Group('tuple', items)
  return Group(f'interval {first}{last}', items)


def _words(tokens: list[Token]) -> Words | None:
  """Words in place of a formula; letters that may be variables are none."""
  kinds = {token.kind for token in tokens}
  if kinds <= {'words', 'letters'} and (
    'words' in kinds or all(len(token.text) > 3 for token in tokens)
  ):
    return Words(' '.join(token.text for token in tokens))
  return None


def _formula(tokens: list[Token]) -> Formula:
  value, unit = _without_unit(tokens)
  numbers = [token.text for token in value if token.kind == 'number']
  signs = [token.text for token in value if token.kind != 'number']
  decimals = None
  if len(numbers) == 1 and '.' in numbers[0] and signs in ([], ['-'], ['+']):
    decimals = len(numbers[0].partition('.')[2])
  return Formula(
    latex=answer_formula.explicit(value),
    decimals=decimals,
    exact=not any('.' in number for number in numbers),
    unit=unit,
    variable=answer_formula.is_variable(value),
    letters=tokens[0].text if [t.kind for t in tokens] == ['letters'] else '',
  )


def _without_unit(tokens: list[Token]) -> tuple[list[Token], str]:
  end = len(tokens)
  power = ''
  if end > 3 and tokens[-2].text == '^' and tokens[-3].kind == 'words':
    power, end = f'^{tokens[-1].text}', end - 2
  last = tokens[end - 1]
  angle = any(token.text in answer_formula.FUNCTIONS for token in tokens)
  marks = ('%',) if angle else ('%', '°')  # sin 30° has no unit
  if end > 1 and (last.kind == 'words' or last.text in marks):
    return tokens[: end - 1], last.text + power
  return tokens, ''


def _join_thousands(tokens: list[Token]) -> list[Token]:
  """Takes out commas between groups of three digits, outside brackets."""
  found: list[Token] = []
  depth, place = 0, 0
  while place < len(tokens):
    token = tokens[place]
    depth += answer_text.nesting(token)
    if (
      depth == 0
      and token.kind == 'number'
      and re.fullmatch('[1-9][0-9]{0,2}', token.text)
    ):
      while _is_group(tokens[place + 1 : place + 3]):
        token = token._replace(text=token.text + tokens[place + 2].text)
        place += 2
        if '.' in token.text:
          break
    found.append(token)
    place += 1
  return found


def _is_group(pair: list[Token]) -> bool:
  return (
    len(pair) == 2
    and pair[0].text == ','
    and not (pair[0].spaced or pair[1].spaced)
    and re.fullmatch(r'[0-9]{3}(\.[0-9]+)?', pair[1].text) is not None
  )
