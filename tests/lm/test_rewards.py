"""Rewards: golden cases, and the edges of every rule by hand."""

import math
import subprocess
import sys
import time
from fractions import Fraction

import numpy as np
import pytest

from jaxlab import errors
from jaxlab.lm import answer_worker, rewards
from tests import golden

KINDS = tuple(rewards.REWARDS)


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
