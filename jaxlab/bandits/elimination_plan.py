"""Plans of elimination rounds, and how the arms of a round are compared."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import randomness, ranking

MAX_BUDGET = 2**31 - 1
_PACKED_WORDS_MAX = 2**14


class Round(NamedTuple):
  """A round of a plan: every arm that is left gets the same number of pulls.

  Attributes:
    arms: how many arms are left.
    pulls: new pulls of each of them.
    stage: index of its stage.
    counted: pulls of each arm that the round ranks by: its own, or all those
      of the stage where samples are pooled.
    rank: the leader of the finished round of the highest rank is recommended;
      of rounds of the same rank (their `counted` must agree) the one with the
      largest mean. Leaders of rank 0 are never recommended.
  """

  arms: int
  pulls: int
  stage: int
  counted: int
  rank: int


Plan = tuple[Round, ...]


def check_positive(name: str, value: int) -> None:
  """Raises ValueError unless an integer setting is at least 1."""
  if value < 1:
    raise ValueError(f'{name} must be >= 1, got {value}.')


def check_told(budget: int | None, subset) -> None:
  """Raises ValueError for a share of the pool if the budget is not given.

  A simulation keeps the entered arms only, not what they are a share of.
  """
  if budget is None and isinstance(subset, float):
    raise ValueError(
      f'subset={subset} is a share, which needs a budget; got budget=None.'
    )


def subset_size(
  subset: int | float | str | None, fit: int, num_arms: int
) -> int:
  """Returns how many arms take part.

  Args:
    subset: None for all; 'fit' for `fit`, or all if they are fewer; a number
      of arms; or a share of them.
    fit: the largest number that the budget allows.
    num_arms: size of the pool.

  Raises:
    ValueError: if the subset is larger than the pool or of another kind.
  """
  if subset is None:
    return num_arms
  if subset == 'fit':
    return min(fit, num_arms)
  if isinstance(subset, str) or subset <= 0:
    raise ValueError(
      f"subset must be None, 'fit', an int >= 1 or a share, got {subset!r}."
    )
  if isinstance(subset, float):
    if subset > 1:
      raise ValueError(f'subset as a share must be <= 1, got {subset}.')
    return max(1, int(subset * num_arms))
  if subset > num_arms:
    raise ValueError(f'subset must be <= num_arms = {num_arms}, got {subset}.')
  return subset


def stage_rounds(
  rounds: Iterable[tuple[int, int]],
  *,
  stage: int = 0,
  ranks: Sequence[int] | None = None,
  pooled: bool = False,
) -> Plan:
  """Returns one stage of a plan.

  Args:
    rounds: the arms and the new pulls of each, round by round.
    stage: its index in the plan.
    ranks: rank of each round; 1, 2, ... by default.
    pooled: whether a round ranks by all pulls of the stage.
  """
  rounds = list(rounds)
  own = [pulls for _, pulls in rounds]
  counted = list(itertools.accumulate(own)) if pooled else own
  ranks = range(1, len(rounds) + 1) if ranks is None else ranks
  return tuple(
    Round(arms, pulls, stage, count, rank)
    for (arms, pulls), count, rank in zip(rounds, counted, ranks, strict=True)
  )


def started_rounds(stages: Iterable[Plan], budget: int) -> Plan:
  """Returns the stages of an endless plan that start within the budget."""
  plan: Plan = ()
  spent = 0
  for rounds in stages:
    plan += rounds
    spent += sum(r.arms * r.pulls for r in rounds)
    if spent > budget:
      break
  return plan


def run_keys(key: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Splits the key of a run: the entering arms, and equal totals."""
  order_key, tie_key = jax.random.split(key)
  return order_key, tie_key


def mean(total: jax.Array, pulls) -> jax.Array:
  """Returns `total / pulls`, or nan where there was no pull."""
  pulls = jnp.asarray(pulls)
  known = jnp.maximum(pulls, 1).astype(total.dtype)
  return jnp.where(pulls > 0, total / known, jnp.nan)


def visible(totals: jax.Array) -> jax.Array:
  """Puts the nan of an exhausted table at the top, where it is seen."""
  return jnp.where(jnp.isnan(totals), jnp.inf, totals)


def beats(total_a, priority_a, total_b, priority_b) -> jax.Array:
  """Whether a ranks above b: by total, then by random priority."""
  total_a, total_b = visible(total_a), visible(total_b)
  return (total_a > total_b) | (
    (total_a == total_b) & (priority_a > priority_b)
  )


def round_priority(tie_key: jax.Array, round_index) -> jax.Array:
  """A random number of a round's leader, against those of other rounds."""
  return randomness.words(tie_key, round_index, -1)[0]


def best_so_far(
  totals: jax.Array, priority: jax.Array, counts: np.ndarray
) -> jax.Array:
  """Returns `[C]` int32: the best among the first `counts` arms; 0 of none."""
  totals = visible(totals)
  places = jnp.arange(totals.shape[0])

  def best(count):
    return ranking.argbest(totals, priority, places < count)

  return jax.lax.map(best, jnp.asarray(counts, jnp.int32))


def ranked(
  tie_key: jax.Array,
  round_index,
  totals: jax.Array,
  count,
  *,
  capacity,
  largest: int | None = None,
) -> jax.Array:
  """Returns the slots by falling total; equal totals in random order.

  This is faster than a sort by two keys: `top_k` leaves equal totals in
  the order that they come in, so they come in a random one.

  Args:
    tie_key: PRNG key.
    round_index: each round draws anew.
    totals: `[W]` float.
    count: int32: slots from here on do not take part and come last.
    capacity: int32: the number of participating arms, at least `count`; fixes
      how the random numbers are packed, whatever W is.
    largest: the largest possible `capacity`; W by default.
  """
  largest = totals.shape[0] if largest is None else largest
  slots = jnp.arange(totals.shape[0], dtype=jnp.uint32)
  active = slots < count
  words = ranking.priorities(tie_key, round_index, slots) >> 1
  capacity = jnp.asarray(capacity, jnp.uint32)
  mask = np.uint32(2**32 - 1) >> jax.lax.clz(capacity)
  mask = jnp.where(capacity <= _PACKED_WORDS_MAX, mask, 0)
  words = jnp.where(active, words & ~mask, np.uint32(2**32 - 1))
  if largest <= _PACKED_WORDS_MAX:
    order = jnp.sort(jnp.where(active, words | slots, words)) & mask
    order = jnp.where(active, order, slots)
  else:
    order = jnp.argsort(words)
  totals = jnp.where(active, visible(totals), -jnp.inf)[order]
  return order[jax.lax.top_k(totals, totals.shape[0])[1]].astype(jnp.int32)
