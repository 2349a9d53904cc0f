"""Chat messages to the text a model was trained on."""

import functools
import threading
import types
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from jaxlab import errors
from jaxlab.lm import chat_sandbox

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
    env, program = _compile(source, threading.get_ident())
    env.restart()
    chunks = program.generate(
      messages=[dict(message) for message in messages],
      add_generation_prompt=add_generation_prompt,
      **variables,
    )
    length, texts = 0, []
    for chunk in chunks:
      length += len(chunk)
      env.check_length(length)
      texts.append(chunk)
  except Exception as error:  # templates are programs: they raise anything
    raise errors.UserError(_describe(error, source)) from error
  return ''.join(texts)


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


@functools.lru_cache(maxsize=16)
def _compile(
  source: str, thread: int
) -> tuple[chat_sandbox.Sandbox, jinja2.Template]:
  """Compiles a template, for each thread anew: a sandbox counts one's steps."""
  del thread
  env = chat_sandbox.Sandbox()
  return env, env.from_string(source)


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
