"""Top-two Thompson sampling with normal rewards."""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.bandits import randomness, totals
from jaxlab.bandits.ties import fair_argmax
from jaxlab.bandits.totals import ONE_PULL, ArmTotals
from jaxlab.bandits.types import Algorithm


class TopTwoState(NamedTuple):
  """State of top-two Thompson sampling.

  Attributes:
    totals: pulls and sums of the N arms.
    order: `[N]` int32: the order of the first pulls under a flat prior.
    key: PRNG key of the posterior draws.
  """

  totals: ArmTotals
  order: jax.Array
  key: jax.Array


@functools.cache
def top_two_thompson(
  sigma: float = 0.5,
  beta: float = 0.5,
  *,
  prior_mean: float = 0.0,
  prior_sigma: float = math.inf,
) -> Algorithm:
  """T3C: top-two Thompson sampling with the transportation cost challenger.

  The leader is the best arm of one posterior draw (Russo 2020). With
  probability `beta` it is pulled, else the challenger, the arm j that is
  cheapest to mistake for better than leader i: the smallest
  `max(m_i - m_j, 0)^2 / (v_i + v_j)` of posterior means and variances
  (Shang, de Heide, Kaufmann, Menard and Valko 2020, Section 3.2), which
  needs no repeated draws. The largest posterior mean is recommended. Anytime.

  Args:
    sigma: standard deviation that the rewards are taken to have.
    beta: probability of pulling the leader, in (0, 1).
    prior_mean: mean of the normal prior of an arm's mean.
    prior_sigma: its standard deviation; inf is the flat prior, under which
      each arm is pulled once first, in random order.

  Raises:
    ValueError: if an argument is out of range.
  """
  if not sigma > 0:
    raise ValueError(f'sigma must be > 0, got {sigma}.')
  if not 0 < beta < 1:
    raise ValueError(f'beta must lie in (0, 1), got {beta}.')
  if not prior_sigma > 0:
    raise ValueError(f'prior_sigma must be > 0, got {prior_sigma}.')
  if not math.isfinite(prior_mean):
    raise ValueError(f'prior_mean must be finite, got {prior_mean}.')
  is_flat = math.isinf(prior_sigma)

  def posterior(known: ArmTotals):
    precision = known.pulls / sigma**2 + prior_sigma**-2
    weighted = known.sums / sigma**2 + prior_mean * prior_sigma**-2
    # Under a flat prior nobody looks at the arms of precision 0.
    variance = 1 / jnp.maximum(precision, 1e-30)
    return weighted * variance, variance

  def init(key, num_arms):
    order_key, tie_key, draw_key = jax.random.split(key, 3)
    order = randomness.random_order(order_key, num_arms)
    return TopTwoState(totals.start(tie_key, num_arms), order, draw_key)

  def top_two(state: TopTwoState):
    known = state.totals
    mean, variance = posterior(known)
    noise = jax.random.normal(
      jax.random.fold_in(state.key, known.step), mean.shape, mean.dtype
    )
    leader = fair_argmax(
      mean + jnp.sqrt(variance) * noise, totals.word(known, 0)
    )
    lead = jnp.maximum(mean[leader] - mean, 0)
    cost = lead**2 / (variance[leader] + variance)
    is_leader = jnp.arange(mean.shape[-1]) == leader
    challenger = fair_argmax(
      jnp.where(is_leader, -jnp.inf, -cost), totals.word(known, 1)
    )
    coin = totals.word(known, 2).astype(jnp.float32) * 2.0**-32
    return jnp.where(coin < beta, leader, challenger)

  def ask(state: TopTwoState):
    if not is_flat:
      return top_two(state), ONE_PULL
    num_arms, step = state.order.shape[-1], state.totals.step
    arm = jax.lax.cond(
      step < num_arms,
      lambda state: state.order[jnp.minimum(step, num_arms - 1)],
      top_two,
      state,
    )
    return arm, ONE_PULL

  def tell(state: TopTwoState, arm, total, n, total_squares):
    del total_squares
    return state._replace(totals=totals.add(state.totals, arm, total, n))

  def recommend(state: TopTwoState):
    known = state.totals
    mean, _ = posterior(known)
    if is_flat:
      return totals.best_pulled(known, mean)
    return totals.describe(known, fair_argmax(mean, totals.word(known, 3)))

  return Algorithm(init, ask, tell, recommend)
