"""A task for tiny models: the sum of two numbers of a few digits.

`07+35=` asks for `42`. Problems that are learned and problems that are tested
have no pair of numbers in common.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ALPHABET = '0123456789+='
_TENTH = 10


class Problems(NamedTuple):
  """Pairs of numbers.

  Attributes:
    a: `[n]` first numbers.
    b: `[n]` second numbers.
    digits: number of digits that they are written with.
  """

  a: np.ndarray
  b: np.ndarray
  digits: int

  @property
  def task(self) -> np.ndarray:
    """`[n]` number of each problem, from which `gold` finds its answer."""
    return self.a * 10**self.digits + self.b

  def __len__(self) -> int:
    return len(self.a)


def problems(digits: int, split: str, count: int, seed: int) -> Problems:
  """Draws different problems of a split; about a tenth of all are for tests.

  Args:
    digits: of the numbers, 1 to 4.
    split: 'train' or 'test'.
    count: number n of problems.
    seed: of the draw; which problems are in a split does not depend on it.

  Raises:
    ValueError: if a number is out of range, or there are not so many.
  """
  tasks = _tasks(digits, split)
  if not 1 <= count <= len(tasks):
    raise ValueError(
      f'{count} problems of {digits} digits for {split}: there are'
      f' {len(tasks)}.'
    )
  rng = np.random.default_rng([seed, digits, split == 'test'])
  chosen = rng.choice(tasks, count, replace=False)
  size = 10**digits
  return Problems(chosen // size, chosen % size, digits)


def num_problems(digits: int, split: str) -> int:
  """Returns how many problems a split has; arguments as for `problems`."""
  return len(_tasks(digits, split))


def _tasks(digits: int, split: str) -> np.ndarray:
  if split not in ('train', 'test') or not 1 <= digits <= 4:
    raise ValueError(
      f"split must be 'train' or 'test' and digits 1 to 4, got {split!r} and"
      f' {digits}.'
    )
  is_test = np.random.default_rng([digits, 0]).random(100**digits) < 1 / _TENTH
  return np.flatnonzero(is_test == (split == 'test'))


def prompts(found: Problems) -> list[str]:
  """Returns the texts that are given, such as `07+35=`."""
  width = found.digits
  return [
    f'{a:0{width}}+{b:0{width}}=' for a, b in zip(*found[:2], strict=True)
  ]


def answers(found: Problems) -> list[str]:
  """Returns the sums, without leading zeros."""
  return [str(total) for total in found.a + found.b]


def gold(task: int, digits: int) -> str:
  """Returns the answer of a problem by its number."""
  size = 10**digits
  return str(int(task) // size + int(task) % size)


def corrupted(
  texts: Sequence[str], share: float, rng: np.random.Generator
) -> list[str]:
  """Replaces each digit by a random one with some probability.

  Args:
    texts: of digits.
    share: probability for each digit, 0 to 1.
    rng: of the draws.
  """
  found = []
  for text in texts:
    digits = np.array([int(c) for c in text])
    wrong = rng.random(len(digits)) < share
    digits = np.where(wrong, rng.integers(0, 10, len(digits)), digits)
    found.append(''.join(map(str, digits)))
  return found
