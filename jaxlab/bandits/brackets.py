"""Bracketing: anytime search of a pool that is too large to try every arm.

Bracket b = 1, 2, .. works on `min(N, 2^b)` random arms with statistics of its
own. It opens as soon as b 2^b pulls are reached (the first one at once), and
each pull goes to the bracket that has had the fewest. This allocation does not
depend on rewards, so a whole run falls apart into independent brackets whose
numbers of pulls are known beforehand.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import brackets_plan as plan
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


def radius(pulls, num_arms: int, bracket: int, *, delta, c, sigma):
  """Confidence radius of a mean inside a bracket.

  `c sigma sqrt(log(n_b b^2 log2(2 n) / delta) / n)` after n >= 1 pulls, for
  bracket b of n_b arms; Katz-Samuels and Jamieson (2020), with the union over
  arms and brackets written out.
  """
  # Arrays throughout: bounds of a live run and of a whole run round alike.
  n = jnp.maximum(pulls, 1).astype(jnp.result_type(float))
  union = jnp.asarray(num_arms) * jnp.asarray(bracket) ** 2 / delta
  scale = jnp.asarray(c, n.dtype) * sigma
  return scale * jnp.sqrt(jnp.log(union * jnp.log2(2 * n)) / n)


class _Settings(NamedTuple):
  """What the variants of an algorithm differ in.

  Attributes:
    c: `[V]` factors of the radius.
    weight: `[V]` 1 where the largest lower bound is recommended, 0 where the
      largest mean is.
    is_one: whether there is one variant, without an axis of its own.
    bound: `(pulls, num_arms, bracket, c=c) -> radius`.
  """

  c: tuple[float, ...]
  weight: tuple[float, ...]
  is_one: bool
  bound: Callable[..., jax.Array]


# `(bracket, c, weight) -> the algorithm inside`.
_Rule = Callable[..., Algorithm]


@functools.lru_cache(maxsize=None, typed=True)
def bracketing_ucb(
  delta: float = 0.1,
  c: float | tuple[float, ...] = 1.0,
  sigma: float = 0.5,
  *,
  output: str | tuple[str, ...] = 'lcb',
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
      `'mean'` the largest mean. Tuples of V factors and V outputs make V
      variants, in simulations: the results have a leading axis of them.
    max_brackets: how many brackets the state of a live run has room for; 12
      suffice for 106,495 pulls.

  Raises:
    ValueError: if an argument is out of range; at the start of a simulation
      whose budget opens more than `max_brackets`.
  """
  settings = _checked_settings(delta, c, sigma, output)

  def inner(bracket, c, weight) -> Algorithm:
    def bounds(state: ArmTotals):
      width = settings.bound(state.pulls, state.size, bracket, c=c)
      return totals.means(state), width

    def ask(state: ArmTotals):
      mean, width = bounds(state)
      index = totals.untried_first(state, mean + width)
      return fair_argmax(index, totals.word(state, 0)), ONE_PULL

    def tell(state: ArmTotals, arm, total, n, total_squares):
      del total_squares
      return totals.add(state, arm, total, n)

    def recommend(state: ArmTotals):
      mean, width = bounds(state)
      return totals.best_pulled(state, mean - weight * width)

    return Algorithm(totals.start, ask, tell, recommend)

  return _bracketing(inner, settings, max_brackets)


@functools.lru_cache(maxsize=None, typed=True)
def bracketing_sh(
  delta: float = 0.1,
  c: float | tuple[float, ...] = 1.0,
  sigma: float = 0.5,
  *,
  output: str | tuple[str, ...] = 'lcb',
  samples: str = 'fresh',
  max_brackets: int = 12,
) -> Algorithm:
  """Bracketing sequential halving: doubling sequential halving in brackets.

  Zhao, Stephens, Szepesvari and Jun (2023), "Revisiting simple regret: fast
  rates for returning a good arm". Anytime. A bracket offers the winner of its
  last finished pass; during its first pass, its largest mean so far.

  Args:
    delta: as in `bracketing_ucb`, like c and sigma.
    c: factor of the radius.
    sigma: scale of the rewards.
    output: `'lcb'` recommends the bracket's candidate of the largest lower
      bound, `'mean'` that of the largest mean. Tuples as in `bracketing_ucb`.
    samples: `'fresh'` ranks a round, and judges a winner, by the pulls of that
      round alone, `'pooled'` by all pulls of the bracket.
    max_brackets: as in `bracketing_ucb`.

  Raises:
    ValueError: as in `bracketing_ucb`.
  """
  settings = _checked_settings(delta, c, sigma, output)
  if samples not in {'fresh', 'pooled'}:
    raise ValueError(f"samples must be 'fresh' or 'pooled', got {samples!r}.")
  inner = passes.halving_passes(samples == 'pooled')
  return _bracketing(lambda *_: inner, settings, max_brackets)


def _checked_settings(delta, c, sigma, output) -> _Settings:
  if not 0 < delta < 1:
    raise ValueError(f'delta must lie in (0, 1), got {delta}.')
  if not sigma >= 0:
    raise ValueError(f'sigma must be >= 0, got {sigma}.')
  factors = c if isinstance(c, tuple) else (c,)
  outputs = output if isinstance(output, tuple) else (output,)
  if not factors or len(factors) != len(outputs):
    raise ValueError(
      f'c and output must be as many, at least one; got {c} and {output}.'
    )
  for factor in factors:
    if not factor >= 0:
      raise ValueError(f'c must be >= 0, got {factor}.')
  for rule in outputs:
    if rule not in {'lcb', 'mean'}:
      raise ValueError(f"output must be 'lcb' or 'mean', got {rule!r}.")
  return _Settings(
    tuple(float(factor) for factor in factors),
    tuple(float(rule == 'lcb') for rule in outputs),
    not isinstance(c, tuple),
    functools.partial(radius, delta=delta, sigma=sigma),
  )


def _bracketing(
  inner: _Rule, settings: _Settings, max_brackets: int
) -> Algorithm:
  """Brackets with a given rule inside, step by step and as a whole."""
  if max_brackets < 1:
    raise ValueError(f'max_brackets must be >= 1, got {max_brackets}.')
  openings = np.array(
    [plan.opening(b + 1) for b in range(max_brackets)], np.int32
  )
  c, weight = settings.c[0], settings.weight[0]

  def rule(b: int) -> Algorithm:
    return inner(b, c, weight)

  def init(key, num_arms):
    if not settings.is_one:
      raise ValueError(
        'a run by ask and tell has one c and one output, not tuples of them.'
      )
    brackets = []
    for b in range(1, max_brackets + 1):
      subset_key, inner_key = _bracket_keys(key, b)
      arms = _bracket_arms(subset_key, num_arms, b)
      inside = rule(b).init(inner_key, arms.shape[0])
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
      return arms[rule(index + 1).ask(inside)[0]]

    asks = [functools.partial(ask_bracket, i) for i in range(max_brackets)]
    return jax.lax.switch(turn(state), asks, state), ONE_PULL

  def tell(state: BracketsState, arm, total, n, total_squares):
    def tell_bracket(index, brackets):
      arms, inside = brackets[index]
      inside = rule(index + 1).tell(
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
      offer = rule(b).recommend(inside)
      offers.append(offer._replace(arm=arms[offer.arm]))
      widths.append(settings.bound(offer.pulls, arms.shape[0], b, c=c))
    stacked = jax.tree.map(lambda *x: jnp.stack(x), *offers)
    width = weight * jnp.stack(widths)
    return _choose(state.key, state.step, stacked, width)

  return Algorithm(
    init,
    ask,
    tell,
    recommend,
    Engine(
      functools.partial(_enter, max_brackets),
      functools.partial(_play, inner, settings, max_brackets),
    ),
  )


def _enter(max_brackets: int, key, num_arms: int, budget: int) -> jax.Array:
  plan.check_room(budget, max_brackets)
  sizes = plan.bracket_sizes(num_arms, budget)
  if num_arms == envs.UNBOUNDED:
    return jnp.arange(sum(sizes), dtype=jnp.int32)
  keys, _ = jax.vmap(functools.partial(_bracket_keys, key))(
    jnp.arange(1, len(sizes) + 1)
  )
  # One bracket after the other: an order of a large pool takes memory.
  arms = jax.lax.map(lambda k: random_arms(k, num_arms, max(sizes)), keys)
  return jnp.concatenate(
    [row[:size] for row, size in zip(arms, sizes, strict=True)]
  )


class _Bracket(NamedTuple):
  """One bracket of a whole run, or a stack of them.

  Attributes:
    number: int32 b = 1, 2, ..
    size: int32 arms in it.
    first: int32: its first place among the entered arms.
    key: PRNG key of the rule inside.
    times: `[C]` int32: its pulls by each checkpoint.
  """

  number: jax.Array
  size: jax.Array
  first: jax.Array
  key: jax.Array
  times: jax.Array


def _play(
  inner: _Rule,
  settings: _Settings,
  max_brackets: int,
  key,
  reward_key,
  env,
  num_arms: int,
  budget: int,
  checkpoints,
) -> RunResult:
  """Plays the brackets one after the other, those of similar size alike."""
  plan.check_room(budget, max_brackets)
  sizes = plan.bracket_sizes(num_arms, budget)
  number = jnp.arange(1, len(sizes) + 1)
  brackets = _Bracket(
    number,
    jnp.asarray(sizes, jnp.int32),
    jnp.asarray(np.cumsum(sizes) - sizes, jnp.int32),
    jax.vmap(functools.partial(_bracket_keys, key))(number)[1],
    jnp.asarray(plan.local_pulls(checkpoints, len(sizes)), jnp.int32),
  )
  factors, weights = jnp.asarray(settings.c), jnp.asarray(settings.weight)

  def play_bracket(width: int, own: _Bracket) -> tuple[Recommendation, Any]:
    places = own.first + jnp.arange(width, dtype=jnp.int32)
    own_env = env.take(jnp.minimum(places, env.num_arms - 1))
    own_key = _own_rewards(reward_key, env, own.number)

    def play_variant(c, weight):
      found = play_steps(
        inner(own.number, c, weight),
        own.key,
        own_key,
        own_env,
        own.times,
        size=own.size,
      )
      bound = settings.bound(found.pulls, own.size, own.number, c=c)
      arms = own.first + found.arms
      return Recommendation(arms, found.means, found.pulls), weight * bound

    return jax.vmap(play_variant)(factors, weights)

  parts = []
  for group in plan.padded_groups(sizes):
    rows = jax.tree.map(lambda x, group=group: x[group], brackets)
    play_one = functools.partial(play_bracket, max(sizes[group]))
    parts.append(jax.lax.map(play_one, rows))
  # `[V, C, B]`
  offers, widths = jax.tree.map(
    lambda *x: jnp.moveaxis(jnp.concatenate(x), 0, -1), *parts
  )
  spent = jnp.asarray(checkpoints, jnp.int32)
  choose = jax.vmap(_choose, (None, 0, 0, 0))
  best = jax.vmap(choose, (None, None, 0, 0))(key, spent, offers, widths)
  spent = jnp.broadcast_to(spent, best.arm.shape)
  result = RunResult(*best, spent, jnp.zeros_like(spent))
  return jax.tree.map(lambda x: x[0], result) if settings.is_one else result


def _bracket_keys(key: jax.Array, bracket) -> tuple[jax.Array, jax.Array]:
  """The keys of a bracket: its arms, and the rule inside."""
  subset_key, inner_key = jax.random.split(jax.random.fold_in(key, bracket))
  return subset_key, inner_key


def _bracket_arms(key: jax.Array, num_arms: int, bracket: int) -> jax.Array:
  """The arms of a bracket: of an endless pool, none that another one has."""
  size = min(num_arms, 2**bracket)
  return random_arms(key, num_arms, size, first=2**bracket - 2)


def _own_rewards(reward_key, env: envs.Environment, bracket) -> jax.Array:
  """The reward key of a bracket: an arm pays afresh in each of its brackets.

  In an endless pool no two brackets have an arm in common, and the key also
  draws the means, so there it must stay as it is.
  """
  if isinstance(env, envs.Infinite):
    return reward_key
  return jax.random.fold_in(reward_key, bracket)


def _choose(
  key, step, offers: Recommendation, widths: jax.Array
) -> Recommendation:
  """Takes the offer of the brackets' `[B]` whose mean less width is largest.

  Without any pull it is the first bracket's.
  """
  score = jnp.where(offers.pulls > 0, offers.mean - widths, -jnp.inf)
  score = score.at[0].max(jnp.finfo(score.dtype).min)
  best = fair_argmax(score, randomness.words(key, step)[0])
  return jax.tree.map(lambda x: x[best], offers)
