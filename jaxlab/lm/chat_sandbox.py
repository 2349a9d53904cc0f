"""A Jinja sandbox in which templates neither run nor grow without end.

Jinja's own keeps templates from Python's internals. Templates come with files
from elsewhere, though, and one line of them can ask for more memory than there
is, in one call that nothing interrupts. So whatever makes a value longer is
checked before it is done: operators, methods of texts, filters, and the
writing of lists in lists, which share their parts in memory but not as text.
"""

import datetime
import functools
import json
import re
from collections.abc import (
  Callable,
  ItemsView,
  Iterable,
  Iterator,
  KeysView,
  Mapping,
  ValuesView,
)
from typing import Any, Never

import jinja2
from jinja2 import ext, filters, nodes, sandbox, utils, visitor

MAX_STEPS = 100_000  # of all loops and calls of one rendering together
MAX_LENGTH = 10_000_000  # characters of a text, or entries of a list
MAX_TOTAL = 30 * MAX_LENGTH  # of all that one rendering makes
MAX_ENTRIES = 1_000_000  # of lists that are written, sorted, mapped
MAX_BITS = 20_000  # of a whole number; Python writes no more digits
_CALL = 4  # entries that take as long as one call of a filter
_MOST_INDENT = 1000
_MOST_DECIMALS = 300

# Of markup for the web, and quadratic or longer by what they are told to add.
_LEFT_OUT = ('pprint', 'striptags', 'urlize', 'wordwrap')
# Filters that turn a value that is no text into one.
_TEXT = {
  'capitalize', 'center', 'e', 'escape', 'forceescape', 'format', 'indent',
  'lower', 'replace', 'safe', 'string', 'title', 'trim', 'truncate', 'upper',
  'urlencode', 'wordcount', 'xmlattr',
}  # fmt: skip
# Filters that do something in Python for every entry.
_ENTRIES = {
  'batch', 'groupby', 'map', 'max', 'min', 'reject', 'rejectattr', 'select',
  'selectattr', 'sort', 'sum', 'unique',
}  # fmt: skip
_LISTS = (list, tuple, set, frozenset, KeysView, ValuesView, ItemsView)
_TO_A_WIDTH = ('center', 'ljust', 'rjust', 'zfill', 'to_bytes')
_DIRECTIVE = re.compile(r'%(?:\([^()]*\))?[^%A-Za-z]*')
_NESTED_KEY = re.compile(r'%\([^()]*\(')
_DIGITS = re.compile(r'[0-9]+')


class Refused(jinja2.TemplateError):
  """A template refuses the messages."""


class _Generation(ext.Extension):
  """The block `generation`, which only marks the assistant's part."""

  tags = {'generation'}  # noqa: RUF012 (as the base class has it)

  def parse(self, parser) -> nodes.Node | list[nodes.Node]:
    next(parser.stream)
    return parser.parse_statements(('name:endgeneration',), drop_needle=True)


class _Bounds(visitor.NodeTransformer):
  """Sends loops, joined texts and new lists through filters that count."""

  def visit_For(self, node: nodes.For) -> nodes.Node:
    self.generic_visit(node)
    node.iter = _filtered(node.iter, 'counted')
    return node

  def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
    self.generic_visit(node)
    return _filtered(nodes.List(node.nodes, lineno=node.lineno), 'joined')

  def visit_List(self, node: nodes.List) -> nodes.Node:
    self.generic_visit(node)
    return _filtered(node, 'built')

  def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
    self.generic_visit(node)
    return _filtered(node, 'built')

  def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
    self.generic_visit(node)
    return _filtered(node, 'built') if node.ctx == 'load' else node


def _filtered(node: Any, name: str) -> nodes.Filter:
  return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class Sandbox(sandbox.ImmutableSandboxedEnvironment):
  """A sandbox that fails at once, and neither runs nor grows without end."""

  intercepted_binops = frozenset(('+', '*', '**', '%'))

  def __init__(self) -> None:
    super().__init__(
      trim_blocks=True,
      lstrip_blocks=True,
      extensions=['jinja2.ext.loopcontrols', _Generation],
      finalize=self._finalize,
    )
    self.restart()
    del self.globals['lipsum']
    self.globals |= {
      'raise_exception': self._raise_exception,
      'strftime_now': lambda form: datetime.datetime.now().strftime(form),
    }
    self.filters |= {'join': self._join, 'tojson': self._to_json}
    for name in _LEFT_OUT:
      del self.filters[name]
    for name, function in self.filters.items():
      self.filters[name] = self._bounded(name, function)
    self.filters |= {
      'built': self._built,
      'counted': self._counted,
      'joined': self._joined,
    }

  def restart(self) -> None:
    """Counts from the begin: for one rendering."""
    self.steps = self.entries = self.total = 0

  def allow(self, length: int) -> None:
    """Refuses a value that is too long, alone or with those before it."""
    self.check_length(length)
    self.total += length
    if self.total > MAX_TOTAL:
      raise sandbox.SecurityError(f'values longer than {MAX_TOTAL} together')

  def check_length(self, length: int) -> None:
    """Refuses one value that is too long."""
    if length > MAX_LENGTH:
      raise sandbox.SecurityError(f'a value longer than {MAX_LENGTH}')

  def _parse(
    self, source: str, name: str | None, filename: str | None
  ) -> nodes.Template:
    tree = _Bounds().visit(super()._parse(source, name, filename))
    return tree.set_environment(self)

  def _step(self) -> None:
    self.steps += 1
    if self.steps > MAX_STEPS:
      raise sandbox.SecurityError(f'more than {MAX_STEPS} loop steps or calls')

  def _count(self, entries: int) -> None:
    self.entries += entries
    if self.entries > MAX_ENTRIES:
      raise sandbox.SecurityError(f'more than {MAX_ENTRIES} entries of lists')

  def _measure(self, value: Any) -> int:
    """Characters of a value as text, roughly; counts the entries in it."""
    length, waiting = 0, [value]
    while waiting:
      part = waiting.pop()
      if isinstance(part, utils.Namespace):
        part = object.__getattribute__(part, '_Namespace__attrs')
      if isinstance(part, Mapping):
        self._count(2 * len(part))
        waiting += part.keys()
        waiting += part.values()
      elif isinstance(part, _LISTS):
        self._count(len(part))
        waiting += part
      length += len(part) if isinstance(part, str | bytes) else 4
    return length

  def _text(self, value: Any) -> str:
    if not isinstance(value, str):
      self.allow(self._measure(value))
    return str(value)

  def _finalize(self, value: Any) -> Any:
    if not isinstance(value, str):
      self.allow(self._measure(value))
    return value

  def _built(self, value: Any) -> Any:
    self._measure(value)
    return value

  def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
      self._step()
      yield value

  def _mapped(self, values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
      self._count(_CALL)
      yield value

  def _joined(self, values: Iterable[Any], separator: str = '') -> str:
    parts = list(values)
    lengths = sum(map(self._measure, parts))
    self.allow(lengths + len(separator) * len(parts))
    return separator.join(map(str, parts))

  def _join(
    self,
    value: Iterable[Any],
    d: str = '',
    attribute: str | int | None = None,
  ) -> str:
    """Jinja's filter `join`."""
    values: Iterable[Any] = self._mapped(value)
    if attribute is not None:
      values = map(filters.make_attrgetter(self, attribute), values)
    return self._joined(values, self._text(d))

  def _raise_exception(self, message: Any) -> Never:
    raise Refused(self._text(message))

  def _to_json(
    self,
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
  ) -> str:
    """JSON without Jinja's escapes for HTML."""
    if indent is not None and _size(indent) > _MOST_INDENT:
      raise sandbox.SecurityError(f'an indent wider than {_MOST_INDENT}')
    before = self.entries
    length = self._measure(value)
    between = sum(map(_size, separators or ()))
    self.allow(length + between * (self.entries - before))
    encoder = json.JSONEncoder(
      ensure_ascii=ensure_ascii,
      indent=indent,
      separators=separators,
      sort_keys=sort_keys,
    )
    length, parts = 0, []
    for part in encoder.iterencode(value):
      length += len(part)
      self.check_length(length)
      parts.append(part)
    return ''.join(parts)

  def _bounded(self, name: str, function: Callable) -> Callable:
    """A filter whose arguments and result are checked."""
    place = int(hasattr(function, 'jinja_pass_arg'))

    @functools.wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
      value, rest = args[place], [*args[place + 1 :], *kwargs.values()]
      self._check_filter(name, value, rest)
      if name in _ENTRIES and value:
        value = self._mapped(value)
      result = function(*args[:place], value, *args[place + 1 :], **kwargs)
      self.allow(_length(result) if result is not value else 0)
      return result

    return bounded

  def _check_filter(self, name: str, value: Any, rest: list[Any]) -> None:
    if name in _TEXT:
      for part in (value, *rest):
        self._finalize(part)
    widest = max(map(_size, rest), default=0)
    if name in ('batch', 'center', 'slice'):
      self.allow(widest)
    elif name == 'format':
      keywords = any(isinstance(part, Mapping) for part in rest)
      self._check_directives(str(value), rest, keywords=keywords)
    elif name == 'indent':
      self.allow(max(widest, 4) * (str(value).count('\n') + 1))
    elif name == 'replace':
      self._check_replaced(str(value), [str(part) for part in rest])
    elif name == 'round' and widest > _MOST_DECIMALS:
      raise sandbox.SecurityError(f'more than {_MOST_DECIMALS} decimals')
    elif name == 'sum' and isinstance(value, list | tuple):
      # Lists are added one by one, each time to a new one.
      self.allow(len(value) * sum(map(_length, value)))

  def _check_replaced(self, text: Any, parts: list[Any]) -> None:
    if len(parts) >= 2:
      self.allow(len(text) + text.count(parts[0]) * len(parts[1]))

  def _check_directives(
    self, form: str | bytes, values: Any, *, keywords: bool
  ) -> None:
    """Bounds the length of `form % values`."""
    shown = form if isinstance(form, str) else form.decode('latin-1')
    # Brackets in a key are for a parser: then all digits count as a width.
    nested = _NESTED_KEY.search(shown)
    pieces = [shown] if nested else _DIRECTIVE.findall(shown)
    widths = sum(int(run) for piece in pieces for run in _DIGITS.findall(piece))
    entries = list(values) if isinstance(values, list | tuple) else [values]
    if any('*' in piece for piece in pieces):
      widths += sum(_size(entry) for entry in entries)
    again = shown.count('%') if keywords or '%(' in shown else 1
    self.allow(len(shown) + widths + again * self._measure(entries))

  def _check_method(self, name: str, owner: Any, args: list[Any]) -> None:
    """Refuses a method of a text or number with a result that is too long."""
    widest = max(map(_size, args), default=0)
    if name in _TO_A_WIDTH:
      self.allow(widest)
    elif name == 'expandtabs':
      self.allow(len(owner) * max(widest, 8))
    elif name == 'replace':
      self._check_replaced(owner, args)
    elif name == 'translate':
      raise sandbox.SecurityError(f"'{name}' of a text is forbidden")

  def call(self, context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    self._step()
    owner: Any = getattr(function, '__self__', None)
    if isinstance(owner, str | bytes | int):
      self._check_method(function.__name__, owner, [*args, *kwargs.values()])
      if function.__name__ == 'join' and args:
        parts = list(self._mapped(args[0]))
        self.allow(sum(map(_length, parts)) + _length(owner) * len(parts))
        args = (parts, *args[1:])
    result = super().call(context, function, *args, **kwargs)
    if function is dict:
      self._measure(result)
    return result

  def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
    if super().wrap_str_format(value) is None:
      return None

    def wrapped(*args: Any, **kwargs: Any) -> str:
      if value.__name__ == 'format_map':
        (kwargs,), args = args, ()
      return _Formatter(self).vformat(value.__self__, args, kwargs)

    return wrapped

  def unsafe_undefined(self, obj: Any, attribute: str) -> Never:
    raise sandbox.SecurityError(
      f"access to '{attribute}' of a {type(obj).__name__} is forbidden"
    )

  def call_binop(self, context, operator: str, left: Any, right: Any) -> Any:
    if operator == '+':
      self.allow(_length(left) + _length(right))
    elif operator == '%' and isinstance(left, str | bytes):
      self._check_directives(left, right, keywords=isinstance(right, Mapping))
    elif operator == '*':
      for value, times in ((left, right), (right, left)):
        if isinstance(times, int):
          self.allow(_length(value) * max(times, 0))
      if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    elif operator == '**' and isinstance(left, int) and isinstance(right, int):
      _check_bits(left.bit_length() * right)
    return super().call_binop(context, operator, left, right)


class _Formatter(sandbox.SandboxedFormatter):
  """`str.format` that checks every field before it is written."""

  def __init__(self, env: Sandbox) -> None:
    super().__init__(env)
    self._sandbox = env
    self._length = 0

  def convert_field(self, value: Any, conversion: Any) -> Any:
    self._allow(self._sandbox._measure(value))
    return super().convert_field(value, conversion)

  def format_field(self, value: Any, format_spec: str) -> str:
    self._allow(sum(map(int, _DIGITS.findall(format_spec))))
    return super().format_field(value, format_spec)

  def _allow(self, length: int) -> None:
    self._length += length
    self._sandbox.check_length(self._length)
    self._sandbox.allow(length)


def _length(value: Any) -> int:
  return len(value) if isinstance(value, str | bytes | list | tuple) else 0


def _size(value: Any) -> int:
  """The width that an argument gives, as a number or as what is put in."""
  return abs(value) if isinstance(value, int) else _length(value)


def _check_bits(bits: int) -> None:
  if bits > MAX_BITS:
    raise sandbox.SecurityError(f'a value longer than {MAX_BITS} bits')
