"""What the sequential rules remember: pulls and reward sums per arm."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxlab.bandits import randomness
from jaxlab.bandits.ties import fair_argmax
from jaxlab.bandits.types import Recommendation

# A NumPy scalar: environments sample a fixed number of pulls without a loop.
ONE_PULL = np.int32(1)
# Decisions that one step can have to make, each with its own random word.
_CHOICES = 4


class ArmTotals(NamedTuple):
  """Pulls and reward sums of N arms.

  Attributes:
    key: PRNG key of the ties.
    size: `[]` int32: how many arms take part, the first ones; the others are
      never pulled.
    step: `[]` int32 pulls so far.
    pulls: `[N]` int32.
    sums: `[N]` float reward sums.
  """

  key: jax.Array
  size: jax.Array
  step: jax.Array
  pulls: jax.Array
  sums: jax.Array


def start(key: jax.Array, num_arms: int, size=None) -> ArmTotals:
  """Returns the totals of N arms, all or `size` of them, before any pull."""
  return ArmTotals(
    key,
    jnp.asarray(num_arms if size is None else size, jnp.int32),
    jnp.zeros((), jnp.int32),
    jnp.zeros(num_arms, jnp.int32),
    jnp.zeros(num_arms),
  )


def add(totals: ArmTotals, arm, total, n) -> ArmTotals:
  """Counts n pulls of an arm with reward sum `total`."""
  return totals._replace(
    step=totals.step + n,
    pulls=totals.pulls.at[arm].add(n),
    sums=totals.sums.at[arm].add(total),
  )


def means(totals: ArmTotals) -> jax.Array:
  """Returns `[N]` mean rewards, 0 for arms that were never pulled."""
  return totals.sums / jnp.maximum(totals.pulls, 1)


def present(totals: ArmTotals) -> jax.Array:
  """Returns `[N]` bool: the arms that take part."""
  return jnp.arange(totals.pulls.shape[-1]) < totals.size


def untried_first(totals: ArmTotals, score: jax.Array) -> jax.Array:
  """Puts arms without a pull on top of `[N]` scores, and absent arms last."""
  score = jnp.where(totals.pulls > 0, score, jnp.inf)
  return jnp.where(present(totals), score, -jnp.inf)


def next_untried(totals: ArmTotals) -> jax.Array:
  """Returns a random arm that was never pulled."""
  score = untried_first(totals, jnp.zeros_like(totals.sums))
  return fair_argmax(score, word(totals, 0))


def word(totals: ArmTotals, choice: int) -> jax.Array:
  """Returns the random word of one of this step's choices (0 to 3)."""
  return randomness.words(totals.key, totals.step * _CHOICES + choice)[0]


def describe(totals: ArmTotals, arm: jax.Array) -> Recommendation:
  """Recommends a given arm with what is known of it."""
  pulls = totals.pulls[arm]
  mean = totals.sums[arm] / jnp.maximum(pulls, 1)
  return Recommendation(arm, jnp.where(pulls > 0, mean, jnp.nan), pulls)


def best_pulled(totals: ArmTotals, score: jax.Array) -> Recommendation:
  """Recommends the pulled arm of the largest score; any arm if none was."""
  lowest = jnp.where(present(totals), jnp.finfo(score.dtype).min, -jnp.inf)
  score = jnp.where(totals.pulls > 0, score, lowest)
  return describe(totals, fair_argmax(score, word(totals, 3)))


def best_mean(totals: ArmTotals) -> Recommendation:
  """Recommends the pulled arm of the largest mean."""
  return best_pulled(totals, means(totals))
