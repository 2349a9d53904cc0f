"""A formula, read as a whole, in a notation that cannot be misread.

The parser of Math-Verify (latex2sympy2) takes `2(3)` for 2 + 3, `101_2` for 101
and `f(x)` for a product or not, as the letter may be. Hence a formula is read
here first and handed over with every product, group and fraction explicit.
"""

from fractions import Fraction

from jaxlab.lm.answer_text import AnswerError, Token

PLUS_MINUS = r'\mathrm{plusminus}'
_CONSTANTS = {r'\pi': r'\pi ', r'\infty': r'\infty ', 'e': 'e', 'i': 'i'}
_INVERSE = {name: rf'\arc{name[1:]}' for name in (r'\sin', r'\cos', r'\tan')}
FUNCTIONS = (
  *_INVERSE,
  *_INVERSE.values(),
  *(r'\cot', r'\sec', r'\csc', r'\sinh', r'\cosh', r'\tanh'),
  *(r'\ln', r'\log', r'\exp'),
)
_GREEK = (
  'alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota'
  ' kappa lambda mu nu xi rho sigma tau upsilon phi varphi chi psi omega'
  ' Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell'
)
_VARIABLES = {f'\\{name}' for name in _GREEK.split()}
_TIMES = ('*', r'\cdot', r'\times')
_OVER = ('/', ':', r'\div')
_SIGNS = ('+', '-', r'\pm', r'\mp')
_PAIRS = {'(': ')', '[': ']', '{': '}'}
_ROUNDED = {r'\lfloor': r'\rfloor', r'\lceil': r'\rceil'}
_DEGREE = r'\cdot \frac{\pi }{180}'
# Words that stand for a command even without a backslash.
_PLAIN = ('sqrt', 'pi', *(name[1:] for name in FUNCTIONS))
_END = Token('end', '', False)


def explicit(tokens: list[Token]) -> str:
  """Returns a formula with all that it leaves to its reader written out.

  Raises:
    AnswerError: if the tokens are not one complete formula.
  """
  reader = _Reader(_letters(tokens))
  formula = reader.sum()
  if reader.next.kind != 'end':
    raise AnswerError(f'{reader.next.text!r} cannot be there')
  return formula


def is_variable(tokens: list[Token]) -> bool:
  """Whether a formula is one letter, with an index or without."""
  if not tokens or not (
    tokens[0].text in _VARIABLES
    or (tokens[0].kind == 'letters' and len(tokens[0].text) == 1)
  ):
    return False
  return len(tokens) == 1 or (
    tokens[1].text == '_'
    and (len(tokens) == 3 or (tokens[2].text, tokens[-1].text) == ('{', '}'))
  )


def _letters(tokens: list[Token]) -> list[Token]:
  """Splits runs of letters into variables."""
  found: list[Token] = []
  for token in tokens:
    if token.kind not in ('letters', 'words'):
      found.append(token)
    elif token.text in _PLAIN:
      found.append(Token('command', f'\\{token.text}', token.spaced))
    elif token.kind == 'words' or len(token.text) > 3:
      raise AnswerError(f'{token.text!r} is a word')
    else:
      found += [Token('letters', letter, False) for letter in token.text]
  return found


class _Reader:
  """Reads a formula from left to right; each method returns its LaTeX."""

  def __init__(self, tokens: list[Token]) -> None:
    self._tokens = [*tokens, _END]
    self._place = 0

  @property
  def next(self) -> Token:
    return self._tokens[self._place]

  def sum(self) -> str:
    formula = ''
    while not formula or self.next.text in _SIGNS:
      sign = self._take() if self.next.text in _SIGNS else ''
      term = self._product()
      if sign in (r'\pm', r'\mp'):
        term = rf'{PLUS_MINUS}\cdot {term}'
      glue = '-' if sign in ('-', r'\mp') else '+'
      formula += f'{glue}{term}' if formula or glue == '-' else term
    return formula

  def _product(self) -> str:
    product = self._power()
    while True:
      text = self.next.text
      if text in _TIMES or text in _OVER:
        self._take()
        factor = self._signed(self._power)
        product = (
          rf'\frac{{{product}}}{{{factor}}}'
          if text in _OVER
          else rf'{product}\cdot {factor}'
        )
      elif self._starts_factor():
        product = rf'{product}\cdot {self._implied()}'
      else:
        return product

  def _implied(self) -> str:
    """A factor without a sign of multiplication before it."""
    before = self._tokens[self._place - 1]
    if self.next.kind == 'number' and before.kind in ('number', 'letters'):
      raise AnswerError('two numbers without an operation')
    return self._power()

  def _signed(self, read) -> str:
    if self.next.text not in ('-', '+'):
      return read()
    sign = self._take()
    inner = self._signed(read)
    return f'(-{inner})' if sign == '-' else inner

  def _starts_factor(self) -> bool:
    token = self.next
    return (
      token.kind in ('number', 'letters')
      or token.text in _PAIRS
      or token.text in _CONSTANTS
      or token.text in _VARIABLES
      or token.text in FUNCTIONS
      or token.text in _ROUNDED
      or token.text in (r'\frac', r'\sqrt', r'\binom')
    )

  def _power(self) -> str:
    base = self._atom()
    while True:
      text = self.next.text
      if text == '^':
        self._take()
        base = f'({base})^{{{self._signed(self._exponent)}}}'
      elif text in ('!', '%', '°'):
        self._take()
        after = {'!': '!', '%': r'\cdot \frac{1}{100}', '°': _DEGREE}[text]
        base = f'({base}){after}'
        base = base if text == '!' else f'({base})'
      else:
        return base

  def _exponent(self) -> str:
    base = self._atom()
    if self.next.text == '^':  # a tower stands on its right end
      self._take()
      return f'({base})^{{{self._signed(self._exponent)}}}'
    return base

  def _atom(self) -> str:
    text = self.next.text
    readers = {
      r'\sqrt': self._root,
      '|': lambda: f'|{self._group("|")}|',
      **dict.fromkeys(_PAIRS, self._bracket),
      **dict.fromkeys(_ROUNDED, self._rounded),
      **dict.fromkeys(FUNCTIONS, self._function),
      **dict.fromkeys((r'\frac', r'\binom'), self._of_two),
      **dict.fromkeys((*_VARIABLES, *_CONSTANTS), self._variable),
    }
    if self.next.kind == 'number':
      return self._number()
    if self.next.kind == 'letters':
      return self._variable()
    if text not in readers:
      raise AnswerError(f'{text or "the end"!r} cannot be there')
    return readers[text]()

  def _bracket(self) -> str:
    return f'({self._group(_PAIRS[self.next.text])})'

  def _rounded(self) -> str:
    start = self.next.text
    end = _ROUNDED[start]
    return f'{start} {self._group(end)}{end} '

  def _of_two(self) -> str:
    name = self._take()
    return f'{name}{{{self._argument()}}}{{{self._argument()}}}'

  def _number(self) -> str:
    text = self._take()
    following = self._tokens[self._place : self._place + 3]
    if self.next.text == '_':
      self._take()
      return rf'\mathrm{{base{self._index()}digits{text}}}'.replace('.', 'p')
    if self.next.kind == 'number' and self.next.spaced and '.' not in text:
      if [t.kind for t in following[1:]] != ['sign', 'number'] or (
        following[1].text != '/'
      ):
        raise AnswerError('two numbers without an operation')
      whole, numerator = text, self._take()
      self._take()
      return rf'({whole}+\frac{{{numerator}}}{{{self._take()}}})'
    if self._is_mixed(text):
      self._take()
      parts = rf'\frac{{{self._argument()}}}{{{self._argument()}}}'
      return rf'({text}+{parts})'
    return written(text)

  def _is_mixed(self, text: str) -> bool:
    """Whether a whole number is followed by a fraction of two others."""
    if '.' in text or self.next.text != r'\frac':
      return False
    rest = self._tokens[self._place + 1 :]
    if rest[0].kind == 'number':
      return len(rest[0].text) == 2 and '.' not in rest[0].text
    six = rest[:6]
    return [t.text for t in six if t.kind != 'number'] == ['{', '}'] * 2 and [
      t.kind for t in six
    ] == ['sign', 'number', 'sign'] * 2

  def _function(self) -> str:
    name, base, power = self._take(), '', ''
    if name == r'\log' and self.next.text == '_':
      self._take()
      base = f'_{{{self._argument()}}}'
    if self.next.text == '^':
      self._take()
      power = self._signed(self._argument)
    if power.replace('(', '').replace(')', '') == '-1' and name in _INVERSE:
      name, power = _INVERSE[name], ''
    if self.next.text in ('(', '['):
      argument = self._group(_PAIRS[self.next.text])
    else:
      argument = self._run()
    value = rf'{name}{base}({argument})'
    return f'({value})^{{{power}}}' if power else f'({value})'

  def _run(self) -> str:
    """An argument without brackets: factors up to an operation or function."""
    run = self._signed(self._power)
    while (
      self._starts_factor()
      and self.next.text not in FUNCTIONS
      and self.next.text not in ('(', '[')
    ):
      run = rf'{run}\cdot {self._implied()}'
    return run

  def _root(self) -> str:
    self._take()
    degree = f'[{self._group("]")}]' if self.next.text == '[' else ''
    if self.next.text == '(':
      return rf'\sqrt{degree}{{{self._group(")")}}}'
    return rf'\sqrt{degree}{{{self._argument()}}}'

  def _variable(self) -> str:
    text = self._take()
    if self.next.text == '_':
      self._take()
      text = f'{text}sub{self._index()}'
    elif text in _CONSTANTS:
      return _CONSTANTS[text]
    return rf'\mathrm{{{text.removeprefix(chr(92))}}}'

  def _index(self) -> str:
    if self.next.text != '{':
      tokens = [self._take()]
    else:
      self._take()
      tokens = []
      while self.next.text != '}':
        tokens.append(self._take())
      self._take()
    index = ''.join(tokens).removeprefix('\\')
    if not (index.isascii() and index.isalnum()):
      raise AnswerError(f'{index!r} is no index')
    return index

  def _argument(self) -> str:
    """What a command takes: a group, or one sign as TeX has it."""
    if self.next.text == '{':
      return self._group('}')
    token = self.next
    if token.kind == 'number' and len(token.text) > 1:
      if not token.text.isdigit():
        raise AnswerError(f'{token.text!r} is split by its command')
      rest = Token('number', token.text[1:], False)
      self._tokens[self._place] = rest
      return token.text[0]
    if token.kind == 'number':
      return self._take()
    if token.kind == 'letters' or token.text in (*_VARIABLES, *_CONSTANTS):
      return self._variable()
    raise AnswerError(f'{token.text!r} cannot be an argument')

  def _group(self, end: str) -> str:
    self._take()
    inner = self.sum()
    if self.next.text != end:
      raise AnswerError(f'{end!r} is missing')
    self._take()
    return inner

  def _take(self) -> str:
    self._place += 1
    if self._place >= len(self._tokens):
      raise AnswerError('the formula breaks off')
    return self._tokens[self._place - 1].text


def written(number: str) -> str:
  """Returns digits without a point as they are, others as a fraction."""
  if number.isdigit():
    return number
  value = Fraction(number)
  return rf'(\frac{{{value.numerator}}}{{{value.denominator}}})'
