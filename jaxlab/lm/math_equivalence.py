"""Whether two mathematical answers are equal, without a limit of time.

The rules are those of `rewards.math_equiv`. Formulas go through the parser of
Math-Verify and are compared as numbers: exactly where they are rational, else
to 50 digits at random positive points, and symbolically where that cannot
decide.
"""

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

from jaxlab import errors
from jaxlab.lm import answer_formula
from jaxlab.lm.answer_structure import (
  Answer,
  Formula,
  Group,
  Relation,
  Words,
  is_assignment,
  readings,
)
from jaxlab.lm.answer_text import AnswerError

_DIGITS = 50
_BITS = 200  # what holds the digits above
_MOST_DIGITS = 400  # of intermediate results
_POINTS = 5
_RELATIVE = Fraction(1, 10**9)
# An answer with a decimal point is exact or wrong: what 50 digits can tell. So
# is a relation, in whose sides a small number would drown: x = 2^-98.
_EXACT = Fraction(1, 10**35)
# Where digits cancel, less than this is left of a true zero.
_TINY = 40
_MOST_BITS = 200_000
_FLIPPED = {'>': '<', '≥': '≤'}


def equivalent(text: str, gold: str) -> bool:
  """Whether an answer is the right one; not symmetric, as to decimals.

  Raises:
    UserError: if Math-Verify is not installed.
  """
  _parser()
  try:
    given, right = readings(text), readings(gold)
  except (AnswerError, RecursionError):
    return False
  return any(_safely(_same, a, b) for a, b in itertools.product(given, right))


def _safely(check: Callable[..., bool], *arguments: Any) -> bool:
  """Whether a check holds; not where the parser or SymPy gives up."""
  try:
    return bool(check(*arguments))
  except errors.UserError:
    raise
  except Exception:  # of many kinds, none of which says anything here
    return False


def _same(given: Answer, right: Answer) -> bool:
  if isinstance(given, Relation) or isinstance(right, Relation):
    return _same_relation(given, right)
  if isinstance(given, Formula) and isinstance(right, Formula):
    return _same_formula(given, right)
  if isinstance(given, Words) or isinstance(right, Words):
    return _in_words(given) == _in_words(right) != ''
  if isinstance(given, Group) and isinstance(right, Group):
    return (
      given.kind == right.kind
      and _may_pair(given, right)
      and (
        _same_set(given.items, right.items)
        if given.kind in ('set', 'union')
        else _same_list(given.items, right.items)
      )
    )
  return False


def _in_words(answer: Answer) -> str:
  """Returns the text of words, and of letters that could also be variables."""
  if isinstance(answer, Words):
    return answer.text
  return answer.letters if isinstance(answer, Formula) else ''


def _may_pair(given: Group, right: Group) -> bool:
  """A list of `x = 1` against one of bare values: of one variable only."""
  named = [
    any(isinstance(x, Relation) for x in g.items) for g in (given, right)
  ]
  variables = _variables(given) | _variables(right)
  return named[0] == named[1] or len(variables) == 1


def _same_list(given: Iterable[Answer], right: Iterable[Answer]) -> bool:
  given, right = tuple(given), tuple(right)
  return len(given) == len(right) and all(map(_same, given, right))


def _same_set(given: Iterable[Answer], right: Iterable[Answer]) -> bool:
  given, right = tuple(given), tuple(right)
  return all(any(_same(a, b) for b in right) for a in given) and all(
    any(_same(a, b) for a in given) for b in right
  )


def _same_relation(given: Answer, right: Answer) -> bool:
  if not isinstance(given, Relation):
    value = _value_of_one_letter(right)
    return value is not None and _same(given, value)
  if not isinstance(right, Relation):
    value = _value_of_one_letter(given)
    return value is not None and _same(value, right)
  if (
    is_assignment(given)
    and given.signs == right.signs
    and given.sides[0] == right.sides[0]
    and _safely(_same, given.sides[1], right.sides[1])
  ):
    return True
  return _same_chain(given, right)


def _value_of_one_letter(answer: Answer) -> Answer | None:
  """Returns 5 for `x = 5`, None for what has another variable or form."""
  if not isinstance(answer, Relation) or not is_assignment(answer):
    return None
  return answer.sides[1] if len(_variables(answer)) == 1 else None


def _same_chain(given: Relation, right: Relation) -> bool:
  """Whether the relations between neighbours are the same, in any order."""
  links, wanted = _links(given), _links(right)
  return all(any(_same_link(a, b) for b in wanted) for a in links) and all(
    any(_same_link(a, b) for a in links) for b in wanted
  )


def _links(relation: Relation) -> list[tuple[str, Any]]:
  """Returns `difference sign 0` for each sign, with `>` turned round."""
  found = []
  for place, sign in enumerate(relation.signs):
    left, right = relation.sides[place : place + 2]
    if not (isinstance(left, Formula) and isinstance(right, Formula)):
      raise AnswerError('a relation between lists')
    if sign in _FLIPPED:
      left, right = right, left
    difference = _parsed(left.latex) - _parsed(right.latex)
    found.append((_FLIPPED.get(sign, sign), difference))
  return found


def _same_link(given: tuple[str, Any], right: tuple[str, Any]) -> bool:
  """Whether differences are equal up to a factor, positive where it matters."""
  sign, difference = given
  if sign != right[0] or sign == r'\in':
    return False
  symbols = difference.free_symbols | right[1].free_symbols
  if difference.free_symbols != right[1].free_symbols:
    return False
  ratios = []
  for point in _points(symbols):
    a, b = _value(difference, point), _value(right[1], point)
    if a is None or b is None or 0 in (a, b):
      return _is_zero(difference - right[1])
    ratios.append(a / b)
  directed = sign not in ('=', '≠')
  if directed and any(ratio.imag != 0 or ratio.real <= 0 for ratio in ratios):
    return False
  return all(_close(ratio, ratios[0], _EXACT) for ratio in ratios)


def _same_formula(given: Formula, right: Formula) -> bool:
  if given.unit and right.unit and given.unit != right.unit:
    return False
  if _same_value(given, right):
    return True
  # One per cent is also a hundredth, and one degree a part of pi.
  scaled = [_with_unit(given), _with_unit(right)]
  return scaled != [given, right] and _same_value(*scaled)


def _with_unit(formula: Formula) -> Formula:
  factors = {'%': r'\frac{1}{100}', '°': r'\frac{\pi }{180}'}
  if formula.unit not in factors:
    return formula
  latex = rf'({formula.latex})\cdot {factors[formula.unit]}'
  decimals = formula.decimals
  if decimals is not None:
    decimals = decimals + 2 if formula.unit == '%' else None
  return formula._replace(latex=latex, decimals=decimals)


def _same_value(given: Formula, right: Formula) -> bool:
  if given.latex == right.latex:
    return True
  marks = [answer_formula.PLUS_MINUS in f.latex for f in (given, right)]
  if any(marks):
    return all(marks) and _same_both_signs(given.latex, right.latex)
  a, b = _parsed(given.latex), _parsed(right.latex)
  exact, wanted = _rational(a), _rational(b)
  if exact is not None and wanted is not None:
    if right.decimals is not None and given.exact:
      return abs(exact - wanted) <= Fraction(1, 2 * 10**right.decimals)
    return exact == wanted
  plain = given.exact and right.exact
  return _equal(a, b, _RELATIVE if plain else _EXACT)


def _same_both_signs(given: str, right: str) -> bool:
  """Whether two formulas with plus-minus have the same two values."""
  mark = answer_formula.PLUS_MINUS
  signs = ('1', '(-1)')
  a, b = ([_parsed(f.replace(mark, s)) for s in signs] for f in (given, right))
  return any(
    all(_equal(x, y, _RELATIVE) for x, y in zip(a, order, strict=True))
    for order in (b, b[::-1])
  )


def _equal(a: Any, b: Any, tolerance: Fraction) -> bool:
  """Whether two expressions agree at random positive points."""
  if a == b:
    return True
  for point in _points(a.free_symbols | b.free_symbols):
    x, y = _value(a, point), _value(b, point)
    if x is None or y is None:
      return _is_zero(a - b)
    if not _close(x, y, tolerance):
      # Zero has no relative error: what is left of a sum that cancels.
      tiny = max(abs(x), abs(y)) < 10.0**-_TINY
      return bool(tiny) and _is_zero(a - b)
  return True


def _close(x: Any, y: Any, tolerance: Fraction) -> bool:
  """Whether two numbers agree to a tolerance relative to the larger one."""
  bound = max(abs(x), abs(y)) * tolerance.numerator / tolerance.denominator
  return bool(abs(x - y) <= bound)


def _points(symbols: set[Any]) -> list[dict[Any, Any]]:
  """Returns seeded random positive points, always the same for one set."""
  import sympy  # noqa: PLC0415 (takes a second)

  if not symbols:
    return [{}]
  draw = random.Random(0)
  names = sorted(symbols, key=str)
  return [
    {
      name: sympy.Rational(draw.randint(10**5, 4 * 10**6), 10**6)
      for name in names
    }
    for _ in range(_POINTS)
  ]


def _value(expression: Any, point: dict[Any, Any]) -> Any:
  """Returns a complex number of mpmath, None where there is no finite one."""
  number = expression.evalf(_DIGITS, subs=point, maxn=_MOST_DIGITS)
  parts = number.as_real_imag()
  if not all(part.is_Float or part.is_Rational for part in parts):
    return None
  context = _context()
  value = context.mpc(
    *(context.make_mpf(part._as_mpf_val(_BITS)) for part in parts)
  )
  return value if context.isfinite(value) else None


@functools.cache
def _context() -> Any:
  """Numbers of a precision of their own, not of the one that all share."""
  import mpmath  # noqa: PLC0415 (comes with SymPy)

  context = mpmath.MPContext()
  context.prec = _BITS
  return context


def _is_zero(difference: Any) -> bool:
  import sympy  # noqa: PLC0415 (takes a second)

  return sympy.simplify(difference.doit()) == 0


def _rational(expression: Any) -> Fraction | None:
  """Returns the exact value of an expression of fractions, else None."""
  if expression.is_Rational:
    return Fraction(int(expression.p), int(expression.q))
  parts = []
  for argument in expression.args:
    part = _rational(argument)
    if part is None:
      return None
    parts.append(part)
  if expression.is_Add:
    return sum(parts, Fraction())
  if expression.is_Mul:
    return math.prod(parts, start=Fraction(1))
  return _power(*parts) if expression.is_Pow else None


def _power(base: Fraction, exponent: Fraction) -> Fraction | None:
  size = max(base.numerator.bit_length(), base.denominator.bit_length())
  if exponent.denominator > 1 or size * abs(exponent) > _MOST_BITS:
    return None
  return base ** int(exponent) if base or exponent > 0 else None


def _variables(answer: Answer) -> set[Any]:
  if isinstance(answer, Formula):
    latex = answer.latex.replace(answer_formula.PLUS_MINUS, '1')
    return _parsed(latex).free_symbols
  parts = answer.sides if isinstance(answer, Relation) else ()
  parts = answer.items if isinstance(answer, Group) else parts
  return set().union(*map(_variables, parts))


@functools.lru_cache(maxsize=1024)
def _parsed(latex: str) -> Any:
  """Returns the expression of an explicit formula, its symbols positive."""
  import sympy  # noqa: PLC0415 (takes a second)

  expression = _parser()(latex)
  if not isinstance(expression, sympy.Expr):
    raise AnswerError('a formula that has no value')
  return expression.xreplace(
    {
      symbol: sympy.I
      if symbol.name == 'i'
      else sympy.Symbol(symbol.name, positive=True)
      for symbol in expression.free_symbols
    }
  )


def _parser() -> Callable[[str], Any]:
  try:
    from latex2sympy2_extended import latex2sympy2  # noqa: PLC0415
  except ImportError as error:
    raise errors.UserError(
      'rewards of mathematics need the package math-verify: pip install'
      " 'jaxlab[lm]'"
    ) from error
  config = latex2sympy2.ConversionConfig(
    interpret_as_mixed_fractions=False, lowercase_symbols=False
  )
  return lambda latex: latex2sympy2.latex2sympy(
    latex, normalization_config=None, conversion_config=config
  )
