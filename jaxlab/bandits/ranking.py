"""Comparisons of arms in which equal means are ordered at random."""

from typing import TypeVar

import jax
import jax.numpy as jnp

from jaxlab.bandits import randomness

T = TypeVar('T')


def beats(mean_a, priority_a, mean_b, priority_b) -> jax.Array:
  """Whether arm a ranks above arm b: by mean, then by random priority."""
  return (mean_a > mean_b) | ((mean_a == mean_b) & (priority_a > priority_b))


def sort_three(
  means: jax.Array, priorities: jax.Array, items: T
) -> tuple[T, T, T]:
  """Orders triples by a network of three compare-exchange steps.

  Args:
    means: `[..., 3]`.
    priorities: `[..., 3]`, distinct within a triple.
    items: a pytree of `[..., 3]` arrays to be carried along.

  Returns:
    `(best, median, worst)`, each like `items` without the last axis.
  """

  def exchange(a, b):
    keep = beats(*a[:2], *b[:2])
    high = jax.tree.map(lambda x, y: jnp.where(keep, x, y), a, b)
    low = jax.tree.map(lambda x, y: jnp.where(keep, y, x), a, b)
    return high, low

  first, second, third = (
    jax.tree.map(lambda x: x[..., i], (means, priorities, items))  # noqa: B023
    for i in range(3)
  )
  first, second = exchange(first, second)
  first, third = exchange(first, third)
  second, third = exchange(second, third)
  return first[2], second[2], third[2]


def priorities(key: jax.Array, counter, ids: jax.Array) -> jax.Array:
  """Returns fresh random uint32 numbers, one for each of `ids`."""
  fresh = jax.random.fold_in(key, counter)
  draw = jax.vmap(lambda i: randomness.words(fresh, i)[0])
  return draw(ids.ravel()).reshape(ids.shape)


def argbest(means: jax.Array, priority: jax.Array, valid) -> jax.Array:
  """Returns the place on the last axis that beats all other valid ones."""
  means = jnp.where(valid, means, -jnp.inf)
  top = jnp.max(means, -1, keepdims=True)
  candidate = valid & (means == top)
  # Priorities start at 1, so that a valid place always beats an invalid one.
  score = jnp.where(candidate, jnp.maximum(priority, 1), 0)
  return jnp.argmax(score, -1).astype(jnp.int32)
