r"""Verifiable rewards: functions of a decoded text and the right answer.

All return 1.0 or 0.0 and never raise for a text, whatever is in it. Those of
mathematics (`boxed_math`, `math_equiv`) run in a process of their own under a
time limit and need the package math-verify; the others are done at once.
`score_batch` scores many texts, in parallel where that is worth it.
"""

import concurrent.futures
import math
import numbers as numeric_types
import operator
import os
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from jaxlab import errors
from jaxlab.boxed import last_boxed
from jaxlab.lm import answer_worker
from jaxlab.lm import countdown as countdown_game

TIMEOUT = 2.0

_NUMBER = r'[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?'
_FRACTION = re.compile(rf'({_NUMBER})(?:/({_NUMBER}))?')
_NO_PART_OF_A_NUMBER = re.compile(r'[\s,$%]')
# Digits of a number; more would only cost time.
_MOST_DIGITS = 4000
# A whole number of as many digits; Python refuses the text of longer ones.
_MOST_BITS = 13_000
# A letter that is no part of a word, such as the A of "A's" or "A-level".
_LETTER = r"(?<!\w)(?<!\w-)([A-D])(?!['\u2019-]?\w)"
# Nothing is given back: what follows a part is never in it, and three runs of
# the same signs would be cut in every way.
_ANSWER_PHRASE = re.compile(
  r'(?<![A-Za-z])(?i:answer[\s*]*+(?:is\b)?+[\s*]*+:?+)[\s*$()\[\]{}]*+'
  + _LETTER
)
_LONE_LETTER = re.compile(_LETTER)


def exact_match(text: str, gold: str) -> float:
  """1 if the text is the gold, white space at both ends aside."""
  return float(text.strip() == _letters(gold).strip())


def addition(text: str, gold: str | float) -> float:
  """1 if the text is the gold's string of digits, and nothing else."""
  gold = _written(gold).strip()
  return float(gold.isascii() and gold.isdigit() and text.strip() == gold)


def numeric(
  text: str, gold: str | float, rel_tol: float = 1e-6, abs_tol: float = 1e-9
) -> float:
  """1 if the whole text is a number within a tolerance of the gold.

  White space, commas, `$`, `%` and one full stop at the end are not part of a
  number; `a/b` is one.

  Args:
    text: what was answered.
    gold: the right number.
    rel_tol: tolerance relative to the larger of the two absolute values.
    abs_tol: absolute tolerance; the wider of the two counts.

  Raises:
    ValueError: if a tolerance is negative or not finite.
  """
  for name, tolerance in (('rel_tol', rel_tol), ('abs_tol', abs_tol)):
    if not (_is_finite(tolerance) and tolerance >= 0):
      raise ValueError(f'{name}={tolerance!r} must be finite and at least 0.')
  given, right = parse_number(text), parse_number(_written(gold))
  if given is None or right is None:
    return 0.0
  # From their shortest decimals: 1e-6 is meant, not the float beside it.
  relative = Fraction(repr(float(rel_tol)))
  absolute = Fraction(repr(float(abs_tol)))
  bound = max(relative * max(abs(given), abs(right)), absolute)
  return float(abs(given - right) <= bound)


def gsm8k(text: str, gold: str | float) -> float:
  """1 if what follows the last `####` is exactly the gold number."""
  _, marker, answer = text.rpartition('####')
  given, right = parse_number(answer), parse_number(_written(gold))
  return float(bool(marker) and given is not None and given == right)


def multiple_choice(text: str, gold: str) -> float:
  """1 if the letter chosen in the text is the gold, one of A to D.

  The choice is the letter after the last `answer [is] [:]`, in brackets, `*` or
  `$` or bare; without such a phrase the one letter that stands alone.
  """
  phrases = _ANSWER_PHRASE.findall(text)
  letters = phrases[-1:] or set(_LONE_LETTER.findall(text))
  return float(list(letters) == [_letters(gold).strip()])


def countdown(text: str, numbers: Sequence[int], target: float) -> float:
  """1 if the text computes the target from the numbers, each used once.

  The whole text is an expression of binary `+ - * /` and brackets, evaluated
  in exact fractions.

  Raises:
    ValueError: if the numbers are no list of whole numbers of at most 3,900
      digits, or the target is not a finite number.
  """
  try:
    if isinstance(numbers, str | bytes):
      raise TypeError
    whole = [operator.index(number) for number in numbers]
  except TypeError:
    raise ValueError(
      f'countdown: numbers is a list of whole numbers, got {numbers!r}.'
    ) from None
  if any(number.bit_length() > _MOST_BITS for number in whole):
    raise ValueError('countdown: a number has more than 3,900 digits.')
  try:
    Fraction(target)
  except (TypeError, ValueError, OverflowError):
    raise ValueError(
      f'countdown: target {target!r} is not a finite number.'
    ) from None
  return float(countdown_game.solves(text, whole, target))


def boxed_math(
  text: str, gold: str | float, *, timeout: float = TIMEOUT
) -> float:
  r"""1 if the content of the last `\boxed{...}` is the gold; see `math_equiv`.

  A last box that is empty or not closed is wrong, whatever is in earlier ones.
  """
  _check_timeout(timeout)
  content = last_boxed(text)
  return 0.0 if content is None else math_equiv(content, gold, timeout=timeout)


def math_equiv(
  text: str, gold: str | float, *, timeout: float = TIMEOUT
) -> float:
  r"""1 if a text, read as a whole, is mathematically equal to the gold.

  - `$` is removed; a text that is not one complete answer gets 0.
  - Comma lists are ordered tuples, `\{...\}` sets, intervals have end points
    and brackets, `\pm a` equals only `\pm a`; relations are equal up to a
    factor; `x = 5` is also `5` where there is one variable.
  - Numbers are exact (0.333 is not 1/3, 0.5 is 1/2), but a fraction equals a
    gold decimal to its printed digits. Other formulas are compared at random
    positive points with relative tolerance 1e-9.
  - A unit in `\text{}`, `%` or a degree sign counts only if both have one.

  Args:
    text: LaTeX, or plain `3/4`.
    gold: the right answer.
    timeout: seconds after which the answer counts as wrong.

  Raises:
    UserError: if the package math-verify is not installed.
    ValueError: if the timeout is not positive and finite.
  """
  _check_timeout(timeout)
  gold = _written(gold)
  if not (text.strip() and gold.strip()):
    return 0.0
  return float(answer_worker.check(text, gold, timeout))


REWARDS: dict[str, Callable[..., float]] = {
  reward.__name__: reward
  for reward in (
    exact_match,
    numeric,
    gsm8k,
    boxed_math,
    math_equiv,
    multiple_choice,
    countdown,
    addition,
  )
}
_LIMITED = (boxed_math, math_equiv)


def score_batch(
  reward: str | Callable[..., float],
  texts: Sequence[str],
  golds: Sequence[Any],
  *,
  timeout: float = TIMEOUT,
  processes: int | None = None,
) -> np.ndarray:
  """Scores many texts.

  Args:
    reward: a name in `REWARDS`, or a function of a text and its gold; one that
      is not in `REWARDS` runs in this process, without a time limit.
    texts: `[B]` texts.
    golds: `[B]` right answers; for `countdown` pairs (numbers, target).
    timeout: seconds for one text, of the rewards of mathematics; more is 0.
    processes: how many check answers at the same time; None: one a core.

  Returns:
    `[B]` float32, in the order of the texts.

  Raises:
    UserError: if the name is unknown or math-verify is not installed.
    ValueError: if there is not one gold for each text, a gold is of the wrong
      kind, the timeout is not positive and finite, or a reward is not a finite
      number.
  """
  if isinstance(reward, str):
    if reward not in REWARDS:
      raise errors.UserError(
        f'unknown reward {reward!r}; known: {", ".join(REWARDS)}.'
      )
    reward = REWARDS[reward]
  _check_lists(texts, golds)
  if processes is not None and processes < 1:
    raise ValueError(f'processes={processes} must be at least 1.')
  if reward in _LIMITED:
    _check_timeout(timeout)
    scores = _in_parallel(reward, texts, golds, timeout, processes)
  elif reward is countdown:
    _check_pairs(golds)
    scores = [countdown(t, *gold) for t, gold in zip(texts, golds, strict=True)]
  else:
    scores = [reward(t, gold) for t, gold in zip(texts, golds, strict=True)]
  for i, score in enumerate(scores):
    if not _is_finite(score):
      raise ValueError(f'The reward of text {i} is {score!r}, not a number.')
  return np.array(scores, np.float32)


def _check_lists(texts: Sequence[str], golds: Sequence[Any]) -> None:
  for name, given in (('texts', texts), ('golds', golds)):
    if isinstance(given, str | bytes) or not hasattr(given, '__len__'):
      raise ValueError(f'{name} is a list, got {given!r}.')
  if len(texts) != len(golds):
    raise ValueError(f'{len(texts)} texts, but {len(golds)} golds.')


def _check_pairs(golds: Sequence[Any]) -> None:
  for i, gold in enumerate(golds):
    if not isinstance(gold, Sequence) or len(gold) != 2:
      raise ValueError(
        f'Gold {i} of countdown is a pair (numbers, target), got {gold!r}.'
      )


def _letters(gold: str) -> str:
  if not isinstance(gold, str):
    raise ValueError(f'The gold is a str, got {gold!r}.')
  return gold


def _written(gold: Any) -> str:
  """The gold as text; data sets also give numbers."""
  if isinstance(gold, numeric_types.Number) and not isinstance(gold, bool):
    return str(gold)
  if not isinstance(gold, str):
    raise ValueError(f'The gold is a str or a number, got {gold!r}.')
  return gold


def _is_finite(value: Any) -> bool:
  try:
    return math.isfinite(value)
  except (TypeError, ValueError, OverflowError):
    return False


def _check_timeout(timeout: float) -> None:
  if not (_is_finite(timeout) and timeout > 0):
    raise ValueError(
      f'timeout={timeout!r} must be a positive finite number of seconds.'
    )


def _in_parallel(
  reward: Callable[..., float],
  texts: Sequence[str],
  golds: Sequence[Any],
  timeout: float,
  processes: int | None,
) -> list[float]:
  """A thread for each worker process; threads only wait for theirs."""
  cores = processes or len(os.sched_getaffinity(0))
  most = max(1, min(cores, len(texts)))
  with concurrent.futures.ThreadPoolExecutor(most) as threads:
    limits = [timeout] * len(texts)
    return list(
      threads.map(
        lambda text, gold, limit: reward(text, gold, timeout=limit),
        texts,
        golds,
        limits,
      )
    )


def parse_number(text: str) -> Fraction | None:
  """Returns the exact value if the whole text is a number, else None.

  White space, commas, `$`, `%` and one full stop at the end are removed first.
  """
  text = _NO_PART_OF_A_NUMBER.sub('', text).replace('\u2212', '-')
  match = _FRACTION.fullmatch(text.removesuffix('.'))
  if match is None or len(text) > _MOST_DIGITS:
    return None
  denominator = Fraction(match[2] or 1)
  return Fraction(match[1]) / denominator if denominator else None
