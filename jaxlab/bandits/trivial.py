"""The two ends of the scale: an arm at random, and the arm that one knows."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxlab.bandits.types import Algorithm, Engine, Recommendation, RunResult


@functools.lru_cache(maxsize=None, typed=True)
def random_arm() -> Algorithm:
  """Recommends a uniformly random arm without a pull."""
  return _without_pulls(
    lambda key, num_arms: jax.random.randint(key, (), 0, num_arms, jnp.int32)
  )


@functools.lru_cache(maxsize=None, typed=True)
def oracle(arm: int) -> Algorithm:
  """Recommends the given arm without a pull.

  Raises:
    ValueError: if `arm` is negative, or, at the start of a run, not an arm.
  """
  if arm < 0:
    raise ValueError(f'arm must be >= 0, got {arm}.')

  def choose(key, num_arms):
    del key
    if arm >= num_arms:
      raise ValueError(f'arm must be below num_arms = {num_arms}, got {arm}.')
    return jnp.asarray(arm, jnp.int32)

  return _without_pulls(choose)


def _without_pulls(choose: Callable[..., jax.Array]) -> Algorithm:
  """An algorithm that has decided before the first pull."""

  def ask(arm):
    return arm, jnp.zeros((), jnp.int32)

  def tell(arm, pulled, total, n, total_squares):
    del pulled, total, n, total_squares
    return arm

  def recommend(arm):
    return Recommendation(arm, jnp.full((), jnp.nan), jnp.zeros_like(arm))

  def enter(key, num_arms, budget):
    del budget
    return choose(key, num_arms)[None]

  def play(key, reward_key, env, num_arms, budget, checkpoints):
    del key, reward_key, env, num_arms, budget
    zeros = jnp.zeros(len(checkpoints), jnp.int32)
    nans = jnp.full(len(checkpoints), jnp.nan)
    return RunResult(zeros, nans, zeros, zeros, zeros)

  return Algorithm(choose, ask, tell, recommend, Engine(enter, play))
