"""Index rules that pull one arm at a time: UCB-E, LUCB and AT-LUCB."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.bandits import totals
from jaxlab.bandits.ties import fair_argmax
from jaxlab.bandits.totals import ONE_PULL, ArmTotals
from jaxlab.bandits.types import Algorithm


class UcbState(NamedTuple):
  """State of UCB-E.

  Attributes:
    totals: pulls and sums of the N arms.
    exploration: `[]` float: the constant a of the bonus.
  """

  totals: ArmTotals
  exploration: jax.Array


@functools.lru_cache(maxsize=None, typed=True)
def ucb_e(
  a: float | None = None,
  *,
  budget: int | None = None,
  complexity: float | Callable | None = None,
) -> Algorithm:
  """UCB-E: pulls the largest mean + sqrt(a / pulls).

  Arms that were never pulled come first, in random order; the largest mean is
  recommended. Audibert, Bubeck and Munos (2010), Figure 1 and Theorem 1.

  Args:
    a: exploration. By default `25/36 (budget - N) / complexity`, the largest
      value that the theorem allows.
    budget: the number of pulls T, for the default. With a function as
      `complexity` it may be missing: `on_subset` tells it in simulations.
    complexity: H1, the sum of 1/gap^2 over the arms, where the best arm
      counts with the gap of the second best; for the default. A function
      returns it for a number of arms.

  Raises:
    ValueError: if `a` is negative, or neither `a` nor both of `budget` and
      `complexity` > 0 are given.
  """
  if a is not None and not a >= 0:
    raise ValueError(f'a must be >= 0, got {a}.')
  is_told = callable(complexity)
  if a is None and not is_told and (budget is None or complexity is None):
    raise ValueError(
      f'ucb_e needs a, or budget and complexity: got a={a}, '
      f'budget={budget}, complexity={complexity}.'
    )
  if isinstance(complexity, float | int) and not complexity > 0:
    raise ValueError(f'complexity must be > 0, got {complexity}.')

  def init(key, num_arms, size=None, told=None):
    known = totals.start(key, num_arms, size)
    if a is not None:
      return UcbState(known, jnp.asarray(a, known.sums.dtype))
    pulls = told if budget is None else budget
    if pulls is None:
      raise ValueError('ucb_e needs a budget outside of on_subset: got None.')
    bound = complexity(known.size) if callable(complexity) else complexity
    assert bound is not None
    rest = jnp.maximum(pulls - known.size, 0).astype(known.sums.dtype)
    return UcbState(known, 25 / 36 * rest / bound)

  def ask(state: UcbState):
    known, a = state
    index = totals.means(known) + jnp.sqrt(a / jnp.maximum(known.pulls, 1))
    index = totals.untried_first(known, index)
    return fair_argmax(index, totals.word(known, 0)), ONE_PULL

  def tell(state: UcbState, arm, total, n, total_squares):
    del total_squares
    return state._replace(totals=totals.add(state.totals, arm, total, n))

  return Algorithm(
    init, ask, tell, lambda state: totals.best_mean(state.totals)
  )


class LucbState(NamedTuple):
  """State of LUCB and AT-LUCB.

  Attributes:
    totals: pulls and sums of the N arms.
    pair: `[2]` int32: the arms of this round, leader and challenger.
    stage: `[]` int32 s >= 1: the failure probability is delta alpha^(s-1).
    output: `[]` int32: the arm that AT-LUCB recommends.
  """

  totals: ArmTotals
  pair: jax.Array
  stage: jax.Array
  output: jax.Array


@functools.lru_cache(maxsize=None, typed=True)
def lucb(delta: float = 0.1, sigma: float = 0.5) -> Algorithm:
  """LUCB1 in fixed-budget form: it never stops by itself.

  Each arm is pulled once, in random order. Then rounds of two pulls: the arm
  of the largest mean, and the largest upper bound among the others, with
  radius `sigma sqrt(2 log(5/4 N t^4 / delta) / pulls)` after t pulls. The
  largest mean is recommended. Kalyanakrishnan, Tewari, Auer and Stone (2012).

  Args:
    delta: failure probability that scales the radius, in (0, 1).
    sigma: sub-Gaussian scale of the rewards; 1/2 for rewards in [0, 1].

  Raises:
    ValueError: if `delta` or `sigma` is out of range.
  """
  return _lucb(delta, None, sigma)


@functools.lru_cache(maxsize=None, typed=True)
def at_lucb(
  delta: float = 0.5, alpha: float = 0.99, sigma: float = 0.5
) -> Algorithm:
  """AT-LUCB: LUCB whose failure probability shrinks whenever it is met.

  Anytime. Whenever the bounds of leader and challenger part at the present
  failure probability, it is multiplied by `alpha` until they overlap, and the
  leader is what is recommended from then on. Jun and Nowak (2016), Algorithm
  1 with one best arm and tolerance 0; defaults as in their experiments.

  Args:
    delta: first failure probability, in (0, 1).
    alpha: shrinkage, in (0, 1).
    sigma: sub-Gaussian scale of the rewards; 1/2 for rewards in [0, 1].

  Raises:
    ValueError: if an argument is out of range.
  """
  if not 0 < alpha < 1:
    raise ValueError(f'alpha must lie in (0, 1), got {alpha}.')
  return _lucb(delta, alpha, sigma)


def _lucb(delta: float, alpha: float | None, sigma: float) -> Algorithm:
  """LUCB with a fixed (`alpha=None`) or shrinking failure probability."""
  if not 0 < delta < 1:
    raise ValueError(f'delta must lie in (0, 1), got {delta}.')
  if not sigma > 0:
    raise ValueError(f'sigma must be > 0, got {sigma}.')

  def init(key, num_arms, size=None, told=None):
    del told
    known = totals.start(key, num_arms, size)
    zero = jnp.zeros((), jnp.int32)
    return LucbState(known, jnp.stack([zero, zero]), zero + 1, zero)

  def ask(state: LucbState):
    known = state.totals
    arm = jax.lax.cond(
      known.step < known.size,
      lambda: totals.next_untried(known),
      lambda: state.pair[(known.step - known.size) % 2],
    )
    return arm, ONE_PULL

  def tell(state: LucbState, arm, total, n, total_squares):
    del total_squares
    state = state._replace(totals=totals.add(state.totals, arm, total, n))
    past_first = state.totals.step - state.totals.size
    return jax.lax.cond(
      (past_first >= 0) & (past_first % 2 == 0),
      functools.partial(_next_round, delta=delta, alpha=alpha, sigma=sigma),
      lambda state: state,
      state,
    )

  def recommend(state: LucbState):
    if alpha is None:
      return totals.best_mean(state.totals)
    so_far = totals.best_mean(state.totals)
    all_pulled = state.totals.step >= state.totals.size
    return jax.tree.map(
      lambda kept, best: jnp.where(all_pulled, kept, best),
      totals.describe(state.totals, state.output),
      so_far,
    )

  return Algorithm(init, ask, tell, recommend)


def _next_round(
  state: LucbState, *, delta: float, alpha: float | None, sigma: float
) -> LucbState:
  """Chooses leader and challenger, and moves the stage on."""
  known = state.totals
  present = totals.present(known)
  mean = totals.means(known)
  leader = fair_argmax(
    jnp.where(present, mean, -jnp.inf), totals.word(known, 1)
  )
  rest = present & (jnp.arange(mean.shape[-1]) != leader)
  narrow = 1 / jnp.sqrt(known.pulls)
  # The radius of arm i is sigma sqrt(2 exponent) / sqrt(pulls of i).
  exponent = jnp.log(1.25 * known.size / delta) + 4 * jnp.log(known.step)
  stage, output = state.stage, leader
  if alpha is not None:
    # Leader and rest are apart as long as the exponent is below `room`.
    apart = (mean[leader] - mean) / (narrow[leader] + narrow)
    room = jnp.min(jnp.where(rest, apart, jnp.inf)) ** 2 / (2 * sigma**2)
    step = -math.log(alpha)
    met = jnp.minimum(jnp.floor((room - exponent) / step), 2.0**30)
    stage = jnp.maximum(stage, met.astype(jnp.int32) + 2)
    moved = (stage > state.stage) | (stage == 1)
    output = jnp.where(moved, leader, state.output)
    exponent = exponent + (stage - 1) * step
  upper = mean + sigma * jnp.sqrt(2 * exponent) * narrow
  challenger = fair_argmax(
    jnp.where(rest, upper, -jnp.inf), totals.word(known, 2)
  )
  challenger = jnp.where(known.size > 1, challenger, leader)
  return state._replace(
    pair=jnp.stack([leader, challenger]), stage=stage, output=output
  )
