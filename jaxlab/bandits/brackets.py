"""Bracketing: anytime search of a pool that is too large to try every arm.

Bracket b = 1, 2, .. works on `min(N, 2^b)` random arms with statistics of its
own. It opens as soon as b 2^b pulls are reached (the first one at once), and
each pull goes to the bracket that has had the fewest. This allocation does not
depend on rewards, so a whole run falls apart into independent brackets whose
numbers of pulls are known beforehand.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import envs, passes, randomness, totals
from jaxlab.bandits.stepping import play_steps
from jaxlab.bandits.subset import SubsetState, place_of, random_arms
from jaxlab.bandits.ties import fair_argmax
from jaxlab.bandits.totals import ONE_PULL, ArmTotals
from jaxlab.bandits.types import (
  Algorithm,
  Engine,
  Recommendation,
  RunResult,
)


class BracketsState(NamedTuple):
  """State of a bracketing algorithm.

  Attributes:
    key: PRNG key of the ties between brackets.
    step: `[]` int32 pulls so far.
    counts: `[B]` int32 pulls of each bracket.
    brackets: B states, each with the arms of the bracket and the state of its
      rule.
  """

  key: jax.Array
  step: jax.Array
  counts: jax.Array
  brackets: tuple[SubsetState, ...]


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


def radius(pulls, num_arms: int, bracket: int, *, delta, c, sigma):
  """Confidence radius of a mean inside a bracket.

  `c sigma sqrt(log(n_b b^2 log2(2 n) / delta) / n)` after n >= 1 pulls, for
  bracket b of n_b arms; Katz-Samuels and Jamieson (2020), with the union over
  arms and brackets written out.
  """
  n = jnp.maximum(pulls, 1).astype(jnp.result_type(float))
  return (
    c
    * sigma
    * jnp.sqrt(jnp.log(num_arms * bracket**2 / delta * jnp.log2(2 * n)) / n)
  )


@functools.cache
def bracketing_ucb(
  delta: float = 0.1,
  c: float = 1.0,
  sigma: float = 0.5,
  *,
  output: str = 'lcb',
  max_brackets: int = 12,
) -> Algorithm:
  """Bracketing UCB: in each bracket the largest upper bound is pulled.

  Katz-Samuels and Jamieson (2020), "The true sample complexity of identifying
  good arms". Anytime; arms that were never pulled come first.

  Args:
    delta: failure probability that scales the radius, in (0, 1).
    c: factor of the radius.
    sigma: sub-Gaussian scale of the rewards; 1/2 for rewards in [0, 1].
    output: `'lcb'` recommends the largest lower bound over all brackets,
      `'mean'` the largest mean.
    max_brackets: how many brackets the state of a live run has room for; 12
      suffice for 106,495 pulls.

  Raises:
    ValueError: if an argument is out of range; at the start of a simulation
      whose budget opens more than `max_brackets`.
  """
  bound = _checked_radius(delta, c, sigma, output)

  @functools.cache
  def inner(bracket: int) -> Algorithm:
    def bounds(state: ArmTotals):
      width = bound(state.pulls, state.pulls.shape[-1], bracket)
      return totals.means(state), width

    def ask(state: ArmTotals):
      mean, width = bounds(state)
      index = jnp.where(state.pulls > 0, mean + width, jnp.inf)
      return fair_argmax(index, totals.word(state, 0)), ONE_PULL

    def tell(state: ArmTotals, arm, total, n, total_squares):
      del total_squares
      return totals.add(state, arm, total, n)

    def recommend(state: ArmTotals):
      mean, width = bounds(state)
      score = mean - width if output == 'lcb' else mean
      return totals.best_pulled(state, score)

    return Algorithm(totals.start, ask, tell, recommend)

  return _bracketing(inner, bound, output, max_brackets)


@functools.cache
def bracketing_sh(
  delta: float = 0.1,
  c: float = 1.0,
  sigma: float = 0.5,
  *,
  output: str = 'lcb',
  samples: str = 'fresh',
  max_brackets: int = 12,
) -> Algorithm:
  """Bracketing sequential halving: doubling sequential halving in brackets.

  Zhao, Stephens, Szepesvari and Jun (2023), "Revisiting simple regret: fast
  rates for returning a good arm". Anytime. A bracket offers the winner of its
  last finished pass; during its first pass, its largest mean so far.

  Args:
    delta: failure probability that scales the radius, in (0, 1).
    c: factor of the radius.
    sigma: sub-Gaussian scale of the rewards; 1/2 for rewards in [0, 1].
    output: `'lcb'` recommends the bracket's candidate of the largest lower
      bound, `'mean'` that of the largest mean.
    samples: `'fresh'` ranks a round, and judges a winner, by the pulls of that
      round alone, `'pooled'` by all pulls of the bracket.
    max_brackets: how many brackets the state of a live run has room for; 12
      suffice for 106,495 pulls.

  Raises:
    ValueError: if an argument is out of range; at the start of a simulation
      whose budget opens more than `max_brackets`.
  """
  bound = _checked_radius(delta, c, sigma, output)
  if samples not in {'fresh', 'pooled'}:
    raise ValueError(f"samples must be 'fresh' or 'pooled', got {samples!r}.")
  inner = passes.halving_passes(samples == 'pooled')
  return _bracketing(lambda bracket: inner, bound, output, max_brackets)


def _checked_radius(delta, c, sigma, output) -> Callable[..., jax.Array]:
  """Returns `(pulls, num_arms, bracket) -> radius`."""
  if not 0 < delta < 1:
    raise ValueError(f'delta must lie in (0, 1), got {delta}.')
  if not c >= 0:
    raise ValueError(f'c must be >= 0, got {c}.')
  if not sigma >= 0:
    raise ValueError(f'sigma must be >= 0, got {sigma}.')
  if output not in {'lcb', 'mean'}:
    raise ValueError(f"output must be 'lcb' or 'mean', got {output!r}.")
  return functools.partial(radius, delta=delta, c=c, sigma=sigma)


def _bracketing(
  inner: Callable[[int], Algorithm],
  bound: Callable[..., jax.Array],
  output: str,
  max_brackets: int,
) -> Algorithm:
  """Brackets with a given rule inside, step by step and as a whole."""
  if max_brackets < 1:
    raise ValueError(f'max_brackets must be >= 1, got {max_brackets}.')
  openings = np.array([opening(b + 1) for b in range(max_brackets)], np.int32)

  def init(key, num_arms):
    brackets = []
    for b in range(1, max_brackets + 1):
      subset_key, inner_key = jax.random.split(jax.random.fold_in(key, b))
      arms = _bracket_arms(subset_key, num_arms, b)
      inside = inner(b).init(inner_key, arms.shape[0])
      brackets.append(SubsetState(arms, inside))
    zeros = jnp.zeros(max_brackets, jnp.int32)
    return BracketsState(key, jnp.zeros((), jnp.int32), zeros, tuple(brackets))

  def turn(state):
    """The bracket (from 0) of the next pull."""
    closed = openings > state.step + 1
    return jnp.argmin(jnp.where(closed, np.int32(2**31 - 1), state.counts))

  def ask(state: BracketsState):
    def ask_bracket(index, state):
      arms, inside = state.brackets[index]
      return arms[inner(index + 1).ask(inside)[0]]

    asks = [functools.partial(ask_bracket, i) for i in range(max_brackets)]
    return jax.lax.switch(turn(state), asks, state), ONE_PULL

  def tell(state: BracketsState, arm, total, n, total_squares):
    def tell_bracket(index, brackets):
      arms, inside = brackets[index]
      inside = inner(index + 1).tell(
        inside, place_of(arms, arm), total, n, total_squares
      )
      told = SubsetState(arms, inside)
      return (*brackets[:index], told, *brackets[index + 1 :])

    tells = [functools.partial(tell_bracket, i) for i in range(max_brackets)]
    index = turn(state)
    return BracketsState(
      state.key,
      state.step + n,
      state.counts.at[index].add(n),
      jax.lax.switch(index, tells, state.brackets),
    )

  def recommend(state: BracketsState):
    offers, widths = [], []
    for b, (arms, inside) in enumerate(state.brackets, 1):
      offer = inner(b).recommend(inside)
      offers.append(offer._replace(arm=arms[offer.arm]))
      widths.append(bound(offer.pulls, arms.shape[0], b))
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *offers)
    return _choose(
      state.key, state.step, stacked, jnp.stack(widths), output, max_brackets
    )

  def enter(key, num_arms, budget):
    _check_room(budget, max_brackets)
    subset_keys = [
      jax.random.split(jax.random.fold_in(key, b))[0]
      for b in range(1, num_open(budget) + 1)
    ]
    return jnp.concatenate(
      [_bracket_arms(k, num_arms, b) for b, k in enumerate(subset_keys, 1)]
    )

  def play(key, reward_key, env, num_arms, budget, checkpoints):
    _check_room(budget, max_brackets)
    offers, widths, first = [], [], 0
    times = _local_times(checkpoints, num_open(budget))
    for b in range(1, num_open(budget) + 1):
      size = min(num_arms, 2**b)
      own_env = env.take(first + jnp.arange(size, dtype=jnp.int32))
      _, inner_key = jax.random.split(jax.random.fold_in(key, b))
      own_key = _own_rewards(reward_key, env, b)
      own = play_steps(inner(b), inner_key, own_key, own_env, times[b - 1])
      offers.append(Recommendation(first + own.arms, own.means, own.pulls))
      widths.append(bound(own.pulls, size, b))
      first += size
    stacked = jax.tree.map(lambda *x: jnp.stack(x, -1), *offers)
    spent = jnp.asarray(checkpoints, jnp.int32)
    choose = functools.partial(_choose, output=output, room=max_brackets)
    best = jax.vmap(choose, (None, 0, 0, 0))(
      key, spent, stacked, jnp.stack(widths, -1)
    )
    return RunResult(*best, spent, jnp.zeros_like(spent))

  return Algorithm(init, ask, tell, recommend, Engine(enter, play))


def _bracket_arms(key: jax.Array, num_arms: int, bracket: int) -> jax.Array:
  """The arms of a bracket: of an endless pool, none that another one has."""
  size = min(num_arms, 2**bracket)
  return random_arms(key, num_arms, size, first=2**bracket - 2)


def _own_rewards(reward_key, env: envs.Environment, bracket: int) -> jax.Array:
  """The reward key of a bracket: an arm pays afresh in each of its brackets.

  In an endless pool no two brackets have an arm in common, and the key also
  draws the means, so there it must stay as it is.
  """
  if isinstance(env, envs.Infinite):
    return reward_key
  return jax.random.fold_in(reward_key, bracket)


def _local_times(
  checkpoints: Sequence[int], brackets: int
) -> list[tuple[int, ...]]:
  """How many pulls each bracket has had at each checkpoint."""
  counts = np.zeros((len(checkpoints), brackets), np.int64)
  for row, time in zip(counts, checkpoints, strict=True):
    spread = bracket_pulls(time)
    row[: len(spread)] = spread
  return [tuple(column) for column in counts.T.tolist()]


def _choose(
  key, step, offers: Recommendation, widths: jax.Array, output: str, room: int
) -> Recommendation:
  """Takes the offer of the brackets' `[B]` that has the best bound or mean.

  Without any pull it is the first bracket's. The ties are drawn among `room`
  brackets, so that they do not depend on how many take part.
  """
  score = offers.mean - widths if output == 'lcb' else offers.mean
  score = jnp.where(offers.pulls > 0, score, -jnp.inf)
  score = score.at[0].max(jnp.finfo(score.dtype).min)
  score = jnp.pad(score, (0, room - score.size), constant_values=-jnp.inf)
  best = fair_argmax(score, randomness.words(key, step)[0])
  return jax.tree.map(lambda x: x[best], offers)


def _check_room(budget: int, max_brackets: int) -> None:
  needed = num_open(budget)
  if needed > max_brackets:
    raise ValueError(
      f'max_brackets = {max_brackets} is too small for budget = {budget}: '
      f'give max_brackets >= {needed}.'
    )
