"""Plays an algorithm pull by pull on a simulated environment."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from jaxlab.bandits import envs
from jaxlab.bandits.types import Algorithm, RunResult

_MAX_BUDGET = 2**31 - 1


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


def checked_checkpoints(
  budget: int, checkpoints: Sequence[int] | None
) -> tuple[int, ...]:
  """Returns the checkpoints, by default the budget alone.

  Raises:
    ValueError: if the budget is out of range, or the checkpoints are not
      increasing, not >= 0 or above the budget.
  """
  if budget != int(budget) or not 1 <= budget <= _MAX_BUDGET:
    raise ValueError(
      f'budget must be an integer in [1, {_MAX_BUDGET}], got {budget}.'
    )
  if checkpoints is None:
    return (int(budget),)
  points = tuple(int(c) for c in checkpoints)
  if not points or list(points) != sorted(set(points)) or points[0] < 0:
    raise ValueError(f'checkpoints must be increasing and >= 0, got {points}.')
  if points[-1] > budget:
    raise ValueError(
      f'checkpoints must be at most budget = {budget}, got {points[-1]}.'
    )
  return points
