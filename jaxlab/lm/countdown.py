"""The game Countdown: an expression over given numbers hits a target."""

import collections
import operator
import re
from collections.abc import Sequence
from fractions import Fraction

_TOKEN = re.compile(r'\s*(?:([0-9]+)|([-+*/()]))')
_STRENGTH = {'+': 1, '-': 1, '*': 2, '/': 2}
_OPERATIONS = {
  '+': operator.add,
  '-': operator.sub,
  '*': operator.mul,
  '/': operator.truediv,
}


def solves(text: str, numbers: Sequence[int], target: float) -> bool:
  """Whether an expression uses each number once and has the target's value.

  It is read with two stacks instead of Python's parser, which runs out of
  memory on deep brackets and takes comments, `1_000` and `0x10`.

  Args:
    text: the whole text is the expression: whole numbers, binary `+ - * /` and
      brackets; no sign before a number.
    numbers: whole numbers, to be used once each.
    target: the value, compared as an exact fraction.
  """
  tokens = _tokens(text)
  if tokens is None:
    return False
  used = collections.Counter(token for token in tokens if token.isdigit())
  # As texts: of a number of many digits not even the value is computed.
  if used != collections.Counter(map(str, numbers)):
    return False
  try:
    return _value(tokens) == Fraction(target)
  except (ZeroDivisionError, _SyntaxError):
    return False


class _SyntaxError(Exception):
  pass


def _tokens(text: str) -> list[str] | None:
  text = text.strip()
  found, place = [], 0
  while place < len(text):
    match = _TOKEN.match(text, place)
    if match is None:
      return None
    found.append(match[1] or match[2])
    place = match.end()
  return found


def _value(tokens: list[str]) -> Fraction:
  values: list[Fraction] = []
  waiting: list[str] = []
  wants_operand = True
  for token in tokens:
    if wants_operand != (token.isdigit() or token == '('):
      raise _SyntaxError
    if token.isdigit():
      values.append(Fraction(int(token)))
      wants_operand = False
    elif token == '(':
      waiting.append(token)
    elif token == ')':
      _apply(values, waiting, 0)
      if not waiting:
        raise _SyntaxError
      waiting.pop()
    else:
      _apply(values, waiting, _STRENGTH[token])
      waiting.append(token)
      wants_operand = True
  _apply(values, waiting, 0)
  if wants_operand or waiting:
    raise _SyntaxError
  return values[0]


def _apply(values: list[Fraction], waiting: list[str], strength: int) -> None:
  """Does the waiting operations that bind at least as strongly."""
  while waiting and waiting[-1] != '(' and (_STRENGTH[waiting[-1]] >= strength):
    right = values.pop()
    values.append(_OPERATIONS[waiting.pop()](values[-1], right))
    del values[-2]
