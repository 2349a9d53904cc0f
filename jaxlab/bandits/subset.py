"""Algorithms on a random part of the pool, for pools too large to try."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxlab.bandits import envs, randomness
from jaxlab.bandits.stepping import play_steps
from jaxlab.bandits.types import Algorithm, Engine, RunResult, State


class SubsetState(NamedTuple):
  """State of an algorithm on a subset.

  Attributes:
    arms: `[size]` int32: the arms that may be pulled.
    inner: state of the algorithm, whose arms are places in `arms`.
  """

  arms: jax.Array
  inner: State


def random_arms(
  key: jax.Array, num_arms: int, size: int, first: int = 0
) -> jax.Array:
  """Returns `[size]` int32 different random arms of the pool.

  The arms of an endless pool are all alike before they are pulled: there it
  returns the `size` arms from `first` on.

  Raises:
    ValueError: if the pool has fewer than `size` arms.
  """
  if not 1 <= size <= num_arms:
    raise ValueError(
      f'size must lie in [1, num_arms = {num_arms}], got {size}.'
    )
  if num_arms == envs.UNBOUNDED:
    return first + jnp.arange(size, dtype=jnp.int32)
  return randomness.random_order(key, num_arms, size)


def place_of(arms: jax.Array, arm: jax.Array) -> jax.Array:
  """Returns the place of an arm in `arms`."""
  return jnp.argmax(arms == arm).astype(jnp.int32)


@functools.lru_cache(maxsize=None, typed=True)
def on_subset(
  algorithm: Algorithm, size: int | Callable[[int], int]
) -> Algorithm:
  """Runs an algorithm on `size` random arms of the pool.

  Args:
    algorithm: any algorithm of this family.
    size: how many arms, drawn without replacement. Or, in simulations, a
      function that returns it for a budget: each checkpoint is then the
      budget of a separate run of the same replication. This takes UCB-E,
      LUCB, AT-LUCB or T3C.

  Raises:
    ValueError: if `size` < 1 or, at the start of a run, above the number of
      arms.
  """
  if callable(size):
    return _on_told_subset(algorithm, size)
  if size < 1:
    raise ValueError(f'size must be >= 1, got {size}.')

  def init(key, num_arms):
    subset_key, inner_key = jax.random.split(key)
    arms = random_arms(subset_key, num_arms, size)
    return SubsetState(arms, algorithm.init(inner_key, size))

  def ask(state):
    place, n = algorithm.ask(state.inner)
    return state.arms[place], n

  def tell(state, arm, total, n, total_squares):
    place = place_of(state.arms, arm)
    inner = algorithm.tell(state.inner, place, total, n, total_squares)
    return state._replace(inner=inner)

  def recommend(state):
    best = algorithm.recommend(state.inner)
    return best._replace(arm=state.arms[best.arm])

  def enter(key, num_arms, budget):
    subset_key, inner_key = jax.random.split(key)
    arms = random_arms(subset_key, num_arms, size)
    if algorithm.engine is None:
      return arms
    return arms[algorithm.engine.enter(inner_key, size, budget)]

  def play(key, reward_key, env, num_arms, budget, checkpoints):
    del num_arms
    _, inner_key = jax.random.split(key)
    if algorithm.engine is None:
      return play_steps(algorithm, inner_key, reward_key, env, checkpoints)
    return algorithm.engine.play(
      inner_key, reward_key, env, size, budget, checkpoints
    )

  return Algorithm(init, ask, tell, recommend, Engine(enter, play))


def refuse_live(key, num_arms):
  """Stands for `init` where a budget is missing that a live run needs."""
  del key, num_arms
  raise ValueError(
    'the budget is told at each checkpoint of a simulation; a run by ask and '
    'tell has one budget: give it.'
  )


def _on_told_subset(
  algorithm: Algorithm, size: Callable[[int], int]
) -> Algorithm:
  """Runs an algorithm on a subset of its own at each checkpoint."""

  def enter(key, num_arms, budget):
    subset_key, _ = jax.random.split(key)
    return random_arms(subset_key, num_arms, size(budget))

  def play(key, reward_key, env, num_arms, budget, checkpoints):
    del num_arms, budget
    _, inner_key = jax.random.split(key)

    def play_one(row) -> RunResult:
      budget, size = row
      return play_steps(
        algorithm,
        inner_key,
        reward_key,
        env,
        budget[None],
        size=size,
        told=budget,
      )

    sizes = [size(point) for point in checkpoints]
    rows = jnp.asarray([checkpoints, sizes], jnp.int32).T
    found = jax.lax.map(play_one, rows)
    return jax.tree.map(lambda x: x[:, 0], found)

  return algorithm._replace(init=refuse_live, engine=Engine(enter, play))
