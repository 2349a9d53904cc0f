"""The interface that every bandit algorithm of this family has."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

State = Any


class Recommendation(NamedTuple):
  """An arm that an algorithm would return, and what it knows of it.

  Attributes:
    arm: `[...]` int32 arm index.
    mean: `[...]` float: its estimated mean; nan if it was never pulled.
    pulls: `[...]` int32: the pulls that the estimate rests on.
  """

  arm: jax.Array
  mean: jax.Array
  pulls: jax.Array


class RunResult(NamedTuple):
  """One run of an algorithm, looked at after each of C checkpoints.

  Attributes:
    arms: `[C]` int32 recommended arm.
    means: `[C]` float: its estimated mean; nan if it was never pulled.
    pulls: `[C]` int32: the pulls behind that estimate.
    spent: `[C]` int32: pulls of completed operations.
    pending: `[C]` int32: pulls of the operation that did not fit any more.
      `spent + pending` is the checkpoint, or less once a plan has ended.
  """

  arms: jax.Array
  means: jax.Array
  pulls: jax.Array
  spent: jax.Array
  pending: jax.Array


class Engine(NamedTuple):
  """A whole run as one array program, for reward-independent schedules.

  Attributes:
    enter: `(key, num_arms, budget) -> i32[S]`: the arms that can be pulled
      within the budget, in the order of their entry. `num_arms` and `budget`
      are static.
    play: `(key, reward_key, env, num_arms, budget, checkpoints) ->
      RunResult`: `env` holds the S entered arms only (`env.take`), `num_arms`
      is the size of the pool they come from, `checkpoints` a tuple of ints;
      the last three are static. Arms in the result are places in `env`.
  """

  enter: Callable[..., jax.Array]
  play: Callable[..., RunResult]


class Algorithm(NamedTuple):
  """A best-arm identification algorithm as pure functions.

  Attributes:
    init: `(key, num_arms) -> state`; `num_arms` is static.
    ask: `state -> (arm, n)`: pull `arm` `n` times. `n == 0` means that the
      algorithm has finished.
    tell: `(state, arm, total, n, total_squares) -> state`: the sum and the sum
      of squares of the n rewards.
    recommend: `state -> Recommendation`, at any time.
    engine: an equivalent whole-run program, where there is one.
  """

  init: Callable[..., State]
  ask: Callable[[State], tuple[jax.Array, jax.Array]]
  tell: Callable[..., State]
  recommend: Callable[[State], Recommendation]
  engine: Engine | None = None
