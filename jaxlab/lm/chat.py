"""Chat messages to the text a model was trained on."""

import datetime
import functools
import json
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Never

import jinja2
from jinja2 import ext, nodes, sandbox, visitor

from jaxlab import errors

# Turns between <|im_start|> and <|im_end|>, with no system turn of its own.
CHATML = """\
{% for turn in messages %}
{{- '<|im_start|>' ~ turn['role'] ~ '\\n' ~ turn['content'] ~ '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""

# Gemma's turns: the assistant is `model`, and a system message, for which the
# model has no turn, stands before the text of the first user.
GEMMA = """\
{{- bos_token }}
{%- set first = messages[0]['role'] == 'system' %}
{%- for turn in (messages[1:] if first else messages) %}
  {%- set expected = 'assistant' if loop.index0 % 2 else 'user' %}
  {%- if turn['role'] != expected %}
    {{- raise_exception('user and assistant must take turns, the user first, '
        ~ 'got ' ~ turn['role']) }}
  {%- endif %}
  {{- '<start_of_turn>' ~ {'assistant': 'model'}.get(expected, expected) }}
  {{- '\\n' }}
  {%- if first and loop.first %}
    {{- messages[0]['content'] ~ '\\n\\n' }}
  {%- endif %}
  {{- turn['content'] | trim ~ '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\\n' }}{% endif %}"""

MAX_STEPS = 100_000  # of all loops and calls of one rendering together
MAX_LENGTH = 10_000_000  # characters, of joined texts and of the result


def render(
  messages: Sequence[Mapping[str, Any]],
  template: str | None,
  add_generation_prompt: bool = True,
  **variables: Any,
) -> str:
  """Text of a conversation by a model's template.

  Templates run sandboxed, since they come with files from elsewhere: no access
  to Python's internals, no changes of what they are given, a bounded number of
  steps and length of texts.

  Args:
    messages: dictionaries with `role` and `content`.
    template: Jinja text, as in `Tokenizer.chat_template`.
    add_generation_prompt: ends with the begin of the assistant's answer.
    **variables: what else the template uses: bos_token, eos_token, tools.

  Raises:
    UserError: if there is no template, it is wrong, forbidden or refuses the
      messages (with its line), or a message is malformed (with its number).
  """
  source = choose_template(template)
  _check_messages(messages)
  try:
    env, program = _compile(source)
    env.steps = 0
    chunks = program.generate(
      messages=[dict(message) for message in messages],
      add_generation_prompt=add_generation_prompt,
      **variables,
    )
    text = ''
    for chunk in chunks:
      text += chunk
      _check_length(len(text))
  except Exception as error:  # templates are programs: they raise anything
    raise errors.UserError(_describe(error, source)) from error
  return text


def choose_template(own: str | None, template: str | None = None) -> str:
  """The given template if there is one, else the model's own.

  Args:
    own: `Tokenizer.chat_template`; None for a base model.
    template: Jinja text that takes precedence.

  Raises:
    UserError: if there is neither.
  """
  chosen = own if template is None else template
  if chosen is None:
    raise errors.UserError(
      'This model has no chat template (a base model): pass '
      'template=chat.CHATML, chat.GEMMA or the Jinja text of its family.'
    )
  return chosen


class _Refused(jinja2.TemplateError):
  """A template refuses the messages."""


class _Generation(ext.Extension):
  """The block `generation`, which only marks the assistant's part."""

  tags = {'generation'}  # noqa: RUF012 (as the base class has it)

  def parse(self, parser) -> nodes.Node | list[nodes.Node]:
    next(parser.stream)
    return parser.parse_statements(('name:endgeneration',), drop_needle=True)


class _Bounds(visitor.NodeTransformer):
  """Sends loops and joined texts through filters that count."""

  def visit_For(self, node: nodes.For) -> nodes.Node:
    self.generic_visit(node)
    node.iter = _filtered(node.iter, 'counted')
    return node

  def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
    self.generic_visit(node)
    return _filtered(nodes.List(node.nodes, lineno=node.lineno), 'joined')


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
  return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)


class _Sandbox(sandbox.ImmutableSandboxedEnvironment):
  """A sandbox that fails at once, and neither runs nor grows without end."""

  intercepted_binops = frozenset(('+', '*', '**'))

  def __init__(self) -> None:
    super().__init__(
      trim_blocks=True,
      lstrip_blocks=True,
      extensions=['jinja2.ext.loopcontrols', _Generation],
    )
    self.steps = 0
    self.globals |= {
      'raise_exception': _raise_exception,
      'strftime_now': lambda form: datetime.datetime.now().strftime(form),
    }
    self.filters |= {
      'tojson': _to_json,
      'counted': self._counted,
      'joined': self._joined,
    }

  def _parse(
    self, source: str, name: str | None, filename: str | None
  ) -> nodes.Template:
    tree = _Bounds().visit(super()._parse(source, name, filename))
    return tree.set_environment(self)

  def _step(self) -> None:
    self.steps += 1
    if self.steps > MAX_STEPS:
      raise sandbox.SecurityError(f'more than {MAX_STEPS} loop steps or calls')

  def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
      self._step()
      yield value

  def _joined(self, values: Iterable[Any]) -> str:
    texts = [str(value) for value in values]
    _check_length(sum(map(len, texts)))
    return ''.join(texts)

  def call(self, context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    self._step()
    return super().call(context, function, *args, **kwargs)

  def unsafe_undefined(self, obj: Any, attribute: str) -> Never:
    raise sandbox.SecurityError(
      f"access to '{attribute}' of a {type(obj).__name__} is forbidden"
    )

  def call_binop(self, context, operator: str, left: Any, right: Any) -> Any:
    if operator == '+':
      _check_length(_length(left) + _length(right))
    elif operator == '*':
      for value, times in ((left, right), (right, left)):
        if isinstance(times, int):
          _check_length(_length(value) * times)
    elif isinstance(left, int) and isinstance(right, int):
      _check_length(left.bit_length() * right)
    return super().call_binop(context, operator, left, right)


def _length(value: Any) -> int:
  return len(value) if isinstance(value, str | list | tuple) else 0


def _check_length(length: int) -> None:
  if length > MAX_LENGTH:
    raise sandbox.SecurityError(f'a value longer than {MAX_LENGTH}')


@functools.lru_cache(maxsize=16)
def _compile(source: str) -> tuple[_Sandbox, jinja2.Template]:
  env = _Sandbox()
  return env, env.from_string(source)


def _raise_exception(message: str) -> Never:
  raise _Refused(message)


def _to_json(
  value: Any,
  ensure_ascii: bool = False,
  indent: int | None = None,
  separators: tuple[str, str] | None = None,
  sort_keys: bool = False,
) -> str:
  """JSON without Jinja's escapes for HTML."""
  return json.dumps(
    value,
    ensure_ascii=ensure_ascii,
    indent=indent,
    separators=separators,
    sort_keys=sort_keys,
  )


def _check_messages(messages: Sequence[Mapping[str, Any]]) -> None:
  if isinstance(messages, str | Mapping) or not len(messages):
    raise errors.UserError(
      'messages is a list of at least one dictionary with role and content.'
    )
  for i, message in enumerate(messages):
    if not isinstance(message, Mapping):
      raise errors.UserError(
        f'Message {i} is a {type(message).__name__}, not a dictionary with '
        'role and content.'
      )
    for key, kinds in (('role', str), ('content', str | list)):
      if not isinstance(message.get(key), kinds):
        raise errors.UserError(
          f"Message {i} needs '{key}' as text, got {message.get(key)!r}."
        )


def _describe(error: Exception, source: str) -> str:
  """One line: what went wrong, and the line of the template."""
  number = _line(error)
  reason = ' '.join(str(error).split()) or type(error).__name__
  if number is None:
    return f'Chat template: {reason}'
  lines = source.splitlines()
  line = lines[number - 1].strip() if number <= len(lines) else ''
  shown = line if len(line) <= 80 else line[:77] + '...'
  return f'Chat template, line {number}: {reason} (in: {shown})'


def _line(error: Exception) -> int | None:
  """The innermost line of the template that the error passed through."""
  if isinstance(error, jinja2.TemplateSyntaxError):
    return error.lineno
  number = None
  trace: types.TracebackType | None = error.__traceback__
  while trace is not None:
    if trace.tb_frame.f_code.co_filename == '<template>':
      number = trace.tb_lineno
    trace = trace.tb_next
  return number
