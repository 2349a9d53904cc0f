"""How fast a network learns something else, and what it then forgets.

Learning is a pure function `update(state, key) -> state`, which draws its own
batch from the key, and `evaluate(state) -> accuracy`. `state` is any tree.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jaxlab.errors import UserError
from jaxlab.motifs import fixed_points

State = Any
Update = Callable[[State, jax.Array], State]
Evaluate = Callable[[State], jax.Array]
FEW_STEPS = (1, 5, 20)


def learning_curve(
  update: Update,
  evaluate: Evaluate,
  state: State,
  key: jax.Array,
  num_updates: int,
  *,
  every: int = 1,
) -> tuple[State, jax.Array]:
  """Accuracy before, during and after some updates.

  Args:
    update: one update.
    evaluate: accuracy of a state.
    state: where learning starts.
    key: PRNG key; update i has the key `fold_in(key, i)`.
    num_updates: number of updates, static; a multiple of `every`.
    every: updates between two evaluations, static.

  Returns:
    The state after the updates, and `[1 + num_updates // every]` accuracies,
    the first one before any update.

  Raises:
    UserError: if `num_updates` is not a multiple of `every`.
  """
  if every < 1 or num_updates % every:
    raise UserError(
      f'num_updates = {num_updates} must be a multiple of every = {every}'
    )

  def block(state, start):
    state = jax.lax.fori_loop(
      start,
      start + every,
      lambda i, s: update(s, jax.random.fold_in(key, i)),
      state,
    )
    return state, evaluate(state)

  first = evaluate(state)
  state, rest = jax.lax.scan(block, state, jnp.arange(0, num_updates, every))
  return state, jnp.concatenate([first[None], rest])


def steps_to_criterion(
  curve: ArrayLike, criterion: ArrayLike, *, every: int = 1
) -> jax.Array:
  """Updates until a learning curve reaches a criterion.

  Args:
    curve: `[..., n]` accuracies from `learning_curve`.
    criterion: accuracy that is asked for.
    every: updates between two entries.

  Returns:
    `[...]` updates; inf where it is not reached.
  """
  reached = jnp.asarray(curve) >= criterion
  first = jnp.argmax(reached, axis=-1) * every
  return jnp.where(jnp.any(reached, axis=-1), first, jnp.inf)


def adaptation_accuracy(
  curve: ArrayLike, counts: Sequence[int] = FEW_STEPS
) -> jax.Array:
  """Accuracy after few updates.

  Args:
    curve: `[..., n]` accuracies after 0, 1, 2, ... updates.
    counts: numbers of updates.

  Returns:
    `[..., len(counts)]` accuracies.

  Raises:
    UserError: if the curve is too short.
  """
  curve = jnp.asarray(curve)
  if max(counts) >= curve.shape[-1]:
    raise UserError(
      f'a curve of {curve.shape[-1] - 1} updates has no accuracy after '
      f'{max(counts)}; train for longer'
    )
  return curve[..., jnp.asarray(counts)]


class Transfer(NamedTuple):
  """A sequence of tasks, learned one after the other.

  Attributes:
    before: `[K]` accuracy on each task before any learning.
    after: `[K, K]`; `after[i, j]` is that on task j once task i is learned.
    forward: mean gain on a task that is still to come, `after[j - 1, j] -
      before[j]`.
    backward: mean change on a task that is past, `after[K - 1, j] - after[j,
      j]`; negative where it is forgotten.
  """

  before: jax.Array
  after: jax.Array
  forward: jax.Array
  backward: jax.Array


def sequence_transfer(
  updates: Sequence[Update],
  evaluates: Sequence[Evaluate],
  state: State,
  key: jax.Array,
  num_updates: int,
) -> tuple[State, Transfer]:
  """Forward and backward transfer; Lopez-Paz and Ranzato (2017).

  Args:
    updates: one update on each of K tasks; all take the same state.
    evaluates: accuracy on each task.
    state: where learning starts.
    key: PRNG key.
    num_updates: updates on each task, static.

  Returns:
    The state at the end, and the transfer.

  Raises:
    UserError: if there are fewer than two tasks, or not as many of one as of
      the other.
  """
  if len(updates) != len(evaluates) or len(updates) < 2:
    raise UserError(
      f'transfer needs two tasks or more with an update and an evaluation '
      f'each, got {len(updates)} and {len(evaluates)}'
    )

  def accuracies(state):
    return jnp.stack([evaluate(state) for evaluate in evaluates])

  def learn(index):
    def run(state, key):
      return jax.lax.fori_loop(
        0,
        num_updates,
        lambda i, s: updates[index](s, jax.random.fold_in(key, i)),
        state,
      )

    return run

  branches = [learn(index) for index in range(len(updates))]

  def stage(state, index):
    task_key = jax.random.fold_in(key, index)
    state = jax.lax.switch(index, branches, state, task_key)
    return state, accuracies(state)

  before = accuracies(state)
  state, after = jax.lax.scan(stage, state, jnp.arange(len(updates)))
  ahead = jnp.diagonal(after, offset=1) - before[1:]
  past = after[-1, :-1] - jnp.diagonal(after)[:-1]
  return state, Transfer(before, after, jnp.mean(ahead), jnp.mean(past))


def multi_task_accuracy(
  evaluates: Sequence[Evaluate], state: State
) -> jax.Array:
  """Mean accuracy over tasks that one state solves."""
  return jnp.mean(jnp.stack([evaluate(state) for evaluate in evaluates]))


def attractor_count(
  states: jax.Array, *, distance: ArrayLike = 1e-2
) -> jax.Array:
  """Number of distinct states among `[K, N]` where the network came to rest.

  Args:
    states: end states from K starts or inputs.
    distance: states whose coordinates all differ by less are the same.

  Returns:
    int32 number.
  """
  settled = jnp.all(jnp.isfinite(states), axis=-1)
  first = fixed_points.first_of_each(states, settled, distance=distance)
  return jnp.sum(first, dtype=jnp.int32)
