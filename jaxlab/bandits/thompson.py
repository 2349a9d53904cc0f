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
    key: PRNG key of the posterior draws.
  """

  totals: ArmTotals
  key: jax.Array


@functools.lru_cache(maxsize=None, typed=True)
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

  def init(key, num_arms, size=None, told=None):
    del told
    tie_key, draw_key = jax.random.split(key)
    return TopTwoState(totals.start(tie_key, num_arms, size), draw_key)

  def top_two(state: TopTwoState):
    known = state.totals
    mean, variance = posterior(known)
    present = totals.present(known)
    noise = jax.vmap(
      lambda i: randomness.normal(state.key, known.step, i, dtype=mean.dtype)
    )(jnp.arange(mean.shape[-1]))
    draw = jnp.where(present, mean + jnp.sqrt(variance) * noise, -jnp.inf)
    leader = fair_argmax(draw, totals.word(known, 0))
    lead = jnp.maximum(mean[leader] - mean, 0)
    cost = lead**2 / (variance[leader] + variance)
    rest = present & (jnp.arange(mean.shape[-1]) != leader)
    challenger = fair_argmax(
      jnp.where(rest, -cost, -jnp.inf), totals.word(known, 1)
    )
    challenger = jnp.where(known.size > 1, challenger, leader)
    coin = totals.word(known, 2).astype(jnp.float32) * 2.0**-32
    return jnp.where(coin < beta, leader, challenger)

  def ask(state: TopTwoState):
    if not is_flat:
      return top_two(state), ONE_PULL
    arm = jax.lax.cond(
      state.totals.step < state.totals.size,
      lambda state: totals.next_untried(state.totals),
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
    mean = jnp.where(totals.present(known), mean, -jnp.inf)
    return totals.describe(known, fair_argmax(mean, totals.word(known, 3)))

  return Algorithm(init, ask, tell, recommend)
