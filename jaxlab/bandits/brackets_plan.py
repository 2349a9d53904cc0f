"""When brackets open, how large they are, and how pulls spread over them."""

from collections.abc import Sequence

import numpy as np

_SMALL_BRACKET = 32


def opening(bracket: int) -> int:
  """Returns the pull, counted from 1, at which bracket b = 1, 2, .. opens."""
  return 1 if bracket == 1 else bracket * 2**bracket


def num_open(time: int) -> int:
  """Returns how many brackets are open at pull number `time`; at least 1."""
  bracket = 1
  while opening(bracket + 1) <= time:
    bracket += 1
  return bracket


def bracket_pulls(time: int) -> np.ndarray:
  """Returns `[B]` int64: how the first `time` pulls spread over B brackets."""
  counts = np.zeros(0, np.int64)
  for bracket in range(1, num_open(time) + 1):
    counts = np.append(counts, 0)
    last = min(time, opening(bracket + 1) - 1)
    counts = _level_up(counts, last - int(counts.sum()))
  return counts


def _level_up(counts: np.ndarray, pulls: int) -> np.ndarray:
  """Gives each of `pulls` to the smallest count, the first one if equal."""
  # The j lowest counts cannot all be raised above their common share.
  shares = (np.cumsum(np.sort(counts)) + pulls) // np.arange(1, counts.size + 1)
  level = int(np.min(shares))
  raised = np.maximum(counts, level)
  rest = pulls - int((raised - counts).sum())
  raised[np.flatnonzero(raised == level)[:rest]] += 1
  return raised


def bracket_sizes(num_arms: int, budget: int) -> list[int]:
  """The arms of each bracket that opens within the budget."""
  return [min(num_arms, 2**b) for b in range(1, num_open(budget) + 1)]


def padded_groups(sizes: Sequence[int]) -> list[slice]:
  """Brackets that are padded to one size, to be compiled once.

  The sizes of a group differ by a factor of 8, or are all small.
  """
  groups: list[slice] = []
  end = len(sizes)
  while end:
    fits = [8 * s >= sizes[end - 1] for s in sizes]
    start = fits.index(True) if sizes[end - 1] > _SMALL_BRACKET else 0
    groups.insert(0, slice(start, end))
    end = start
  return groups


def local_pulls(checkpoints: Sequence[int], brackets: int) -> np.ndarray:
  """Returns `[B, C]`: the pulls of each bracket at each checkpoint."""
  counts = np.zeros((len(checkpoints), brackets), np.int64)
  for row, time in zip(counts, checkpoints, strict=True):
    spread = bracket_pulls(time)
    row[: len(spread)] = spread
  return counts.T


def check_room(budget: int, max_brackets: int) -> None:
  """Raises ValueError if a budget opens more than `max_brackets`."""
  needed = num_open(budget)
  if needed > max_brackets:
    raise ValueError(
      f'max_brackets = {max_brackets} is too small for budget = {budget}: '
      f'give max_brackets >= {needed}.'
    )
