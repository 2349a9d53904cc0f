"""Index rules that pull one arm at a time: UCB-E, LUCB and AT-LUCB."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.bandits import randomness, totals
from jaxlab.bandits.ties import fair_argmax
from jaxlab.bandits.totals import ONE_PULL, ArmTotals
from jaxlab.bandits.types import Algorithm


@functools.cache
def ucb_e(
  a: float | None = None,
  *,
  budget: int | None = None,
  complexity: float | None = None,
) -> Algorithm:
  """UCB-E: pulls the largest mean + sqrt(a / pulls).

  Arms that were never pulled come first, in random order; the largest mean is
  recommended. Audibert, Bubeck and Munos (2010), Figure 1 and Theorem 1.

  Args:
    a: exploration. By default `25/36 (budget - N) / complexity`, the largest
      value that the theorem allows.
    budget: the number of pulls T, for the default.
    complexity: H1, the sum of 1/gap^2 over the arms, where the best arm
      counts with the gap of the second best; for the default.

  Raises:
    ValueError: if `a` is negative, or neither `a` nor both of `budget` and
      `complexity` > 0 are given.
  """
  if a is not None and not a >= 0:
    raise ValueError(f'a must be >= 0, got {a}.')
  if a is None and (budget is None or complexity is None):
    raise ValueError(
      f'ucb_e needs a, or budget and complexity: got a={a}, '
      f'budget={budget}, complexity={complexity}.'
    )
  if complexity is not None and not complexity > 0:
    raise ValueError(f'complexity must be > 0, got {complexity}.')

  def exploration(num_arms: int) -> float:
    if a is not None:
      return a
    assert budget is not None and complexity is not None
    return 25 / 36 * max(budget - num_arms, 0) / complexity

  def ask(state: ArmTotals):
    width = exploration(state.pulls.shape[-1])
    index = totals.means(state) + jnp.sqrt(width / jnp.maximum(state.pulls, 1))
    index = jnp.where(state.pulls > 0, index, jnp.inf)
    return fair_argmax(index, totals.word(state, 0)), ONE_PULL

  def tell(state: ArmTotals, arm, total, n, total_squares):
    del total_squares
    return totals.add(state, arm, total, n)

  return Algorithm(totals.start, ask, tell, totals.best_mean)


class LucbState(NamedTuple):
  """State of LUCB and AT-LUCB.

  Attributes:
    totals: pulls and sums of the N arms.
    order: `[N]` int32: the arms in the order of their first pulls.
    pair: `[2]` int32: the arms of this round, leader and challenger.
    stage: `[]` int32 s >= 1: the failure probability is delta alpha^(s-1).
    output: `[]` int32: the arm that AT-LUCB recommends.
  """

  totals: ArmTotals
  order: jax.Array
  pair: jax.Array
  stage: jax.Array
  output: jax.Array


@functools.cache
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


@functools.cache
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

  def init(key, num_arms):
    order_key, key = jax.random.split(key)
    order = randomness.random_order(order_key, num_arms)
    one = jnp.ones((), jnp.int32)
    return LucbState(
      totals.start(key, num_arms), order, jnp.zeros(2, jnp.int32), one, order[0]
    )

  def ask(state: LucbState):
    step, num_arms = state.totals.step, state.order.shape[-1]
    first = state.order[jnp.minimum(step, num_arms - 1)]
    return jnp.where(
      step < num_arms, first, state.pair[(step - num_arms) % 2]
    ), ONE_PULL

  def tell(state: LucbState, arm, total, n, total_squares):
    del total_squares
    state = state._replace(totals=totals.add(state.totals, arm, total, n))
    past_first = state.totals.step - state.order.shape[-1]
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
    all_pulled = state.totals.step >= state.order.shape[-1]
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
  num_arms = known.pulls.shape[-1]
  if num_arms == 1:
    return state
  mean = totals.means(known)
  leader = fair_argmax(mean, totals.word(known, 1))
  rest = jnp.arange(num_arms) != leader
  narrow = 1 / jnp.sqrt(known.pulls)
  # The radius of arm i is sigma sqrt(2 exponent) / sqrt(pulls of i).
  exponent = math.log(1.25 * num_arms / delta) + 4 * jnp.log(known.step)
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
  return state._replace(
    pair=jnp.stack([leader, challenger]), stage=stage, output=output
  )
