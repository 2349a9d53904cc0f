"""Rendered conversations, and templates that mean harm."""

import concurrent.futures
import json
import resource
import time

import pytest

from jaxlab import errors
from jaxlab.lm import chat

USER = [{'role': 'user', 'content': ' Hi "é" \n'}]
TURNS = [
  {'role': 'system', 'content': 'Be brief'},
  {'role': 'user', 'content': 'Hi'},
  {'role': 'assistant', 'content': ' Hello '},
  {'role': 'user', 'content': '2+2?'},
]


def test_chatml():
  assert chat.render(TURNS, chat.CHATML) == (
    '<|im_start|>system\nBe brief<|im_end|>\n'
    '<|im_start|>user\nHi<|im_end|>\n'
    '<|im_start|>assistant\n Hello <|im_end|>\n'
    '<|im_start|>user\n2+2?<|im_end|>\n'
    '<|im_start|>assistant\n'
  )
  assert chat.render(USER, chat.CHATML, add_generation_prompt=False) == (
    '<|im_start|>user\n Hi "é" \n<|im_end|>\n'
  )


def test_gemma():
  """Texts of the template in Gemma 3's own tokenizer_config.json."""
  assert chat.render(TURNS, chat.GEMMA, bos_token='<bos>') == (
    '<bos><start_of_turn>user\nBe brief\n\nHi<end_of_turn>\n'
    '<start_of_turn>model\nHello<end_of_turn>\n'
    '<start_of_turn>user\n2+2?<end_of_turn>\n'
    '<start_of_turn>model\n'
  )
  assert chat.render(USER, chat.GEMMA, False, bos_token='') == (
    '<start_of_turn>user\nHi "é"<end_of_turn>\n'
  )
  with pytest.raises(errors.UserError, match='got assistant'):
    chat.render(TURNS[2:], chat.GEMMA)


def test_blocks_leave_no_white_space():
  template = (
    '{% if true %}\n  {% for m in messages %}\nx\n  {% endfor %}\n{% endif %}\n'
  )
  assert chat.render(TURNS, template) == 'x\n' * 4


def test_functions_of_published_templates():
  template = (
    "{{ messages | tojson }}{{ {'b': 1, 'a': '<'} | tojson(indent=1) }}"
  )
  assert chat.render(USER, template) == json.dumps(
    USER, ensure_ascii=False
  ) + json.dumps({'b': 1, 'a': '<'}, indent=1)
  loop = (
    '{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}'
    '{% endfor %}'
  )
  assert chat.render(USER, loop) == '01'
  year = chat.render(USER, "{{ strftime_now('%Y') }}")
  assert 2024 < int(year) < 3000
  marked = '{% generation %}{{ messages[0].role }}{% endgeneration %}'
  assert chat.render(USER, marked) == 'user'
  told = '{{ bos_token ~ tools[0] ~ none ~ missing }}'
  assert chat.render(USER, told, bos_token='<s>', tools=[7]) == '<s>7None'


def test_loops_keep_their_variables():
  template = (
    '{% for m in messages %}{{ loop.index }}/{{ loop.length }}'
    '{% if loop.last %}!{% endif %}{% endfor %}'
    '{% for m in none_such %}{% else %}empty{% endfor %}'
    '{% for k, v in {"a": 1}.items() if v %}{{ k }}{{ v }}{% endfor %}'
  )
  assert chat.render(TURNS, template) == '1/42/43/44/4!emptya1'


@pytest.mark.parametrize(
  ('template', 'match'),
  [
    ("{{ ''.__class__.__mro__ }}", "access to '__class__' of a str"),
    ("{{ ''.__class__ }}", "access to '__class__' of a str"),
    ("{{ ''['__class__'] }}", "access to '__class__' of a str"),
    ("{{ ''|attr('__class__') }}", "access to '__class__' of a str"),
    ("{{ '{0.__class__}'.format('') }}", "access to '__class__' of a str"),
    ('{{ cycler.__init__.__globals__ }}', "access to '__init__'"),
    ('{{ messages.append(1) }}', "access to 'append' of a list"),
    ('{% for i in range(10**9) %}{% endfor %}', 'Range too big'),
    (
      '{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}'
      '{% endfor %}',
      'more than 100000 loop steps',
    ),
    (
      '{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}'
      '{% endmacro %}{{ f(60) }}',
      'more than 100000 loop steps or calls',
    ),
    ('{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}', 'recursion depth'),
    ("{{ 'a' * 10**9 }}", 'a value longer than'),
    ('{{ 10**(10**9) }}', 'a value longer than'),
    (
      "{% set n = namespace(s='a') %}{% for i in range(60) %}"
      '{% set n.s = n.s + n.s %}{% endfor %}',
      'a value longer than',
    ),
    (
      "{% set n = namespace(s='a') %}{% for i in range(60) %}"
      '{% set n.s = n.s ~ n.s %}{% endfor %}',
      'a value longer than',
    ),
    ("{% for i in range(999) %}{{ 'a' * 99999 }}{% endfor %}", 'longer than'),
    ("{% include 'file' %}", 'no loader'),
  ],
)
def test_attacks_are_one_line_errors(template, match):
  with pytest.raises(errors.UserError, match=match) as caught:
    chat.render(USER, template)
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
  ('template', 'match'),
  [
    ('a\n\n{% if %}', r'line 3: Expected an expression.*\(in: {% if %}\)'),
    ('a\n{{ x.y }}', r"line 2: 'x' is undefined \(in: {{ x.y }}\)"),
    ("{{ raise_exception('no\nway') }}", 'line 1: no way'),
    ('\n{{ 1 / 0 }}', 'line 2: division by zero'),
    ('{% for m in messages %}', 'line 1: Unexpected end of template'),
  ],
)
def test_errors_carry_the_line(template, match):
  with pytest.raises(errors.UserError, match=match) as caught:
    chat.render(USER, template)
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
  ('messages', 'match'),
  [
    ([], 'at least one'),
    ('Hi', 'at least one'),
    ({'role': 'user', 'content': 'Hi'}, 'at least one'),
    (['Hi'], 'Message 0 is a str'),
    ([*USER, {'role': 'user'}], "Message 1 needs 'content' .* got None"),
    ([{'role': 1, 'content': 'Hi'}], "Message 0 needs 'role' .* got 1"),
  ],
)
def test_malformed_messages(messages, match):
  with pytest.raises(errors.UserError, match=match):
    chat.render(messages, chat.CHATML)


def test_base_models_have_no_template():
  with pytest.raises(errors.UserError, match=r'pass template=chat\.CHATML'):
    chat.render(USER, None)
  assert chat.choose_template('own') == 'own'
  assert chat.choose_template('own', chat.CHATML) == chat.CHATML
  assert chat.choose_template(None, chat.GEMMA) == chat.GEMMA


def test_messages_stay_as_they_were():
  before = json.dumps(TURNS)
  template = "{% set x = messages[0] %}{{ x.update({'role': 'a'}) }}"
  with pytest.raises(errors.UserError, match="access to 'update'"):
    chat.render(TURNS, template)
  assert json.dumps(TURNS) == before


NESTED = (
  '{% set n = namespace(x=[1]) %}{% for i in range(40) %}'
  '{% set n.x = [n.x, n.x] %}{% endfor %}'
)


def _sixty(value, start="'a'"):
  return (
    f'{{% set n = namespace(x={start}) %}}{{% for i in range(60) %}}'
    f'{{% set n.x = {value} %}}{{% endfor %}}'
  )


EXHAUSTING = [
  NESTED + '{{ n.x }}',
  NESTED + '{{ n.x | tojson }}',
  NESTED + '{{ n.x == n.x }}',
  _sixty('dict(a=n.x, b=n.x)', '{}') + '{{ n.x }}',
  _sixty('namespace(a=n.x, b=n.x)', 'namespace()') + '{{ n.x }}',
  _sixty('n.x * n.x', '3'),
  _sixty('n.x ** 2', '3'),
  _sixty('[n.x, n.x] | join'),
  _sixty("''.join([n.x, n.x])"),
  _sixty("n.x | replace('a', 'aa')"),
  _sixty("n.x.replace('a', 'aa')"),
  _sixty("'%s%s' % (n.x, n.x)"),
  _sixty("'{0}{0}'.format(n.x)"),
  _sixty('[n.x, n.x] | sum(start=[])', '[1]'),
  "{{ '%03000000000d' % 1 }}",
  "{{ '%*d' % (3000000000, 1) }}",
  "{{ '%((a))03000000000d' % {'(a)': 1} }}",
  "{{ '%03000000000d' | format(1) }}",
  "{{ '{:>3000000000}'.format('a') }}",
  "{{ '{:>{w}}'.format('a', w=3 * 10**9) }}",
  "{{ '{a:>3000000000}'.format_map({'a': 1}) }}",
  *(
    f"{{{{ 'a'.{method}(3 * 10**9) }}}}"
    for method in ('center', 'ljust', 'rjust', 'zfill', 'expandtabs')
  ),
  "{{ (1).to_bytes(10**10, 'big') }}",
  "{{ 'a'.translate({97: 'aa'}) }}",
  "{{ 'a' | center(10**9) }}",
  "{{ 'a\nb' | indent(10**9) }}",
  '{{ [1] | tojson(indent=10**9) }}',
  '{{ [1] | batch(10**9, 0) | list }}',
  "{{ 1.5 | round(10**9, 'ceil') }}",
  '{{ lipsum(n=10**5) }}',
  "{% for i in range(999) %}{{ range(99999) | map('abs') | list | length }}"
  '{% endfor %}',
]


def _most_memory():
  """Kilobytes this process has held at most."""
  return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


@pytest.mark.parametrize('template', EXHAUSTING)
def test_templates_that_exhaust_time_or_memory(template):
  start, before = time.monotonic(), _most_memory()
  with pytest.raises(
    errors.UserError,
    match=r'longer than|more than|wider than|forbidden|undefined',
  ) as caught:
    chat.render(USER, template)
  assert '\n' not in str(caught.value)
  assert _most_memory() - before < 100_000
  assert time.monotonic() - start < 5  # about one where nothing else runs


@pytest.mark.parametrize(
  ('template', 'text'),
  [
    ("{{ '%s is %05.1f%%' % ('x', 2.5) }}", 'x is 002.5%'),
    ("{{ '%(a)s 20240101' | format(a=1) }}", '1 20240101'),
    ("{{ '%s 20240101' | format('on') }}", 'on 20240101'),
    ("{{ '{:>4}{!r}'.format(1, 'a') }}", "   1'a'"),
    ("{{ '{a}'.format_map({'a': 1}) }}", '1'),
    ("{{ 'a'.center(5) }}{{ 'b' | center(3) }}", '  a   b '),
    ("{{ 'a\nb' | indent(2) }}", 'a\n  b'),
    ("{{ ['a', 1] | join(', ') }}", 'a, 1'),
    ("{{ messages | join('', attribute='role') }}", 'user'),
    ("{{ ','.join(messages | map(attribute='role')) }}", 'user'),
    ("{{ none_such | map('upper') | join }}", ''),
    (
      "{{ [3, 1] | sort }}{{ [1, 2] | sum }}{{ [1.26] | map('round', 1) | "
      'first }}',
      '[1, 3]31.3',
    ),
    ("{{ 'aXb'.replace('X', '') | replace('a', 'A') }}", 'Ab'),
    ("{{ (1, 'a') }}{{ {'a': [1]} }}{{ 2 ** 10 }}", "(1, 'a'){'a': [1]}1024"),
    ('{% for a, b in [(1, 2)] %}{{ b }}{% endfor %}', '2'),
    (
      "{{ {'a': [1, {}]} | tojson(indent=2, separators=(',', ':')) }}",
      '{\n  "a":[\n    1,\n    {}\n  ]\n}',
    ),
    (
      "{% set a, b = 'x', 'y' %}{{ b in ['y'] }}{{ 'q' is in ['q'] }}",
      'TrueTrue',
    ),
    ("{{ 'x y'.split(' ') | last }}{{ ' a ' | trim }}", 'ya'),
  ],
)
def test_what_is_counted_stays_the_same(template, text):
  assert chat.render(USER, template) == text


def test_steps_are_counted_for_each_thread_alone():
  """Together the renderings make more steps than one may."""
  template = '{% for i in range(60000) %}{% endfor %}{{ messages[0].content }}'

  def rendered(number):
    return chat.render([{'role': 'user', 'content': str(number)}], template)

  with concurrent.futures.ThreadPoolExecutor(4) as threads:
    found = list(threads.map(rendered, range(8)))
  assert found == [str(number) for number in range(8)]
