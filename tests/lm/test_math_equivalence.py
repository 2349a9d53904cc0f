"""Answers that are equal as mathematics, and answers that are not."""

import pytest

from jaxlab.lm import rewards

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
