"""Plays an algorithm pull by pull on a simulated environment."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxlab.bandits import envs
from jaxlab.bandits.types import Algorithm, RunResult


def play_steps(
  algorithm: Algorithm,
  key: jax.Array,
  reward_key: jax.Array,
  env: envs.Environment,
  points: Sequence[int] | jax.Array,
  **init,
) -> RunResult:
  """Runs ask and tell, and recommends at the given times.

  A batch of pulls that does not fit before a time is not told by then; it is
  counted in `pending`.

  Args:
    algorithm: its `ask`, `tell` and `recommend` are used.
    key: PRNG key of the algorithm.
    reward_key: PRNG key of the rewards.
    env: the environment, of N arms.
    points: `[C]` times in pulls, in ascending order; equal times and 0 are
      allowed.
    **init: further arguments of the algorithm's `init`.

  Returns:
    `RunResult` with leaves `[C]`.
  """
  # No run can pull more arms than it has pulls.
  is_endless = env.num_arms == envs.UNBOUNDED
  num_arms = int(points[-1]) if is_endless else env.num_arms
  pulled = jnp.zeros(num_arms, jnp.int32)
  state = algorithm.init(key, num_arms, **init)
  spent = jnp.zeros((), jnp.int32)

  def step(carry):
    state, spent, pulled = carry
    arm, n = algorithm.ask(state)
    total, squares = env.sample(reward_key, arm, n, start=pulled[arm])
    state = algorithm.tell(state, arm, total, n, squares)
    return state, spent + n, pulled.at[arm].add(n)

  def advance(carry, point):
    def affordable(carry):
      _, n = algorithm.ask(carry[0])
      return (n > 0) & (n <= point - carry[1])

    carry = jax.lax.while_loop(affordable, step, carry)
    state, spent, _ = carry
    best = algorithm.recommend(state)
    _, n = algorithm.ask(state)
    pending = jnp.where(n > 0, point - spent, 0)
    return carry, RunResult(best.arm, best.mean, best.pulls, spent, pending)

  times = jnp.asarray(points, jnp.int32)
  _, result = jax.lax.scan(advance, (state, spent, pulled), times)
  return result
