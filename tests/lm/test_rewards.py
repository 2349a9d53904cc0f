"""Rewards: golden cases, and the edges of every rule by hand."""

import concurrent.futures
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from fractions import Fraction

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.lm import answer_worker, math_equivalence, rewards
from tests import golden

KINDS = tuple(rewards.REWARDS)
HANGS = r'\sin(9^{9^{9^{9}}})', '5'


@pytest.mark.parametrize('case', golden.Golden('lm_stack').parameters(*KINDS))
def test_golden_case(case):
  reward = rewards.REWARDS[case['kind']](**case['inputs'])
  assert reward == case['expected']['reward']
  assert isinstance(reward, float)


@pytest.mark.parametrize(
  ('text', 'gold', 'right'),
  [
    ('57', '57', 1),
    (' 57\n', '57', 1),
    ('057', '57', 0),
    ('57.', '57', 0),
    ('\u0665\u0667', '\u0665\u0667', 0),
    ('9' * 5000, '9' * 5000, 1),
  ],
)
def test_addition(text, gold, right):
  assert rewards.addition(text, gold) == right


@pytest.mark.parametrize(
  ('text', 'gold', 'right'),
  [
    ('$1,234.50', '1234.5', 1),
    ('50%', '50', 1),
    ('12.', '12', 1),
    ('12..', '12', 0),
    ('3/4', '0.75', 1),
    ('-3/4', '-.75', 1),
    ('\u22125', '-5', 1),
    ('1/0', '0', 0),
    ('1e3', '1000', 1),
    ('1e999999999', '1', 0),
    ('1_000', '1000', 0),
    ('nan', 'nan', 0),
    ('inf', 'inf', 0),
    ('', '0', 0),
    ('1.000001', '1', 1),
    ('1.0000011', '1', 0),
    ('0.000000001', '0', 1),
    ('0.0000000011', '0', 0),
    ('9' * 3000, '9' * 3000, 1),
    ('5 apples', '5', 0),
  ],
)
def test_numeric(text, gold, right):
  assert rewards.numeric(text, gold) == right


@pytest.mark.parametrize('sign', [' ', '*', ' *', '\n'])
def test_multiple_choice_takes_linear_time(sign):
  many = sign * 100_000
  for text, right in (
    (f'answer{many}', 0),
    (f'answer{many}x', 0),
    (f'answer{many}is{many}:{many}A', 1),
  ):
    start = time.monotonic()
    assert rewards.multiple_choice(text, 'A') == right
    assert time.monotonic() - start < 0.5


def test_golds_may_be_numbers():
  assert rewards.addition('3', 3) == 1
  assert rewards.addition('4', 3) == 0
  assert rewards.numeric('0.5', 0.5) == 1
  assert rewards.numeric('1/3', Fraction(1, 3)) == 1
  assert rewards.numeric('5', math.nan) == 0
  assert rewards.gsm8k('#### 1,000', np.int64(1000)) == 1
  assert rewards.math_equiv(r'\frac{6}{2}', 3) == 1
  assert rewards.boxed_math(r'\boxed{4}', 3) == 0
  for name in ('addition', 'numeric', 'gsm8k', 'math_equiv'):
    for gold in (None, True, ['3']):
      with pytest.raises(ValueError, match='gold is a str or a number, got'):
        rewards.REWARDS[name]('3', gold)
  for name in ('exact_match', 'multiple_choice'):
    with pytest.raises(ValueError, match='gold is a str, got 3'):
      rewards.REWARDS[name]('A', 3)


def test_wrong_tolerances_and_timeouts(monkeypatch):
  for wrong in (math.nan, math.inf, -1, None):
    with pytest.raises(ValueError, match=f'rel_tol={wrong}'):
      rewards.numeric('1', '1', rel_tol=wrong)
    with pytest.raises(ValueError, match=f'abs_tol={wrong}'):
      rewards.numeric('1', '1', abs_tol=wrong)
  monkeypatch.setattr(answer_worker, 'check', None)  # no worker is touched
  for wrong in (math.nan, math.inf, 0, -1, None):
    with pytest.raises(ValueError, match=f'timeout={wrong} must be'):
      rewards.math_equiv('1', '1', timeout=wrong)
    with pytest.raises(ValueError, match=f'timeout={wrong} must be'):
      rewards.boxed_math('no box', '1', timeout=wrong)
    with pytest.raises(ValueError, match=f'timeout={wrong} must be'):
      rewards.score_batch('math_equiv', [], [], timeout=wrong)


@pytest.mark.parametrize(
  ('numbers', 'target', 'match'),
  [
    ([1], math.nan, 'target nan is not a finite'),
    ([1], math.inf, 'target inf is not a finite'),
    ([1], None, 'target None is not a finite'),
    ([10**5000], 1, 'more than 3,900 digits'),
    ('12', 3, "whole numbers, got '12'"),
    ([1.5], 3, 'whole numbers, got'),
    (1, 1, 'whole numbers, got 1'),
  ],
)
def test_wrong_countdowns(numbers, target, match):
  with pytest.raises(ValueError, match=match):
    rewards.countdown('1', numbers, target)


def test_numeric_tolerances():
  assert rewards.numeric('101', '100', rel_tol=0.01) == 1
  assert rewards.numeric('102', '100', rel_tol=0.01) == 0
  assert rewards.numeric('102', '100', rel_tol=0, abs_tol=2) == 1


@pytest.mark.parametrize(
  ('text', 'gold', 'right'),
  [
    ('so\n#### 3', '3', 1),
    ('####3.', '3', 1),
    ('#### 3\nand more', '3', 0),
    ('#### 3.0000001', '3', 0),
    ('#### 1/2', '0.5', 1),
    ('####', '3', 0),
    ('### 3', '3', 0),
    ('#### x', 'x', 0),
  ],
)
def test_gsm8k(text, gold, right):
  assert rewards.gsm8k(text, gold) == right


@pytest.mark.parametrize(
  ('text', 'gold', 'right'),
  [
    ('The answer is **B**.', 'B', 1),
    ('**Answer:** B', 'B', 1),
    ('answer [C]', 'C', 1),
    ('Answer: $D$', 'D', 1),
    ('The answer is A. No: the answer is D', 'D', 1),
    ('The answer is A. No: the answer is D', 'A', 0),
    ('Answer: C. The answer is unclear, A or B', 'C', 1),
    ('The answer is a number', 'A', 0),
    ('(B)', 'B', 1),
    ('B or rather B', 'B', 1),
    ('A or B', 'A', 0),
    ('Answer: BC', 'B', 0),
    ("A's option is vitamin-B", 'B', 0),
    ('Answer: E', 'E', 0),
    ('', 'A', 0),
  ],
)
def test_multiple_choice(text, gold, right):
  assert rewards.multiple_choice(text, gold) == right


@pytest.mark.parametrize(
  ('text', 'right'),
  [
    ('(3+5)*2', 1),
    (' 2 * ( 5 + 3 )\n', 1),
    ('(' * 30_000 + '3+5' + ')' * 30_000 + '*2', 1),
    ('(' * 30_000 + '3+5' + ')' * 29_999 + '*2', 0),
    ('(3+5)*2 # well', 0),
    ('(3+5)*2=16', 0),
    ('3+5*2', 0),
    ('-3+5*2', 0),
    ('(-3+5)*2', 0),
    ('+3+5*2', 0),
    ('(3+5)2', 0),
    ('(3+5)*2.0', 0),
    ('(3+5)*0x2', 0),
    ('(3+5)*True', 0),
    ('(3+5)*2*1', 0),
    ('(3+5)**2', 0),
    ('(3+5)//2', 0),
    ('9**9**9', 0),
    ('(3+5)*02', 0),
    ('2*(5+3', 0),
    ('3 5 2', 0),
    ('2/(5-5)*3', 0),
    ('', 0),
    ('()', 0),
    ('9' * 100_000, 0),
    ("__import__('os')", 0),
  ],
)
def test_countdown(text, right):
  start = time.monotonic()
  assert rewards.countdown(text, [2, 3, 5], 16) == right
  assert time.monotonic() - start < 0.5


def test_countdown_is_exact_and_reads_whole_numbers():
  assert rewards.countdown('1/3+1/6', [1, 3, 1, 6], 0.5) == 1
  assert rewards.countdown('1_000', [1000], 1000) == 0
  assert rewards.countdown('1000', [1000], 1000) == 1
  assert rewards.countdown('8-4-2', [2, 4, 8], 2) == 1  # from the left
  assert rewards.countdown('8/4*2', [2, 4, 8], 4) == 1
  assert rewards.countdown('5/(3-3)', [3, 3, 5], 0) == 0


@pytest.mark.parametrize(
  ('text', 'gold', 'right'),
  [
    (r'\boxed{\frac{1}{2}}', r'\dfrac{1}{2}', 1),
    (r'\boxed{1} and \boxed{2}', '1', 0),
    (r'\boxed{2} and \boxed{}', '2', 0),
    (r'\boxed{2} and \boxed{ }', '2', 0),
    (r'\boxed{2} and \boxed{\{2}', '2', 0),
    (r'\boxed{\{1,2\}}', r'\{2,1\}', 1),
    (r'\boxed{\boxed{3}}', '3', 1),
    ('3', '3', 0),
  ],
)
def test_boxed_math(text, gold, right):
  assert rewards.boxed_math(text, gold) == right


EQUAL = r"""
4\sqrt{2} = \sqrt{32}
\frac{1}{3} = 0.33
\frac13 = 0.3333
\frac{1}{3} = 33.3\%
0.5 = \frac12
1\frac{1}{2} = \frac{3}{2}
1 1/2 = 1.5
2x\frac{1}{2} = x
0.\overline{3} = \frac13
1{,}234 = 1234
1,234,567.5 = 1234567.5
1,234 = (1,234)
2^{-98} = \frac{1}{2^{98}}
\$5. = 5
\pm 5 = \pm\sqrt{25}
\frac{1\pm\sqrt5}{2} = \frac12\pm\frac{\sqrt5}{2}
\{1,2\} = \{2,1,1\}
\{\} = \emptyset
{1,2} = 1, 2
(1,2] = \left(1,\frac{4}{2}\right]
(-\infty,1)\cup[2,\infty) = [2,\infty)\cup(-\infty,1)
\mathbb{R} = (-\infty,\infty)
\text{east} = east
\text{Yes} = Yes
50\% = 50
50\% = 0.5
90^\circ = 90
90^{\circ} = \frac{\pi}{2}
\sin 30^\circ = \frac12
3\text{ cm} = 3
12\text{ and }3 = 12, 3
\sin^2 x+\cos^2 x = 1
\sqrt{2}\sqrt{3}-\sqrt{6} = 0
\sqrt{x^2} = x
\ln(x^2) = 2\ln x
e^{i\pi} = -1
2(3) = 6
a_1+a_2 = a_2+a_1
1/2x = \frac{x}{2}
f(x)+1 = 1+x\cdot f
\begin{pmatrix}1&2\\3&4\end{pmatrix} = \begin{pmatrix}1&2\\3&2^2\end{pmatrix}
10^{10^{10}} = 10^{10^{10}}
"""
DIFFERENT = r"""
4\sqrt(2) = 4
0.333 = \frac{1}{3}
0.3333333333333333 = \frac13
\frac{1}{3} = 0.34
0.333 = 0.33
3.14159265358979 = \pi
2^{-98} = 2^{-99}
2^{-98} = 0
\sqrt{2}\cdot 10^{-50} = \sqrt2\cdot10^{-51}
10^{-200}x = 0
\pm 5 = 5
5 = \pm 5
\pm 5 = -5, 5
1, 2 = 2, 1
\{1,2\} = 1, 2
[1,2) = (1,2)
[1,2) = [1,2]
(-\infty,3] = (\infty,3]
east = seat
3\text{ cm} = 3\text{ m}
3 apples = 3
1 2 = 12
2x+ = 2x+
X = x
I = i
2(3) = 5
101_2 = 101
\infty = -\infty
\frac{1}{0} = 5
2**3 = 8
\text{(}5 = 5
1)+(2 = 3
"""
RELATIONS = [
  ('\u22125', '-5', 1),
  ('2x+2y=6', 'x+y=3', 1),
  ('x+y=3', '-x-y=-3', 1),
  ('x+y=3', 'x+y=4', 0),
  ('x^2+1=0', '2x^2+2=0', 1),
  ('y=2x+1', '2x-y+1=0', 1),
  ('x=5', '5', 1),
  ('5', 'x=5', 1),
  ('5=x', '5', 1),
  ('2x=10', '5', 0),
  ('x+y=5', '5', 0),
  ('y=2x', '2x', 0),
  ('5x=10', 'x=2', 1),
  (r'x=\frac13', '0.33', 1),
  (r'x=\frac13', 'x=0.33', 1),
  ('x=0.33', r'x=\frac13', 0),
  ('x=0.333333333333333', r'x=\frac13', 0),
  ('x=2^{-98}', 'x=2^{-99}', 0),
  (r'x+y=2^{-98}', r'2x+2y=2^{-97}', 1),
  (r'x+y=2^{-98}', r'2x+2y=2^{-98}', 0),
  ('n=1,2,3', '1,2,3', 1),
  ('n=1,2,3', 'n=1, n=2, n=3', 1),
  (r'x=1\text{ or }x=2', 'x=1,2', 1),
  ('x=1,y=2', 'x=1,y=2', 1),
  ('x=1,y=2', '1,2', 0),
  (r'x=\pm 2', r'\pm 2', 1),
  (r'x=\pm 2', 'x=2', 0),
  ('x<5', '5>x', 1),
  ('-x>-5', 'x<5', 1),
  ('x<5', r'x\le 5', 0),
  ('x<5', 'x>5', 0),
  ('1<x<5', '5>x>1', 1),
  (r'x\in[1,2]', '[1,2]', 1),
  (r'x\in[1,2]', r'x\in[1,2)', 0),
  (r'x\ne 3', r'x\neq 3', 1),
  (r'x\ne 3', 'x=3', 0),
]


def lines(text):
  return [line.split(' = ') for line in text.strip().splitlines()]


@pytest.mark.parametrize(
  ('text', 'gold', 'right'),
  [
    *((*pair, 1) for pair in lines(EQUAL)),
    *((*pair, 0) for pair in lines(DIFFERENT)),
    *RELATIONS,
    ('', '', 0),
    ('5', '', 0),
    ('$', '5', 0),
  ],
)
def test_math_equiv(text, gold, right):
  assert rewards.math_equiv(text, gold) == right
  assert rewards.math_equiv(f'${text}$', gold) == right


def test_whatever_is_in_a_text_nothing_is_raised():
  draw = np.random.default_rng(0)
  signs = list('0123xyzei()[]{}$,.=<>+-*/^_|!%&\\ "\'#\n\ud800é∞')
  words = [r'\frac', r'\sqrt', r'\boxed{', r'\pm', r'\text{', '####', 'Answer:']
  texts = [
    ''.join(draw.choice(signs + words, size=draw.integers(1, 25)))
    for _ in range(150)
  ]
  for name in KINDS:
    golds = [([1, 2], 3) if name == 'countdown' else '1'] * len(texts)
    found = rewards.score_batch(name, texts, golds)
    assert set(np.unique(found)) <= {0.0, 1.0}


def timed(call):
  start = time.monotonic()
  return call(), time.monotonic() - start


def test_time_limit_ends_what_does_not_end():
  rewards.math_equiv('1+1', '2')  # a worker is ready
  reward, seconds = timed(lambda: rewards.math_equiv(*HANGS))
  assert reward == 0
  assert 1.9 < seconds < 6
  assert rewards.math_equiv('1+1', '2') == 1


def test_time_limit_in_threads_and_worker_processes():
  with concurrent.futures.ThreadPoolExecutor(2) as threads:
    limited = threads.submit(rewards.math_equiv, *HANGS, timeout=0.5)
    assert limited.result(timeout=60) == 0
  context = multiprocessing.get_context('spawn')
  with context.Pool(1) as pool:
    pending = pool.apply_async(rewards.math_equiv, HANGS, {'timeout': 0.5})
    assert pending.get(timeout=60) == 0


def test_forked_process_has_workers_of_its_own():
  code = (
    'import os; from jaxlab.lm import rewards;'
    'assert rewards.math_equiv("1/2", "0.5");'
    'child = os.fork();'
    'right = [rewards.math_equiv(str(i), str(i // 2 * 2)) for i in range(6)];'
    'assert right == [1, 0] * 3, right;'
    'os._exit(0) if child == 0 else None;'
    'assert os.waitpid(child, 0)[1] == 0'
  )
  done = subprocess.run(
    [sys.executable, '-W', 'error', '-c', code],
    check=False,
    capture_output=True,
    text=True,
    timeout=60,
  )
  assert (done.returncode, done.stderr) == (0, '')


def test_batch_in_order_with_a_text_that_hangs():
  texts = ['1', HANGS[0], '2', r'\frac{4}{2}', 'x']
  golds = ['1', HANGS[1], '3', '2', 'x']
  for processes in (1, 2):
    found = rewards.score_batch(
      'math_equiv', texts, golds, timeout=1.0, processes=processes
    )
    assert found.dtype == np.float32
    assert found.tolist() == [1, 0, 0, 1, 1]


def test_batch_recovers_from_a_worker_that_dies(monkeypatch):
  rewards.math_equiv('1', '1')
  idle = answer_worker._idle._workers
  os.kill(idle[-1]._process.pid, signal.SIGKILL)
  idle[-1]._process.wait()
  assert rewards.math_equiv('1', '1') == 1  # it died while it was idle
  worker = idle[-1]
  kill = threading.Timer(0.3, worker._process.kill)
  kill.start()
  reward, seconds = timed(lambda: rewards.math_equiv(*HANGS, timeout=30))
  assert reward == 0
  assert seconds < 20
  assert worker not in idle
  assert rewards.score_batch('math_equiv', ['1'], ['1']).tolist() == [1]


def test_batch_of_every_kind():
  texts = ['2*3', '2+3']
  golds = [([2, 3], 6), ([2, 3], 6)]
  assert rewards.score_batch('countdown', texts, golds).tolist() == [1, 0]
  assert rewards.score_batch('numeric', [], []).shape == (0,)
  assert rewards.score_batch('boxed_math', [], []).shape == (0,)
  own = rewards.score_batch(lambda text, gold: len(text) / 4, ['ab'], ['x'])
  assert own.tolist() == [0.5]
  boxed = rewards.score_batch(
    rewards.boxed_math, [r'\boxed{1}', '1'], ['1', '1']
  )
  assert boxed.tolist() == [1, 0]


def test_batch_checks_what_it_is_given():
  with pytest.raises(errors.UserError, match=r"'math'.*exact_match, numeric"):
    rewards.score_batch('math', ['1'], ['1'])
  with pytest.raises(ValueError, match='1 texts, but 2 golds'):
    rewards.score_batch('numeric', ['1'], ['1', '2'])
  with pytest.raises(ValueError, match='processes=0'):
    rewards.score_batch('numeric', ['1'], ['1'], processes=0)
  with pytest.raises(ValueError, match="texts is a list, got '12'"):
    rewards.score_batch('numeric', '12', ['1', '2'])
  with pytest.raises(ValueError, match="golds is a list, got '12'"):
    rewards.score_batch('numeric', ['1', '2'], '12')
  with pytest.raises(ValueError, match='Gold 0 of countdown is a pair'):
    rewards.score_batch('countdown', ['1'], [1])
  for wrong in (None, math.nan, 'x'):
    with pytest.raises(ValueError, match='The reward of text 1 is'):
      rewards.score_batch(
        lambda text, gold, wrong=wrong: 1.0 if text == gold else wrong,
        ['1', '2'],
        ['1', '1'],
      )


def test_missing_math_verify(monkeypatch):
  monkeypatch.setitem(sys.modules, 'latex2sympy2_extended', None)
  with pytest.raises(errors.UserError, match=r"pip install 'jaxlab\[lm\]'"):
    math_equivalence.equivalent('1', '1')
  lost = "import sys; sys.modules['latex2sympy2_extended'] = None\n"
  monkeypatch.setattr(answer_worker, '_START', lost + answer_worker._START)
  monkeypatch.setattr(answer_worker, '_idle', answer_worker._Idle())
  with pytest.raises(errors.UserError, match=r"pip install 'jaxlab\[lm\]'"):
    rewards.math_equiv('1', '1')
  assert rewards.gsm8k('#### 1', '1') == 1  # needs no package


def test_rewards_import_nothing_heavy():
  code = (
    'import sys, jaxlab.lm.rewards as rewards;'
    'rewards.score_batch("gsm8k", ["#### 1"], ["1"]);'
    'print([m for m in ("sympy", "latex2sympy2_extended") if m in sys.modules])'
  )
  done = subprocess.run(
    [sys.executable, '-c', code], check=True, capture_output=True, text=True
  )
  assert done.stdout.strip() == '[]'
